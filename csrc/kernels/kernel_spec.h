// Which kernel to run: an entry of a source file under csrc/kernels/source, and the macros that specialize it.
//
// Building a spec is on the path of every launch: it holds pointers and numbers only, allocates nothing, and is
// compared and hashed by value. Text is made of it once, when it is compiled.
#ifndef UNIHAL_KERNELS_KERNEL_SPEC_H_
#define UNIHAL_KERNELS_KERNEL_SPEC_H_

#include <cstdint>
#include <cstdlib>
#include <string>

#include "unihal/op.h"

namespace unihal::kernels {

// A source file in the library, without the prelude. The tables of kernel_sources.h are made by CMake.
struct Source {
  const char* name;  // "reduce"
  const char* text;
};

// The type in which a kernel computes (op.h, "Arithmetic"): the macro T of the dialect.
enum class Compute : uint8_t { kFloat, kDouble, kInt64, kUint64, kComplexFloat, kComplexDouble };

inline bool computes_complex(Compute type) { return type == Compute::kComplexFloat || type == Compute::kComplexDouble; }
inline bool computes_double(Compute type) { return type == Compute::kDouble || type == Compute::kComplexDouble; }

class KernelSpec {
 public:
  // Both static. `entry` is the name of a UHAL_KERNEL function of the source.
  KernelSpec(const Source& source, const char* entry) : source_(&source), entry_(entry) {}

  // #define name value. `name` is a literal, here and below.
  KernelSpec& define(const char* name, int64_t value) { return add(name, nullptr, value, Macro::kNumber); }

  // #define name text. `text` is static.
  KernelSpec& define_text(const char* name, const char* text) { return add(name, text, 0, Macro::kText); }

  // What the dialect needs of an operand's dtype: name_LOAD(p, i) -> T, name_STORE(p, i, value), and name_STORAGE, the
  // type of an element in memory (dtypes.h).
  KernelSpec& dtype(const char* name, uhal_dtype dtype) { return add(name, nullptr, dtype, Macro::kDtype); }

  // The macro T; float if it is not called.
  KernelSpec& compute(Compute type) {
    compute_ = type;
    return *this;
  }

  const Source& source() const { return *source_; }
  const char* entry() const { return entry_; }
  Compute compute() const { return compute_; }
  bool operator==(const KernelSpec& other) const;
  uint64_t hash() const {
    return (hash_ ^ reinterpret_cast<uintptr_t>(entry_) ^ static_cast<uint64_t>(compute_)) * kHashFactor;
  }

  // The lines of #define that go before the source.
  std::string macro_text() const;

  // "map_flat(FUNCTION=silu, X=float32)": for messages and `unihal cache info`.
  std::string describe() const;

 private:
  struct Macro {
    enum Kind : uint8_t { kNumber, kText, kDtype };
    const char* name;
    const char* text;
    int64_t value;
    Kind kind;
  };
  static constexpr int kMaxMacros = 72;
  static constexpr uint64_t kHashFactor = 0x9e3779b97f4a7c15;

  // Inline, since a launch adds a dozen.
  KernelSpec& add(const char* name, const char* text, int64_t value, Macro::Kind kind) {
    if (count_ == kMaxMacros) abort();  // a mistake in an op's own code, whatever the input
    Macro& macro = macros_[count_++];
    macro.name = name;
    macro.text = text;
    macro.value = value;
    macro.kind = kind;
    hash_ = (hash_ ^ static_cast<uint64_t>(value) ^ reinterpret_cast<uintptr_t>(text)) * kHashFactor;
    hash_ ^= hash_ >> 29;
    return *this;
  }

  const Source* source_;
  const char* entry_;
  Compute compute_ = Compute::kFloat;
  int count_ = 0;
  uint64_t hash_ = 0;  // of the macros so far
  Macro macros_[kMaxMacros];
};

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_KERNEL_SPEC_H_
