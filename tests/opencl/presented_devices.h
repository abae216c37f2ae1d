// Devices as real drivers present them, for machines that have none of them: what clGetDeviceInfo answers, a row each.
//
// The answers are what we believe that drivers say; none was taken from a card.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "csrc/backends/opencl/api.h"

namespace opencl_test {

struct Answer {
  std::string bytes;
  unihal::opencl::cl_int code = 0;
  size_t said_bytes = 0;  // what the driver says that it takes; 0: as many as there are
};

struct PresentedDevice {
  std::string key;  // what tests call it
  std::string platform;
  std::map<unihal::opencl::cl_uint, Answer> answers;  // to all else: CL_INVALID_VALUE
};

const std::vector<PresentedDevice>& presented_devices();

// Values as answers hold them.
template <class Value>
Answer answer(const Value& value) {
  return {std::string(reinterpret_cast<const char*>(&value), sizeof value)};
}
template <class Value>
Value value_of(const PresentedDevice& device, unihal::opencl::cl_uint what) {
  Value value;
  device.answers.at(what).bytes.copy(reinterpret_cast<char*>(&value), sizeof value);
  return value;
}

}  // namespace opencl_test
