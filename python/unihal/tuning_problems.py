"""What ``unihal tune`` measures: matrix products and convolutions, by their sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union

from . import _core, errors
from .buffer import Buffer
from .ops.linear import MATH_MODES, MathMode

Direction = Literal["forward", "backward_data", "backward_filter"]

FORMS = ("nn", "nt", "tn", "tt")
DIRECTIONS: tuple[Direction, ...] = ("forward", "backward_data", "backward_filter")

#: Makes an operand of a shape and dtype, row-major, whose elements are numbers.
Maker = Callable[[Sequence[int], str], Buffer]

#: The inputs, outputs and attributes of an op.
Operands = tuple[list[Buffer], list[Buffer], dict[str, Any]]


@dataclass(frozen=True)
class MatrixProduct:
    """The shape of a product: d (m, n) = a (m, k) @ b (k, n), ``batch`` times."""

    m: int
    n: int
    k: int
    #: For a and b: ``n`` as they are, ``t`` transposed in memory.
    form: str = "nn"
    dtype: str = "float32"
    batch: int = 1
    math_mode: MathMode = "strict"

    @classmethod
    def parse(cls, shape: str, form: str, dtype: str) -> MatrixProduct:
        """``"1024x512x2048"`` (m, n, k) or, with a batch in front, ``"16x128x128x64"``."""
        if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*){2,3}", shape):
            raise errors.InvalidArgumentError(f"the shape '{shape}' is none; expected MxNxK or BATCHxMxNxK")
        if form not in FORMS:
            raise errors.InvalidArgumentError(f"the form '{form}' is none; expected one of {', '.join(FORMS)}")
        *batch, m, n, k = map(int, shape.split("x"))
        return cls(m, n, k, form, dtype, batch[0] if batch else 1)

    def __str__(self) -> str:
        batch = f"{self.batch} x " if self.batch > 1 else ""
        return f"{batch}{self.m} x {self.n} x {self.k} {self.form} {self.dtype}{_mode_word(self.math_mode)}"

    @property
    def kind(self) -> str:
        """The op."""
        return "matmul"

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.batch * self.m * self.n * self.k

    def operands(self, make: Maker) -> Operands:
        """What the op is launched with."""
        a = self._operand(make, self.m, self.k, self.form[0] == "t")
        b = self._operand(make, self.k, self.n, self.form[1] == "t")
        return [a, b], [make(self._shape(self.m, self.n), self.dtype)], {"math_mode": MATH_MODES[self.math_mode]}

    def _shape(self, rows: int, columns: int) -> tuple[int, ...]:
        return (rows, columns) if self.batch == 1 else (self.batch, rows, columns)

    def _operand(self, make: Maker, rows: int, columns: int, transposed: bool) -> Buffer:
        if not transposed:
            return make(self._shape(rows, columns), self.dtype)
        buffer = make(self._shape(columns, rows), self.dtype)
        return buffer.transpose(*range(buffer.ndim - 2), buffer.ndim - 1, buffer.ndim - 2)


@dataclass(frozen=True)
class Convolution:
    """A convolution of images, or one of its gradients, told by the sizes of the forward one.

    Images have two or three axes: one of length 1 stands for one that is missing, and leads to the same kernels.
    """

    direction: Direction
    batch: int
    channels: int
    #: Lengths of the images' axes, before the padding.
    image: tuple[int, ...]
    filters: int
    window: tuple[int, ...]
    #: One number for all axes, or one for each; so below.
    stride: int | tuple[int, ...] = 1
    #: As much before an image as after it.
    padding: int | tuple[int, ...] = 0
    dilation: int | tuple[int, ...] = 1
    groups: int = 1
    #: How images lie in memory, the last letter's axis innermost: ``nchw`` or ``nhwc``, and with depth ``ncdhw``,
    #: ``ndhwc``.
    layout: str = "nchw"
    #: How filters lie: ``oihw``, ``ohwi`` or ``hwio``, and with depth as ``oidhw``. Empty: what frameworks have with
    #: the layout, ``hwio`` for channels last and ``oihw`` otherwise.
    filter_layout: str = ""
    dtype: str = "float32"
    math_mode: MathMode = "strict"

    def __post_init__(self) -> None:
        axes = len(self.image)
        if axes not in _IMAGE_LAYOUTS:
            raise errors.InvalidArgumentError(f"the image {self.image} has {axes} axes; expected 2 or 3")
        expected: Sequence[tuple[str, object, Sequence[object]]] = (
            ("direction", self.direction, DIRECTIONS),
            ("layout", self.layout, _IMAGE_LAYOUTS[axes]),
            ("filter layout", self.filter_layout, ("", *_FILTER_LAYOUTS[axes])),
        )
        for name, value, known in expected:
            if value not in known:
                raise errors.InvalidArgumentError(f"the {name} '{value}' is none; expected one of {known}")
        for name, entries in (
            ("window", self.window),
            *((name, self._axes(getattr(self, name))) for name in ("stride", "padding", "dilation")),
        ):
            if len(entries) != axes:
                raise errors.InvalidArgumentError(f"the {name} {entries} has {len(entries)} axes, the image has {axes}")

    @classmethod
    def parse(cls, text: str, dtype: str = "float32") -> list[Convolution]:
        """The convolutions that words in any order name: ``"forward n32 c256 h14 w14 k256 3x3 s1 p1 nchw"``.

        ``n`` images of ``c`` channels, ``h`` by ``w`` pixels (``z``: deep), ``k`` filters of a window; optional are
        stride ``s1``, padding ``p0``, dilation ``d1`` (``s2x1``: by axis), groups ``g1``, the layouts of images and of
        filters, a dtype, ``tf32`` where that is allowed, and which ops: of several directions or none, all of them. A
        key of a choice is such a text.
        """
        words = _Words(text, dtype)
        image = tuple(words.number(letter) for letter in "zhw" if letter != "z" or "z" in words.numbers)
        window = words.window
        if len(window) != len(image):
            raise words.refused(f"has a window of {len(window)} axes for images of {len(image)}")
        return [
            cls(
                direction,
                words.number("n"),
                words.number("c"),
                image,
                words.number("k"),
                window,
                words.axes("s", len(image), "1"),
                words.axes("p", len(image), "0"),
                words.axes("d", len(image), "1"),
                words.number("g", "1"),
                words.layout(_IMAGE_LAYOUTS[len(image)], _IMAGE_LAYOUTS[len(image)][0]),
                words.layout(_FILTER_LAYOUTS[len(image)], ""),
                words.dtype,
                words.math_mode,
            )
            for direction in words.directions or DIRECTIONS
        ]

    def __str__(self) -> str:
        lengths = " ".join(f"{axis}{length}" for axis, length in zip("zhw"[-len(self.image) :], self.image))
        words = [self.direction, f"n{self.batch}", f"c{self.channels}", lengths, f"k{self.filters}"]
        words.append("x".join(map(str, self.window)))
        for letter, value, usual in (("s", self.stride, 1), ("p", self.padding, 0), ("d", self.dilation, 1)):
            entries = self._axes(value)
            if entries != (usual,) * len(entries):
                words.append(letter + ("x".join(map(str, entries)) if len(set(entries)) > 1 else str(entries[0])))
        if self.groups != 1:
            words.append(f"g{self.groups}")
        words += [self.layout, *([self.filter_layout] if self.filter_layout else []), self.dtype]
        return " ".join(words) + _mode_word(self.math_mode)

    @property
    def kind(self) -> str:
        """The op."""
        return "convolution" if self.direction == "forward" else f"convolution_{self.direction}"

    @property
    def output(self) -> tuple[int, ...]:
        """Lengths of the result's axes."""
        axes = zip(self.image, self.window, *map(self._axes, (self.stride, self.padding, self.dilation)))
        lengths = tuple(
            (length + 2 * pad - step * (tap - 1) - 1) // every + 1 for length, tap, every, pad, step in axes
        )
        if any(length < 1 for length in lengths):
            raise errors.InvalidArgumentError(f"the window of '{self}' is larger than its image with the padding")
        return lengths

    @property
    def flops(self) -> int:
        """Multiplications and additions of the definition; an algorithm may do with fewer."""
        count = 2 * self.batch * self.filters * self.channels // self.groups
        for length in (*self.output, *self.window):
            count *= length
        return count

    def operands(self, make: Maker) -> Operands:
        """What the op is launched with."""
        if self.channels % self.groups != 0 or self.filters % self.groups != 0:
            raise errors.InvalidArgumentError(
                f"the channels and filters of '{self}' are no multiples of its {self.groups} groups"
            )
        axes = len(self.image)
        filters = self.filter_layout or _FILTER_LAYOUTS[axes][2 if self.layout[-1] == "c" else 0]
        names = "dhw"[-axes:]

        def operand(layout: str, first: str, lengths: Sequence[int]) -> Buffer:
            logical = first + names
            buffer = make([lengths[logical.index(axis)] for axis in layout], self.dtype)
            return buffer.transpose(*(layout.index(axis) for axis in logical))

        x = operand(self.layout, "nc", (self.batch, self.channels, *self.image))
        w = operand(filters, "oi", (self.filters, self.channels // self.groups, *self.window))
        y = operand(self.layout, "nc", (self.batch, self.filters, *self.output))
        padding = list(self._axes(self.padding))
        attributes = {
            "stride": list(self._axes(self.stride)),
            "dilation": list(self._axes(self.dilation)),
            "pad_before": padding,
            "pad_after": padding,
            "groups": self.groups,
            "math_mode": MATH_MODES[self.math_mode],
        }
        inputs, output = {"forward": ([x, w], y), "backward_data": ([y, w], x), "backward_filter": ([x, y], w)}[
            self.direction
        ]
        return inputs, [output], attributes

    def _axes(self, value: int | tuple[int, ...]) -> tuple[int, ...]:
        return (value,) * len(self.image) if isinstance(value, int) else value


def _mode_word(math_mode: MathMode) -> str:
    return "" if math_mode == "strict" else f" {math_mode}"


#: What can be tuned.
Problem = Union[MatrixProduct, Convolution]

_IMAGE_LAYOUTS = {2: ("nchw", "nhwc"), 3: ("ncdhw", "ndhwc")}
_FILTER_LAYOUTS = {2: ("oihw", "ohwi", "hwio"), 3: ("oidhw", "odhwi", "dhwio")}
_EXAMPLE = "forward n32 c256 h14 w14 k256 3x3 s1 p1 nchw"


class _Words:
    """A text of Convolution.parse, taken apart."""

    def __init__(self, text: str, dtype: str) -> None:
        self._text = text
        self.dtype = dtype
        self.math_mode: MathMode = "strict"
        self.directions: list[Direction] = []
        self.numbers: dict[str, str] = {}
        self._layouts: list[str] = []
        windows: list[str] = []
        for word in text.split():
            direction = next((each for each in DIRECTIONS if word in (each, f"convolution_{each}")), None)
            if direction is not None:
                self.directions.append(direction)
            elif word in _core.DTYPES:
                self.dtype = word
            elif word == "tf32":
                self.math_mode = "tf32"
            elif any(word in layouts for layouts in (*_IMAGE_LAYOUTS.values(), *_FILTER_LAYOUTS.values())):
                self._layouts.append(word)
            elif re.fullmatch(r"[1-9]\d*(x[1-9]\d*){1,2}", word):
                windows.append(word)
            elif re.fullmatch(r"[ncghwkz][1-9]\d*|[sd][1-9]\d*(x[1-9]\d*){0,2}|p\d+(x\d+){0,2}", word):
                if word[0] in self.numbers:
                    raise self.refused(f"has two words for {word[0]}, {word[0]}{self.numbers[word[0]]} and {word}")
                self.numbers[word[0]] = word[1:]
            else:
                raise self.refused(f"has the word '{word}', which means nothing")
        if len(windows) != 1:
            raise self.refused(f"has {len(windows)} windows, such as 3x3, and needs one")
        self.window = tuple(map(int, windows[0].split("x")))

    def refused(self, why: str) -> errors.InvalidArgumentError:
        return errors.InvalidArgumentError(f"the convolution '{self._text}' {why}; expected words as in '{_EXAMPLE}'")

    def number(self, letter: str, default: str | None = None) -> int:
        text = self.numbers.get(letter, default)
        if text is None:
            raise self.refused(f"has no word for {letter} ({_MEANINGS[letter]})")
        return int(text)

    def axes(self, letter: str, count: int, default: str) -> tuple[int, ...]:
        entries = tuple(map(int, self.numbers.get(letter, default).split("x")))
        if len(entries) not in (1, count):
            raise self.refused(f"has {len(entries)} numbers for {letter}, and images have {count} axes")
        return entries * count if len(entries) == 1 else entries

    def layout(self, known: Sequence[str], default: str) -> str:
        """The one layout of a family; a text of one family only has the axes of its images."""
        families = (_IMAGE_LAYOUTS, _FILTER_LAYOUTS)
        family = next(family for family in families if known in family.values())
        named = [layout for layout in self._layouts if any(layout in layouts for layouts in family.values())]
        if len(named) > 1 or (named and named[0] not in known):
            raise self.refused(f"has the layouts {', '.join(named)}; here one is possible of {', '.join(known)}")
        return named[0] if named else default


_MEANINGS = {"n": "images", "c": "channels", "h": "height", "w": "width", "k": "filters"}


def usual_products(dtype: str = "float32") -> list[MatrixProduct]:
    """Of layers forward (nn, nt) and of their gradients (nt, tn), and of attention's heads."""
    squares = [
        MatrixProduct(size, size, size, form, dtype) for size in (256, 512, 1024, 2048, 4096) for form in FORMS[:3]
    ]
    dense = [
        MatrixProduct(rows, *shape, form, dtype)
        for rows in (64, 2048)
        for shape in ((768, 768), (3072, 768), (768, 3072), (1000, 2048))
        for form in FORMS[:3]
    ]
    heads = [
        MatrixProduct(128, 128, 64, "nt", dtype, 192),
        MatrixProduct(128, 64, 128, "nn", dtype, 192),
        MatrixProduct(128, 64, 128, "tn", dtype, 192),
    ]
    return [*squares, *dense, *heads]


#: Layers of ResNet-50: the first one, the windows of 3x3 of each stage, with the stride between two stages, and of
#: those of one pixel the first and the last of a block.
_LAYERS = (
    "c3 h224 w224 k64 7x7 s2 p3",
    "c64 h56 w56 k64 3x3 p1",
    "c128 h56 w56 k128 3x3 s2 p1",
    "c128 h28 w28 k128 3x3 p1",
    "c256 h14 w14 k256 3x3 p1",
    "c512 h7 w7 k512 3x3 p1",
    "c256 h56 w56 k64 1x1",
    "c128 h28 w28 k512 1x1",
    "c1024 h14 w14 k256 1x1",
    "c512 h7 w7 k2048 1x1",
)


def usual_convolutions(dtype: str = "float32") -> list[Convolution]:
    """Of a ResNet-50 with 32 images at a time, forward and both gradients."""
    return [each for layer in _LAYERS for each in Convolution.parse(f"n32 {layer}", dtype)]
