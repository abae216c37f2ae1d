#include "csrc/kernels/tuning_key.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "csrc/backends/common/dtype.h"
#include "csrc/backends/common/matmul_problem.h"
#include "csrc/kernels/ops/convolution.h"

namespace unihal::kernels {
namespace {

enum Family : uint64_t { kNone, kGemm, kConvolution };

// Widths of fields, in bits.
constexpr int kFamilyBits = 4;
constexpr int kPassBits = 2;
constexpr int kDtypeBits = 4;
constexpr int kFilterOrderBits = 2;
constexpr int kPowerBits = 6;
constexpr int kLengthBits = 7;
constexpr int kWindowBits = 6;
constexpr int kStrideBits = 4;
constexpr int kPaddingBits = 6;
constexpr int kDilationBits = 5;
constexpr int kChannelBits = 20;
constexpr int kMathModeBits = 1;

// Lengths of images up to this one count as they are: here a pixel more or less is a tile's edge.
constexpr int64_t kExactLength = 64;

// The axes of filters from the slowest to the fastest, by their places in memory.
enum FilterOrder : uint64_t { kOihw, kOhwi, kHwio };

uint64_t power_of(int64_t size) {
  uint64_t power = 0;
  while (size > 1) size >>= 1, ++power;
  return power;
}

uint64_t length_class(int64_t length) {
  return length <= kExactLength ? static_cast<uint64_t>(length) : kExactLength + power_of(length);
}

uint64_t length_in_class(uint64_t length_class) {
  return length_class <= kExactLength ? length_class : uint64_t{1} << (length_class - kExactLength);
}

// An axis of one element lies nowhere.
FilterOrder filter_order(const Convolution& c) {
  const ConvolutionOperand& filter = c.filter;
  const int64_t row = std::abs(filter.strides[0]);
  const int64_t channel = std::abs(filter.strides[1]);
  const int64_t tap = std::abs(filter.strides[1 + kSpatial]);
  const int64_t inner = c.channels > 1 ? channel : tap;
  if (c.rows > 1 && (c.channels > 1 || c.taps() > 1) && row < inner) return kHwio;
  return c.channels > 1 && c.window[kSpatial - 1] > 1 && channel < tap ? kOhwi : kOihw;
}

}  // namespace

// Fields one after the other; one that does not fit into the rest of a word begins the next one.
class KeyPacker {
 public:
  void add(uint64_t value, int bits) {
    fits_ &= value >> bits == 0;
    if (at_ + bits > 64) ++word_, at_ = 0;
    key_.words_[word_] |= value << at_;
    at_ += bits;
  }
  void add_signed(int64_t value, int bits) { add(static_cast<uint64_t>(value), bits); }
  TuningKey key() const { return fits_ ? key_ : TuningKey(); }

 private:
  TuningKey key_;
  int word_ = 0;
  int at_ = 0;
  bool fits_ = true;
};

class KeyUnpacker {
 public:
  explicit KeyUnpacker(const TuningKey& key) : key_(key) {}
  uint64_t take(int bits) {
    if (at_ + bits > 64) ++word_, at_ = 0;
    const uint64_t value = key_.words_[word_] >> at_ & ((uint64_t{1} << bits) - 1);
    at_ += bits;
    return value;
  }

 private:
  const TuningKey& key_;
  int word_ = 0;
  int at_ = 0;
};

namespace {

std::string number(uint64_t value) { return std::to_string(value); }

// "float32", or the dtypes of all operands if they differ.
std::string dtypes_text(KeyUnpacker& from, int count) {
  std::string text;
  std::string first;
  bool differ = false;
  for (int i = 0; i < count; ++i) {
    const std::string name = dtype_name(static_cast<uhal_dtype>(from.take(kDtypeBits)));
    if (i == 0) first = name;
    differ |= name != first;
    text += (i == 0 ? "" : "-") + name;
  }
  return differ ? text : first;
}

const char* math_mode_text(KeyUnpacker& from) { return from.take(kMathModeBits) != 0 ? " tf32" : ""; }

std::string gemm_text(KeyUnpacker& from) {
  std::string text = "gemm " + dtypes_text(from, 2);
  // In BLAS' terms: n is row-major, so a runs along k and b along n.
  text += from.take(1) != 0 ? " n" : " t";
  text += from.take(1) != 0 ? "t" : "n";
  for (int i = 0; i < 4; ++i) text += " " + number(uint64_t{1} << from.take(kPowerBits));
  return text + math_mode_text(from);
}

// What a window has along each axis: "3x3"; once where all axes have the same and `once` says so.
std::string axes_text(const uint64_t* values, int first, bool once) {
  bool same = true;
  std::string text;
  for (int i = first; i < kSpatial; ++i) {
    same &= values[i] == values[first];
    text += (i == first ? "" : "x") + number(values[i]);
  }
  return once && same ? number(values[first]) : text;
}

std::string convolution_text(KeyUnpacker& from) {
  static constexpr const char* kPasses[] = {"forward", "backward_data", "backward_filter"};
  static constexpr const char* kImages[2][2] = {{"nchw", "nhwc"}, {"ncdhw", "ndhwc"}};
  static constexpr const char* kFilters[2][3] = {{"oihw", "ohwi", "hwio"}, {"oidhw", "odhwi", "dhwio"}};
  std::string text = std::string("convolution_") + kPasses[from.take(kPassBits) % 3] + " ";
  text += dtypes_text(from, 3);
  const uint64_t source_last = from.take(1);
  const uint64_t result_last = from.take(1);
  const uint64_t order = from.take(kFilterOrderBits) % 3;
  const uint64_t images = uint64_t{1} << from.take(kPowerBits);
  uint64_t length[kSpatial], window[kSpatial], stride[kSpatial], padding[kSpatial], dilation[kSpatial];
  for (uint64_t& value : length) value = length_in_class(from.take(kLengthBits));
  for (int i = 0; i < kSpatial; ++i) {
    window[i] = from.take(kWindowBits);
    stride[i] = from.take(kStrideBits);
    padding[i] = from.take(kPaddingBits);
    dilation[i] = from.take(kDilationBits);
  }
  const bool has_depth = length[0] != 1 || window[0] != 1 || stride[0] != 1 || padding[0] != 0 || dilation[0] != 1;
  const int first = has_depth ? 0 : 1;
  text += std::string(" ") + kImages[has_depth][source_last];
  if (result_last != source_last) text += std::string("-") + kImages[has_depth][result_last];
  text += std::string(" ") + kFilters[has_depth][order] + " " + axes_text(window, first, false);
  text += " s" + axes_text(stride, first, true) + " p" + axes_text(padding, first, true);
  text += " d" + axes_text(dilation, first, true) + " g" + number(from.take(kChannelBits)) + " n" + number(images);
  text += " c" + number(from.take(kChannelBits));
  text += " k" + number(from.take(kChannelBits));
  if (has_depth) text += " z" + number(length[0]);
  text += " h" + number(length[1]) + " w" + number(length[2]);
  return text + math_mode_text(from);
}

}  // namespace

TuningKey TuningKey::gemm(const MatmulProblem& problem, bool a_along_k, bool b_along_k) {
  KeyPacker packer;
  packer.add(kGemm, kFamilyBits);
  packer.add_signed(problem.operands[kMatmulA].dtype, kDtypeBits);
  packer.add_signed(problem.operands[kMatmulB].dtype, kDtypeBits);
  packer.add(a_along_k, 1);
  packer.add(b_along_k, 1);
  for (const int64_t size : {problem.m, problem.n, problem.k, problem.batch_count()}) {
    packer.add(power_of(size), kPowerBits);
  }
  packer.add_signed(problem.math_mode, kMathModeBits);
  return packer.key();
}

TuningKey TuningKey::convolution(Pass pass, const Convolution& c) {
  KeyPacker packer;
  packer.add(kConvolution, kFamilyBits);
  packer.add(static_cast<uint64_t>(pass), kPassBits);
  for (const ConvolutionOperand* operand : {&c.source, &c.filter, &c.result}) {
    packer.add_signed(operand->dtype, kDtypeBits);
  }
  packer.add(channels_last(c.source, c.channels * c.groups), 1);
  packer.add(channels_last(c.result, c.rows * c.groups), 1);
  packer.add(filter_order(c), kFilterOrderBits);
  packer.add(power_of(c.images), kPowerBits);
  for (const int64_t length : c.input) packer.add(length_class(length), kLengthBits);
  for (int i = 0; i < kSpatial; ++i) {
    packer.add_signed(c.window[i], kWindowBits);
    packer.add_signed(c.stride[i], kStrideBits);
    packer.add_signed(-c.first[i], kPaddingBits);
    packer.add_signed(c.step[i], kDilationBits);
  }
  for (const int64_t count : {c.groups, c.channels * c.groups, c.rows * c.groups}) {
    packer.add_signed(count, kChannelBits);
  }
  packer.add_signed(c.math_mode, kMathModeBits);
  return packer.key();
}

bool TuningKey::operator==(const TuningKey& other) const {
  return std::equal(std::begin(words_), std::end(words_), std::begin(other.words_));
}

uint64_t TuningKey::hash() const {
  uint64_t hash = 0;
  for (const uint64_t word : words_) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return hash;
}

std::string TuningKey::text() const {
  KeyUnpacker from(*this);
  switch (from.take(kFamilyBits)) {
    case kGemm:
      return gemm_text(from);
    case kConvolution:
      return convolution_text(from);
    default:
      return "";
  }
}

std::string TuningKey::line() const {
  char line[20 * kWords];
  static_assert(kWords == 3);
  std::snprintf(line, sizeof line, "%llx %llx %llx", static_cast<unsigned long long>(words_[0]),
                static_cast<unsigned long long>(words_[1]), static_cast<unsigned long long>(words_[2]));
  return line;
}

bool TuningKey::parse(const char** at, TuningKey* key) {
  for (uint64_t& word : key->words_) {
    char* end = nullptr;
    word = std::strtoull(*at, &end, 16);
    if (end == *at) return false;
    *at = end;
  }
  return !key->is_none();
}

}  // namespace unihal::kernels
