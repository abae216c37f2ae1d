"""Sets the process up before PyTorch is imported: the stub (or --unihal-backend)."""

import os

os.environ.setdefault("UNIHAL_BACKEND", "stub")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
