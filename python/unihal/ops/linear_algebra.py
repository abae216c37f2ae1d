"""Factorizations of matrices, and what follows from them: solutions, inverses, determinants.

Matrices are (..., rows, columns) of float32, float64, complex64 or complex128; leading axes are batches. A matrix that
has no solution (singular, not positive definite) raises an error where a function says so, after a small copy from the
device; functions that give an ``info`` leave that to the caller.
"""

from __future__ import annotations

from typing import NamedTuple

from .. import errors
from ..buffer import Buffer
from ..stream import Stream
from .elementwise import map_function
from .launch import broadcast_shapes, launch, output
from .linear import matmul
from .movement import copy, fill, gather_elements, iota, one_hot
from .reduction import product, reduce

_REAL_OF = {"float32": "float32", "float64": "float64", "complex64": "float32", "complex128": "float64"}
_COMPLEX_OF = {"float32": "complex64", "float64": "complex128", "complex64": "complex64", "complex128": "complex128"}


class LU(NamedTuple):
    """Factors with the exchanges of rows: rows ``permutation`` of the matrix are ``l @ u``."""

    #: l below the diagonal (its own diagonal is ones), u on it and above.
    lu: Buffer
    #: At step i row i was exchanged with row pivots[i]; int32, from 0.
    pivots: Buffer
    permutation: Buffer
    #: 0, or the number (from 1) of the first zero on u's diagonal.
    info: Buffer


class SymmetricEigen(NamedTuple):
    """``a @ vectors == vectors * values[..., None, :]``; values are real and ascend."""

    values: Buffer
    vectors: Buffer


class Eigen(NamedTuple):
    """``a @ vectors == vectors * values[..., None, :]``; both are complex, in no order."""

    values: Buffer
    vectors: Buffer


class SVD(NamedTuple):
    """``a == u * s[..., None, :] @ vh``; s descends."""

    u: Buffer
    s: Buffer
    vh: Buffer


class QR(NamedTuple):
    """``a == q @ r``."""

    q: Buffer
    r: Buffer


class LogDeterminant(NamedTuple):
    """``sign * exp(logarithm)``; the sign of a complex matrix is a number of modulus 1, of a singular one 0."""

    sign: Buffer
    logarithm: Buffer


def triangular_solve(
    a: Buffer,
    b: Buffer,
    *,
    upper: bool = False,
    unit_diagonal: bool = False,
    conjugate: bool = False,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """x with ``a @ x == b``, a by its lower (upper) triangle; the other one is not read, and leading axes broadcast.

    Nothing is raised where a has zeros on its diagonal: they divide. A transposed a is a view of it; its triangles
    change places then.
    """
    _expect(a, "triangular_solve")
    if b.ndim < 2 or b.shape[-2] != a.shape[-1]:
        raise errors.InvalidArgumentError(
            f"triangular_solve: {a.shape} and {b.shape}; expected (..., n, n) and (..., n, k)"
        )
    shape = (*broadcast_shapes([a.shape[:-2], b.shape[:-2]]), *b.shape[-2:])
    x = output(shape, a.dtype, a, out, stream)
    attributes = {"upper": int(upper), "unit_diagonal": int(unit_diagonal), "conjugate": int(conjugate)}
    launch("triangular_solve", [a, b], [x, None], attributes, stream=stream)
    return x


def cholesky(
    a: Buffer, *, upper: bool = False, check: bool = True, out: Buffer | None = None, stream: Stream | None = None
) -> Buffer:
    """The lower triangular l with ``a == l @ l^H``, or the upper one with ``a == l^H @ l``; one triangle of a is read.

    Raises InvalidArgumentError for a matrix that is not positive definite; without ``check`` its factor is NaN instead.
    """
    _expect(a, "cholesky")
    factor = output(a.shape, a.dtype, a, out, stream)
    info = output(a.shape[:-2], "int32", a, stream=stream) if check else None
    launch("cholesky", [a], [factor, info], {"upper": int(upper)}, stream=stream)
    if info is not None:
        _refuse(info, "cholesky", "is not positive definite: its leading minor of order {info} is not positive")
    return factor


def lu(a: Buffer, *, stream: Stream | None = None) -> LU:
    """Factors of a matrix of any shape, with partial pivoting; they are right for singular ones too."""
    _expect(a, "lu", square=False)
    return _lu(a, output(a.shape, a.dtype, a, stream=stream), stream)


def _lu(a: Buffer, factors: Buffer, stream: Stream | None) -> LU:
    batch, (m, n) = a.shape[:-2], a.shape[-2:]
    pivots, permutation, info = (
        output(shape, "int32", a, stream=stream) for shape in ((*batch, min(m, n)), (*batch, m), batch)
    )
    launch("lu", [a], [factors, pivots, permutation, info], stream=stream)
    return LU(factors, pivots, permutation, info)


def qr(a: Buffer, *, complete: bool = False, stream: Stream | None = None) -> QR:
    """q with orthonormal columns, min(m, n) of them or m, and r with zeros below its diagonal."""
    _expect(a, "qr", square=False)
    batch, (m, n) = a.shape[:-2], a.shape[-2:]
    k = m if complete else min(m, n)
    r = output((*batch, k, n), a.dtype, a, stream=stream)
    q = output((*batch, m, k), a.dtype, a, stream=stream)
    launch("qr", [a], [r, q], stream=stream)
    return QR(q, r)


def eigh(a: Buffer, *, upper: bool = False, stream: Stream | None = None) -> SymmetricEigen:
    """Eigenvalues and orthonormal eigenvectors of a symmetric or Hermitian matrix, of which one triangle is read."""
    _expect(a, "eigh")
    values = output(a.shape[:-1], _REAL_OF[a.dtype], a, stream=stream)
    vectors = output(a.shape, a.dtype, a, stream=stream)
    info = output(a.shape[:-2], "int32", a, stream=stream)
    launch("eigen_symmetric", [a], [values, vectors, info], {"upper": int(upper)}, stream=stream)
    _refuse(info, "eigh", _NOT_CONVERGED)
    return SymmetricEigen(values, vectors)


def eigvalsh(a: Buffer, *, upper: bool = False, stream: Stream | None = None) -> Buffer:
    """The eigenvalues of ``eigh`` alone."""
    _expect(a, "eigvalsh")
    values = output(a.shape[:-1], _REAL_OF[a.dtype], a, stream=stream)
    info = output(a.shape[:-2], "int32", a, stream=stream)
    launch("eigen_symmetric", [a], [values, None, info], {"upper": int(upper)}, stream=stream)
    _refuse(info, "eigvalsh", _NOT_CONVERGED)
    return values


def eig(a: Buffer, *, stream: Stream | None = None) -> Eigen:
    """Eigenvalues and right eigenvectors (of norm 1) of any square matrix."""
    _expect(a, "eig")
    values = output(a.shape[:-1], _COMPLEX_OF[a.dtype], a, stream=stream)
    vectors = output(a.shape, _COMPLEX_OF[a.dtype], a, stream=stream)
    info = output(a.shape[:-2], "int32", a, stream=stream)
    launch("eigen", [a], [values, vectors, info], stream=stream)
    _refuse(info, "eig", _NOT_CONVERGED)
    return Eigen(values, vectors)


def svd(a: Buffer, *, full_matrices: bool = False, stream: Stream | None = None) -> SVD:
    """Singular values and vectors: u (m, k), s (k), vh (k, n), k the smaller side; or square u and vh."""
    _expect(a, "svd", square=False)
    batch, (m, n) = a.shape[:-2], a.shape[-2:]
    k = min(m, n)
    s = output((*batch, k), _REAL_OF[a.dtype], a, stream=stream)
    u = output((*batch, m, m if full_matrices else k), a.dtype, a, stream=stream)
    vh = output((*batch, n if full_matrices else k, n), a.dtype, a, stream=stream)
    info = output(batch, "int32", a, stream=stream)
    launch("svd", [a], [s, u, vh, info], stream=stream)
    _refuse(info, "svd", _NOT_CONVERGED)
    return SVD(u, s, vh)


def svdvals(a: Buffer, *, stream: Stream | None = None) -> Buffer:
    """The singular values of ``svd`` alone."""
    _expect(a, "svdvals", square=False)
    s = output((*a.shape[:-2], min(a.shape[-2:])), _REAL_OF[a.dtype], a, stream=stream)
    info = output(a.shape[:-2], "int32", a, stream=stream)
    launch("svd", [a], [s, None, None, info], stream=stream)
    _refuse(info, "svdvals", _NOT_CONVERGED)
    return s


def solve(a: Buffer, b: Buffer, *, stream: Stream | None = None) -> Buffer:
    """x with ``a @ x == b``; leading axes broadcast. Raises InvalidArgumentError if a is singular."""
    _expect(a, "solve")
    if b.ndim < 2 or b.shape[-2] != a.shape[-1]:
        raise errors.InvalidArgumentError(f"solve: {a.shape} and {b.shape}; expected (..., n, n) and (..., n, k)")
    factors = lu(a, stream=stream)
    _refuse(factors.info, "solve", _SINGULAR)
    return _solve_factorized(factors, b, stream)


def inv(a: Buffer, *, stream: Stream | None = None) -> Buffer:
    """The inverse. Raises InvalidArgumentError if a is singular."""
    _expect(a, "inv")
    n = a.shape[-1]
    if n <= _SMALL:
        factors = lu(a, stream=stream)
        _refuse(factors.info, "inv", _SINGULAR)
        return _solve_factorized(factors, _identity(a, stream), stream)
    # The transpose's inverse, transposed: its columns are a's rows, which LAPACK takes as they lie.
    factors = _lu(_transpose(a), _transpose(output(a.shape, a.dtype, a, stream=stream)), stream)
    _refuse(factors.info, "inv", _SINGULAR)
    result = output(a.shape, a.dtype, a, stream=stream)
    # The identity with its rows exchanged, which takes longer by one_hot where rows are short.
    x = one_hot(factors.permutation, n, a.dtype, out=_transpose(result), stream=stream)
    triangular_solve(factors.lu, x, unit_diagonal=True, out=x, stream=stream)
    triangular_solve(factors.lu, x, upper=True, out=x, stream=stream)
    return result


def cholesky_solve(b: Buffer, factor: Buffer, *, upper: bool = False, stream: Stream | None = None) -> Buffer:
    """x with ``a @ x == b``, with the factor of ``cholesky(a, upper=upper)``."""
    turned = factor.transpose(*range(factor.ndim - 2), factor.ndim - 1, factor.ndim - 2)
    first, second = (turned, factor) if upper else (factor, turned)
    y = triangular_solve(first, b, conjugate=upper, stream=stream)
    return triangular_solve(second, y, upper=True, conjugate=not upper, stream=stream)


def _lu_of_transposed(a: Buffer, stream: Stream | None) -> LU:
    """Factors with a's determinant: of its transpose, whose columns are a's rows, which LAPACK takes as they lie."""
    factors = output(a.shape, a.dtype, a, stream=stream)
    return _lu(_transpose(a), _transpose(factors), stream)._replace(lu=factors)  # the diagonal is the same


def slogdet(a: Buffer, *, stream: Stream | None = None) -> LogDeterminant:
    """The sign of the determinant, and the logarithm of its modulus (-infinity of a singular matrix)."""
    _expect(a, "slogdet")
    factors = _lu_of_transposed(a, stream)
    diagonal = _diagonal(factors.lu)
    logarithms = _map("log", _map("absolute", diagonal, stream=stream), stream=stream)
    signs = product(_map("sign", diagonal, stream=stream), axis=-1, stream=stream)
    sign = _map("multiply", signs, _parity(factors, stream), dtype=a.dtype, stream=stream)
    return LogDeterminant(sign, reduce(logarithms, "sum", -1, stream=stream))


def det(a: Buffer, *, stream: Stream | None = None) -> Buffer:
    """The determinant."""
    _expect(a, "det")
    factors = _lu_of_transposed(a, stream)
    values = product(_diagonal(factors.lu), axis=-1, stream=stream)
    return _map("multiply", values, _parity(factors, stream), dtype=a.dtype, stream=stream)


def pinv(a: Buffer, *, relative_tolerance: float | None = None, stream: Stream | None = None) -> Buffer:
    """The pseudo-inverse (Moore and Penrose): singular values of at most ``relative_tolerance`` times the largest one
    (by default the larger side times the dtype's epsilon) count as 0."""
    _expect(a, "pinv", square=False)
    u, s, vh = svd(a, stream=stream)
    inverses = _map("select", _counts(a, s, relative_tolerance, stream), _map("reciprocal", s, stream=stream), 0.0)
    scaled = _map("multiply", _adjoint(vh, stream), inverses[..., None, :], dtype=a.dtype, stream=stream)
    return matmul(scaled, _adjoint(u, stream), stream=stream)


def matrix_rank(a: Buffer, *, relative_tolerance: float | None = None, stream: Stream | None = None) -> Buffer:
    """How many singular values (int64) are above the bound of ``pinv``."""
    _expect(a, "matrix_rank", square=False)
    counted = _counts(a, svdvals(a, stream=stream), relative_tolerance, stream)
    return reduce(counted, "sum", -1, dtype="int64", stream=stream)


def lstsq(a: Buffer, b: Buffer, *, relative_tolerance: float | None = None, stream: Stream | None = None) -> Buffer:
    """The x of least norm among those for which the norm of ``a @ x - b`` is least, by singular values as ``pinv``."""
    if b.ndim < 2 or a.ndim < 2 or b.shape[-2] != a.shape[-2]:
        raise errors.InvalidArgumentError(f"lstsq: {a.shape} and {b.shape}; expected (..., m, n) and (..., m, k)")
    return matmul(pinv(a, relative_tolerance=relative_tolerance, stream=stream), b, stream=stream)


def matrix_power(a: Buffer, exponent: int, *, stream: Stream | None = None) -> Buffer:
    """a multiplied by itself; of a negative exponent, its inverse; of 0, the identity."""
    _expect(a, "matrix_power")
    if exponent == 0:
        return _identity(a, stream)
    square = a if exponent > 0 else inv(a, stream=stream)
    result: Buffer | None = None
    rest = abs(exponent)
    while True:
        if rest % 2 == 1:
            result = square if result is None else matmul(result, square, stream=stream)
        rest //= 2
        if rest == 0:
            break
        square = matmul(square, square, stream=stream)
    assert result is not None
    return copy(result, stream=stream) if result is a else result


# -- what they share

_NOT_CONVERGED = "has infinity or NaN, or the iteration did not converge on it"
#: The largest side of matrices of which the stub factorizes several side by side, row by row.
_SMALL = 64
_SINGULAR = "is singular: u[{info}, {info}] of its LU factors (counted from 1) is 0"


def _expect(a: Buffer, name: str, square: bool = True) -> None:
    if a.dtype not in _REAL_OF:
        raise errors.InvalidArgumentError(f"{name} takes {', '.join(_REAL_OF)}, not {a.dtype}; cast it first")
    if a.ndim < 2 or (square and a.shape[-1] != a.shape[-2]):
        form = "square matrices (..., n, n)" if square else "matrices (..., rows, columns)"
        raise errors.InvalidArgumentError(f"{name} takes {form}, not the shape {a.shape}")


def _refuse(info: Buffer, name: str, text: str) -> None:
    import numpy as np

    numbers = np.atleast_1d(info.numpy())
    if not numbers.any():
        return
    index = tuple(int(i) for i in np.unravel_index(np.argmax(numbers != 0), numbers.shape))
    which = f"matrix {index[0] if len(index) == 1 else index}" if info.ndim else "the matrix"
    raise errors.InvalidArgumentError(f"{name}: {which} {text.format(info=numbers[index])}")


def _map(name: str, *operands: Buffer | float, dtype: str | None = None, stream: Stream | None = None) -> Buffer:
    function = map_function(name)
    assert function is not None
    result: Buffer = function(*operands, dtype=dtype, stream=stream)
    return result


def _transpose(x: Buffer) -> Buffer:
    """The view with both axes of each matrix exchanged."""
    return x.transpose(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)


def _adjoint(x: Buffer, stream: Stream | None) -> Buffer:
    """The conjugated transpose; of real matrices a view."""
    turned = _transpose(x)
    return _map("conjugate", turned, stream=stream) if x.dtype.startswith("complex") else turned


def _diagonal(x: Buffer) -> Buffer:
    n = x.shape[-1]
    return x.reshape(*x.shape[:-2], n * n)[..., :: n + 1]


def _identity(a: Buffer, stream: Stream | None) -> Buffer:
    n = a.shape[-1]
    eye = one_hot(iota(n, "int32", a.device, stream=stream), n, a.dtype, stream=stream)
    return copy(eye.broadcast_to(a.shape), stream=stream)


def _parity(factors: LU, stream: Stream | None) -> Buffer:
    """The determinant of the permutation: -1 for each exchange, in the dtype of real parts."""
    steps = iota(factors.pivots.shape[-1], "int32", factors.pivots.device, stream=stream)
    exchanged = _map("not_equal", factors.pivots, steps, stream=stream)
    ones = fill(output((), _REAL_OF[factors.lu.dtype], factors.lu, stream=stream), 1, stream=stream)
    signs = _map("select", exchanged, _map("negative", ones, stream=stream), ones, stream=stream)
    return product(signs, axis=-1, stream=stream)


def _counts(a: Buffer, s: Buffer, relative_tolerance: float | None, stream: Stream | None) -> Buffer:
    """Where singular values are large enough to count."""
    if s.shape[-1] == 0:
        return _map("greater", s, 0.0, stream=stream)
    if relative_tolerance is None:
        relative_tolerance = max(a.shape[-2:]) * (2.0**-52 if s.dtype == "float64" else 2.0**-23)
    bound = _map("multiply", s[..., :1], relative_tolerance, stream=stream)
    return _map("greater", s, bound, stream=stream)


def _solve_factorized(factors: LU, b: Buffer, stream: Stream | None) -> Buffer:
    batch = broadcast_shapes([factors.lu.shape[:-2], b.shape[:-2]])
    shape = (*batch, *b.shape[-2:])
    order = factors.permutation[..., None].broadcast_to(shape)
    x = gather_elements(b.broadcast_to(shape), order, axis=-2, stream=stream)
    triangular_solve(factors.lu, x, unit_diagonal=True, out=x, stream=stream)
    return triangular_solve(factors.lu, x, upper=True, out=x, stream=stream)
