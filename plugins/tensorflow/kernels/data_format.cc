// Numbers of axes, and sizes by axis, from one order of axes ("NHWC") to another ("NCHW").
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

// What both ops read from their node: where an axis of `from` is in `to`.
struct Formats {
  std::string from, to;

  explicit Formats(Construction& construction)
      : from(construction.text("src_format")), to(construction.text("dst_format")) {
    for (const auto& [format, name] : {std::pair(&from, "Source"), std::pair(&to, "Destination")}) {
      if (format->size() != 4 && format->size() != 5) {
        construction.fail(TF_INVALID_ARGUMENT,
                          std::string(name) + " format must be of length 4 or 5, received " + *format);
      }
    }
    std::string a = from, b = to;
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    if (a != b || std::adjacent_find(a.begin(), a.end()) != a.end()) {
      construction.fail(TF_INVALID_ARGUMENT,
                        "Destination and source format must determine a permutation, got " + from + " and " + to);
    }
  }
};

// DataFormatDimMap(x): of each axis of the one order its number in the other. Negative numbers count from the end. What
// is no axis is taken as the CPU takes it: (x + axes) % axes in C++, where what is left below 0 is the last axis.
class DimMap : public Kernel {
 public:
  explicit DimMap(Construction& construction) : Kernel(construction), formats_(construction) {}
  void compute(Context& context) const override {
    const Shape shape = context.dims(0);
    const View x = context.flat_input(0);
    if (!context.ok()) return;
    const View output = context.flat_output(0, x.dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    const auto axes = static_cast<int64_t>(formats_.from.size());
    const View numbers = context.temporary(x.dtype, {2 * axes + 1});
    const View places = context.temporary(x.dtype, x.shape, 1);
    if (!context.ok() || !context.upload(x.dtype == UHAL_INT64 ? table<int64_t>() : table<int32_t>(), numbers)) return;
    const View in_order = numbers.sliced(0, 0, 2 * axes - 1);
    const View count = numbers.sliced(0, 2 * axes - 1, 1), below = numbers.sliced(0, 2 * axes, 1);
    if (!context.map(uhal_map_add, {&x, &count}, {&places}) ||
        !context.map(uhal_map_truncate_mod, {&places, &count}, {&places}) ||
        !context.map(uhal_map_add, {&places, &below}, {&places})) {
      return;
    }
    const uhal_index_attributes attributes = index_attributes(0);
    context.launch(UHAL_OP_GATHER, {&in_order, &places}, {&output}, &attributes);
  }

 private:
  // The axes' numbers behind those of what is below 0, how many axes there are, and how many are below.
  template <class T>
  std::vector<char> table() const {
    const auto axes = formats_.from.size();
    std::vector<T> numbers(axes - 1, static_cast<T>(formats_.to.find(formats_.from.back())));
    for (const char axis : formats_.from) numbers.push_back(static_cast<T>(formats_.to.find(axis)));
    numbers.push_back(static_cast<T>(axes));
    numbers.push_back(static_cast<T>(axes - 1));
    std::vector<char> bytes(numbers.size() * sizeof(T));
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    return bytes;
  }

  Formats formats_;
};

// DataFormatVecPermute(x): what belongs to each axis, a number or a pair, in the other order; of all axes or of those
// of space alone.
class VecPermute : public MovementKernel {
 public:
  explicit VecPermute(Construction& construction) : MovementKernel(construction), formats_(construction) {}
  void move(Context& context) const override {
    const View input = context.input(0);
    if (!context.ok()) return;
    if (input.rank != 1 && input.rank != 2) {
      return context.fail_invalid("input must be a vector or 2D tensor, but got shape " + to_text(input));
    }
    std::string from = formats_.from, to = formats_.to;
    const auto axes = static_cast<int64_t>(from.size());
    if (input.shape[0] != axes && input.shape[0] != axes - 2) {
      return context.fail_invalid(std::to_string(input.rank) + "D input must have " + std::to_string(axes - 2) +
                                  " or " + std::to_string(axes) + " rows, but got shape " + to_text(input));
    }
    if (input.rank == 2 && input.shape[1] != 2) {
      return context.fail_invalid("Second dimension of 2D input must be of size 2, but got shape " + to_text(input));
    }
    if (input.shape[0] == axes - 2) {
      for (std::string* format : {&from, &to}) {
        format->erase(
            std::remove_if(format->begin(), format->end(), [](char axis) { return axis == 'N' || axis == 'C'; }),
            format->end());
      }
      if (static_cast<int64_t>(from.size()) != axes - 2) {
        return context.fail_invalid("Format specifier must contain N and C beside the axes of space, got " +
                                    formats_.from);
      }
    }
    const View output = context.output_like(0, input);
    for (size_t row = 0; context.ok() && row < to.size(); ++row) {
      const auto source = static_cast<int64_t>(from.find(to[row]));
      context.copy(input.sliced(0, source, 1), output.sliced(0, static_cast<int64_t>(row), 1));
    }
  }

 private:
  Formats formats_;
};

}  // namespace

void register_data_format(Registrar& registrar) {
  registrar.add<DimMap>("DataFormatDimMap", {{"T", kIndices}});
  registrar.add_movement<VecPermute>("DataFormatVecPermute", kIndices, {"x", "y"});
}

}  // namespace unihal::tensorflow
