"""Texts by decoders on a small card: transformers' models, with a key-value cache and a limit of the context.

model = TextGeneration("folder/of/a/llama", bits=4)
result = model.run({"prompt": "Once upon a time", "new_tokens": 100}, seed=1)
print(result.output)
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import InputError, ModelError
from ..inference import Interrupted, PlanStage, Run
from ..naming import nearest
from .base import COMMON_OPTIONS, TorchPipeline, default_dtype
from .tokens import BYTE_VOCABULARY, ByteTokenizer
from .transformers_configuration import transformers_configuration

#: Decoders with random weights, by name; `decoder-1b` has the shape of a LLaMA of 1.1 billion parameters.
VARIANTS: dict[str, dict[str, Any]] = {
    "decoder-1b": {
        "model_type": "llama",
        "hidden_size": 2048,
        "intermediate_size": 5632,
        "num_hidden_layers": 22,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "vocab_size": 32000,
        "max_position_embeddings": 2048,
    },
    "gpt2": {"model_type": "gpt2"},
    "test": {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": BYTE_VOCABULARY,
        "max_position_embeddings": 64,
        "bos_token_id": 0,
        "eos_token_id": 256,
    },
}

CACHES = ("dynamic", "static", "none")


def cache_keyword(model: Any) -> str:
    """What a decoder calls its cache: transformers is about to rename it."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


class PlannedCall(nn.Module):
    """A call of a decoder as generation makes it, for planning: after `past` tokens, in a cache for `length`."""

    def __init__(self, model: Any, cache: str, past: int, length: int) -> None:
        super().__init__()
        self.model = model
        self.cache, self.past, self.length = cache, past, length

    def _cache(self, device: torch.device, dtype: torch.dtype) -> Any:
        from transformers import DynamicCache, StaticCache

        config = self.model.config
        if self.cache == "static":
            return StaticCache(config=config, max_cache_len=self.length)
        if not self.past:
            return DynamicCache(config=config)
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        shape = (1, heads, self.past, width)
        return DynamicCache(
            [
                (torch.empty(shape, dtype=dtype, device=device), torch.empty(shape, dtype=dtype, device=device))
                for _ in range(config.num_hidden_layers)
            ],
            config=config,
        )

    def forward(self, ids: Tensor) -> Tensor:
        """ids (1, tokens) -> logits."""
        if self.cache == "none":
            return self.model(input_ids=ids, use_cache=False).logits  # type: ignore[no-any-return]
        dtype = next(each.dtype for each in self.model.parameters() if each.is_floating_point())
        cache = {cache_keyword(self.model): self._cache(ids.device, dtype)}
        at = torch.arange(ids.shape[1], device=ids.device) + self.past
        logits: Tensor = self.model(input_ids=ids, use_cache=True, position_ids=at.unsqueeze(0), **cache).logits
        return logits


class TextGeneration(TorchPipeline):
    """Texts that go on where a prompt ends, by a decoder of transformers (LLaMA, GPT-2, Mistral, Qwen, ...).

    `source`: a local folder as transformers saves it; `{"variant": "decoder-1b"}` (also `gpt2`), or a configuration
    with its `model_type`, for random weights and bytes as tokens; None is `decoder-1b`.

    Besides the options of all pipelines: `cache` of keys and values (`"dynamic"` grows, `"static"` has room for
    `context` from the start, `"none"` computes all anew), `context` in tokens (None: what the model was made for).

    `output` is the text that was added. `logits` are those after the prompt, float32, (tokens of the prompt,
    vocabulary), the last 64 at most. `details` of the result: `tokens`, `prompt_tokens`, `seconds_to_first`,
    `tokens_per_second` (after the first), `stopped` (why it ended). After an interrupt the text so far is the output.
    """

    description = "texts that go on where a prompt ends: decoders of transformers, with a key-value cache"
    input_defaults: ClassVar[Mapping[str, tuple[str, Any]]] = {
        "prompt": ("where the text begins", "Once upon a time"),
        "new_tokens": ("tokens to add at most", 64),
        "temperature": ("0: always the likeliest token; 1: as likely as the model says", 0.8),
        "top_k": ("choose among so many of the likeliest; 0: all", 40),
        "top_p": ("choose among the likeliest that have this much together", 1.0),
        "overflow": ("a prompt that is too long: `refuse` it, or keep its `end`", "refuse"),
    }
    option_defaults: ClassVar[Mapping[str, Any]] = {**COMMON_OPTIONS, "cache": "dynamic", "context": None}
    optimizations: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        **TorchPipeline.optimizations,
        "static cache": {"cache": "static"},
        "no cache": {"cache": "none"},
        "no fusion": {"fuse": False},
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.options["cache"] not in CACHES:
            raise ModelError(f"the option cache is {self.options['cache']!r}{nearest(self.options['cache'], CACHES)}")
        context = self.options["context"]
        if context is not None and (isinstance(context, bool) or not isinstance(context, int) or context < 2):
            raise ModelError(f"the option context is {context!r}; expected tokens, 2 or more")
        self.logits: np.ndarray[Any, Any] | None = None
        self._tokenizer: Any = None

    # -- parts ------------------------------------------------------------------------------------------------------

    def _configuration(self) -> Any:
        return transformers_configuration(self, VARIANTS, "decoder-1b", "'llama' or 'gpt2'")

    def _make_parts(self) -> dict[str, nn.Module]:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        folder = self.folder
        if folder is not None and torch.get_default_device().type != "meta":
            try:
                model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=self.torch_dtype, local_files_only=True)
                self._tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
            except (OSError, ValueError) as error:
                raise ModelError(f"{folder} could not be loaded: {error}") from error
            return {"decoder": model}
        try:
            with default_dtype(self.torch_dtype):
                return {"decoder": AutoModelForCausalLM.from_config(self._configuration())}
        except ValueError as error:
            raise ModelError(f"no decoder: {error}") from error

    def _unload(self) -> None:
        super()._unload()
        self._tokenizer = None

    @property
    def context(self) -> int:
        """The most tokens of a prompt and what is added to it: the option, or what the model was made for."""
        config = self._parts["decoder"].config if self._parts else self._configuration()
        most = int(getattr(config, "max_position_embeddings", 0) or 1 << 20)
        return most if self.options["context"] is None else min(most, self.options["context"])

    # -- running ----------------------------------------------------------------------------------------------------

    def check_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs with defaults; what makes no sense is an InputError."""
        given = super().check_inputs(inputs)
        if not isinstance(given["prompt"], str) or not given["prompt"]:
            raise InputError(f"the input 'prompt' is {given['prompt']!r}; expected a text with something in it")
        for name, least in (("new_tokens", 1), ("top_k", 0)):
            value = given[name]
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"the input {name!r} is {value!r}; expected a whole number from {least}")
        for name, low, high in (("temperature", 0.0, 100.0), ("top_p", 0.0, 1.0)):
            value = given[name]
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
                raise InputError(f"the input {name!r} is {value!r}; expected {low:g} to {high:g}")
        if given["overflow"] not in ("refuse", "end"):
            raise InputError(f"the input 'overflow' is {given['overflow']!r}; expected refuse or end")
        return given

    def _encode(self, text: str) -> list[int]:
        if self._tokenizer is None:
            return ByteTokenizer().encode(text)
        return [int(number) for number in self._tokenizer(text).input_ids]

    def _decode(self, numbers: list[int]) -> str:
        if self._tokenizer is None:
            return ByteTokenizer().decode(numbers)
        return str(self._tokenizer.decode(numbers, skip_special_tokens=True))

    def _ends(self) -> frozenset[int]:
        if self._tokenizer is None:
            return frozenset()  # random weights have no end
        found = self._parts["decoder"].config.eos_token_id
        return frozenset(found if isinstance(found, list) else [] if found is None else [found])

    def _prompt(self, inputs: Mapping[str, Any]) -> list[int]:
        numbers = self._encode(inputs["prompt"])
        room = self.context - inputs["new_tokens"]
        if room < 1:
            raise InputError(f"{inputs['new_tokens']} new tokens leave no room in a context of {self.context}")
        if len(numbers) > room:
            if inputs["overflow"] == "refuse":
                raise InputError(
                    f"the prompt has {len(numbers)} tokens, and {inputs['new_tokens']} are to be added: together more "
                    f"than the context of {self.context}; ask for fewer, or say overflow='end' to keep the prompt's end"
                )
            numbers = numbers[-room:]
        vocabulary = self._parts["decoder"].config.vocab_size
        if max(numbers) >= vocabulary:
            raise InputError(f"the tokenizer gives {max(numbers)}, and the model's vocabulary ends at {vocabulary}")
        return numbers

    def _cache(self, length: int) -> Any:
        from transformers import DynamicCache, StaticCache

        config = self._parts["decoder"].config
        if self.options["cache"] == "dynamic":
            return DynamicCache(config=config)
        if self.options["cache"] == "static":
            return StaticCache(config=config, max_cache_len=length)
        return None

    @torch.no_grad()
    def _run(self, inputs: Mapping[str, Any], run: Run) -> str:
        numbers = self._prompt(inputs)
        count = inputs["new_tokens"]
        self.use("decoder")
        model: Any = self._parts["decoder"]
        generator = torch.Generator().manual_seed(run.seed)
        cache = self._cache(len(numbers) + count)
        keyword = cache_keyword(model)
        ends = self._ends()
        made: list[int] = []
        run.partial = ""
        run.details.update({"prompt_tokens": len(numbers), "stopped": "interrupt"})
        begin = time.monotonic()
        first = begin
        ids = torch.tensor([numbers], device=self.device)
        try:
            for step in range(count):
                if cache is None:
                    ids = torch.tensor([numbers + made], device=self.device)
                    output = model(input_ids=ids, use_cache=False)
                else:
                    at = torch.arange(ids.shape[1], device=self.device) + (len(numbers) + step - 1 if step else 0)
                    output = model(input_ids=ids, use_cache=True, position_ids=at.unsqueeze(0), **{keyword: cache})
                logits = output.logits[0, -64:].cpu().float()
                del output  # of a long prompt its logits are large, and the next call needs none of them
                if step == 0:
                    self.logits = logits.numpy()
                chosen = choose(logits[-1], inputs, generator)
                if step == 0:
                    first = time.monotonic()
                if chosen in ends:
                    run.details["stopped"] = "the end of the text"
                    break
                made.append(chosen)
                ids = torch.tensor([[chosen]], device=self.device)
                run.partial = self._decode(made)
                run.step(step + 1, count, "generate", run.partial if run.wants_preview(step + 1) else None)
            else:
                run.details["stopped"] = "new_tokens"
        except Interrupted:
            raise
        finally:
            seconds = time.monotonic() - first
            run.details.update(
                {
                    "tokens": len(made),
                    "seconds_to_first": first - begin,
                    "tokens_per_second": (len(made) - 1) / seconds if len(made) > 1 and seconds > 0 else 0.0,
                }
            )
        return self._decode(made)

    def output_array(self, output: Any) -> np.ndarray[Any, Any]:
        """What errors are measured on: the logits after the prompt."""
        if self.logits is None:
            raise ModelError("there was no run")
        return self.logits

    # -- planning ---------------------------------------------------------------------------------------------------

    def plan_stages(self, inputs: Mapping[str, Any] | None = None) -> list[PlanStage]:
        """The prompt at once, then a token at a time after the longest cache; by shapes alone.

        Without a cache all tokens at once, as the last one needs.
        """
        given = self.check_inputs(inputs or {})
        model: Any = self.plan_parts()["decoder"]
        count = given["new_tokens"]
        prompt = min(len(self._encode(given["prompt"])), max(1, self.context - count))
        length = prompt + count

        def call(name: str, tokens: int, past: int, repeats: int) -> PlanStage:
            ids = torch.empty((1, tokens), dtype=torch.int64, device="meta")
            module = PlannedCall(model, self.options["cache"], past, length)
            return self.stage(name, module, ids, repeats=repeats, part=model)

        if self.options["cache"] == "none":
            return [call("tokens", length - 1, 0, count)]
        found = [call("prompt", prompt, 0, 1)]
        return found if count == 1 else [*found, call("tokens", 1, length - 2, count - 1)]


def choose(logits: Tensor, inputs: Mapping[str, Any], generator: torch.Generator) -> int:
    """A token by its logits, (vocabulary) float32 on the host: the likeliest, or one drawn as the inputs say."""
    if not torch.isfinite(logits).any():
        raise ModelError("the model gives no finite logits: too little precision? try dtype='float32' or 'bfloat16'")
    if inputs["temperature"] == 0:
        return int(logits.argmax())
    logits = logits / inputs["temperature"]
    if 0 < inputs["top_k"] < len(logits):
        least = logits.topk(inputs["top_k"]).values[-1]
        logits = logits.masked_fill(logits < least, float("-inf"))
    chances = torch.softmax(logits, 0)
    if inputs["top_p"] < 1:
        ordered, order = chances.sort(descending=True)
        # Those before which less than top_p has come; always the first.
        dropped = ordered.cumsum(0) - ordered >= max(inputs["top_p"], 1e-9)
        chances[order[dropped]] = 0
    return int(torch.multinomial(chances, 1, generator=generator))
