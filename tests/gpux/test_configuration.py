"""gpux.yml and the settings: each mistake by its line, each value by its source."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from gpux.configuration.document import parse_document
from gpux.configuration.model_file import ModelFile, load_model_file, parse_model_file
from gpux.configuration.settings import SETTINGS, resolve
from gpux.configuration.sizes import format_bytes, parse_bytes
from gpux.errors import ConfigurationError

GOOD = """\
name: digits
version: 1.10
model: {source: digits.onnx, format: onnx}
inputs:
  image:
    type: float32
    shape: [batch, 64]
outputs:
  - {name: label, type: int64}
runtime:
  gpu: {backend: cuda, memory: 2GB}
  batch_size: 16
  timeout: 2.5
serving: {port: 9000, host: 0.0.0.0, max_workers: 3}
preprocessing: {resize: [8, 8], normalize: {mean: [0.5], std: [0.25]}}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        parse_model_file(textwrap.dedent(text).encode())
    return caught.value.problems


def test_every_key_is_read() -> None:
    model = parse_model_file(GOOD.encode()).model
    assert (model.name, model.version) == ("digits", "1.10")  # no number: 1.1 is another version
    assert model.inputs[0].name == "image" and model.inputs[0].shape == ["batch", 64]
    assert model.outputs[0].type == "int64"
    assert (model.runtime.gpu.backend, model.runtime.gpu.memory) == ("cuda", 2 << 30)
    assert (model.runtime.batch_size, model.runtime.timeout) == (16, 2.5)
    assert (model.serving.port, model.serving.host, model.serving.max_workers) == (9000, "0.0.0.0", 3)
    assert model.preprocessing.resize == [8, 8]


def test_inputs_are_the_same_as_list_and_as_mapping() -> None:
    as_list = "inputs:\n  - {name: a, type: float32}\n  - {name: b}\n"
    as_mapping = "inputs:\n  a: {type: float32}\n  b:\n"
    head = "name: m\nmodel: {source: m.onnx}\n"
    assert parse_model_file((head + as_list).encode()).model == parse_model_file((head + as_mapping).encode()).model


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "nam: x\nmodel: {source: m}\n",
            ["gpux.yml:1: name is missing", "gpux.yml:1: unknown key nam; did you mean name?"],
        ),
        ("name: a/b\nmodel: {source: m}\n", ["gpux.yml:1: name: 'a/b' is no name"]),
        (
            "name: m\nmodel:\n  source: m\n  format: torch\n",
            ["gpux.yml:4: model.format: input should be 'onnx', not 'torch'"],
        ),
        (
            "name: m\nmodel:\n  sorce: m\n",
            ["gpux.yml:2: model.source is missing", "gpux.yml:3: unknown key model.sorce; did you mean source?"],
        ),
        (
            "name: m\nmodel: {source: m}\ninputs:\n  a:\n    type: flaot32\n",
            ["gpux.yml:5: inputs.0.type: 'flaot32' is no dtype; did you mean float32?"],
        ),
        (
            "name: m\nmodel: {source: m}\nruntime:\n  gpu:\n    memory: lots\n",
            ["gpux.yml:5: runtime.gpu.memory: 'lots' is no amount of memory"],
        ),
        (
            "name: m\nmodel: {source: m}\nruntime:\n\n  batch_size: '4'\n",
            ["gpux.yml:5: runtime.batch_size: input should be a valid integer, not '4'"],
        ),
        (
            "name: m\nmodel: {source: m}\nserving:\n  port: 70000\n",
            ["gpux.yml:4: serving.port: input should be less than or equal to 65535, not 70000"],
        ),
        (
            "name: m\nmodel: {source: m}\npreprocessing:\n  resize: [0, 8]\n",
            ["gpux.yml:4: preprocessing.resize.0: input should be greater than or equal to 1, not 0"],
        ),
        ("name: m\nmodel: {source: m}\ninputs: 3\n", ["gpux.yml:3: inputs: input should be a valid list, not 3"]),
        ("- a\n", ["gpux.yml: expected a mapping"]),
        ("", ["gpux.yml: expected a mapping"]),
    ],
)
def test_each_mistake_has_its_line(text: str, expected: list[str]) -> None:
    found = problems(text)
    assert len(found) == len(expected) or len(expected) == 1
    for start in expected:
        assert any(problem.startswith(start) for problem in found), found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "name: !!python/object/apply:os.system [id]\n",
            "gpux.yml:1: the tag tag:yaml.org,2002:python/object/apply:os.system",
        ),
        ("name: !include /etc/passwd\n", "gpux.yml:1: the tag !include"),
        ("a: &a [1]\nb: *a\n", "gpux.yml:2: alias *a"),
        ("name: m\nname: n\n", "gpux.yml:2: name stands here a second time"),
        ("[" * 100_000, "gpux.yml:1: nested deeper than 32 levels"),
        ("a: " + "x" * (1 << 20), "gpux.yml has more than 1048576 bytes"),
        ("a: [1\n", "gpux.yml:2: no YAML"),
        ("a: \x00\n", "gpux.yml: no YAML"),
        ("? [1, 2]\n: 3\n", "gpux.yml:1: a key is a text"),
        ("a: 2026-02-31\nb: !!int x\n", "gpux.yml:2: 'x'"),
    ],
)
def test_yaml_that_is_not_safe_is_refused(text: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_document(text.encode(), "gpux.yml")
    assert str(caught.value).startswith(says), str(caught.value)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="is not UTF-8: byte 3"):
        parse_document(b"a: \xff", "gpux.yml")


@pytest.mark.parametrize(("text", "size"), [("512", 512), ("1K", 1024), ("2GB", 2 << 30), ("1.5 GiB", 3 << 29), (7, 7)])
def test_sizes(text: str | int, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "x", "-1", "1e9", "1 parsec", "9" * 40])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="no amount of memory"):
        parse_bytes(text)


def test_sizes_as_people_read_them() -> None:
    assert [format_bytes(size) for size in (12, 2048, 3 << 29, 1 << 41)] == ["12 B", "2.0 KiB", "1.5 GiB", "2.0 TiB"]


def test_later_sources_win_and_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = tmp_path / "config.yml"
    user.write_text("port: 1001\nhost: 10.0.0.1\ntimeout: 7\nqueue_size: 9\n")
    (tmp_path / "gpux.yml").write_text(
        "name: m\nmodel: {source: m}\nserving: {port: 1002, host: 10.0.0.2}\nruntime: {timeout: 8}\n"
    )
    monkeypatch.setenv("GPUX_CONFIG", str(user))
    monkeypatch.setenv("GPUX_PORT", "1003")
    monkeypatch.setenv("GPUX_HOST", "10.0.0.3")
    settings = resolve({"port": 1004, "host": None}, load_model_file(tmp_path))
    found = {
        name: (settings[name], settings.values[name].source)
        for name in ("port", "host", "timeout", "queue_size", "grace")
    }
    assert found == {
        "port": (1004, "--port"),
        "host": ("10.0.0.3", "GPUX_HOST"),
        "timeout": (8, f"{tmp_path}/gpux.yml:4"),
        "queue_size": (9, f"{user}:4"),
        "grace": (20.0, "default"),
    }


def test_mistakes_of_all_sources_come_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = tmp_path / "config.yml"
    user.write_text("prot: 1\nhost: [a]\nbatch_size: 0\n")
    monkeypatch.setenv("GPUX_CONFIG", str(user))
    monkeypatch.setenv("GPUX_TIMEOUT", "nan")
    with pytest.raises(ConfigurationError) as caught:
        resolve({"port": 99999})
    assert caught.value.problems == [
        f"{user}:1: unknown setting prot; did you mean port?",
        f"{user}:2: host: expected one value, not a list or a mapping",
        f"{user}:3: batch_size: '0': expected a whole number from 1 to 4096",
        "GPUX_TIMEOUT: 'nan': expected a number from 0.001 to 86400",
        "--port: '99999': expected a whole number from 0 to 65535",
    ]


def test_a_file_that_is_named_and_missing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUX_CONFIG", str(tmp_path / "none.yml"))
    with pytest.raises(ConfigurationError, match="none.yml is not there"):
        resolve()


def test_an_unknown_variable_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GPUX_PROT", "1")
    resolve()
    assert capsys.readouterr().err == "gpux: GPUX_PROT is no variable of GPUX; did you mean GPUX_PORT?\n"


def test_the_docs_have_a_row_for_each_setting() -> None:
    text = (Path(__file__).parents[2] / "docs/gpux.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `GPUX_")]
    assert [row.split("`")[1] for row in rows] == ["GPUX_CONFIG", *(f"GPUX_{row.name.upper()}" for row in SETTINGS)]


def test_the_docs_show_every_key_of_the_file() -> None:
    text = (Path(__file__).parents[2] / "docs/gpux.md").read_text()
    example = text.split("```yaml\n")[1].split("```")[0]
    model = parse_model_file(example.encode()).model
    assert set(ModelFile.model_fields) == model.model_fields_set
