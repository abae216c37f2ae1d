// Numbers of device memory that the host must know, and how often a number has come before.
#pragma once

#include "plugins/tensorflow/kernel.h"

namespace unihal::tensorflow {

// The one element of a view, as an integer; waits for the stream. 0 if the context has failed.
int64_t read_number(Context& context, const View& number);

// All elements of a dense view as integers; waits for the stream.
Shape read_numbers(Context& context, const View& numbers);

// Of each number in a vector of int32 or int64, how many before it are equal: int64, in memory of the context.
View occurrences(Context& context, const View& numbers);

}  // namespace unihal::tensorflow
