// Conversions between stored dtypes and compute types as loops. Compiled once per instruction set.

#include <cstring>
#include <type_traits>

#include "csrc/backends/common/float_bits.h"
#include "stub/vector/compute.h"
#include "stub/vector/narrow.h"

namespace unihal::stub::UHAL_INSTRUCTION_SET {
namespace {

struct Bool {
  uint8_t bits;
};
struct Float8E4m3fn {
  uint8_t bits;
};
struct Float8E5m2 {
  uint8_t bits;
};

template <class R>
struct Complex {
  R x, y;
};

template <class T, class Stored>
inline T load(Stored value) {
  return static_cast<T>(value);
}
template <class T>
inline T load(Bool value) {
  return static_cast<T>(value.bits != 0);
}
template <class T>
inline T load(Float16 value) {
  return static_cast<T>(widen_one(value));
}
template <class T>
inline T load(Bfloat16 value) {
  return static_cast<T>(widen_one(value));
}
template <class T>
inline T load(Float8E4m3fn value) {
  return static_cast<T>(float8_e4m3fn_to_float(value.bits));
}
template <class T>
inline T load(Float8E5m2 value) {
  return static_cast<T>(float8_e5m2_to_float(value.bits));
}

template <class T, class Stored>
struct Load {
  static T convert(Stored value) { return load<T>(value); }
};
template <class R, class Stored>
struct Load<Complex<R>, Stored> {
  static Complex<R> convert(Stored value) { return {load<R>(value), 0}; }
};
template <class R, class S>
struct Load<Complex<R>, Complex<S>> {
  static Complex<R> convert(Complex<S> value) { return {static_cast<R>(value.x), static_cast<R>(value.y)}; }
};

template <class T>
inline float narrow(T value) {
  return static_cast<float>(value);
}
template <>
inline float narrow(double value) {
  return double_to_float_odd(value);
}

// Floating to integer goes through int64, so that values beyond a narrow type wrap as integers do.
template <class T, class Stored>
struct Store {
  static Stored convert(T value) {
    if constexpr (static_cast<T>(0.5) != 0 && static_cast<Stored>(0.5) == 0 && sizeof(Stored) < 8) {
      return static_cast<Stored>(static_cast<int64_t>(value));
    } else {
      return static_cast<Stored>(value);
    }
  }
};
template <class T>
struct Store<T, Bool> {
  static Bool convert(T value) { return {static_cast<uint8_t>(value != 0)}; }
};
template <class T>
struct Store<T, Float16> {
  static Float16 convert(T value) {
    Float16 stored;
    shorten_one(narrow(value), &stored);
    return stored;
  }
};
template <class T>
struct Store<T, Bfloat16> {
  static Bfloat16 convert(T value) {
    Bfloat16 stored;
    shorten_one(narrow(value), &stored);
    return stored;
  }
};
template <class T>
struct Store<T, Float8E4m3fn> {
  static Float8E4m3fn convert(T value) { return {float_to_float8_e4m3fn(narrow(value))}; }
};
template <class T>
struct Store<T, Float8E5m2> {
  static Float8E5m2 convert(T value) { return {float_to_float8_e5m2(narrow(value))}; }
};

template <class R, class Stored>
struct Store<Complex<R>, Stored> {
  static Stored convert(Complex<R> value) { return Store<R, Stored>::convert(value.x); }
};
template <class R>
struct Store<Complex<R>, Bool> {
  static Bool convert(Complex<R> value) { return Store<R, Bool>::convert(value.x); }
};
template <class R>
struct Store<Complex<R>, Float16> {
  static Float16 convert(Complex<R> value) { return Store<R, Float16>::convert(value.x); }
};
template <class R>
struct Store<Complex<R>, Bfloat16> {
  static Bfloat16 convert(Complex<R> value) { return Store<R, Bfloat16>::convert(value.x); }
};
template <class R>
struct Store<Complex<R>, Float8E4m3fn> {
  static Float8E4m3fn convert(Complex<R> value) { return Store<R, Float8E4m3fn>::convert(value.x); }
};
template <class R>
struct Store<Complex<R>, Float8E5m2> {
  static Float8E5m2 convert(Complex<R> value) { return Store<R, Float8E5m2>::convert(value.x); }
};
template <class R, class S>
struct Store<Complex<R>, Complex<S>> {
  static Complex<S> convert(Complex<R> value) { return {static_cast<S>(value.x), static_cast<S>(value.y)}; }
};

template <class T>
inline constexpr bool kIsComplex = false;
template <class R>
inline constexpr bool kIsComplex<Complex<R>> = true;

// Adjacent complex numbers as twice as many real ones.
template <class From, class To>
void convert_parts(int64_t count, const void* source, void* destination) {
  using FromPart = decltype(From::x);
  using ToPart = decltype(To::x);
  const auto* __restrict in = static_cast<const FromPart*>(source);
  auto* __restrict out = static_cast<ToPart*>(destination);
  for (int64_t i = 0; i < 2 * count; ++i) out[i] = static_cast<ToPart>(in[i]);
}

template <class Stored>
inline constexpr bool kIsNarrow = std::is_same_v<Stored, Float16> || std::is_same_v<Stored, Bfloat16>;

// By way of float, a piece at a time.
constexpr int64_t kFloatPiece = 256;

template <class Stored>
void widen_pieces(int64_t count, const Stored* __restrict in, double* __restrict out) {
  float piece[kFloatPiece];
  for (; count > 0; count -= kFloatPiece, in += kFloatPiece, out += kFloatPiece) {
    const int64_t length = count < kFloatPiece ? count : kFloatPiece;
    widen_all(length, in, piece);
    for (int64_t i = 0; i < length; ++i) out[i] = static_cast<double>(piece[i]);
  }
}

template <class Stored>
void shorten_pieces(int64_t count, const double* __restrict in, Stored* __restrict out) {
  float piece[kFloatPiece];
  for (; count > 0; count -= kFloatPiece, in += kFloatPiece, out += kFloatPiece) {
    const int64_t length = count < kFloatPiece ? count : kFloatPiece;
    for (int64_t i = 0; i < length; ++i) piece[i] = double_to_float_odd(in[i]);
    shorten_all(length, piece, out);
  }
}

// Without AVX-512 no vector converts 64-bit integers.
#ifdef __AVX512DQ__
inline constexpr bool kHasWideConversions = true;
#else
inline constexpr bool kHasWideConversions = false;
#endif

// Whether Load<T, Stored> makes floating-point numbers of 64-bit integers.
template <class T, class Stored>
inline constexpr bool kLoadsWide =
    !kHasWideConversions && std::is_floating_point_v<T> && std::is_integral_v<Stored> && sizeof(Stored) == 8;

// The halves' bits behind an exponent of their own are 2^52 + low and 2^84 + 2^32 high: what is taken away again is
// exact, so that only the sum is rounded. A signed upper half counts from 2^63 less.
template <class Stored>
void load_wide(int64_t count, const Stored* __restrict in, double* __restrict out) {
  constexpr uint64_t kLow = 0x4330000000000000, kHigh = 0x4530000000000000,
                     kSign = std::is_signed_v<Stored> ? uint64_t{1} << 31 : 0;
  constexpr double kAdded = 0x1p84 + 0x1p52 + (std::is_signed_v<Stored> ? 0x1p63 : 0.0);
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = static_cast<uint64_t>(in[i]);
    const uint64_t low_bits = (bits & 0xffffffff) | kLow, high_bits = ((bits >> 32) ^ kSign) | kHigh;
    double low, high;
    std::memcpy(&low, &low_bits, sizeof low);
    std::memcpy(&high, &high_bits, sizeof high);
    out[i] = (high - kAdded) + low;
  }
}

// That would round twice. A piece through int32 if all its numbers are within.
template <class Stored>
void load_wide(int64_t count, const Stored* __restrict in, float* __restrict out) {
  constexpr int64_t kPiece = 256;
  constexpr uint64_t kHalf = uint64_t{1} << 31;
  for (int64_t begin = 0; begin < count; begin += kPiece) {
    const int64_t end = begin + kPiece < count ? begin + kPiece : count;
    uint64_t beyond = 0;
    for (int64_t i = begin; i < end; ++i) {
      const auto bits = static_cast<uint64_t>(in[i]);
      beyond |= std::is_signed_v<Stored> ? bits + kHalf : bits | (bits & kHalf) << 1;
    }
    if (beyond >> 32 == 0) {
      for (int64_t i = begin; i < end; ++i) out[i] = static_cast<float>(static_cast<int32_t>(in[i]));
    } else {
      for (int64_t i = begin; i < end; ++i) out[i] = Load<float, Stored>::convert(in[i]);
    }
  }
}

template <class T, class Stored>
void load_loop(int64_t count, const void* source, int64_t stride, void* destination) {
  const Stored* __restrict in = static_cast<const Stored*>(source);
  T* __restrict out = static_cast<T*>(destination);
  if constexpr (kIsComplex<T> && kIsComplex<Stored>) {
    if (stride == 1) return convert_parts<Stored, T>(count, source, destination);
  }
  if constexpr (std::is_same_v<T, float> && kIsNarrow<Stored>) {
    if (stride == 1) return widen_all(count, in, out);
  }
  if constexpr (std::is_same_v<T, double> && kIsNarrow<Stored>) {
    if (stride == 1) return widen_pieces(count, in, out);
  }
  if constexpr (kLoadsWide<T, Stored>) {
    if (stride == 1) return load_wide(count, in, out);
  }
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) out[i] = Load<T, Stored>::convert(in[i]);
  } else if (stride == 2) {  // known to the compiler, it becomes vectors: one column of two is the most common one
    for (int64_t i = 0; i < count; ++i) out[i] = Load<T, Stored>::convert(in[i * 2]);
  } else if (stride == 0) {
    const T value = Load<T, Stored>::convert(in[0]);
    for (int64_t i = 0; i < count; ++i) out[i] = value;
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = Load<T, Stored>::convert(in[i * stride]);
  }
}

// Whether Store<T, Stored> goes through int64 where int32 would do for most numbers. (Of uint64 it does not.)
template <class T, class Stored>
inline constexpr bool kNarrowsNumbers =
    std::is_floating_point_v<T> && std::is_integral_v<Stored> &&
    (sizeof(Stored) <= sizeof(int32_t) || (std::is_same_v<Stored, int64_t> && !kHasWideConversions));

// A piece through int32 if all its numbers are within.
template <class T, class Stored>
void narrow_numbers(int64_t count, const T* __restrict in, Stored* __restrict out) {
  constexpr int64_t kPiece = 256;
  constexpr T kEnd = 2147483648.0;
  for (int64_t begin = 0; begin < count; begin += kPiece) {
    const int64_t end = begin + kPiece < count ? begin + kPiece : count;
    int32_t beyond = 0;
    for (int64_t i = begin; i < end; ++i) beyond |= in[i] > -kEnd && in[i] < kEnd ? 0 : 1;  // NaN too
    if (beyond == 0) {
      for (int64_t i = begin; i < end; ++i) out[i] = static_cast<Stored>(static_cast<int32_t>(in[i]));
    } else {
      for (int64_t i = begin; i < end; ++i) out[i] = Store<T, Stored>::convert(in[i]);
    }
  }
}

template <class T, class Stored>
void store_loop(int64_t count, const void* source, void* destination, int64_t stride) {
  const T* __restrict in = static_cast<const T*>(source);
  Stored* __restrict out = static_cast<Stored*>(destination);
  if constexpr (kIsComplex<T> && kIsComplex<Stored>) {
    if (stride == 1) return convert_parts<T, Stored>(count, source, destination);
  }
  if constexpr (std::is_same_v<T, float> && kIsNarrow<Stored>) {
    if (stride == 1) return shorten_all(count, in, out);
  }
  if constexpr (std::is_same_v<T, double> && kIsNarrow<Stored>) {
    if (stride == 1) return shorten_pieces(count, in, out);
  }
  if constexpr (kNarrowsNumbers<T, Stored>) {
    if (stride == 1) return narrow_numbers(count, in, out);
  }
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) out[i] = Store<T, Stored>::convert(in[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) out[i * stride] = Store<T, Stored>::convert(in[i]);
  }
}

// Numbers of two bytes as they are.
void copy_numbers(int64_t count, const uint16_t* from, int64_t from_stride, uint16_t* to, int64_t to_stride) {
  if (from_stride == 1 && to_stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(uint16_t));
  } else {
    for (int64_t i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
  }
}

void copy_in(int64_t count, const void* source, int64_t stride, void* destination) {
  copy_numbers(count, static_cast<const uint16_t*>(source), stride, static_cast<uint16_t*>(destination), 1);
}

void copy_out(int64_t count, const void* source, void* destination, int64_t stride) {
  copy_numbers(count, static_cast<const uint16_t*>(source), 1, static_cast<uint16_t*>(destination), stride);
}

}  // namespace

#define UHAL_COMPLEX_LOADS(Stored) load_loop<Complex<float>, Stored>, load_loop<Complex<double>, Stored>
#define UHAL_LOADS_OF(Stored)                                                                                   \
  load_loop<float, Stored>, load_loop<double, Stored>, load_loop<int64_t, Stored>, load_loop<uint64_t, Stored>, \
      UHAL_COMPLEX_LOADS(Stored)
#define UHAL_LOADS(Stored) {UHAL_LOADS_OF(Stored)}
extern const LoadLoop kLoadLoops[UHAL_DTYPE_COUNT][kComputeTypes];
const LoadLoop kLoadLoops[UHAL_DTYPE_COUNT][kComputeTypes] = {
    {},
    UHAL_LOADS(Bool),
    UHAL_LOADS(int8_t),
    UHAL_LOADS(int16_t),
    UHAL_LOADS(int32_t),
    UHAL_LOADS(int64_t),
    UHAL_LOADS(uint8_t),
    UHAL_LOADS(uint16_t),
    UHAL_LOADS(uint32_t),
    UHAL_LOADS(uint64_t),
    {UHAL_LOADS_OF(Float16), copy_in},
    {UHAL_LOADS_OF(Bfloat16), nullptr, copy_in},
    UHAL_LOADS(float),
    UHAL_LOADS(double),
    {nullptr, nullptr, nullptr, nullptr, UHAL_COMPLEX_LOADS(Complex<float>)},
    {nullptr, nullptr, nullptr, nullptr, UHAL_COMPLEX_LOADS(Complex<double>)},
    UHAL_LOADS(Float8E4m3fn),
    UHAL_LOADS(Float8E5m2),
};

// `...`: those of the complex dtypes.
#define UHAL_STORES(T, ...)     \
  {nullptr,                     \
   store_loop<T, Bool>,         \
   store_loop<T, int8_t>,       \
   store_loop<T, int16_t>,      \
   store_loop<T, int32_t>,      \
   store_loop<T, int64_t>,      \
   store_loop<T, uint8_t>,      \
   store_loop<T, uint16_t>,     \
   store_loop<T, uint32_t>,     \
   store_loop<T, uint64_t>,     \
   store_loop<T, Float16>,      \
   store_loop<T, Bfloat16>,     \
   store_loop<T, float>,        \
   store_loop<T, double>,       \
   __VA_ARGS__,                 \
   store_loop<T, Float8E4m3fn>, \
   store_loop<T, Float8E5m2>}
#define UHAL_COMPLEX_STORES(T) UHAL_STORES(T, store_loop<T, Complex<float>>, store_loop<T, Complex<double>>)
// Of the dtypes before float16 and bfloat16.
#define UHAL_NO_STORES nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr
static_assert(UHAL_FLOAT16 == 10 && UHAL_BFLOAT16 == 11);
extern const StoreLoop kStoreLoops[kComputeTypes][UHAL_DTYPE_COUNT];
const StoreLoop kStoreLoops[kComputeTypes][UHAL_DTYPE_COUNT] = {
    UHAL_STORES(float, nullptr, nullptr),
    UHAL_STORES(double, nullptr, nullptr),
    UHAL_STORES(int64_t, nullptr, nullptr),
    UHAL_STORES(uint64_t, nullptr, nullptr),
    UHAL_COMPLEX_STORES(Complex<float>),
    UHAL_COMPLEX_STORES(Complex<double>),
    {UHAL_NO_STORES, copy_out},
    {UHAL_NO_STORES, nullptr, copy_out},
};

// A whole line in one store where there is one: in several the write-combining buffers fill more slowly.
extern const StreamLines kStreamLines;
#ifdef __SSE2__
static void stream_lines(void* destination, const void* source, int64_t lines) {
#if defined(__AVX512F__)
  using Store = __m512i;
  const auto store = [](Store* to, const Store* from) { _mm512_stream_si512(to, _mm512_loadu_si512(from)); };
#elif defined(__AVX__)
  using Store = __m256i;
  const auto store = [](Store* to, const Store* from) { _mm256_stream_si256(to, _mm256_loadu_si256(from)); };
#else
  using Store = __m128i;
  const auto store = [](Store* to, const Store* from) { _mm_stream_si128(to, _mm_loadu_si128(from)); };
#endif
  auto* to = static_cast<Store*>(destination);
  const auto* from = static_cast<const Store*>(source);
  const int64_t stores = lines * 64 / static_cast<int64_t>(sizeof(Store));
  for (int64_t i = 0; i < stores; ++i) store(to + i, from + i);
}
const StreamLines kStreamLines = stream_lines;
#else
const StreamLines kStreamLines = nullptr;
#endif

}  // namespace unihal::stub::UHAL_INSTRUCTION_SET
