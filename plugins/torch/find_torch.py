"""Prints the folder and the minor version of installations of PyTorch, `;`-separated, without importing them.

    python find_torch.py [SITE_FOLDER...]

Each folder is one that `pip install --target` filled; without one, the PyTorch of this Python is meant.
"""

import importlib.util
import re
import runpy
import sys
from pathlib import Path

# A module of a package that is not installed yet.
VERSIONS = runpy.run_path(str(Path(__file__).resolve().parents[2] / "python" / "unihal_torch" / "versions.py"))


def installed() -> Path:
    """The PyTorch of this Python."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("unihal: PyTorch was not found; install it, or configure with -DUNIHAL_BUILD_TORCH=OFF")
    return Path(next(iter(spec.submodule_search_locations)))


def version_of(folder: Path) -> str:
    """What PyTorch's own version.py says."""
    path = folder / "version.py"
    match = re.search(r"^__version__ = '([^']+)'", path.read_text(), re.MULTILINE) if path.is_file() else None
    if match is None:
        raise SystemExit(f"unihal: there is no PyTorch in {folder}: {path} does not name a version")
    return match[1]


def main() -> None:
    found: dict[str, Path] = {}
    for folder in [Path(site).resolve() / "torch" for site in sys.argv[1:]] or [installed()]:
        version = version_of(folder)
        minor = VERSIONS["minor_version"](version)
        if minor not in VERSIONS["SUPPORTED"]:
            raise SystemExit(
                f"unihal: PyTorch {version} in {folder} is not supported, {VERSIONS['supported_range']()} are: "
                "install one of those, or configure with -DUNIHAL_BUILD_TORCH=OFF"
            )
        if minor in found:
            raise SystemExit(f"unihal: PyTorch {minor} is in {found[minor]} and in {folder}; name one of them")
        found[minor] = folder
    print(*(f"{folder};{minor}" for minor, folder in found.items()), sep=";")


if __name__ == "__main__":
    main()
