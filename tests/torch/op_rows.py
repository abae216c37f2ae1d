"""Which entries of PyTorch's op database run wholly on the device: all but those that stand here, with reasons."""

from __future__ import annotations

import pytorch_databases  # noqa: F401, before what is of them
import torch
from torch.testing._internal.common_methods_invocations import op_db
from unihal_torch.versions import minor_version

_VERSION = tuple(int(part) for part in minor_version(torch.__version__).split("."))
#: From these versions on the database has ops and samples, and the CPU results, that the kernels do not follow yet.
IS_2_14, IS_2_15 = _VERSION >= (2, 14), _VERSION >= (2, 15)

#: Entries that are left out, by the reason.
NOT_ON_DEVICE: dict[str, tuple[str, ...]] = {
    "no kernel: unihal has no LDL factors": ("linalg.ldl_factor", "linalg.ldl_factor_ex", "linalg.ldl_solve"),
    "no kernel: no function of unihal's, and no program has asked for it": (
        *("special.airy_ai", "hash_tensor", "histogramdd"),
    ),
    "no kernel: new in PyTorch 2.15": ("linalg.matrix_sqrth", "linalg.polar"),
    "the CPU's own; the device has `scaled_dot_product_attention`": (
        *(("torch.ops.aten._scaled_dot_product_flash_attention_for_cpu",) if IS_2_14 else ()),
    ),
    "complex32 is no dtype of unihal's": ("chalf",),
    "sparse tensors": ("sparse.mm", "sparse.sampled_addmm", "to_sparse"),
}

#: The entries whose samples run on the device: forward, backward, in place and with out=.
ON_DEVICE = sorted({op.name for op in op_db} - {name for names in NOT_ON_DEVICE.values() for name in names})

#: Dtypes of an entry that are left out, and why: what its samples need and has no kernel for them.
LEFT_OUT: dict[str, dict[str, str]] = {
    "_upsample_bilinear2d_aa": {"uint8": "resizing: no kernel for whole numbers"},
    "linspace": {
        "uint8 int32 int64": "a step of the CPU's vectors that is rounded otherwise: one of fifty numbers is another"
    },
    "clamp_max": {"bool": "clamp_max.Tensor: no kernel for this dtype"},
    "clamp_min": {"bool": "clamp_min.Tensor: no kernel for this dtype"},
    "complex": {"float16": "complex32 is no dtype of unihal's"},
    "logaddexp": {"complex64 complex128": "no kernel for complex numbers"},
    "logcumsumexp": {"complex64 complex128": "no kernel for complex numbers"},
    "matrix_exp": {"float16 bfloat16": "the samples' exponentials are beyond the dtype: infinities and NaN"},
    "native_dropout_backward": {"uint8 int64 bool int32": "no kernel for whole numbers"},
    "nextafter": {"bfloat16 float16": "nextafter: no kernel for this dtype"},
    "nn.functional.avg_pool1d": {"int64": "pools: no kernel for whole numbers"},
    "nn.functional.avg_pool2d": {"int64": "pools: no kernel for whole numbers"},
    "nn.functional.avg_pool3d": {"int64": "pools: no kernel for whole numbers"},
    "nn.functional.conv1d": {"int64": "convolutions: no kernel for whole numbers"},
    "nn.functional.conv2d": {"int64": "convolutions: no kernel for whole numbers"},
    "nn.functional.conv3d": {"int64": "convolutions: no kernel for whole numbers"},
    "nn.functional.conv_transpose1d": {"int64": "convolutions: no kernel for whole numbers"},
    "nn.functional.conv_transpose2d": {"int64": "convolutions: no kernel for whole numbers"},
    "nn.functional.conv_transpose3d": {"int64": "convolutions: no kernel for whole numbers"},
    "nn.functional.hardtanh": {"uint8 int64 int32": "no kernel for whole numbers"},
    "nn.functional.interpolate": {"uint8": "resizing: no kernel for whole numbers"},
    "nn.functional.local_response_norm": {"int64": "pools: no kernel for whole numbers"},
    "nn.functional.max_pool2d": {"uint8 int64 int32": "pools: no kernel for whole numbers"},
    "nn.functional.max_pool3d": {"uint8 int64 int32": "pools: no kernel for whole numbers"},
    "nn.functional.relu6": {"uint8 int64 int32": "no kernel for whole numbers"},
    "nn.functional.threshold": {"uint8 int64 int32": "no kernel for whole numbers"},
    "nn.functional.upsample_bilinear": {"uint8": "resizing: no kernel for whole numbers"},
    "nn.functional.upsample_nearest": {"uint8": "resizing: no kernel for whole numbers"},
    "renorm": {"complex64": "the CPU's own slope of an infinite norm is NaN"},
    "scatter": {"bool": "scatter.reduce: no kernel for bool"},
    "scatter_reduce": {"bool": "no kernel for bool"},
    "special.bessel_j0": {"float64": "the CPU's own error is 1e-7"},
    "special.bessel_j1": {"float64": "the CPU's own error is 1e-7"},
    "special.bessel_y0": {"float64": "the CPU's own error is 1e-7"},
    "special.bessel_y1": {"float64": "the CPU's own error is 1e-7"},
    "special.i1": {"bfloat16 float16": "no kernel for this dtype"},
    "special.i1e": {"bfloat16 float16": "no kernel for this dtype"},
}
if IS_2_14:
    LEFT_OUT |= {
        "nn.functional.adaptive_max_pool2d": {"float32": "no kernel for the gradient in one more memory format"},
        "polar": {"float16": "complex32 is no dtype of unihal's"},
    }
if IS_2_15:
    LEFT_OUT |= {
        "nan_to_num": {"complex64": "no kernel for complex numbers"},
        "nn.functional.dropout": {"complex64": "no kernel for complex numbers"},
        "nn.functional.grid_sample": {
            "float32 float16 bfloat16 float64": "cubic interpolation in three dimensions is refused"
        },
    }
