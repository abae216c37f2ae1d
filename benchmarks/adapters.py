"""Ops of the adapters that other files of this folder do not have, against the framework's CPU: images at places and by
regions, sparse matrices, special functions, distributions, quantization, complex numbers, spectra, linear algebra.

    python benchmarks/adapters.py [--framework torch] [--device rdna:0] [--only roi_align]

As selections.py, which says how it is measured: the ratio is ours over the CPU's, at most 1 is wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import measure
import numpy as np
import selections

Call = Callable[[], Any]
Calls = list[tuple[str, Call]]

COUNT = 200_000


def boxes_of(state: Any, count: int, size: float) -> Any:
    """Boxes (x1, y1, x2, y2) in an image of `size`."""
    low = state.uniform(0, 0.6 * size, (count, 2))
    return np.concatenate([low, low + state.uniform(0.1 * size, 0.4 * size, (count, 2))], 1).astype("float32")


def symmetric(state: Any, *shape: int) -> Any:
    """Positive definite matrices."""
    a = state.normal(size=shape)
    return (a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1])).astype("float32")


def of_paddle(device: str) -> Calls:
    """Calls of Paddle's ops on a device."""
    import paddle
    import paddle.nn.functional as F
    from paddle import sparse
    from paddle.vision import ops as vision

    paddle.set_device(device)
    state = np.random.default_rng(1)

    put = measure.paddle_operand

    def normal(*shape: int, gradient: bool = False) -> Any:
        return put(state.normal(size=shape).astype("float32"), gradient)

    def trained(function: Callable[..., Any], *inputs: Any) -> Call:
        """A loss with its gradients by the inputs that have some."""

        def call() -> Any:
            for x in inputs:
                x.clear_gradient()
            function(*inputs).sum().backward()

        return call

    images, grid = (
        normal(4, 16, 64, 64, gradient=True),
        put(state.uniform(-1, 1, (4, 64, 64, 2)).astype("float32"), True),
    )
    maps, volumes = normal(4, 32, 64, 64), normal(2, 8, 16, 32, 32)
    places = put(state.uniform(-1, 1, (2, 16, 32, 32, 3)).astype("float32"))
    theta = normal(8, 2, 3, gradient=True)
    photos = put(state.uniform(0, 255, (2, 3, 200, 200)).astype("float32"), True)
    columns = normal(4, 16 * 9, 64 * 64)
    regions, of_image = put(boxes_of(state, 200, 64)), put(np.int32([50, 50, 50, 50]))
    priors = normal(2, 64, 20, 20)
    many = put(boxes_of(state, 2000, 1000))
    scores = put(state.uniform(0, 1, 2000).astype("float32"))
    numbers = normal(COUNT)
    positive = put(state.uniform(0.1, 8, COUNT).astype("float32"))
    other = put(state.uniform(0.1, 8, COUNT).astype("float32"))
    fractions = put(state.uniform(-0.99, 0.99, COUNT).astype("float32"))
    whole = [put(state.integers(1, 1 << 20, COUNT)) for _ in range(2)]
    powers = put(state.integers(-20, 20, COUNT).astype("int32"))
    at = [state.integers(0, 1000, 20000) for _ in range(2)]
    coo = sparse.sparse_coo_tensor(put(np.stack(at)), normal(20000), (1000, 1000))
    table, bags = normal(20000, 64), put(state.integers(0, 20000, (2048, 10)))
    chances = put(state.dirichlet(np.ones(100), 1000).astype("float32"))
    trials = put(np.full(COUNT, 40, "int64"))
    half = put(np.full(COUNT, 0.3, "float32"))
    grouped = put(symmetric(state, 200, 16, 16))
    large = put(symmetric(state, 512, 512))
    right, wide = normal(512, 512), normal(200, 16, 16)
    square = normal(512, 512)
    tall = normal(512, 128)
    signal = normal(8, 16000)
    spectra = put((state.normal(size=(64, 4096)) + 1j * state.normal(size=(64, 4096))).astype("complex64"))
    values = normal(1000, 1000)
    picked = put(state.integers(0, 1000, (1000, 1000)))
    rows_of = put(state.integers(0, 1000, 500))
    updates = normal(500, 1000)

    calls: dict[str, Call] = {
        "grid_sample, bilinear": lambda: F.grid_sample(images, grid),
        "grid_sample, nearest": lambda: F.grid_sample(images, grid, mode="nearest"),
        "grid_sample with gradients": trained(lambda x, g: F.grid_sample(x, g), images, grid),
        "grid_sample of volumes": lambda: F.grid_sample(volumes, places),
        "affine_grid with its gradient": trained(lambda t: F.affine_grid(t, [8, 3, 64, 64]), theta),
        "interpolate, bilinear": lambda: F.interpolate(photos, size=[300, 300], mode="bilinear"),
        "interpolate, bicubic": lambda: F.interpolate(photos, size=[300, 300], mode="bicubic"),
        "interpolate, area": lambda: F.interpolate(photos, size=[90, 90], mode="area"),
        "interpolate, bicubic, gradient": trained(lambda x: F.interpolate(x, size=[300, 300], mode="bicubic"), photos),
        "unfold": lambda: F.unfold(images, 3, paddings=1),
        "fold": lambda: F.fold(columns, [64, 64], 3, paddings=1),
        "roi_align, 200 of 7x7": lambda: vision.roi_align(images, regions, of_image, 7),
        "psroi_pool, 200 of 4x4": lambda: vision.psroi_pool(maps, regions, of_image, 4),
        "nms of 2000": lambda: vision.nms(many, 0.5, scores),
        "prior_box": lambda: vision.prior_box(priors, photos, [30.0], [60.0], [2.0]),
        "pixel_shuffle": lambda: F.pixel_shuffle(images, 4),
        "lgamma": lambda: paddle.lgamma(positive),
        "digamma": lambda: paddle.digamma(positive),
        "polygamma": lambda: paddle.polygamma(positive, 2),
        "gammainc": lambda: paddle.gammainc(positive, other),
        "gammaincc": lambda: paddle.gammaincc(positive, other),
        "erfinv": lambda: paddle.erfinv(fractions),
        "i0": lambda: paddle.i0(numbers),
        "i1e": lambda: paddle.i1e(numbers),
        "gcd": lambda: paddle.gcd(*whole),
        "lcm": lambda: paddle.lcm(*whole),
        "ldexp": lambda: paddle.ldexp(numbers, powers),
        "nextafter": lambda: paddle.nextafter(numbers, positive),
        "copysign": lambda: paddle.copysign(numbers, fractions),
        "heaviside": lambda: paddle.heaviside(numbers, positive),
        "fmax": lambda: paddle.fmax(numbers, positive),
        "mod": lambda: paddle.mod(numbers, positive),
        "coalesce of 20000": lambda: sparse.coalesce(coo),
        "COO to dense": lambda: coo.to_dense(),
        "dense to COO": lambda: values.to_sparse_coo(2),
        "embedding, sums of bags": lambda: F.embedding(bags, table).sum(1),
        "histogram": lambda: paddle.histogram(numbers, 100, -3, 3),
        "unique_consecutive": lambda: paddle.unique_consecutive(powers),
        "index_add": lambda: paddle.index_add(values, rows_of, 0, updates),
        "index_sample": lambda: paddle.index_sample(values, picked),
        "put_along_axis, products": lambda: paddle.put_along_axis(values, picked, values, 1, reduce="mul"),
        "put_along_axis, maxima": lambda: paddle.put_along_axis(values, picked, values, 1, reduce="amax"),
        "poisson": lambda: paddle.poisson(positive),
        "binomial": lambda: paddle.binomial(trials, half),
        "standard_gamma": lambda: paddle.standard_gamma(positive),
        "multinomial, 10 of 100": lambda: paddle.multinomial(chances, 10, True),
        "multinomial without replacement": lambda: paddle.multinomial(chances, 10),
        "fake quantization": lambda: paddle._C_ops.fake_quantize_dequantize_abs_max(values, 8, 1),
        "fake quantization of channels": lambda: paddle._C_ops.fake_channel_wise_quantize_dequantize_abs_max(
            values, 8, 1, 0
        ),
        "cholesky of 512": lambda: paddle.linalg.cholesky(large),
        "cholesky of 200 of 16": lambda: paddle.linalg.cholesky(grouped),
        "triangular_solve of 512": lambda: paddle.linalg.triangular_solve(large, right),
        "triangular_solve of 200 of 16": lambda: paddle.linalg.triangular_solve(grouped, wide),
        "lu of 512": lambda: paddle.linalg.lu(square),
        "lu of 200 of 16": lambda: paddle.linalg.lu(wide),
        "qr of 512x128": lambda: paddle.linalg.qr(tall),
        "qr of 200 of 16": lambda: paddle.linalg.qr(wide),
        "lstsq of 512x128": lambda: paddle.linalg.lstsq(tall, right),
        "solve of 200 of 16": lambda: paddle.linalg.solve(grouped, wide),
        "inv of 200 of 16": lambda: paddle.linalg.inv(grouped),
        "det of 200 of 16": lambda: paddle.linalg.det(grouped),
        "eigh of 200 of 16": lambda: paddle.linalg.eigh(grouped),
        "svd of 200 of 16": lambda: paddle.linalg.svd(wide),
        "svd of 512x128": lambda: paddle.linalg.svd(tall),
        "matrix_power of 512": lambda: paddle.linalg.matrix_power(square, 3),
        "frame": lambda: paddle.signal.frame(signal, 512, 160),
        "istft": lambda: paddle.signal.istft(spectrum, 512, 160),
        "fft of 64x4096": lambda: paddle.fft.fft(spectra),
        "rfft of 64x4096": lambda: paddle.fft.rfft(real_signal),
        "complex exp": lambda: paddle.exp(spectra),
        "complex sum of two": lambda: spectra + spectra,
        "complex product": lambda: spectra * spectra,
        "complex conjugate": lambda: paddle.conj(spectra),
        "float to complex": lambda: real_signal.astype("complex64"),
        "complex to complex128": lambda: spectra.astype("complex128"),
        "complex128 to complex": lambda: double_spectra.astype("complex64"),
        "complex abs": lambda: paddle.abs(spectra),
        "complex angle": lambda: paddle.angle(spectra),
        "complex sum": lambda: paddle.sum(spectra),
        "complex matmul": lambda: paddle.matmul(few_spectra, few_spectra),
    }
    real_signal = normal(64, 4096)
    double_spectra = spectra.astype("complex128")
    few_spectra = put((state.normal(size=(256, 256)) + 1j * state.normal(size=(256, 256))).astype("complex64"))
    spectrum = paddle.signal.stft(signal, 512, 160)

    def on(function: Call) -> Call:
        def call() -> None:
            paddle.set_device(device)
            function()
            if device != "cpu":
                paddle.device.synchronize()

        return call

    return [(name, on(function)) for name, function in calls.items()]


def of_tensorflow(device: str, compiled: bool = False) -> Calls:
    """Calls of TensorFlow's ops on a device, each as one function if ``compiled``."""
    import tensorflow as tf

    raw = tf.raw_ops
    state = np.random.default_rng(1)

    def put(array: Any) -> Any:
        with tf.device(device):
            return tf.constant(array)

    def normal(*shape: int) -> Any:
        return put(state.normal(size=shape).astype("float32"))

    images = normal(4, 64, 64, 16)
    crops = put(state.uniform(0, 1, (100, 4)).astype("float32"))
    of_image = put(state.integers(0, 4, 100).astype("int32"))
    photos = put(state.uniform(0, 255, (2, 200, 200, 3)).astype("float32"))
    many, scores = put(boxes_of(state, 1000, 1000)), put(state.uniform(0, 1, 1000).astype("float32"))
    transforms = put(np.tile(np.float32([1, 0.1, 2, -0.1, 1, 3, 0, 0]), (4, 1)))
    numbers = normal(COUNT)
    positive = put(state.uniform(0.1, 8, COUNT).astype("float32"))
    above = put(state.uniform(1.1, 8, COUNT).astype("float32"))
    fractions = put(state.uniform(-0.99, 0.99, COUNT).astype("float32"))
    values = normal(1000, 1000)
    ids = [put(state.integers(0, 1 << 16, n)) for n in (200000, 1000)]
    at = state.permutation(np.unique(np.stack([state.integers(0, 1000, 20000) for _ in range(2)], 1), axis=0))
    dense, table = normal(1000, 64), normal(20000, 64)
    with tf.device(device):
        sparse = tf.sparse.SparseTensor(at, state.normal(size=len(at)).astype("float32"), (1000, 1000))
        ordered = tf.sparse.reorder(sparse)
        rates = tf.constant(state.uniform(0.5, 8, 1000).astype("float32"))
        logits = tf.constant(state.normal(size=(1000, 100)).astype("float32"))
    bags, of_bag = put(state.integers(0, 20000, 20480)), put(np.repeat(np.arange(2048), 10))
    grouped, large = put(symmetric(state, 200, 16, 16)), put(symmetric(state, 512, 512))
    right, wide, tall = normal(512, 512), normal(200, 16, 16), normal(512, 128)
    signal = normal(8, 16000)
    spectra = put((state.normal(size=(64, 4096)) + 1j * state.normal(size=(64, 4096))).astype("complex64"))
    few_spectra = put((state.normal(size=(256, 256)) + 1j * state.normal(size=(256, 256))).astype("complex64"))
    real_signal = normal(64, 4096)
    with tf.device(device):
        spectrum = tf.signal.stft(signal, 512, 160)
        double_spectra = tf.cast(spectra, tf.complex128)
    integers = [put(state.integers(1, 1 << 20, COUNT).astype("int64")) for _ in range(2)]

    calls: dict[str, Call] = {
        "crop_and_resize": lambda: tf.image.crop_and_resize(images, crops, of_image, [14, 14]),
        "resize, bicubic, antialias": lambda: tf.image.resize(photos, [90, 90], "bicubic", antialias=True),
        "resize, bicubic": lambda: tf.image.resize(photos, [300, 300], "bicubic"),
        "resize, bilinear": lambda: tf.image.resize(photos, [300, 300], "bilinear"),
        "resize, area": lambda: tf.image.resize(photos, [90, 90], "area"),
        "resize, lanczos5": lambda: tf.image.resize(photos, [90, 90], "lanczos5", antialias=True),
        "non_max_suppression of 1000": lambda: tf.image.non_max_suppression(many, scores, 100),
        "extract_patches": lambda: tf.image.extract_patches(images, [1, 3, 3, 1], [1, 1, 1, 1], [1, 1, 1, 1], "SAME"),
        "projective transform": lambda: raw.ImageProjectiveTransformV3(
            images=images,
            transforms=transforms,
            output_shape=[64, 64],
            fill_value=0.0,
            interpolation="BILINEAR",
            fill_mode="CONSTANT",
        ),
        "depth_to_space": lambda: tf.nn.depth_to_space(images, 4),
        "lgamma": lambda: tf.math.lgamma(positive),
        "digamma": lambda: tf.math.digamma(positive),
        "polygamma": lambda: tf.math.polygamma(above, above),
        "zeta": lambda: tf.math.zeta(above, positive),
        "igamma": lambda: tf.math.igamma(positive, above),
        "igammac": lambda: tf.math.igammac(positive, above),
        "betainc": lambda: tf.math.betainc(positive, above, tf.abs(fractions)),
        "erfinv": lambda: tf.math.erfinv(fractions),
        "ndtri": lambda: tf.math.ndtri(tf.abs(fractions)),
        "bessel_i0e": lambda: tf.math.bessel_i0e(numbers),
        "bessel_i1": lambda: tf.math.bessel_i1(numbers),
        "nextafter": lambda: tf.math.nextafter(numbers, positive),
        "floormod of integers": lambda: tf.math.floormod(*integers),
        "xlogy": lambda: tf.math.xlogy(numbers, positive),
        "setdiff1d": lambda: raw.ListDiff(x=ids[0], y=ids[1]),
        "histogram_fixed_width": lambda: tf.histogram_fixed_width(numbers, [-3.0, 3.0], 100),
        "top_k of 1000 rows of 1000, 100": lambda: tf.math.top_k(values, 100),
        "sparse times dense": lambda: tf.sparse.sparse_dense_matmul(sparse, dense),
        "sparse reorder": lambda: tf.sparse.reorder(sparse),
        "sparse to dense": lambda: tf.sparse.to_dense(ordered),
        "sparse_segment_sum, bags": lambda: tf.sparse.segment_sum(table, bags, of_bag),
        "random gamma": lambda: tf.random.gamma([200], rates),
        "random poisson": lambda: tf.random.poisson([200], rates),
        "random binomial": lambda: tf.random.stateless_binomial([200, 1000], [1, 2], 40.0, 0.3),
        "random categorical": lambda: tf.random.categorical(logits, 100),
        "random normal": lambda: tf.random.normal([1000, 1000]),
        "truncated normal": lambda: tf.random.truncated_normal([1000, 1000]),
        "fake_quant": lambda: tf.quantization.fake_quant_with_min_max_vars(values, -3.0, 3.0),
        "quantize_and_dequantize": lambda: raw.QuantizeAndDequantizeV2(
            input=values, input_min=-3.0, input_max=3.0, range_given=True
        ),
        "to bfloat16": lambda: tf.cast(values, tf.bfloat16),
        "cholesky of 512": lambda: tf.linalg.cholesky(large),
        "cholesky of 200 of 16": lambda: tf.linalg.cholesky(grouped),
        "triangular_solve of 512": lambda: tf.linalg.triangular_solve(large, right),
        "triangular_solve of 200 of 16": lambda: tf.linalg.triangular_solve(grouped, wide),
        "lu of 512": lambda: tf.linalg.lu(large),
        "lu of 200 of 16": lambda: tf.linalg.lu(grouped),
        "qr of 512x128": lambda: tf.linalg.qr(tall),
        "qr of 200 of 16": lambda: tf.linalg.qr(wide),
        "lstsq of 512x128": lambda: tf.linalg.lstsq(tall, right),
        "solve of 200 of 16": lambda: tf.linalg.solve(grouped, wide),
        "inv of 200 of 16": lambda: tf.linalg.inv(grouped),
        "det of 200 of 16": lambda: tf.linalg.det(grouped),
        "eigh of 200 of 16": lambda: tf.linalg.eigh(grouped),
        "svd of 200 of 16": lambda: tf.linalg.svd(wide),
        "frame": lambda: tf.signal.frame(signal, 512, 160),
        "stft": lambda: tf.signal.stft(signal, 512, 160),
        "inverse_stft": lambda: tf.signal.inverse_stft(spectrum, 512, 160),
        "fft of 64x4096": lambda: tf.signal.fft(spectra),
        "rfft of 64x4096": lambda: tf.signal.rfft(real_signal),
        "complex exp": lambda: tf.exp(spectra),
        "complex sum of two": lambda: spectra + spectra,
        "complex product": lambda: spectra * spectra,
        "complex conjugate": lambda: tf.math.conj(spectra),
        "float to complex": lambda: tf.cast(real_signal, tf.complex64),
        "complex to float": lambda: tf.cast(spectra, tf.float32),
        "complex to complex128": lambda: tf.cast(spectra, tf.complex128),
        "complex128 to complex": lambda: tf.cast(double_spectra, tf.complex64),
        "complex abs": lambda: tf.abs(spectra),
        "complex angle": lambda: tf.math.angle(spectra),
        "complex sum": lambda: tf.reduce_sum(spectra),
        "complex matmul": lambda: tf.matmul(few_spectra, few_spectra),
    }

    return measure.tensorflow_calls(calls, device, compiled)


def of_torch(device: str) -> Calls:
    """Calls of PyTorch's ops on a device."""
    import torch
    import torch.nn.functional as F

    state = np.random.default_rng(1)

    def put(array: Any, gradient: bool = False) -> Any:
        tensor = torch.from_numpy(np.array(array)).to(device)
        return tensor.requires_grad_() if gradient else tensor

    def normal(*shape: int, gradient: bool = False) -> Any:
        return put(state.normal(size=shape).astype("float32"), gradient)

    def trained(function: Callable[..., Any], *inputs: Any) -> Call:
        def call() -> Any:
            return torch.autograd.grad(function(*inputs).sum(), inputs)

        return call

    images = normal(4, 16, 64, 64, gradient=True)
    grid = put(state.uniform(-1, 1, (4, 64, 64, 2)).astype("float32"), True)
    photos = put(state.uniform(0, 255, (2, 3, 200, 200)).astype("float32"))
    columns = normal(4, 16 * 9, 64 * 64)
    numbers = normal(COUNT)
    positive = put(state.uniform(0.1, 8, COUNT).astype("float32"))
    other = put(state.uniform(1.1, 8, COUNT).astype("float32"))
    fractions = put(state.uniform(-0.99, 0.99, COUNT).astype("float32"))
    whole = [put(state.integers(1, 1 << 20, COUNT)) for _ in range(2)]
    powers = put(state.integers(-20, 20, COUNT).astype("int32"))
    values = normal(1000, 1000)
    picked = put(state.integers(0, 1000, (1000, 1000)))
    rows_of, updates = put(state.integers(0, 1000, 500)), normal(500, 1000)
    table, bags = normal(20000, 64, gradient=True), put(state.integers(0, 20000, (2048, 10)))
    table_sorted = put(np.sort(state.normal(size=4096)).astype("float32"))
    chances = put(state.dirichlet(np.ones(100), 1000).astype("float32"))
    grouped, large = put(symmetric(state, 200, 16, 16)), put(symmetric(state, 512, 512))
    right, wide, tall = normal(512, 512), normal(200, 16, 16), normal(512, 128)
    signal = normal(8, 16000)
    window = put(np.hanning(512).astype("float32"))
    spectra = put((state.normal(size=(64, 4096)) + 1j * state.normal(size=(64, 4096))).astype("complex64"))
    real_signal = normal(64, 4096)
    few_spectra, double_spectra = spectra[:, :512].contiguous(), spectra.to(torch.complex128)
    lines = {n: normal(1024, n) for n in (64, 96, 400, 1000)}
    complex_lines = {n: real.to(torch.complex64) for n, real in lines.items()}
    half_table, brain_table = (table.detach().to(each) for each in (torch.float16, torch.bfloat16))
    small_bags = put(state.integers(0, 20000, (64, 10)))
    scale, zero = put(np.float32([0.02])), put(np.int32([0]))
    bytes_ = put(state.integers(-128, 128, (1000, 1000)).astype("int8"))

    calls: dict[str, Call] = {
        "grid_sample, bilinear": lambda: F.grid_sample(images, grid, align_corners=False),
        "grid_sample, bicubic": lambda: F.grid_sample(images, grid, mode="bicubic", align_corners=False),
        "grid_sample with gradients": trained(lambda x, g: F.grid_sample(x, g, align_corners=False), images, grid),
        "interpolate, bicubic": lambda: F.interpolate(photos, [300, 300], mode="bicubic"),
        "interpolate, bicubic, antialias": lambda: F.interpolate(photos, [90, 90], mode="bicubic", antialias=True),
        "interpolate, bilinear": lambda: F.interpolate(photos, [300, 300], mode="bilinear"),
        "interpolate, area": lambda: F.interpolate(photos, [90, 90], mode="area"),
        "unfold": lambda: F.unfold(images, 3, padding=1),
        "fold": lambda: F.fold(columns, [64, 64], 3, padding=1),
        "lgamma": lambda: torch.lgamma(positive),
        "digamma": lambda: torch.digamma(positive),
        "polygamma": lambda: torch.polygamma(2, positive),
        "zeta": lambda: torch.special.zeta(other, positive),
        "gammainc": lambda: torch.special.gammainc(positive, other),
        "gammaincc": lambda: torch.special.gammaincc(positive, other),
        "erfinv": lambda: torch.erfinv(fractions),
        "ndtri": lambda: torch.special.ndtri(fractions.abs()),
        "i0": lambda: torch.special.i0(numbers),
        "i1e": lambda: torch.special.i1e(numbers),
        "gcd": lambda: torch.gcd(*whole),
        "lcm": lambda: torch.lcm(*whole),
        "ldexp": lambda: torch.ldexp(numbers, powers),
        "nextafter": lambda: torch.nextafter(numbers, positive),
        "copysign": lambda: torch.copysign(numbers, fractions),
        "heaviside": lambda: torch.heaviside(numbers, positive),
        "fmod": lambda: torch.fmod(numbers, positive),
        "fmax": lambda: torch.fmax(numbers, positive),
        "histc": lambda: torch.histc(numbers, 100, -3, 3),
        "bincount": lambda: torch.bincount(picked.flatten()),
        "unique": lambda: torch.unique(powers, return_inverse=True, return_counts=True),
        "unique_consecutive": lambda: torch.unique_consecutive(powers),
        "nonzero": lambda: torch.nonzero(values > 0),
        "masked_select": lambda: torch.masked_select(values, values > 0),
        "bucketize": lambda: torch.bucketize(values, table_sorted),
        "cummax": lambda: torch.cummax(values, 1),
        "cumsum": lambda: torch.cumsum(values, 1),
        "logcumsumexp": lambda: torch.logcumsumexp(values, 1),
        "kthvalue": lambda: torch.kthvalue(values, 300, 1),
        "median": lambda: torch.median(values, 1),
        "mode": lambda: torch.mode(powers.reshape(200, 1000), 1),
        "sort": lambda: torch.sort(values, 1),
        "topk": lambda: torch.topk(values, 10, 1),
        "roll": lambda: torch.roll(values, 300, 1),
        "flip": lambda: torch.flip(values, [1]),
        "repeat_interleave": lambda: torch.repeat_interleave(values, 2, 0),
        "gather": lambda: torch.gather(values, 1, picked),
        "scatter": lambda: torch.scatter(values, 1, picked, values),
        "scatter_add": lambda: torch.scatter_add(values, 1, picked, values),
        "scatter_reduce, amax": lambda: torch.scatter_reduce(values, 1, picked, values, "amax"),
        "scatter_reduce, mean": lambda: torch.scatter_reduce(values, 1, picked, values, "mean"),
        "index_add": lambda: torch.index_add(values, 0, rows_of, updates),
        "index_reduce, prod": lambda: torch.index_reduce(values, 0, rows_of, updates, "prod"),
        "embedding_bag, sum": lambda: F.embedding_bag(bags, table, mode="sum"),
        "embedding_bag, sum, float16": lambda: F.embedding_bag(bags, half_table, mode="sum"),
        "embedding_bag, sum, bfloat16": lambda: F.embedding_bag(bags, brain_table, mode="sum"),
        "embedding_bag, sum, 64 bags": lambda: F.embedding_bag(small_bags, table, mode="sum"),
        "embedding_bag with its gradient": trained(lambda t: F.embedding_bag(bags, t, mode="mean"), table),
        "poisson": lambda: torch.poisson(positive),
        "binomial": lambda: torch.binomial(torch.full_like(positive, 40), torch.full_like(positive, 0.3)),
        "standard_gamma": lambda: torch._standard_gamma(positive),
        "multinomial, 10 of 100": lambda: torch.multinomial(chances, 10, True),
        "multinomial without replacement": lambda: torch.multinomial(chances, 10),
        "fake_quantize": lambda: torch.fake_quantize_per_tensor_affine(values, 0.02, 0, -128, 127),
        "fake_quantize of channels": lambda: torch.fake_quantize_per_channel_affine(
            values, scale.expand(1000).contiguous(), zero.expand(1000).contiguous(), 0, -128, 127
        ),
        "to float8": lambda: values.to(torch.float8_e4m3fn),
        "to bfloat16": lambda: values.to(torch.bfloat16),
        "int8 to float": lambda: bytes_.float(),
        "cholesky of 512": lambda: torch.linalg.cholesky(large),
        "cholesky of 200 of 16": lambda: torch.linalg.cholesky(grouped),
        "solve_triangular of 512": lambda: torch.linalg.solve_triangular(large, right, upper=False),
        "solve_triangular of 200 of 16": lambda: torch.linalg.solve_triangular(grouped, wide, upper=False),
        "lu_factor of 512": lambda: torch.linalg.lu_factor(large),
        "lu_factor of 200 of 16": lambda: torch.linalg.lu_factor(grouped),
        "qr of 512x128": lambda: torch.linalg.qr(tall),
        "qr of 200 of 16": lambda: torch.linalg.qr(wide),
        "lstsq of 512x128": lambda: torch.linalg.lstsq(tall, right),
        "solve of 200 of 16": lambda: torch.linalg.solve(grouped, wide),
        "inv of 200 of 16": lambda: torch.linalg.inv(grouped),
        "det of 200 of 16": lambda: torch.linalg.det(grouped),
        "eigh of 200 of 16": lambda: torch.linalg.eigh(grouped),
        "svd of 200 of 16": lambda: torch.linalg.svd(wide),
        "stft": lambda: torch.stft(signal, 512, 160, window=window, return_complex=True),
        "fft of 64x4096": lambda: torch.fft.fft(spectra),
        "rfft of 64x4096": lambda: torch.fft.rfft(real_signal),
        "fft of 1024x256": lambda: torch.fft.fft(spectra.view(1024, 256)),
        "fft of 64x512": lambda: torch.fft.fft(few_spectra),
        **{f"fft of 1024x{n}": partial(torch.fft.fft, x) for n, x in complex_lines.items()},
        **{f"rfft of 1024x{n}": partial(torch.fft.rfft, x) for n, x in lines.items()},
        "complex exp": lambda: torch.exp(spectra),
        "complex sum of two": lambda: spectra + spectra,
        "complex product": lambda: spectra * spectra,
        "complex conjugate": lambda: torch.conj_physical(spectra),
        "float to complex": lambda: real_signal.to(torch.complex64),
        "complex to complex128": lambda: spectra.to(torch.complex128),
        "complex128 to complex": lambda: double_spectra.to(torch.complex64),
        "complex abs": lambda: torch.abs(spectra),
        "complex angle": lambda: torch.angle(spectra),
        "complex sum": lambda: torch.sum(spectra),
    }

    def on(function: Call) -> Call:
        def call() -> None:
            function()
            if device != "cpu":
                torch.accelerator.synchronize()

        return call

    return [(name, on(function)) for name, function in calls.items()]


if __name__ == "__main__":
    selections.run(__doc__, {"paddle": of_paddle, "tensorflow": of_tensorflow, "torch": of_torch})
