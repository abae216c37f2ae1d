// Where the elements of a mask are that are not 0.
#pragma once

#include <optional>

#include "plugins/paddle/kernels/common.h"

namespace unihal::paddle {

// Their coordinates in row-major order: int64 (places, rank of the mask). The host waits for their number, and
// allocates no more rows than that.
class TruePlaces {
 public:
  TruePlaces(const Context& context, const View& mask) : number_(context, UHAL_INT64, nullptr, 0), mask_(mask) {
    context.run(UHAL_OP_NONZERO, {&mask_}, {&number_});
    count_ = static_cast<int64_t>(read_number(context, number_));
  }
  TruePlaces(const TruePlaces&) = delete;
  TruePlaces& operator=(const TruePlaces&) = delete;

  int64_t count() const { return count_; }
  int rank() const { return mask_.rank; }

  // Writes them to `y` (count, rank).
  void write(const Context& context, const View& y) const {
    if (y.elements() > 0) context.run(UHAL_OP_NONZERO, {&mask_}, {&number_, &y});
  }

  // The same in memory of their own, kept here.
  const View& view(const Context& context) {
    if (!places_) {
      const int64_t dims[] = {count_, mask_.rank};
      places_.emplace(context, UHAL_INT64, dims, 2);
      write(context, *places_);
    }
    return *places_;
  }

 private:
  const Scratch number_;
  const View mask_;
  int64_t count_ = 0;
  std::optional<Scratch> places_;
};

}  // namespace unihal::paddle
