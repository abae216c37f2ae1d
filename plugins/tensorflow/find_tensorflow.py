"""Prints folder and minor version of installations of TensorFlow, `;`-separated, newest first, without importing them.

    python find_tensorflow.py [SITE_FOLDER...]

Each folder is one that `pip install --target` filled; without one, the TensorFlow of this Python is meant.
"""

import importlib.metadata
import importlib.util
import re
import runpy
import sys
from pathlib import Path

DISTRIBUTIONS = ("tensorflow-cpu", "tensorflow", "tensorflow-intel", "tensorflow-aarch64")

# A module of a package that is not installed yet.
VERSIONS = runpy.run_path(str(Path(__file__).resolve().parents[2] / "python" / "unihal" / "tensorflow_versions.py"))


def installed() -> Path:
    """The folder in which this Python finds TensorFlow."""
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or spec.origin is None:
        raise SystemExit(f"unihal: no TensorFlow is installed for {sys.executable}; install tensorflow-cpu there")
    return Path(spec.origin).parents[1]


def version_of(site: Path) -> str:
    """What the distribution in a folder says."""
    for found in importlib.metadata.distributions(path=[str(site)]):
        if re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower() in DISTRIBUTIONS:
            return found.version
    raise SystemExit(f"unihal: none of {', '.join(DISTRIBUTIONS)} is installed in {site}")


def main() -> None:
    found: dict[str, Path] = {}
    for site in [Path(folder).resolve() for folder in sys.argv[1:]] or [installed()]:
        version = version_of(site)
        minor = VERSIONS["minor_version"](version)
        if minor not in VERSIONS["SUPPORTED"]:
            raise SystemExit(
                f"unihal: TensorFlow {version} in {site} is not supported, {VERSIONS['supported_range']()} are: "
                "install one of those, or configure with -DUNIHAL_BUILD_TENSORFLOW=OFF"
            )
        if minor in found:
            raise SystemExit(f"unihal: TensorFlow {minor} is in {found[minor]} and in {site}; name one of them")
        found[minor] = site
    newest_first = sorted(found, key=VERSIONS["SUPPORTED"].index, reverse=True)
    print(*(f"{found[minor] / 'tensorflow'};{minor}" for minor in newest_first), sep=";")


if __name__ == "__main__":
    main()
