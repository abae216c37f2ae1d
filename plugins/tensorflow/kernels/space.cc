// Blocks of space moved to the batch and back, and padding with mirror images.
#include <algorithm>

#include "plugins/tensorflow/registrar.h"

namespace unihal::tensorflow {
namespace {

// (batch * blocks, space..., rest) seen as (batch, space 1, block 1, space 2, block 2, ..., rest): `dense` has the
// blocks in front of the batch, the first the outermost.
View blocks_seen_in_space(const View& dense, const Shape& blocks, int64_t batch, const int64_t* space, int64_t rest) {
  const int count = static_cast<int>(blocks.size());
  Shape shape = blocks;
  shape.push_back(batch);
  shape.insert(shape.end(), space, space + count);
  shape.push_back(rest);
  int order[UHAL_MAX_RANK] = {count};
  for (int i = 0; i < count; ++i) {
    order[1 + 2 * i] = count + 1 + i;
    order[2 + 2 * i] = i;
  }
  order[2 * count + 1] = 2 * count + 1;
  return dense.reshaped(shape).permuted(order, 2 * count + 2);
}

// (batch, space..., rest) with each axis of space split into (space, block).
View split_space(const View& dense, const Shape& blocks, int64_t batch, const int64_t* space, int64_t rest) {
  Shape shape = {batch};
  for (size_t i = 0; i < blocks.size(); ++i) shape.insert(shape.end(), {space[i], blocks[i]});
  shape.push_back(rest);
  return dense.reshaped(shape);
}

// What SpaceToBatch and BatchToSpace share: blocks, from an attribute or an operand, and margins of them.
class Blocks : public Kernel {
 public:
  explicit Blocks(Construction& construction)
      : Kernel(construction), size_(construction.has("block_size") ? construction.integer("block_size") : 0) {
    if (construction.has("block_size") && size_ < 2) {
      construction.fail(TF_INVALID_ARGUMENT, "Block size should be > 1: " + std::to_string(size_));
    }
  }

 protected:
  struct Problem {
    View input;
    Shape blocks;
    Shape margins;  // before and after, for each axis of space
    int64_t product = 1;
    int64_t rest = 1;
  };

  // False where the call has failed or was refused.
  bool read(Context& context, Problem* problem) const {
    problem->input = context.input(0);
    problem->blocks = size_ > 0 ? Shape{size_, size_} : context.host_vector(1);
    const int last = context.input_count() - 1;
    const Shape margins = context.dims(last);
    problem->margins = context.host_integers(last);
    if (!context.ok()) return false;
    const View& input = problem->input;
    const auto count = static_cast<int64_t>(problem->blocks.size());
    if (input.rank < 1 + count || (size_ > 0 && input.rank != 4)) {
      context.fail_invalid("input rank should be >= " + std::to_string(1 + count) + " instead of " +
                           std::to_string(input.rank));
    } else if (margins != Shape{count, 2}) {
      context.fail_invalid(std::string(op()) + ": paddings or crops should have shape [" + std::to_string(count) +
                           ", 2] instead of " + to_text(margins));
    } else if (std::any_of(problem->blocks.begin(), problem->blocks.end(), [](int64_t block) { return block < 1; })) {
      context.fail_invalid("All values in block_shape must be positive, got " + to_text(problem->blocks));
    } else if (std::any_of(problem->margins.begin(), problem->margins.end(), [](int64_t m) { return m < 0; })) {
      context.fail_invalid(std::string(op()) + ": paddings and crops must not be negative");
    } else if (2 * count + 2 > UHAL_MAX_RANK) {
      context.refuse("more than " + std::to_string((UHAL_MAX_RANK - 2) / 2) + " axes of blocks");
    }
    if (!context.ok()) return false;
    for (int64_t block : problem->blocks) {
      if (__builtin_mul_overflow(problem->product, block, &problem->product)) {
        context.fail_invalid("The product of the block sizes is too large: " + to_text(problem->blocks));
        return false;
      }
    }
    for (int i = static_cast<int>(1 + count); i < input.rank; ++i) problem->rest *= input.shape[i];
    return true;
  }

 private:
  int64_t size_;
};

class SpaceToBatch : public Blocks {
 public:
  using Blocks::Blocks;
  void compute(Context& context) const override {
    Problem problem;
    if (!read(context, &problem)) return;
    const View& input = problem.input;
    const size_t count = problem.blocks.size();
    Shape padded = shape_of(input);
    Shape shape = padded;
    bool pads = false;
    for (size_t i = 0; i < count; ++i) {
      const int64_t before = problem.margins[2 * i];
      const int64_t after = problem.margins[2 * i + 1];
      int64_t& length = padded[1 + i];
      if (__builtin_add_overflow(length, before, &length) || __builtin_add_overflow(length, after, &length)) {
        return context.fail_invalid(std::string(op()) + ": paddings are too large");
      }
      pads = pads || before + after > 0;
      if (length % problem.blocks[i] != 0) {
        return context.fail_invalid("padded_shape[" + std::to_string(i) + "]=" + std::to_string(length) +
                                    " is not divisible by block_shape[" + std::to_string(i) +
                                    "]=" + std::to_string(problem.blocks[i]));
      }
      shape[1 + i] = length / problem.blocks[i];
    }
    if (__builtin_mul_overflow(shape[0], problem.product, &shape[0])) {
      return context.fail_invalid(std::string(op()) + ": the batch becomes too large");
    }
    const View output = context.output(0, input.dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    View source = input;
    if (pads) {
      source = context.temporary(input.dtype, padded);
      if (!context.ok() || !context.zero(source)) return;
      View middle = source;
      for (size_t i = 0; i < count; ++i) {
        middle = middle.sliced(static_cast<int>(1 + i), problem.margins[2 * i], input.shape[1 + i]);
      }
      if (input.elements() > 0) context.copy(input, middle);
    }
    context.copy(split_space(source, problem.blocks, input.shape[0], &shape[1], problem.rest),
                 blocks_seen_in_space(output, problem.blocks, input.shape[0], &shape[1], problem.rest));
  }
};

class BatchToSpace : public Blocks {
 public:
  using Blocks::Blocks;
  void compute(Context& context) const override {
    Problem problem;
    if (!read(context, &problem)) return;
    const View& input = problem.input;
    const size_t count = problem.blocks.size();
    if (input.shape[0] % problem.product != 0) {
      return context.fail_invalid("Input batch dimension (" + std::to_string(input.shape[0]) +
                                  ") is not divisible by product of block sizes (" + std::to_string(problem.product) +
                                  ")");
    }
    Shape whole = shape_of(input);
    whole[0] /= problem.product;
    Shape shape = whole;
    bool crops = false;
    for (size_t i = 0; i < count; ++i) {
      const int64_t before = problem.margins[2 * i];
      const int64_t after = problem.margins[2 * i + 1];
      int64_t cropped = 0;
      if (__builtin_mul_overflow(whole[1 + i], problem.blocks[i], &whole[1 + i]) ||
          __builtin_sub_overflow(whole[1 + i], before, &cropped) || __builtin_sub_overflow(cropped, after, &cropped) ||
          cropped < 0) {
        return context.fail_invalid("cropped_shape[" + std::to_string(i) + "] must be non-negative: crops " +
                                    to_text(problem.margins) + " of " + to_text(whole));
      }
      crops = crops || before + after > 0;
      shape[1 + i] = cropped;
    }
    const View output = context.output(0, input.dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    const View target = crops ? context.temporary(input.dtype, whole) : output;
    if (!context.ok()) return;
    context.copy(blocks_seen_in_space(input, problem.blocks, whole[0], input.shape + 1, problem.rest),
                 split_space(target, problem.blocks, whole[0], input.shape + 1, problem.rest));
    if (!crops) return;
    View middle = target;
    for (size_t i = 0; i < count; ++i) {
      middle = middle.sliced(static_cast<int>(1 + i), problem.margins[2 * i], shape[1 + i]);
    }
    context.copy(middle, output);
  }
};

// MirrorPad(input, paddings) and its gradient, one axis after another.
class Mirror : public Kernel {
 public:
  explicit Mirror(Construction& construction)
      : Kernel(construction), edge_(construction.text("mode") == "REFLECT" ? 1 : 0) {}

 protected:
  // Host input 1 as (before, after) of each axis; false if they do not fit. `inner` gets the shape without padding.
  bool read(Context& context, const View& input, bool padded, Shape* paddings, Shape* inner) const {
    const Shape dims = context.dims(1);
    *paddings = context.host_integers(1);
    if (!context.ok()) return false;
    if (dims != Shape{input.rank, 2}) {
      context.fail_invalid("paddings must be a matrix with 2 columns and a row per axis: " + to_text(dims) +
                           " for an input of shape " + to_text(input));
      return false;
    }
    *inner = shape_of(input);
    for (size_t i = 0; i < inner->size(); ++i) {
      const int64_t before = (*paddings)[2 * i];
      const int64_t after = (*paddings)[2 * i + 1];
      if (before < 0 || after < 0) {
        context.fail_invalid("paddings must be non-negative: " + std::to_string(before) + " " + std::to_string(after));
        return false;
      }
      int64_t& length = (*inner)[i];
      if (padded) length = before > length || after > length - before ? -1 : length - before - after;
      if (std::max(before, after) > length - edge_ && before + after > 0) {
        context.fail_invalid("paddings must be " + std::string(edge_ == 1 ? "less" : "no greater") +
                             " than the dimension size: " + std::to_string(before) + ", " + std::to_string(after) +
                             (edge_ == 1 ? " not less than " : " greater than ") + std::to_string(length));
        return false;
      }
      if (length < 0) {
        context.fail_invalid("paddings leave nothing of the input's shape " + to_text(input));
        return false;
      }
    }
    return true;
  }

  // The `count` elements next to the lower (upper) end of a view along an axis, mirrored.
  View image(const View& view, int axis, int64_t count, bool upper) const {
    const int64_t last = upper ? view.shape[axis] - 1 - edge_ : edge_ + count - 1;
    return view.sliced(axis, last, count, -1);
  }

 private:
  int64_t edge_;  // 1: the last element is not repeated
};

class MirrorPad : public Mirror {
 public:
  using Mirror::Mirror;
  void compute(Context& context) const override {
    View current = context.input(0);
    Shape paddings, inner;
    if (!context.ok() || !read(context, current, false, &paddings, &inner)) return;
    Shape shape = inner;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (__builtin_add_overflow(shape[i], paddings[2 * i], &shape[i]) ||
          __builtin_add_overflow(shape[i], paddings[2 * i + 1], &shape[i])) {
        return context.fail_invalid("paddings are too large: " + to_text(paddings));
      }
    }
    const View output = context.output(0, current.dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    for (int axis = 0; context.ok() && axis < current.rank; ++axis) {
      const int64_t before = paddings[static_cast<size_t>(2 * axis)];
      const int64_t after = paddings[static_cast<size_t>(2 * axis + 1)];
      if (before + after == 0) continue;
      Shape longer = shape_of(current);
      longer[static_cast<size_t>(axis)] += before + after;
      const View next = longer == shape ? output : context.temporary(current.dtype, longer);
      if (!context.ok()) return;
      const int64_t length = current.shape[axis];
      context.copy(current, next.sliced(axis, before, length));
      if (before > 0) context.copy(image(current, axis, before, false), next.sliced(axis, 0, before));
      if (after > 0) context.copy(image(current, axis, after, true), next.sliced(axis, before + length, after));
      current = next;
    }
    if (current.data != output.data) context.copy(current, output);
  }
};

class MirrorPadGrad : public Mirror {
 public:
  using Mirror::Mirror;
  void compute(Context& context) const override {
    View current = context.input(0);
    Shape paddings, shape;
    if (!context.ok() || !read(context, current, true, &paddings, &shape)) return;
    const View output = context.output(0, current.dtype, shape);
    if (!context.ok() || output.elements() == 0) return;
    for (int axis = 0; context.ok() && axis < current.rank; ++axis) {
      const int64_t before = paddings[static_cast<size_t>(2 * axis)];
      const int64_t after = paddings[static_cast<size_t>(2 * axis + 1)];
      if (before + after == 0) continue;
      Shape shorter = shape_of(current);
      shorter[static_cast<size_t>(axis)] -= before + after;
      const View next = shorter == shape ? output : context.temporary(current.dtype, shorter);
      if (!context.ok()) return;
      const int64_t length = next.shape[axis];
      context.copy(current.sliced(axis, before, length), next);
      const auto add = [&](const View& to, const View& from) { context.map(uhal_map_add, {&to, &from}, {&to}); };
      if (before > 0) add(image(next, axis, before, false), current.sliced(axis, 0, before));
      if (after > 0) add(image(next, axis, after, true), current.sliced(axis, before + length, after));
      current = next;
    }
    if (current.data != output.data) context.copy(current, output);
  }
};

}  // namespace

void register_space(Registrar& registrar) {
  registrar.add<SpaceToBatch>("SpaceToBatchND", {{"T", kAll}}, {"block_shape", "paddings"});
  registrar.add<BatchToSpace>("BatchToSpaceND", {{"T", kAll}}, {"block_shape", "crops"});
  registrar.add<SpaceToBatch>("SpaceToBatch", {{"T", kAll}}, {"paddings"});
  registrar.add<BatchToSpace>("BatchToSpace", {{"T", kAll}}, {"crops"});
  registrar.add<MirrorPad>("MirrorPad", {{"T", kAll}}, {"paddings"});
  registrar.add<MirrorPadGrad>("MirrorPadGrad", {{"T", kNumbers | kComplex}}, {"paddings"});
}

}  // namespace unihal::tensorflow
