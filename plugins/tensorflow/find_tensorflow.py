"""Prints the folder and the version of the installed TensorFlow, as a CMake list, without importing it."""

import importlib.metadata
import importlib.util
import sys
from pathlib import Path

DISTRIBUTIONS = ("tensorflow-cpu", "tensorflow", "tensorflow-intel", "tensorflow-aarch64")


def main() -> int:
    """Prints "folder;version", or says why it cannot."""
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or spec.origin is None:
        sys.exit(f"no TensorFlow is installed for {sys.executable}; install tensorflow-cpu there")
    for name in DISTRIBUTIONS:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        print(f"{Path(spec.origin).parent};{version}")
        return 0
    sys.exit(f"TensorFlow lies in {spec.origin}, but none of {', '.join(DISTRIBUTIONS)} is installed")


if __name__ == "__main__":
    sys.exit(main())
