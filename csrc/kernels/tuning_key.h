// What a choice between kernels depends on, by which it is found at launch and kept.
#ifndef UNIHAL_KERNELS_TUNING_KEY_H_
#define UNIHAL_KERNELS_TUNING_KEY_H_

#include <cstdint>
#include <string>

namespace unihal {
struct MatmulProblem;
}

namespace unihal::kernels {

struct Convolution;
enum class Pass : uint8_t;

// Packed numbers, since every launch makes one where there are choices. Made without allocation.
class TuningKey {
 public:
  // Of nothing: where there is no choice.
  TuningKey() = default;

  // Of a product that is computed in tiles. Sizes count as powers of two, rounded down. `a_along_k`: whether a's
  // elements lie one after the other along k (else along m), and so for b (else along n).
  static TuningKey gemm(const MatmulProblem& problem, bool a_along_k, bool b_along_k);

  // Of a convolution or a gradient, told as the forward one, with images and filters that have elements. Images count
  // as a power of two, rounded down, and so do their lengths above 64; all else counts as it is. None if a number is
  // larger than any network's (a window of 64 pixels, a million channels).
  static TuningKey convolution(Pass pass, const Convolution& forward);

  bool is_none() const { return words_[0] == 0; }
  bool operator==(const TuningKey& other) const;
  uint64_t hash() const;

  // "gemm float32 nt 4096 4096 1024 1": docs/tuning.md. Empty for none.
  std::string text() const;

  // As kept: one line of numbers without its end. parse() moves *at behind it; false if it is none.
  std::string line() const;
  static bool parse(const char** at, TuningKey* key);

 private:
  friend class KeyPacker;
  friend class KeyUnpacker;
  static constexpr int kWords = 3;
  uint64_t words_[kWords] = {};
};

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_TUNING_KEY_H_
