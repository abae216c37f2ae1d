// Numbers of device memory that the host must know, and how often a number has come before.
#pragma once

#include "plugins/tensorflow/kernel.h"

namespace unihal::tensorflow {

// The one element of a view, as an integer; waits for the stream. 0 if the context has failed.
int64_t read_number(Context& context, const View& number);

// All elements of a dense view as integers that the host looks at; waits for the stream. They are copied unless the
// device computes at once, in the host's memory. None if the context has failed.
class HostNumbers {
 public:
  HostNumbers(Context& context, const View& view);
  HostNumbers(const HostNumbers&) = delete;
  HostNumbers& operator=(const HostNumbers&) = delete;

  const int64_t* begin() const { return first_; }
  const int64_t* end() const { return first_ + size_; }
  size_t size() const { return size_; }
  int64_t operator[](size_t i) const { return first_[i]; }

 private:
  Shape copy_;
  const int64_t* first_ = nullptr;
  size_t size_ = 0;
};

// The same as a vector, for few.
Shape read_numbers(Context& context, const View& numbers);

// All elements of dense views of int32, int64 or real numbers, one view after the other; waits for the stream once.
// Empty if the context has failed. An operand of few real numbers that the host must know is better read so than
// registered as host memory: TensorFlow makes such constants on the device, and has each brought back by its own
// threads and events, which takes longer than this wait.
std::vector<double> read_reals(Context& context, const std::vector<View>& views);

// The same of the inputs from `first` on, each of which has to be a scalar; fails the context if one is not.
std::vector<double> read_scalars(Context& context, int first, int count);

// The same of views of int32 or int64, every digit of them.
Shape read_integers(Context& context, const std::vector<View>& views);

// Of each number in a vector of int32 or int64, how many before it are equal: int64, in memory of the context.
View occurrences(Context& context, const View& numbers);

}  // namespace unihal::tensorflow
