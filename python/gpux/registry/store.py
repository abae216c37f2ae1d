"""Built models in a folder: NAME/VERSION/ with the model, the files beside it, gpux.yml and what the build found.

A version appears and is replaced in one step, so that a service that loads it sees all of it or none.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..configuration.model_file import LoadedFile, load_model_file
from ..errors import UnknownModelError
from ..naming import is_name, nearest, split_reference, version_key

MODEL_INFO = "model_info.json"
PROVIDER_INFO = "provider_info.json"


@dataclass(frozen=True)
class BuiltModel:
    """A version in the registry, or a folder or a file that was named by its path."""

    name: str
    version: str
    folder: Path
    model: Path
    configuration: LoadedFile | None

    @property
    def info(self) -> dict[str, Any]:
        """What the build found, empty if there was none."""
        try:
            found = json.loads((self.folder / MODEL_INFO).read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def tokenizer(self) -> Path | None:
        """The tokenizer's file, if gpux.yml names one."""
        name = self.configuration.model.preprocessing.tokenizer if self.configuration is not None else None
        return self.folder / name if name else None

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())


class Registry:
    """The models below a folder, which need not exist yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[str]:
        """Names of all models."""
        return sorted(each.name for each in self._folders(self.folder) if self.versions(each.name))

    def versions(self, name: str) -> list[str]:
        """Versions of a model, the newest last; empty if it is not known."""
        if not is_name(name):
            return []
        found = [each.name for each in self._folders(self.folder / name) if (each / MODEL_INFO).is_file()]
        return sorted(found, key=version_key)

    def get(self, name: str, version: str | None = None) -> BuiltModel:
        """A version, or the newest; UnknownModelError names what there is."""
        versions = self.versions(name)
        if not versions:
            known = nearest(name[:100], self.names()) or "; none is built yet, see `gpux build`"
            raise UnknownModelError(f"no model {name[:100]!r} in {self.folder}{known}")
        if version is not None and version not in versions:
            raise UnknownModelError(f"model {name} has no version {version[:100]!r}; it has {', '.join(versions)}")
        folder = self.folder / name / (version or versions[-1])
        loaded = load_model_file(folder)
        return BuiltModel(name, folder.name, folder, folder / loaded.model.model.source, loaded)

    def all(self) -> list[BuiltModel]:
        """Every version of every model."""
        return [self.get(name, version) for name in self.names() for version in self.versions(name)]

    def add(self, name: str, version: str, files: dict[str, Path], texts: dict[str, str]) -> Path:
        """Puts a version there, in place of an earlier one: `files` are copied, `texts` written, by relative paths."""
        parent = self.folder / name
        parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".", dir=parent))
        try:
            for relative, source in files.items():
                target = staging / relative
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
            for relative, text in texts.items():
                (staging / relative).write_text(text)
            staging.chmod(0o755)
            target = parent / version
            if target.exists():
                old = Path(tempfile.mkdtemp(prefix=".", dir=parent))
                os.rename(target, old / "old")
                os.rename(staging, target)
                shutil.rmtree(old)
            else:
                os.rename(staging, target)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        return target

    def remove(self, name: str, version: str | None = None) -> list[str]:
        """Removes a version, or all of a model; what was removed."""
        versions = [self.get(name, version).version] if version is not None else self.versions(name)
        if not versions:
            self.get(name)
        for each in versions:
            shutil.rmtree(self.folder / name / each)
        if not self.versions(name):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        return versions

    @staticmethod
    def _folders(folder: Path) -> list[Path]:
        if not folder.is_dir():
            return []
        return [each for each in folder.iterdir() if each.is_dir() and is_name(each.name)]


def find_model(reference: str, registry: Registry) -> BuiltModel:
    """NAME or NAME:VERSION of the registry, a folder with gpux.yml, or an ONNX file."""
    path = Path(reference)
    if path.suffix == ".onnx" or os.sep in reference or reference in (".", ".."):
        if path.is_dir():
            loaded = load_model_file(path)
            source = path / loaded.model.model.source
            return BuiltModel(loaded.model.name, loaded.model.version, path, source, loaded)
        if not path.exists():
            raise UnknownModelError(f"{path} is not there")
        name = path.stem if is_name(path.stem) else "model"
        return BuiltModel(name, "1", path.parent, path, None)
    return registry.get(*split_reference(reference))
