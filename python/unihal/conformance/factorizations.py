"""Cases of linear algebra: solutions, factorizations, eigenvalues and singular values.

Factors are not unique, and errors of their elements depend on the matrix' condition. So what is compared is what
defines them: that products give the matrix again, and that columns are orthonormal. The bounds are those of backward
errors.

* Of substitution, Cholesky's and LU factors each element: ``n u |l| |u|`` (N. Higham, Accuracy and Stability of
  Numerical Algorithms, 2nd ed., theorems 8.5, 9.3 and 10.3), of complex numbers with four roundings for each product
  (lemma 3.5).
* Of reflections and iterations the norm: LAPACK's own tests take 30 n u of the matrix' norm (LAPACK Working Note 41,
  section 4), and so does this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from .case import Array, Case, Expected, Operand, Relation, Values, written
from .sweep import shape_name, sweep

_DTYPES = ("float32", "float64", "complex64", "complex128")
#: Where elements repeat, matrices are singular.
_LAYOUTS = ("contiguous", "transposed", "sliced", "spaced", "reversed")
_REAL = {"float32": "float32", "float64": "float64", "complex64": "float32", "complex128": "float64"}
_COMPLEX = {"float32": "complex64", "float64": "complex128", "complex64": "complex64", "complex128": "complex128"}

#: Odd sides, nothing, one element, sides around the blocks of implementations, several batch axes, many small ones.
_SQUARES: tuple[tuple[int, ...], ...] = (
    (3, 7, 7),
    (0, 0),
    (1, 1),
    (0, 4, 4),
    (2, 0, 0),
    (2, 1, 3, 2, 2),
    (5, 31, 31),
    (33, 33),
    (2, 64, 64),
    (130, 130),
    (70, 5, 5),
    (257, 257),
)
_RECTANGLES: tuple[tuple[int, ...], ...] = (
    (3, 7, 4),
    (3, 4, 7),
    *_SQUARES,
    (5, 0),
    (0, 5),
    (1, 9),
    (9, 1),
    (2, 65, 31),
    (2, 31, 66),
    (300, 40),
    (40, 300),
)


def _random(generator: np.random.Generator, shape: Sequence[int], dtype: str) -> Array:
    values = generator.normal(size=shape)
    return np.asarray(values + 1j * generator.normal(size=shape) if dtype.startswith("complex") else values)


def _matrices(dtype: str) -> Values:
    return lambda generator, shape: _random(generator, shape, dtype)


def _adjoint(x: Array) -> Array:
    return np.conj(np.swapaxes(x, -1, -2))


def _triangle(x: Array, upper: bool, diagonal: bool = True) -> Array:
    return np.asarray(np.triu(x, 0 if diagonal else 1) if upper else np.tril(x, 0 if diagonal else -1))


def _spoiled(x: Array, upper: bool, dtype: str) -> Array:
    """What is not to be read is NaN: the other triangle, and the imaginary parts of the diagonal of a Hermitian one."""
    rows, columns = np.indices(x.shape[-2:])
    x = np.where(rows > columns if upper else rows < columns, np.nan, x)
    if dtype.startswith("complex"):
        x = np.where(rows == columns, x.real + 7j, x)
    return np.asarray(x)


def _definite(dtype: str, upper: bool) -> Values:
    def make(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        x = _random(generator, shape, dtype)
        n = shape[-1]
        return _spoiled(x @ _adjoint(x) / max(n, 1) + 0.5 * np.eye(n), upper, dtype)

    return make


def _hermitian(dtype: str, upper: bool) -> Values:
    def make(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        x = _random(generator, shape, dtype)
        return _spoiled(x + _adjoint(x), upper, dtype)

    return make


def _whole(x: Array, upper: bool) -> Array:
    """The Hermitian matrix of a triangle."""
    strict = _triangle(np.nan_to_num(x), upper, diagonal=False)
    diagonal = np.real(np.einsum("...ii->...i", x))
    return np.asarray(strict + _adjoint(strict) + diagonal[..., None] * np.eye(x.shape[-1]))


def _substitutions(n: int, dtype: str) -> float:
    """The roundings of sums of n products, one of which is divided."""
    return (4 if dtype.startswith("complex") else 1) * (n + 1)


def _iterations(shape: Sequence[int]) -> float:
    """What LAPACK's tests allow, in roundings relative to a norm."""
    return 30.0 * max(*shape[-2:], 1)


def _norms(x: Array) -> Array:
    """The Frobenius norm of each matrix."""
    return np.asarray(np.sqrt((np.abs(x) ** 2).sum(axis=(-1, -2))))


def _norm(x: Array, like: Array) -> Array:
    """The Frobenius norm of each matrix, in the shape of other matrices."""
    return np.broadcast_to(_norms(x)[..., None, None], like.shape)


def _ones(x: Array, what: str, shape: Sequence[int]) -> Relation:
    """Columns are orthonormal."""
    gram = _adjoint(x) @ x
    identity = np.broadcast_to(np.eye(gram.shape[-1]), gram.shape)
    return Relation(what, gram, Expected(identity, _iterations(shape), np.ones_like(identity)))


def _numbers(shape: Sequence[int], layout: str) -> Operand:
    return written("int32", tuple(shape), layout)


def _zeros(shape: Sequence[int]) -> Expected:
    return Expected(np.zeros(tuple(shape)), 0)


# -- triangular systems


def _solve_case(
    dtype: str, shape: tuple[int, ...], layout: str, *, upper: bool, unit: bool, conjugate: bool, in_place: bool
) -> Case:
    n, columns = shape[-1], 1 if len(shape) == 2 else 9
    right = (*shape[:-1], columns)

    def make(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        x = _random(generator, shape, dtype) / max(n, 1)
        diagonal = np.where(generator.integers(0, 2, shape[:-1]) == 1, 1, -1) * generator.uniform(1, 2, shape[:-1])
        rows, others = np.indices(shape[-2:])
        x = np.where(rows == others, np.nan if unit else diagonal[..., None], x)
        return np.where(rows > others if upper else rows < others, np.nan, x)

    def relations(inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Relation]:
        a, b = inputs
        a = _triangle(np.nan_to_num(a), upper, diagonal=not unit) + (np.eye(n) if unit else 0)
        a = np.conj(a) if conjugate else a
        x = outputs[0]
        return [Relation("a @ x", a @ x, Expected(b, _substitutions(n, dtype), np.abs(a) @ np.abs(x)))]

    words = ("upper" if upper else "lower", *(["unit"] if unit else []), *(["conjugate"] if conjugate else []))
    place = ("in-place",) if in_place else ()
    b = Operand(dtype, right, _matrices(dtype), layout)
    return Case(
        op="triangular_solve",
        variant="/".join(("-".join((*words, *place)), dtype, shape_name(shape), layout)),
        dtype=dtype,
        inputs=(Operand(dtype, shape, make, layout), b),
        outputs=(b if in_place else written(dtype, right, layout), _numbers(shape[:-2], layout)),
        reference=lambda inputs: [None, _zeros(shape[:-2])],
        relations=relations,
        attributes={"upper": int(upper), "unit_diagonal": int(unit), "conjugate": int(conjugate)},
        in_place=((0, 1),) if in_place else (),
    )


def _solve_broadcast() -> Iterator[Case]:
    """Leading axes of the matrix, of the right-hand sides, and of both are repeated."""
    for a_batch, b_batch, batch in (((), (3,), (3,)), ((3,), (), (3,)), ((2, 1), (5,), (2, 5))):

        def relations(inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Relation]:
            a, b = np.tril(inputs[0]), inputs[1]
            expected = np.broadcast_to(b, outputs[0].shape)
            bound = np.abs(a) @ np.abs(outputs[0])
            return [Relation("a @ x", a @ outputs[0], Expected(expected, _substitutions(6, "float32"), bound))]

        yield Case(
            op="triangular_solve",
            variant=f"broadcast/{shape_name(a_batch)}-{shape_name(b_batch)}",
            dtype="float32",
            inputs=(
                Operand("float32", (*a_batch, 6, 6), lambda g, shape: g.normal(size=shape) / 6 + 2 * np.eye(6)),
                Operand("float32", (*b_batch, 6, 4), _matrices("float32")),
            ),
            outputs=(written("float32", (*batch, 6, 4), "contiguous"), None),
            reference=lambda inputs: [None, None],
            relations=relations,
        )


def _solve_singular(dtype: str) -> Case:
    """The info of matrices with zeros on their diagonals; x is not looked at where there are."""

    def make(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        x = _random(generator, shape, dtype) / 8 + 2 * np.eye(4)
        x[1, 2, 2] = x[1, 3, 3] = 0
        return x

    return Case(
        op="triangular_solve",
        variant=f"singular/{dtype}",
        dtype=dtype,
        inputs=(Operand(dtype, (3, 4, 4), make), Operand(dtype, (3, 4, 2), _matrices(dtype))),
        outputs=(written(dtype, (3, 4, 2), "contiguous"), _numbers((3,), "contiguous")),
        reference=lambda inputs: [None, Expected(np.array([0, 3, 0]), 0)],
    )


# -- factorizations


def _cholesky_case(dtype: str, shape: tuple[int, ...], layout: str, *, upper: bool, in_place: bool) -> Case:
    def relations(inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Relation]:
        a, factor = _whole(inputs[0], upper), outputs[0]
        first, second = (_adjoint(factor), factor) if upper else (factor, _adjoint(factor))
        bound = np.abs(first) @ np.abs(second)
        zeros = _triangle(factor, not upper, diagonal=False)
        return [
            Relation("l @ l^H", first @ second, Expected(a, _substitutions(shape[-1] + 1, dtype), bound)),
            Relation("the other triangle of l", zeros, Expected(np.zeros_like(zeros), 0)),
        ]

    a = Operand(dtype, shape, _definite(dtype, upper), layout)
    word = ("upper" if upper else "lower") + ("-in-place" if in_place else "")
    return Case(
        op="cholesky",
        variant="/".join((word, dtype, shape_name(shape), layout)),
        dtype=dtype,
        inputs=(a,),
        outputs=(a if in_place else written(dtype, shape, layout), _numbers(shape[:-2], layout)),
        reference=lambda inputs: [None, _zeros(shape[:-2])],
        relations=relations,
        attributes={"upper": int(upper)},
        in_place=((0, 0),) if in_place else (),
    )


def _cholesky_indefinite(dtype: str, upper: bool, n: int) -> Case:
    """Of a batch one matrix is not definite from a leading minor on: info has its order, the factor is NaN."""
    wrong = n // 2

    def make(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        x = np.tile(2 * np.eye(n) + 1 / n, (3, 1, 1))
        x[1, wrong, wrong] = -1
        return x

    def relations(inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Relation]:
        factor = outputs[0]
        seen = np.isnan(factor) & (_triangle(np.ones(factor.shape), upper) != 0)
        expected = np.zeros(factor.shape)
        expected[1] = _triangle(np.ones((n, n)), upper)
        return [Relation("NaN in l", seen.astype(np.float64), Expected(expected, 0))]

    return Case(
        op="cholesky",
        variant=f"indefinite/{'upper' if upper else 'lower'}/{dtype}/{n}",
        dtype=dtype,
        inputs=(Operand(dtype, (3, n, n), make),),
        outputs=(written(dtype, (3, n, n), "contiguous"), _numbers((3,), "contiguous")),
        reference=lambda inputs: [None, Expected(np.array([0, wrong + 1, 0]), 0)],
        relations=relations,
        attributes={"upper": int(upper)},
    )


def _lu_case(dtype: str, shape: tuple[int, ...], layout: str, *, in_place: bool) -> Case:
    *batch, m, n = shape
    k = min(m, n)

    def relations(inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Relation]:
        a, (lu, pivots, permutation, _) = inputs[0], outputs
        factor = np.tril(lu, -1)[..., :k] + np.eye(m, k)
        u = np.triu(lu)[..., :k, :]
        order = np.broadcast_to(np.arange(m), (*batch, m)).copy()
        for number in np.ndindex(*batch):
            for i, pivot in enumerate(pivots[number].astype(np.int64)):
                order[number][[i, pivot]] = order[number][[pivot, i]]
        moved = np.take_along_axis(a, order[..., None], axis=-2)
        bound = np.abs(factor) @ np.abs(u)
        # LAPACK takes the largest |re| + |im|, others the largest modulus.
        largest = np.sqrt(2) if dtype.startswith("complex") else 1
        return [
            Relation("permutation", permutation, Expected(order, 0)),
            Relation("l @ u", factor @ u, Expected(moved, _substitutions(k, dtype), bound)),
            Relation(
                "l beyond 1",
                np.maximum(np.abs(factor) - largest, 0),
                Expected(np.zeros(factor.shape), 8, np.ones(factor.shape)),
            ),
        ]

    a = Operand(dtype, shape, _matrices(dtype), layout)
    return Case(
        op="lu",
        variant="/".join((*(["in-place"] if in_place else []), dtype, shape_name(shape), layout)),
        dtype=dtype,
        inputs=(a,),
        outputs=(
            a if in_place else written(dtype, shape, layout),
            _numbers((*batch, k), layout),
            _numbers((*batch, m), layout),
            _numbers(batch, layout),
        ),
        reference=lambda inputs: [None, None, None, _zeros(batch)],
        relations=relations,
        in_place=((0, 0),) if in_place else (),
    )


def _lu_singular(dtype: str) -> Case:
    """A column of zeros: info is its number, the factors are right, and pivots stay where they are."""

    def make(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        x = np.tile(np.diag([4.0, 2, 1, 8]) + np.triu(np.ones((4, 4)), 1), (2, 1, 1))
        x[1, :, 2] = 0
        return x

    return Case(
        op="lu",
        variant=f"singular/{dtype}",
        dtype=dtype,
        inputs=(Operand(dtype, (2, 4, 4), make),),
        outputs=(
            written(dtype, (2, 4, 4), "contiguous"),
            _numbers((2, 4), "contiguous"),
            None,
            _numbers((2,), "contiguous"),
        ),
        reference=lambda inputs: [
            Expected(inputs[0], 1),
            Expected(np.tile(np.arange(4), (2, 1)), 0),
            None,
            Expected(np.array([0, 3]), 0),
        ],
    )


def _qr_case(dtype: str, shape: tuple[int, ...], layout: str, *, complete: bool, with_q: bool) -> Case:
    *batch, m, n = shape
    k = m if complete else min(m, n)

    def relations(inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Relation]:
        a, (r, q) = inputs[0], outputs
        below = np.tril(r, -1)
        zeros = Relation("r below its diagonal", below, Expected(np.zeros_like(below), 0))
        roundings = _iterations(shape)
        if q is None:  # r^H r is a^H a
            gram = _adjoint(a) @ a
            return [
                zeros,
                Relation("r^H @ r", _adjoint(r) @ r, Expected(gram, 2 * roundings, _norm(a, gram) ** 2)),
            ]
        return [
            zeros,
            Relation("q @ r", q @ r, Expected(a, roundings, _norm(a, a))),
            _ones(q, "q^H @ q", shape),
        ]

    word = ("complete" if complete else "reduced") + ("" if with_q else "-r-only")
    return Case(
        op="qr",
        variant="/".join((word, dtype, shape_name(shape), layout)),
        dtype=dtype,
        inputs=(Operand(dtype, shape, _matrices(dtype), layout),),
        outputs=(written(dtype, (*batch, k, n), layout), written(dtype, (*batch, m, k), layout) if with_q else None),
        reference=lambda inputs: [None, None],
        relations=relations,
    )


# -- eigenvalues and singular values


def _eigen_symmetric_case(dtype: str, shape: tuple[int, ...], layout: str, *, upper: bool, vectors: bool) -> Case:
    def relations(inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Relation]:
        a, (values, v, _) = _whole(inputs[0], upper), outputs
        roundings = _iterations(shape)
        exact = np.linalg.eigvalsh(a)
        norm = _norm(a, a)
        # Values move by no more than the matrix does (Weyl).
        found = [
            Relation("values", values, Expected(exact, roundings, np.broadcast_to(_norms(a)[..., None], exact.shape)))
        ]
        descents = np.maximum(-np.diff(values, axis=-1), 0)
        found.append(Relation("descents of values", descents, Expected(np.zeros_like(descents), 0)))
        if v is not None:
            found.append(Relation("a @ v", a @ v, Expected(v * values[..., None, :], roundings, norm)))
            found.append(_ones(v, "v^H @ v", shape))
        return found

    word = ("upper" if upper else "lower") + ("-vectors" if vectors else "")
    return Case(
        op="eigen_symmetric",
        variant="/".join((word, dtype, shape_name(shape), layout)),
        dtype=dtype,
        inputs=(Operand(dtype, shape, _hermitian(dtype, upper), layout),),
        outputs=(
            written(_REAL[dtype], shape[:-1], layout),
            written(dtype, shape, layout) if vectors else None,
            _numbers(shape[:-2], layout),
        ),
        reference=lambda inputs: [None, None, _zeros(shape[:-2])],
        relations=relations,
        attributes={"upper": int(upper)},
    )


def _svd_case(dtype: str, shape: tuple[int, ...], layout: str, *, form: str) -> Case:
    *batch, m, n = shape
    k = min(m, n)
    j, i = (m, n) if form == "complete" else (k, k)

    def relations(inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Relation]:
        a, (s, u, vh, _) = inputs[0], outputs
        roundings = _iterations(shape)
        exact = np.linalg.svd(a, compute_uv=False) if k else np.zeros((*batch, 0))
        norm = _norms(a)[..., None]
        found = [Relation("s", s, Expected(exact, roundings, np.broadcast_to(norm, exact.shape)))]
        rises = np.maximum(np.diff(s, axis=-1), 0)
        found.append(Relation("rises of s", rises, Expected(np.zeros_like(rises), 0)))
        found.append(Relation("s below 0", np.minimum(s, 0) + 0.0, Expected(np.zeros_like(s), 1)))
        if u is not None:
            again = u[..., :k] * s[..., None, :] @ vh[..., :k, :]
            found.append(Relation("u * s @ vh", again, Expected(a, roundings, _norm(a, a))))
            found += [_ones(u, "u^H @ u", shape), _ones(_adjoint(vh), "vh @ vh^H", shape)]
        return found

    with_vectors = form != "values"
    return Case(
        op="svd",
        variant="/".join((form, dtype, shape_name(shape), layout)),
        dtype=dtype,
        inputs=(Operand(dtype, shape, _matrices(dtype), layout),),
        outputs=(
            written(_REAL[dtype], (*batch, k), layout),
            written(dtype, (*batch, m, j), layout) if with_vectors else None,
            written(dtype, (*batch, i, n), layout) if with_vectors else None,
            _numbers(batch, layout),
        ),
        reference=lambda inputs: [None, None, None, _zeros(batch)],
        relations=relations,
    )


def _eigen_case(dtype: str, shape: tuple[int, ...], layout: str, *, vectors: bool) -> Case:
    def relations(inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Relation]:
        a, (values, v, _) = inputs[0], outputs
        n = shape[-1]
        roundings = _iterations(shape)
        norm = _norm(a, a)
        # Each value is that of a matrix as near as that: a - value is as near to a singular one.
        shifted = a[..., None, :, :] - values[..., None, None] * np.eye(n)
        least = np.linalg.svd(shifted, compute_uv=False)[..., -1] if n else np.zeros(values.shape)
        bound = np.broadcast_to(_norms(a)[..., None], values.shape)
        found = [
            Relation("the least singular value of a - value", least, Expected(np.zeros(least.shape), roundings, bound))
        ]
        trace = np.einsum("...ii->...", a)
        limit = n * _norms(a)
        found.append(Relation("the sum of values", values.sum(axis=-1), Expected(trace, roundings, limit)))
        if v is not None:
            found.append(Relation("a @ v", a @ v, Expected(v * values[..., None, :], roundings, norm)))
            lengths = np.sqrt((np.abs(v) ** 2).sum(axis=-2))
            found.append(Relation("the norms of v", lengths, Expected(np.ones_like(lengths), roundings)))
        return found

    return Case(
        op="eigen",
        variant="/".join(("vectors" if vectors else "values", dtype, shape_name(shape), layout)),
        dtype=dtype,
        inputs=(Operand(dtype, shape, _matrices(dtype), layout),),
        outputs=(
            written(_COMPLEX[dtype], shape[:-1], layout),
            written(_COMPLEX[dtype], shape, layout) if vectors else None,
            _numbers(shape[:-2], layout),
        ),
        reference=lambda inputs: [None, None, _zeros(shape[:-2])],
        relations=relations,
    )


def cases(seed: int) -> Iterator[Case]:
    """All cases."""
    every = partial(sweep, seed=seed, dtypes=_DTYPES, layouts=_LAYOUTS, draws=8)
    few = partial(sweep, seed=seed, dtypes=_DTYPES, layouts=("contiguous", "transposed"), draws=3)
    small = _SQUARES[:8]
    for upper, unit in product((False, True), (False, True)):
        build = partial(_solve_case, upper=upper, unit=unit, conjugate=False, in_place=False)
        yield from (every if not unit else few)(build, shapes=_SQUARES)
        again = partial(_solve_case, upper=upper, unit=unit, conjugate=True, in_place=True)
        yield from few(again, shapes=small)
    yield from _solve_broadcast()
    yield from map(_solve_singular, _DTYPES)
    for upper in (False, True):
        yield from every(partial(_cholesky_case, upper=upper, in_place=False), shapes=_SQUARES)
        yield from few(partial(_cholesky_case, upper=upper, in_place=True), shapes=small)
        for dtype, n in product(_DTYPES, (4, 70)):
            yield _cholesky_indefinite(dtype, upper, n)
    yield from every(partial(_lu_case, in_place=False), shapes=_RECTANGLES)
    yield from few(partial(_lu_case, in_place=True), shapes=_RECTANGLES[:6])
    yield from map(_lu_singular, _DTYPES)
    yield from every(partial(_qr_case, complete=False, with_q=True), shapes=_RECTANGLES)
    yield from few(partial(_qr_case, complete=True, with_q=True), shapes=_RECTANGLES)
    yield from few(partial(_qr_case, complete=False, with_q=False), shapes=_RECTANGLES[:6])
    for upper, vectors in product((False, True), (False, True)):
        build_values = partial(_eigen_symmetric_case, upper=upper, vectors=vectors)
        yield from (every if vectors else few)(build_values, shapes=(*_SQUARES, (11, 20, 20)))
    for form in ("reduced", "complete", "values"):
        yield from (every if form == "reduced" else few)(partial(_svd_case, form=form), shapes=_RECTANGLES)
    for vectors in (False, True):
        yield from (every if vectors else few)(partial(_eigen_case, vectors=vectors), shapes=_SQUARES[:9])
