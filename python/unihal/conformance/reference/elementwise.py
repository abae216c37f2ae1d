"""UHAL_OP_MAP: the functions of csrc/tables/elementwise.def that are more than one NumPy call.

Functions of integers get arrays of int64 or uint64, and wrap as those do; all others get float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

erf = np.vectorize(math.erf, otypes=[np.float64])
erfc = np.vectorize(math.erfc, otypes=[np.float64])


def is_integer(x: Array) -> bool:
    """Whether a function is to compute in integers."""
    return x.dtype.kind in "iu"


# -- arithmetic


def absolute(x: Array) -> Array:
    """|x|; the most negative integer stays."""
    return np.abs(x)


def sign(x: Array) -> Array:
    """1 or -1; zeros and NaN stay what they are."""
    one = x.dtype.type(1)
    return np.where(x > 0, one, np.where(x < 0, x.dtype.type(0) - one, x))


def clip(x: Array, low: float, high: float) -> Array:
    """The nearest number within [low, high]; NaN stays."""
    return np.where(x < low, x.dtype.type(low), np.where(x > high, x.dtype.type(high), x))


def maximum(x: Array, y: Array) -> Array:
    """The larger one, NaN if there is one."""
    return np.maximum(x, y)


def truncate_divide(x: Array, y: Array) -> Array:
    """The quotient rounded toward zero; of integers 0 for a zero divisor, and wrapping."""
    if not is_integer(x):
        return np.trunc(x / y)
    quotient = floor_divide(x, y)
    rest = x - quotient * y
    return np.where((rest != 0) & (y != 0) & ((x < 0) != (y < 0)), quotient + x.dtype.type(1), quotient)


def floor_divide(x: Array, y: Array) -> Array:
    """The quotient rounded down; of integers 0 for a zero divisor, and wrapping."""
    if not is_integer(x):
        return np.floor(x / y)
    # NumPy's // is 0 for a zero divisor and wraps for the most negative integer.
    return np.where(y == 0, x.dtype.type(0), x // y)


def floor_divide_exact(x: Array, y: Array) -> Array:
    """The exact quotient rounded down, as Python's //; a zero divisor divides."""
    return np.where(y == 0, x / y, np.floor_divide(x, y))


def truncate_mod(x: Array, y: Array) -> Array:
    """The remainder with the dividend's sign; of integers 0 for a zero divisor."""
    return np.where(y == 0, x.dtype.type(0), np.fmod(x, y)) if is_integer(x) else np.fmod(x, y)


def floor_mod(x: Array, y: Array) -> Array:
    """The remainder with the divisor's sign; of integers 0 for a zero divisor."""
    rest = truncate_mod(x, y)
    return np.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


def power(x: Array, y: Array) -> Array:
    """x to the y; of integers wrapping, and the truncated fraction for a negative exponent."""
    if not is_integer(x):
        return np.power(x, y)
    x, y = np.broadcast_arrays(x, y)
    bits = 2**64
    result = [
        pow(int(a), int(b), bits) if b >= 0 else {1: 1, -1: -1 if b % 2 else 1}.get(int(a), 0)
        for a, b in zip(x.flat, y.flat)
    ]
    return np.array([number % bits for number in result], np.uint64).reshape(x.shape).astype(x.dtype)


# -- rounding


def round_half_away(x: Array) -> Array:
    """The nearest whole number, away from zero from the middle."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1.0, x), whole)


# -- activations


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x)."""
    return np.asarray(1 / (1 + np.exp(-x)))


def normal_distribution(x: Array) -> Array:
    """The probability that a standard normal number is at most x."""
    return np.asarray(erfc(-x / math.sqrt(2)) / 2)


def normal_density(x: Array) -> Array:
    """The derivative of ``normal_distribution``."""
    return np.asarray(np.exp(-x * x / 2) / math.sqrt(2 * math.pi))


def gelu_tanh(x: Array) -> Array:
    """GELU with the normal distribution approximated by a tanh."""
    return np.asarray(x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2)


def gelu_tanh_derivative(x: Array) -> Array:
    """The derivative of ``gelu_tanh``; as 1 + tanh(a) = 2 sigmoid(2a), by the rules for x * sigmoid."""
    argument = 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    slope = 2 * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)
    s = sigmoid(argument)
    return np.asarray(s + x * s * (1 - s) * slope)


def swish_derivative(x: Array, beta: float) -> Array:
    """The derivative of x * sigmoid(beta * x)."""
    s = sigmoid(beta * x)
    return np.asarray(s + beta * x * s * (1 - s))


def softplus(x: Array) -> Array:
    """log(1 + e^x)."""
    return np.logaddexp(0, x)


# -- bits


def shift_left(x: Array, y: Array) -> Array:
    """x * 2^y in as many bits as x has; 0 where y is below 0 or above 63."""
    shifted = np.left_shift(x, np.clip(y, 0, 63).astype(x.dtype))
    return np.asarray(np.where((y < 0) | (y > 63), x.dtype.type(0), shifted))


def replace_negative_zero(x: Array, replacement: float) -> Array:
    """Another number where x is the zero with a sign."""
    return np.asarray(np.where((x == 0) & (np.copysign(1.0, x) < 0), replacement, x))


def shift_right(x: Array, y: Array) -> Array:
    """x / 2^y rounded down; where y is below 0 or above 63, -1 for negative x and else 0."""
    shifted = np.right_shift(x, np.clip(y, 0, 63).astype(x.dtype))
    everything = np.where(x < 0, x.dtype.type(0) - x.dtype.type(1), x.dtype.type(0))
    return np.asarray(np.where((y < 0) | (y > 63), everything, shifted))


# -- optimizer steps


def momentum(
    x: Array, gradient: Array, velocity: Array, rate: Array, decay: float, nesterov: float, l2: float, factor: float
) -> tuple[Array, Array]:
    """The parameter and its velocity after a step."""
    g = gradient * factor + l2 * x
    v = decay * velocity + g
    return x - rate * (g + decay * v if nesterov else v), v


def adam(
    x: Array,
    gradient: Array,
    first: Array,
    second: Array,
    rate: Array,
    power1: Array,
    power2: Array,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
    factor: float,
) -> tuple[Array, Array, Array]:
    """Kingma and Ba, algorithm 1, with weight decay decoupled; power1 and power2 are beta1^t and beta2^t. A second
    moment is never negative, so it is the largest so far beside zero."""
    none = np.zeros_like(second)
    return adam_amsgrad(
        x, gradient, first, second, rate, power1, power2, none, beta1, beta2, epsilon, weight_decay, factor
    )[:3]


def adam_amsgrad(
    x: Array,
    gradient: Array,
    first: Array,
    second: Array,
    rate: Array,
    power1: Array,
    power2: Array,
    largest: Array,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
    factor: float,
) -> tuple[Array, Array, Array, Array]:
    """As ``adam``, with the largest second moment so far in its place (Reddi, Kale and Kumar, algorithm 2)."""
    m = beta1 * first + (1 - beta1) * gradient
    v = beta2 * second + (1 - beta2) * gradient**2
    top = np.maximum(v, largest)
    rate = rate * factor
    corrected = (m / (1 - power1)) / (np.sqrt(top / (1 - power2)) + epsilon)
    return x - rate * weight_decay * x - rate * corrected, m, v, top


def adam_epsilon_hat(
    x: Array,
    gradient: Array,
    first: Array,
    second: Array,
    rate: Array,
    power1: Array,
    power2: Array,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[Array, Array, Array]:
    """Kingma and Ba, end of section 2: epsilon beside the uncorrected second moment."""
    m = beta1 * first + (1 - beta1) * gradient
    v = beta2 * second + (1 - beta2) * gradient**2
    return x - rate * np.sqrt(1 - power2) / (1 - power1) * m / (np.sqrt(v) + epsilon), m, v


def adam_corrected(
    x: Array,
    gradient: Array,
    first: Array,
    second: Array,
    rate: Array,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
    factor: float,
) -> tuple[Array, Array, Array]:
    """As ``adam``, with the bias corrections in the epsilon and in the factor of the gradient's part."""
    new_first = beta1 * first + (1 - beta1) * gradient
    new_second = beta2 * second + (1 - beta2) * gradient**2
    step = factor * new_first / (np.sqrt(new_second) + epsilon)
    return x - rate * (weight_decay * x + step), new_first, new_second


def adam_by_difference(
    x: Array,
    gradient: Array,
    first: Array,
    second: Array,
    rate: Array,
    first_rate: float,
    second_rate: float,
    epsilon: float,
) -> tuple[Array, Array, Array]:
    """As ``adam_epsilon_hat``, with the bias corrections in the rate, and one minus each beta."""
    m = first + (gradient - first) * first_rate
    v = second + (gradient**2 - second) * second_rate
    return x - m * rate / (np.sqrt(v) + epsilon), m, v


def adamw_by_difference(
    x: Array,
    gradient: Array,
    first: Array,
    second: Array,
    rate: Array,
    decay: Array,
    first_rate: float,
    second_rate: float,
    epsilon: float,
) -> tuple[Array, Array, Array]:
    """As ``adam_by_difference``, of what is left of the parameter."""
    return adam_by_difference(x * (1 - decay), gradient, first, second, rate, first_rate, second_rate, epsilon)


def adam_rate(rate: Array, step: Array, beta1: float, beta2: float) -> Array:
    """Adam's learning rate with the corrections of both moments' bias."""
    return np.asarray(rate * np.sqrt(1 - beta2**step) / (1 - beta1**step))


def adagrad(x: Array, gradient: Array, sum_: Array, rate: Array, epsilon: float) -> tuple[Array, Array]:
    """The parameter and the sum of squared gradients after a step."""
    squares = sum_ + gradient**2
    return x - rate * gradient / (np.sqrt(squares) + epsilon), squares


def rmsprop(
    x: Array,
    gradient: Array,
    square: Array,
    velocity: Array,
    rate: Array,
    decay: float,
    momentum: float,
    epsilon: float,
) -> tuple[Array, Array, Array]:
    """The parameter, the mean square of gradients and the velocity after a step."""
    mean = decay * square + (1 - decay) * gradient**2
    v = momentum * velocity + rate * gradient / np.sqrt(mean + epsilon)
    return x - v, mean, v


def momentum_with_rate(
    x: Array, gradient: Array, velocity: Array, rate: Array, decay: float, nesterov: float
) -> tuple[Array, Array]:
    """As ``momentum``, with the learning rate inside the velocity."""
    v = decay * velocity - rate * gradient
    return x + (decay * v - rate * gradient if nesterov else v), v


def rmsprop_centered(
    x: Array,
    gradient: Array,
    square: Array,
    velocity: Array,
    rate: Array,
    first: Array,
    decay: float,
    momentum: float,
    epsilon: float,
) -> tuple[Array, Array, Array, Array]:
    """As ``rmsprop``, with the gradients' variance, for which their mean is kept too."""
    mean_square = decay * square + (1 - decay) * gradient**2
    mean = decay * first + (1 - decay) * gradient
    v = momentum * velocity + rate * gradient / np.sqrt(mean_square - mean**2 + epsilon)
    return x - v, mean_square, v, mean


def adadelta(
    x: Array, gradient: Array, square: Array, update: Array, rate: Array, decay: float, epsilon: float
) -> tuple[Array, Array, Array]:
    """Zeiler, algorithm 1, with a learning rate."""
    mean_square = decay * square + (1 - decay) * gradient**2
    change = np.sqrt(update + epsilon) / np.sqrt(mean_square + epsilon) * gradient
    return x - rate * change, mean_square, decay * update + (1 - decay) * change**2


def adamax(
    x: Array,
    gradient: Array,
    first: Array,
    norm: Array,
    rate: Array,
    power1: Array,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[Array, Array, Array]:
    """Kingma and Ba, algorithm 2, with epsilon beside the decayed norm."""
    m = beta1 * first + (1 - beta1) * gradient
    u = np.maximum(beta2 * norm + epsilon, np.abs(gradient))
    return x - rate / (1 - power1) * m / u, m, u


def adam_amsgrad_epsilon_hat(
    x: Array,
    gradient: Array,
    first: Array,
    second: Array,
    rate: Array,
    power1: Array,
    power2: Array,
    largest: Array,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[Array, Array, Array, Array]:
    """Adam with the largest second moment so far, and epsilon beside it before its bias is corrected."""
    m = beta1 * first + (1 - beta1) * gradient
    v = beta2 * second + (1 - beta2) * gradient**2
    top = np.maximum(v, largest)
    return x - rate * np.sqrt(1 - power2) / (1 - power1) * m / (np.sqrt(top) + epsilon), m, v, top


def adamax_epsilon_outside(
    x: Array,
    gradient: Array,
    first: Array,
    norm: Array,
    rate: Array,
    power1: Array,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[Array, Array, Array]:
    """Kingma and Ba, algorithm 2, with epsilon beside the new norm."""
    m = beta1 * first + (1 - beta1) * gradient
    u = np.maximum(beta2 * norm, np.abs(gradient))
    return x - rate / (1 - power1) * m / (u + epsilon), m, u


def ftrl(
    x: Array,
    gradient: Array,
    squares: Array,
    linear: Array,
    rate: Array,
    l1: float,
    l2: float,
    power: float,
    shrinkage: float,
    scaled: float,
) -> tuple[Array, Array, Array]:
    """McMahan et al., algorithm 1, with any power of the rate; ``scaled``: the linear term is kept times the rate."""
    total = squares + gradient**2
    change = (total**-power - squares**-power) * x
    shrunk = gradient + 2 * shrinkage * x
    by = rate if scaled else np.ones_like(rate)
    linear = linear + shrunk * by - (change if scaled else change / rate)
    curvature = total**-power + 2 * l2 * rate if scaled else total**-power / rate + 2 * l2
    return np.where(np.abs(linear) > l1 * by, (np.sign(linear) * l1 * by - linear) / curvature, 0), total, linear


def add_sign(
    x: Array, gradient: Array, moment: Array, rate: Array, beta: float, alpha: float, decay: float
) -> tuple[Array, Array]:
    """Bello et al., table 1."""
    moment = beta * moment + (1 - beta) * gradient
    return x - rate * (alpha + decay * np.sign(gradient) * np.sign(moment)) * gradient, moment


def power_sign(
    x: Array, gradient: Array, moment: Array, rate: Array, beta: float, exponent: float
) -> tuple[Array, Array]:
    """Bello et al., table 1."""
    moment = beta * moment + (1 - beta) * gradient
    return x - rate * np.exp(exponent * np.sign(gradient) * np.sign(moment)) * gradient, moment


def _proximal(x: Array, rate: Array, l1: float, l2: float) -> Array:
    return np.asarray(np.sign(x) * np.maximum(np.abs(x) - rate * l1, 0) / (1 + rate * l2))


def proximal_gradient_descent(x: Array, gradient: Array, rate: Array, l1: float, l2: float) -> Array:
    """Duchi and Singer, section 5: a step, then the minimum of the penalty near it."""
    return _proximal(x - rate * gradient, rate, l1, l2)


def proximal_adagrad(
    x: Array, gradient: Array, squares: Array, rate: Array, l1: float, l2: float
) -> tuple[Array, Array]:
    """The same with Adagrad's rate of each element."""
    total = squares + gradient**2
    own = rate / np.sqrt(total)
    return _proximal(x - own * gradient, own, l1, l2), total


def asgd(
    x: Array, gradient: Array, rate: Array, total: Array, oldest: Array, count: Array
) -> tuple[Array, Array, Array]:
    """The parameter after a step along the mean of the last gradients, their sum, and the gradient."""
    new_total = total - oldest + gradient
    return x - rate / count * new_total, new_total, gradient


def rprop(
    x: Array,
    gradient: Array,
    previous: Array,
    rate: Array,
    low: Array,
    high: Array,
    slower: Array,
    faster: Array,
) -> tuple[Array, Array, Array]:
    """Riedmiller and Braun, without taking a step back: a gradient whose sign changed counts as 0."""
    same = gradient * previous
    rate = np.where(same > 0, np.minimum(rate * faster, high), np.where(same < 0, np.maximum(rate * slower, low), rate))
    kept = np.where(same < 0, 0.0, gradient).astype(gradient.dtype)
    return x - np.sign(kept) * rate, kept, rate


def lamb_direction(
    x: Array,
    gradient: Array,
    first: Array,
    second: Array,
    power1: Array,
    power2: Array,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
) -> tuple[Array, Array, Array]:
    """You et al., algorithm 2, up to the trust ratio."""
    m = beta1 * first + (1 - beta1) * gradient
    v = beta2 * second + (1 - beta2) * gradient**2
    return (m / (1 - power1)) / (np.sqrt(v / (1 - power2)) + epsilon) + weight_decay * x, m, v


def lamb_rate(rate: Array, parameter: Array, direction: Array) -> Array:
    """The learning rate with the trust ratio; without one where either norm is 0."""
    known = (parameter > 0) & (direction > 0)
    return np.asarray(np.where(known, rate * (parameter / np.where(known, direction, 1)), rate))


def nadam_schedule(power: Array, product: Array, beta1: float, decay: float) -> tuple[Array, Array, Array, Array]:
    """Dozat's momentum schedule: 0.96^t, the product of mu up to t, and what moment and gradient are multiplied by."""
    power = power * 0.96
    now = beta1 * (1 - 0.5 * power**decay)
    after = beta1 * (1 - 0.5 * (power * 0.96) ** decay)
    product = product * now
    return power, product, after / (1 - product * after), (1 - now) / (1 - product)


def nadam(
    x: Array,
    gradient: Array,
    first: Array,
    second: Array,
    rate: Array,
    moment_factor: Array,
    gradient_factor: Array,
    power2: Array,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[Array, Array, Array]:
    """Dozat's step with the factors of ``nadam_schedule``."""
    m = beta1 * first + (1 - beta1) * gradient
    v = beta2 * second + (1 - beta2) * gradient**2
    corrected = moment_factor * m + gradient_factor * gradient
    return x - rate * corrected / (np.sqrt(v / (1 - power2)) + epsilon), m, v


def radam_schedule(
    power1: Array, power2: Array, rest: Array, beta1: float, beta2: float
) -> tuple[Array, Array, Array, Array]:
    """Liu et al., algorithm 2: what depends on the step only."""
    power1, power2 = power1 * beta1, power2 * beta2
    rest = (rest * (beta2 - power2) + power2) / (1 - power2)
    limit = 2 / (1 - beta2) - 1
    length = limit - 2 * rest
    long = length > 5
    safe = np.where(long, length, 6.0)
    ratio = (safe - 4) * (safe - 2) * limit / ((limit - 4) * (limit - 2) * safe)
    return power1, power2, rest, np.where(long, np.sqrt(ratio) * np.sqrt(1 - power2), -1.0)


def box_overlap(
    a0: Array, a1: Array, a2: Array, a3: Array, b0: Array, b1: Array, b2: Array, b3: Array, extent: float
) -> Array:
    """Low x, low y, high x, high y of two boxes: the area shared over the area covered."""

    def area(low_x: Array, low_y: Array, high_x: Array, high_y: Array) -> Array:
        full = (high_x - low_x + extent) * (high_y - low_y + extent)
        return np.where((high_x < low_x) | (high_y < low_y), 0.0, full)

    width = np.minimum(a2, b2) - np.maximum(a0, b0) + extent
    height = np.minimum(a3, b3) - np.maximum(a1, b1) + extent
    shared = width * height
    apart = (b0 > a2) | (b2 < a0) | (b1 > a3) | (b3 < a1)
    return np.where(apart, 0.0, shared / (area(a0, a1, a2, a3) + area(b0, b1, b2, b3) - shared))


def radam(
    x: Array,
    gradient: Array,
    first: Array,
    second: Array,
    rate: Array,
    power1: Array,
    rectification: Array,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[Array, Array, Array]:
    """Liu et al., algorithm 2; a negative rectification stands for a step of momentum only."""
    m = beta1 * first + (1 - beta1) * gradient
    v = beta2 * second + (1 - beta2) * gradient**2
    step = rate * m / (1 - power1)
    return x - np.where(rectification < 0, step, step * rectification / (np.sqrt(v) + epsilon)), m, v
