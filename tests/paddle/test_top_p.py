"""Words drawn among the likeliest ones: what must hold of them, since the numbers are random."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import paddle
import pytest
from comparison import DEVICE, Array, on

pytestmark = pytest.mark.unihal_no_fallback

WORDS = np.float32([0.05, 0.4, 0.15, 0.3, 0.1])


def draw(rows: int, p: float, device_seed: int | None = 3, **settings: Any) -> list[Array]:
    """Of so many rows of the same probabilities."""
    with on(DEVICE):
        if device_seed is not None:
            paddle.seed(device_seed)
        x = paddle.to_tensor(np.tile(WORDS, (rows, 1))).astype(settings.pop("dtype", "float32"))
        shares = paddle.full([rows], p, "float32").astype(x.dtype)
        given = {n: paddle.to_tensor(v) if isinstance(v, np.ndarray) else v for n, v in settings.items()}
        found = paddle.tensor.top_p_sampling(x, shares, **given)
        return [part.astype("float32").numpy() if "float" in str(part.dtype) else part.numpy() for part in found]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_no_share_is_the_likeliest(dtype: str) -> None:
    values, words = draw(4, 0.0, dtype=dtype)
    assert values.shape == words.shape == (4, 1) and words.dtype == np.int64
    assert words.ravel().tolist() == [1] * 4
    np.testing.assert_allclose(values, 0.4, rtol=4e-3)


@pytest.mark.parametrize(
    ("p", "mode", "expected"),
    [
        (0.5, "truncated", {1: 0.8, 3: 0.2}),
        (0.9, "truncated", {1: 4 / 9, 3: 3 / 9, 2: 1.5 / 9, 4: 0.5 / 9}),
        (0.5, "non-truncated", {1: 0.4, 3: 0.3, 2: 0.15, 4: 0.1, 0: 0.05}),
    ],
)
def test_as_often_as_they_are_likely(p: float, mode: str, expected: dict[int, float]) -> None:
    rows = 4000
    values, words = draw(rows, p, mode=mode)
    np.testing.assert_array_equal(values, WORDS[words])
    times = Counter(words.ravel().tolist())
    assert set(times) == set(expected)
    for word, share in expected.items():
        # Four standard deviations.
        assert abs(times[word] - rows * share) < 4 * np.sqrt(rows * share * (1 - share))


def test_thresholds() -> None:
    """None that is less likely than its row's threshold; where all are, the likeliest."""
    limits = np.tile(np.float32([0.0, 0.25, 0.35, 0.9]), 500)
    _, words = draw(2000, 1.0, threshold=limits)
    found = [set(words.ravel()[limits == limit].tolist()) for limit in np.float32([0.0, 0.25, 0.35, 0.9])]
    assert found == [{0, 1, 2, 3, 4}, {1, 3}, {1}, {1}]


def test_seeds() -> None:
    seeds = np.arange(200) % 50
    first, second = (draw(200, 0.9, seed, topp_seed=seeds)[1].ravel() for seed in (1, 2))
    assert np.array_equal(first, second), "a row's seed decides, whatever the device's is"
    assert np.array_equal(first[:50], first[50:100]) and len(set(first[:50].tolist())) > 1
    same, other = draw(200, 0.9, 1, seed=7)[1], draw(200, 0.9, 2, seed=7)[1]
    assert np.array_equal(same, other) and not np.array_equal(same, draw(200, 0.9, 1, seed=8)[1])
    assert np.array_equal(draw(200, 0.9, 1)[1], draw(200, 0.9, 1)[1])
    assert not np.array_equal(draw(200, 0.9, 1)[1], draw(200, 0.9, None)[1])


def test_the_likeliest_besides() -> None:
    values, words, top_values, top_words = draw(3, 0.9, k=2, return_top=True)
    assert top_words.tolist() == [[1, 3]] * 3
    np.testing.assert_array_equal(top_values, np.float32([[0.4, 0.3]] * 3))
    np.testing.assert_array_equal(values, WORDS[words])


@pytest.mark.parametrize("representation", ["new", "old"])
def test_in_a_program(representation: str) -> None:
    guard = paddle.pir_utils.IrGuard() if representation == "new" else paddle.pir_utils.OldIrGuard()
    paddle.enable_static()
    try:
        with guard, on(DEVICE):
            main = paddle.static.Program()
            with paddle.static.program_guard(main, paddle.static.Program()):
                x = paddle.static.data("x", [3, 5], "float32")
                found = paddle.tensor.top_p_sampling(x, paddle.zeros([3]))
            place = paddle.CustomPlace(DEVICE, 0)
            feed = {"x": np.tile(WORDS, (3, 1))}
            values, words = paddle.static.Executor(place).run(main, feed=feed, fetch_list=list(found))
    finally:
        paddle.disable_static()
    assert words.ravel().tolist() == [1] * 3 and np.all(values == np.float32(0.4))


@pytest.mark.parametrize(
    "settings",
    [
        {"k": 6},
        {"k": -1},
        {"mode": "nothing"},
        {"threshold": np.zeros(2, "float32")},
        {"topp_seed": np.zeros(2, "int64")},
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        draw(3, 0.5, **settings)
