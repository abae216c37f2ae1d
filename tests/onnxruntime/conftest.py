"""Sets the process up before ONNX Runtime is imported: the stub (or --unihal-backend)."""

import os

os.environ.setdefault("UNIHAL_BACKEND", "stub")
