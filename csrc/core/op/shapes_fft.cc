// Rules of the discrete Fourier transform.
#include "csrc/core/op/checks.h"
#include "csrc/core/op/shape_rules.h"

namespace unihal::core {
namespace {

// The attribute axes, counted from 0, each once; the last of them is given out.
uhal_status check_axes(const OpView& op, int rank, int* last) {
  const auto& attributes = op.attributes_as<uhal_fft_attributes>();
  UHAL_EXPECT(expect_attribute(op, "axis_count", attributes.axis_count, 1, UHAL_FFT_MAX_AXES));
  uint32_t seen = 0;
  for (int i = 0; i < attributes.axis_count; ++i) {
    UHAL_EXPECT(resolve_axis(op, attributes.axes[i], rank, true, last));
    if ((seen >> *last & 1) != 0) {
      return UHAL_FAIL(UHAL_INVALID_ARGUMENT, "%s: the attribute axes names axis %d twice, expected each axis once.",
                       op.row->name, *last);
    }
    seen |= 1u << *last;
  }
  return UHAL_OK;
}

bool is_transformed(uhal_dtype dtype) { return dtype == UHAL_FLOAT32 || dtype == UHAL_FLOAT64 || is_complex(dtype); }

bool is_double(uhal_dtype dtype) { return dtype == UHAL_FLOAT64 || dtype == UHAL_COMPLEX128; }

}  // namespace

uhal_status check_fft(const OpView& op) {
  const uhal_tensor& x = *op.input(0);
  const uhal_tensor& y = *op.output(0);
  const auto& attributes = op.attributes_as<uhal_fft_attributes>();
  UHAL_EXPECT(expect_attribute(op, "direction", attributes.direction, UHAL_FFT_FORWARD, UHAL_FFT_INVERSE));
  UHAL_EXPECT(expect_attribute(op, "normalization", attributes.normalization, UHAL_FFT_UNSCALED, UHAL_FFT_ORTHONORMAL));
  UHAL_EXPECT(expect_rank(op, &x, 1, UHAL_MAX_RANK, "one axis or more"));
  int last = 0;
  UHAL_EXPECT(check_axes(op, x.rank, &last));
  UHAL_EXPECT(expect_dtype(op, &x, is_transformed(x.dtype),
                           "float32, float64, complex64 or complex128; cast it first: other dtypes have no complex "
                           "numbers of their precision"));
  const bool from_real = !is_complex(x.dtype);
  if (from_real || is_complex(y.dtype)) {
    const uhal_dtype expected = is_double(x.dtype) ? UHAL_COMPLEX128 : UHAL_COMPLEX64;
    UHAL_EXPECT(expect_dtype(op, &y, y.dtype == expected, "complex numbers of x's precision"));
  } else {
    const uhal_dtype expected = is_double(x.dtype) ? UHAL_FLOAT64 : UHAL_FLOAT32;
    UHAL_EXPECT(expect_dtype(op, &y, y.dtype == expected, "real or complex numbers of x's precision"));
  }
  Shape expected(x);
  if (from_real) {
    expected.dims[last] = x.shape[last] / 2 + 1;
    return expect_shape(op, &y, expected, "x's shape with the frequencies 0 to n / 2 along the last of the axes");
  }
  if (is_complex(y.dtype)) return expect_same_shape(op, &y, &x);
  // The lengths of half a spectrum belong to two lengths each; y says which.
  if (y.rank == x.rank && y.shape[last] / 2 + 1 == x.shape[last]) expected.dims[last] = y.shape[last];
  return expect_shape(op, &y, expected, "x's shape, but n elements along the last of the axes, where x has n / 2 + 1");
}

}  // namespace unihal::core
