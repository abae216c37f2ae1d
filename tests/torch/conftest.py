"""Sets the process up before PyTorch is imported: the stub (or --unihal-backend), and a device type that it serves."""

import os

os.environ.setdefault("UNIHAL_BACKEND", "stub")
# The type that a backend serves before all others.
os.environ.setdefault(
    "UNIHAL_TORCH_DEVICE", {"corex": "iluvatar", "opencl": "polaris"}.get(os.environ["UNIHAL_BACKEND"], "rdna")
)
