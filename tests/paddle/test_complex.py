"""Complex numbers in Paddle's functions: constants with both parts, spectra and their magnitudes, gradients by the
derivative's conjugate, random numbers; test_kernel_modes.py has each kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest
from comparison import DEVICE, on, random

pytestmark = pytest.mark.unihal_no_fallback

X = (random(3, 4) + 1j * random(3, 4, seed=1)).astype("complex64")
Z = 2 - 3j


def written(x: Any, index: Any, value: Any) -> Any:
    changed = x * 1
    changed[index] = value
    return changed


CONSTANTS: dict[str, Callable[[Any], Any]] = {
    "full": lambda x: paddle.full([2], Z, "complex64"),
    "full complex128": lambda x: paddle.full([2], Z, "complex128"),
    "full_like": lambda x: paddle.full_like(x, Z),
    "multiply": lambda x: x * Z,
    "add": lambda x: x + Z,
    "divide": lambda x: x / Z,
    "from the right": lambda x: Z - x,
    "assign": lambda x: paddle.assign([Z, 1, 2j]),
    "a slice": lambda x: written(x, (slice(0, 2), 1), Z),
    "one element": lambda x: written(x, (0, 1), Z),
    "rows": lambda x: written(x, paddle.to_tensor([0, 2]), Z),
    "where": lambda x: paddle.where(x.real() > 0, x, paddle.full([], Z, "complex64")),
    "scale": lambda x: paddle.scale(x, 2.0, 0.5),
    "of real numbers": lambda x: x.real() * Z,
}


#: Programs write into tensors by functions of their own, and Paddle takes no complex number for full_like there.
WRITES = ("a slice", "one element", "rows")


def in_program(name: str, device: str) -> Any:
    place = paddle.CPUPlace() if device == "cpu" else paddle.CustomPlace(device, 0)
    main = paddle.static.Program()
    with paddle.pir_utils.IrGuard(), on(device), paddle.static.program_guard(main, paddle.static.Program()):
        result = CONSTANTS[name](paddle.static.data("x", X.shape, "complex64"))
        return paddle.static.Executor(place).run(main, feed={"x": X}, fetch_list=[result])[0]


@pytest.mark.parametrize("name", [name for name in CONSTANTS if name not in (*WRITES, "full_like")])
def test_constants_in_programs(name: str) -> None:
    ours, theirs = in_program(name, DEVICE), in_program(name, "cpu")
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_keep_both_parts(name: str) -> None:
    outcome = []
    for device in (DEVICE, "cpu"):
        with on(device):
            result = CONSTANTS[name](paddle.to_tensor(X))
            assert device in str(result.place)
            outcome.append(result.numpy())
    assert outcome[0].dtype == outcome[1].dtype
    np.testing.assert_allclose(outcome[0], outcome[1], rtol=2e-6, atol=2e-6)
    if "where" not in name:
        assert np.abs(outcome[0].imag).max() > 0


def test_magnitudes_of_a_spectrogram() -> None:
    """As audio front ends take them, and back."""
    wave = random(2, 256)

    def work(device: str) -> list[Any]:
        with on(device):
            x = paddle.to_tensor(wave, stop_gradient=False)
            spectrum = paddle.signal.stft(x, 32, 8)
            (spectrum.abs().square().log1p().mean() + spectrum.angle().mean()).backward()
            back = paddle.signal.istft(spectrum.detach(), 32, 8, length=256)
            return [spectrum.abs().numpy(), x.grad.numpy(), back.numpy()]

    ours, theirs = work(DEVICE), work("cpu")
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max())
    np.testing.assert_allclose(ours[2], wave, atol=1e-5)


def test_the_gradient_of_a_product_is_conjugated() -> None:
    """Against differences of a real loss; Paddle's CPU does not conjugate this one."""
    weight = random(3, seed=2) + 1j * random(3, seed=3)

    def loss(x: Any) -> float:
        return float((np.prod(x, 1) * weight.conj()).real.sum())

    with on(DEVICE):
        x = paddle.to_tensor(X.astype("complex128"), stop_gradient=False)
        paddle.prod(x, 1).backward(paddle.to_tensor(weight.astype("complex128")))
        found = x.grad.numpy()
    x64, step = X.astype("complex128"), 1e-6
    for place in np.ndindex(X.shape):
        parts = []
        for direction in (1, 1j):
            above, below = x64.copy(), x64.copy()
            above[place] += step * direction
            below[place] -= step * direction
            parts.append((loss(above) - loss(below)) / (2 * step))
        np.testing.assert_allclose(found[place], parts[0] + 1j * parts[1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_random_complex_numbers(dtype: str) -> None:
    """Of the variance that was asked for, in both parts together, as on the CPU."""
    for device in (DEVICE, "cpu"):
        with on(device):
            paddle.seed(3)
            x = paddle.randn([20000], dtype).numpy()
        assert x.dtype == dtype
        assert abs(x.mean()) < 0.03 and abs(np.var(x) - 1) < 0.05
        assert abs(x.real.std() - x.imag.std()) < 0.03 and abs(np.mean(x.real * x.imag)) < 0.03


def test_a_complex_layer_trains() -> None:
    def losses(device: str) -> list[float]:
        with on(device):
            random_state = np.random.RandomState(0)
            w = paddle.to_tensor((random_state.randn(4, 3) + 1j * random_state.randn(4, 3)).astype("complex64"))
            parts = [paddle.to_tensor(p.numpy(), stop_gradient=False) for p in (w.real(), w.imag())]
            found = []
            for _ in range(5):
                y = paddle.matmul(paddle.to_tensor(X), paddle.complex(*parts))
                loss = (paddle.tanh(y) * y.conj()).abs().mean()
                loss.backward()
                with paddle.no_grad():
                    parts = [(p - 0.1 * p.grad).detach() for p in parts]
                for p in parts:
                    p.stop_gradient = False
                found.append(float(loss))
            return found

    np.testing.assert_allclose(losses(DEVICE), losses("cpu"), rtol=1e-4)
