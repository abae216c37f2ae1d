// What `unihal tune` chose for a key.
#ifndef UNIHAL_KERNELS_TUNING_CHOICE_H_
#define UNIHAL_KERNELS_TUNING_CHOICE_H_

#include <cstdint>

#include "csrc/kernels/libraries.h"

namespace unihal::kernels {

struct TuningChoice {
  // -1: as the backend judges.
  TuningChoice(int32_t number = -1, LibraryAlgorithm of_library = kBestAlgorithm)  // NOLINT: a number is a choice
      : candidate(number), algorithm(of_library) {}

  bool operator==(const TuningChoice& other) const {
    return candidate == other.candidate && algorithm == other.algorithm;
  }

  int32_t candidate;           // a way of the kind of op
  LibraryAlgorithm algorithm;  // where that way is a vendor's library
};

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_TUNING_CHOICE_H_
