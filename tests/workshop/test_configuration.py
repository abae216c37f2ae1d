"""Settings: the order of their sources, presets, and mistakes with the nearest name."""

from __future__ import annotations

from pathlib import Path

import pytest
from unihal_workshop import Config, ConfigurationError
from unihal_workshop.cards.profiles import CARDS
from unihal_workshop.configuration.config import model_options, presets, setting_names


@pytest.fixture()
def user_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "workshop.yml"
    monkeypatch.setenv("WORKSHOP_CONFIG", str(path))
    return path


def source_of(config: Config, name: str) -> str:
    return next(value.source for value in config.values() if value.name == name)


def test_each_source_before_the_next(user_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user_file.write_text("")
    assert (Config()["run.steps"], source_of(Config(), "run.steps")) == (20, "default")
    config = Config({"card": "rx580-4gb"})
    assert (config["optimize.bits"], source_of(config, "optimize.bits")) == (8, "preset rx580-4gb")
    user_file.write_text("# mine\ncard: rx580-4gb\noptimize:\n  bits: 4\n")
    config = Config()
    assert (config["optimize.bits"], source_of(config, "optimize.bits")) == (4, f"{user_file}:4")
    monkeypatch.setenv("WORKSHOP_OPTIMIZE__BITS", "null")
    assert (Config()["optimize.bits"], source_of(Config(), "optimize.bits")) == (None, "WORKSHOP_OPTIMIZE__BITS")
    config = Config({"optimize.bits": 8})
    assert (config["optimize.bits"], source_of(config, "optimize.bits")) == (8, "--bits")
    assert Config({"memory.reserve": "1GB"})["memory.reserve"] == 1 << 30


def test_presets(user_file: Path) -> None:
    user_file.write_text("")
    assert {"rx580-4gb", "rx580-8gb", *CARDS} == set(presets())
    for name in presets():
        assert Config({"preset": name})["card"] == name
    assert source_of(Config({"card": "rx580-8gb", "preset": "none"}), "dtype") == "default"
    # Of another card than the preset's the card stays.
    config = Config({"card": "rx6800xt", "preset": "rx580-4gb"})
    assert config["card"] == "rx6800xt" and config["optimize.bits"] == 8
    known = {"bits": 0, "offload": "none", "vae_tile": 0}
    assert model_options(Config({"preset": "rx580-4gb"}), known) == {"bits": 8, "offload": "parts", "vae_tile": 256}


def test_every_setting_of_a_model_reaches_it(user_file: Path) -> None:
    """What the preset says is an option of the pipelines; what nobody says is theirs to choose."""
    user_file.write_text("")
    preset = Config({"preset": "rx580-4gb"})
    known = {"bits": 0, "offload": "none", "vae_tile": 0, "attention_slice": 0, "batch": 0, "context": None}
    assert model_options(preset, known) == {
        "bits": 8, "offload": "parts", "vae_tile": 256, "batch": 1, "context": 1024,
    }  # fmt: skip
    assert model_options(Config({"preset": "none"}), known) == {"offload": "none"}
    from unihal_workshop import create

    made = create("text-generation", variant="decoder-1b", **model_options(preset, {"bits": 0, "context": None}))
    assert getattr(made, "context") == 1024  # noqa: B009 - a BaseInference has none


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cart: x\n", ":1: unknown key cart; did you mean card?"),
        ("memory:\n  reserv: 3\n", ":2: unknown key memory.reserv; did you mean reserve?"),
        ("run: {steps: 0}\n", ":1: run.steps: input should be greater than or equal to 1, not 0"),
        ("run:\n  width: 100\n", ":2: run.width: input should be a multiple of 8, not 100"),
        ("memory: {limit: many}\n", ":1: memory.limit: 'many' is no amount of memory"),
        ("device: cuda\n", ":1: device: input should be 'rdna', 'polaris', 'iluvatar' or 'cpu', not 'cuda'"),
        ("- card\n", "expected settings, one a line"),
        ("card: [\n", "no YAML"),
        ("run: 3\n", "run: input should be a valid dictionary"),
    ],
)
def test_mistakes_in_the_file(user_file: Path, text: str, said: str) -> None:
    user_file.write_text(text)
    with pytest.raises(ConfigurationError) as error:
        Config()
    assert said in str(error.value)
    assert str(user_file) in str(error.value)


def test_mistakes_elsewhere(user_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user_file.write_text("")
    monkeypatch.setenv("WORKSHOP_RUN__SEEED", "3")
    with pytest.raises(ConfigurationError, match="did you mean WORKSHOP_RUN__SEED"):
        Config()
    monkeypatch.delenv("WORKSHOP_RUN__SEEED")
    with pytest.raises(ConfigurationError, match="no preset 'rx580-4bg'; did you mean rx580-4gb"):
        Config({"preset": "rx580-4bg"})
    with pytest.raises(ConfigurationError, match="--seed: run.seed"):
        Config({"run.seed": "-1"})
    with pytest.raises(ConfigurationError, match=r"runn.seed is no setting; did you mean run.seed"):
        Config({"runn.seed": 1})
    with pytest.raises(ConfigurationError, match="no setting run.step; did you mean run.steps"):
        Config()["run.step"]
    user_file.unlink()
    with pytest.raises(ConfigurationError, match="is not there"):
        Config()


def test_all_mistakes_come_at_once(user_file: Path) -> None:
    user_file.write_text("cart: x\nrun: {steps: 0, widht: 3}\n")
    with pytest.raises(ConfigurationError) as error:
        Config()
    assert len(error.value.problems) == 3


def test_every_setting_has_a_default() -> None:
    config = Config({"preset": "none"})
    assert [value.name for value in config.values()] == setting_names()
    assert {value.source for value in config.values() if value.name != "preset"} == {"default"}
