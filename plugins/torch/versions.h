// What differs between the minor versions of PyTorch that are supported (python/unihal_torch/versions.py lists them).
// Each is asked of the headers by whether it is there, so that no file asks for a version's number. One more lies in
// call.h: Structured takes the further parameters of set_output_* as they come.
#pragma once

#include <ATen/TensorIterator.h>

#include <optional>

namespace unihal::pytorch {

// The dtype that an iterator computes in; none where it was not asked to find one. A question of PyTorch's own
// since 2.13.
template <class Iterator>
std::optional<at::ScalarType> maybe_common_dtype(const Iterator& iterator) {
  if constexpr (requires { iterator.maybe_common_dtype(); }) {
    return iterator.maybe_common_dtype();
  } else {
    struct Reader : Iterator {
      using Iterator::common_dtype_;
    };
    const at::ScalarType found = iterator.*(&Reader::common_dtype_);
    return found == at::ScalarType::Undefined ? std::nullopt : std::optional<at::ScalarType>(found);
  }
}

}  // namespace unihal::pytorch
