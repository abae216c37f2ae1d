// Numbers of device memory that the host must know, and how often a number has come before.
#pragma once

#include "plugins/tensorflow/kernel.h"

namespace unihal::tensorflow {

// The one element of a view, as an integer; waits for the stream. 0 if the context has failed.
int64_t read_number(Context& context, const View& number);

// All elements of a dense view as integers; waits for the stream.
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
