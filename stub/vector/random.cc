// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3") and the distributions made from its
// words. Compiled once per instruction set. Words are used, and turned into numbers, as TensorFlow does.

#include "csrc/backends/common/float_bits.h"
#include "stub/vector/compute.h"
#include "stub/vector/vector_math.h"

namespace unihal::stub::UHAL_INSTRUCTION_SET {
namespace {

constexpr int64_t kLanes = 64;   // blocks computed side by side, at most
constexpr int64_t kVector = 16;  // their number is rounded up to this, so that vectors are full
constexpr int kRounds = 10;

void philox(uint64_t key, const uint64_t* counter, int64_t blocks, uint32_t* words) {
  for (int64_t first = 0; first < blocks; first += kLanes) {
    const int64_t count = blocks - first < kLanes ? blocks - first : kLanes;
    // Not a constant: GCC would unroll the loops over lanes whole, and then not vectorize them.
    const int64_t lanes = (count + kVector - 1) / kVector * kVector;
    uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
    for (int64_t i = 0; i < lanes; ++i) {
      const uint64_t low = counter[0] + static_cast<uint64_t>(first + i);
      const uint64_t high = counter[1] + (low < counter[0] ? 1 : 0);
      c0[i] = static_cast<uint32_t>(low);
      c1[i] = static_cast<uint32_t>(low >> 32);
      c2[i] = static_cast<uint32_t>(high);
      c3[i] = static_cast<uint32_t>(high >> 32);
    }
    uint32_t key0 = static_cast<uint32_t>(key);
    uint32_t key1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < kRounds; ++round) {
      for (int64_t i = 0; i < lanes; ++i) {
        const uint64_t product0 = uint64_t{0xD2511F53} * c0[i];
        const uint64_t product1 = uint64_t{0xCD9E8D57} * c2[i];
        c0[i] = static_cast<uint32_t>(product1 >> 32) ^ c1[i] ^ key0;
        c1[i] = static_cast<uint32_t>(product1);
        c2[i] = static_cast<uint32_t>(product0 >> 32) ^ c3[i] ^ key1;
        c3[i] = static_cast<uint32_t>(product0);
      }
      key0 += 0x9E3779B9;
      key1 += 0xBB67AE85;
    }
    for (int64_t i = 0; i < count; ++i) {
      words[4 * (first + i) + 0] = c0[i];
      words[4 * (first + i) + 1] = c1[i];
      words[4 * (first + i) + 2] = c2[i];
      words[4 * (first + i) + 3] = c3[i];
    }
  }
}

// The low 23 bits become the fraction of a number in [1, 2).
inline float unit_float(uint32_t word) { return float_of((word & 0x7fffff) | 0x3f800000) - 1.0f; }

inline double unit_double(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t{0x3ff} << 52) | (static_cast<uint64_t>(high & 0xfffff) << 32) | low;
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value - 1.0;
}

void uniform_float(int64_t count, const uint32_t* words, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = unit_float(words[i]);
}

void uniform_double(int64_t count, const uint32_t* words, double* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = unit_double(words[2 * i], words[2 * i + 1]);
}

constexpr double kTwoPi = 2 * 3.14159265358979323846;

// Box and Muller's transform of two uniform numbers into two normal ones. 1e-7 keeps the logarithm finite. The angle
// is rounded to float once, as TensorFlow does: one step of it would be seen in the result.
void normal_float(int64_t count, const uint32_t* words, float* out) {
  for (int64_t i = 0; i < count; i += 2) {
    const float first = unit_float(words[i]);
    const float radius = ::sqrtf(-2.0f * ::logf(first < 1.0e-7f ? 1.0e-7f : first));
    const float angle = static_cast<float>(kTwoPi * unit_float(words[i + 1]));
    out[i] = ::sinf(angle) * radius;
    out[i + 1] = ::cosf(angle) * radius;
  }
}

void normal_double(int64_t count, const uint32_t* words, double* out) {
  for (int64_t i = 0; i < count; i += 2) {
    const double first = unit_double(words[2 * i], words[2 * i + 1]);
    const double radius = ::sqrt(-2.0 * ::log(first < 1.0e-7 ? 1.0e-7 : first));
    const double angle = kTwoPi * unit_double(words[2 * i + 2], words[2 * i + 3]);
    out[i] = ::sin(angle) * radius;
    out[i + 1] = ::cos(angle) * radius;
  }
}

}  // namespace

extern const RandomLoops kRandomLoops;
const RandomLoops kRandomLoops = {philox, uniform_float, uniform_double, normal_float, normal_double};

}  // namespace unihal::stub::UHAL_INSTRUCTION_SET
