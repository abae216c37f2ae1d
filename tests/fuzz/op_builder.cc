#include "tests/fuzz/op_builder.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string>

namespace fuzz {
namespace {

constexpr int64_t kLengths[] = {1, 2, 3, 4, 5, 6, 0, 9};
constexpr uhal_dtype kUsualDtypes[] = {UHAL_FLOAT32, UHAL_FLOAT64, UHAL_FLOAT16, UHAL_BFLOAT16, UHAL_INT32};
constexpr int64_t kOddNumbers[] = {
    0,         1,         -1,        2,         3,         7,         -2,           1 << 16,
    INT32_MAX, INT32_MIN, 1LL << 31, 1LL << 32, 1LL << 40, 1LL << 56, -(1LL << 56), 1LL << 62,
    INT64_MAX, INT64_MIN, 255,       1000,
};
constexpr double kOddReals[] = {0, -0.0, 1, -1, 0.5, 2.5, 1e-30, -1e30, 1e300, 1e19};
constexpr size_t kGap = 256;  // between operands: what lies there is nobody's

int count_of(const char* text) {
  return *text == '\0' ? 0 : 1 + static_cast<int>(std::count(text, text + strlen(text), ' '));
}

}  // namespace

struct BuiltOp::Spec {
  std::string axes;
  char dtype = ' ';
  bool optional = false;
};

BuiltOp::BuiltOp(ByteReader& input, const Arena& arena)
    : input_(input), arena_(arena), row_(kOpTemplates[input.below(kOpTemplateCount)]) {
  dtype_ = input_.below(8) == 0 ? 1 + input_.below(UHAL_DTYPE_COUNT - 1) : kUsualDtypes[input_.below(5)];
  if (row_.attributes != nullptr) {
    attributes_.reset(new char[row_.attributes_size]);
    memcpy(attributes_.get(), row_.attributes, row_.attributes_size);
    for (int times = input_.below(4); times > 0; --times) spoil_attributes();
  }
  choose_sizes();
  add_operands(row_.inputs, true);
  input_count_ = static_cast<int>(operands_.size());
  add_operands(row_.outputs, false);
  if (input_count_ > 0 && input_.below(8) == 7) {  // in place
    uhal_tensor* output = operands_[static_cast<size_t>(input_count_)].get();
    const uhal_tensor* shared = operands_[static_cast<size_t>(input_.below(input_count_))].get();
    if (output != nullptr && shared != nullptr) *output = *shared;
  }
  op_.struct_size = sizeof op_;
  op_.kind = row_.kind;
  op_.input_count = input_count_;
  op_.output_count = static_cast<int32_t>(operands_.size()) - input_count_;
  op_.attributes = attributes_.get();
  op_.label = input_.below(2) == 0 ? nullptr : "fuzzed";
  spoil();
  for (const auto& operand : operands_) pointers_.push_back(operand.get());
  op_.inputs = pointers_.data();
  op_.outputs = pointers_.data() + input_count_;
  if (input_.byte() == 255) op_.inputs = nullptr;
  if (input_.byte() == 255) op_.outputs = nullptr;
  if (input_.byte() == 255) op_.attributes = nullptr;
}

int64_t& BuiltOp::at(int axis) { return sizes_[axis]; }

int64_t BuiltOp::length(char axis) { return isdigit(axis) ? axis - '0' : at(axis); }

// Sizes of all axes; those of windows and of what they leave follow from the attributes.
void BuiltOp::choose_sizes() {
  for (char axis = 'a'; axis <= 'z'; ++axis) {
    const uint8_t byte = input_.byte();
    at(axis) = byte < 250 ? kLengths[byte % 8] : 64 + byte - 250;
  }
  at('C') = 2 * at('c');
  at('O') = 2 * at('o');
  uhal_convolution_attributes window = {sizeof window, {1, 1, 1}, {1, 1, 1}, {}, {}, 1, 0, 0};
  if (row_.kind == UHAL_OP_POOL || row_.kind == UHAL_OP_POOL_BACKWARD) {
    uhal_pool_attributes pool;
    memcpy(&pool, attributes_.get(), sizeof pool);
    for (int i = 0; i < UHAL_MAX_SPATIAL; ++i) {
      at('r' + i) = pool.window[i];
      window.stride[i] = pool.stride[i];
      window.pad_before[i] = pool.pad_before[i];
      window.pad_after[i] = pool.pad_after[i];
    }
  } else if (row_.attributes_size == sizeof window) {
    memcpy(&window, attributes_.get(), sizeof window);
  }
  for (int i = 0; i < UHAL_MAX_SPATIAL; ++i) {
    using Wide = __int128;
    const Wide reach = static_cast<Wide>(window.dilation[i]) * (static_cast<Wide>(at('r' + i)) - 1) + 1;
    const Wide room = static_cast<Wide>(at('x' + i)) + window.pad_before[i] + window.pad_after[i] - reach;
    const Wide count = window.stride[i] == 0 ? 0 : room / window.stride[i] + 1;
    at('X' + i) = room < 0 ? 0 : static_cast<int64_t>(std::clamp<Wide>(count, 0, 64));
  }
}

uhal_dtype BuiltOp::dtype(char mark) {
  switch (mark) {
    case 'c':
      return dtype_ == UHAL_FLOAT64 ? UHAL_COMPLEX128 : UHAL_COMPLEX64;
    case 'i':
      return input_.below(2) == 0 ? UHAL_INT32 : UHAL_INT64;
    case 'm':
      return input_.below(2) == 0 ? UHAL_UINT8 : UHAL_BOOL;
    case 'n':
      return UHAL_INT32;
    case 'q':
      return input_.below(2) == 0 ? UHAL_INT8 : UHAL_UINT8;
    case 'h':
      return UHAL_FLOAT16 + input_.below(3);
    case 's':
      return dtype_ == UHAL_FLOAT64 ? UHAL_FLOAT64 : UHAL_FLOAT32;
    case 'v':
      return 1 + input_.below(UHAL_COMPLEX128);
    default:
      return dtype_;
  }
}

void BuiltOp::add_operands(const char* text, bool inputs) {
  int wanted = count_of(text);
  if (row_.kind == UHAL_OP_MAP) {
    auto* attributes = reinterpret_cast<uhal_map_attributes*>(attributes_.get());
    if (inputs) attributes->function = input_.byte();
    uhal_map_function_info info = {};
    info.struct_size = sizeof info;
    if (uhal_map_function_get(attributes->function, &info) == UHAL_OK) {
      wanted = inputs ? info.input_count : info.output_count;
    }
  }
  Spec spec;
  for (int i = 0; i < wanted; ++i) {
    if (*text != '\0') {
      spec = Spec();
      if (text[0] == '(') text += 2;
      while (isalnum(*text)) spec.axes += *text++;
      if (*text == '/') spec.dtype = text[1], text += 2;
      if (*text == '?') spec.optional = true, ++text;
      if (*text == ' ') ++text;
    }
    add_operand(spec);
  }
}

void BuiltOp::add_operand(const Spec& spec) {
  operands_.emplace_back();
  if (spec.optional && input_.below(2) == 0) return;
  auto view = std::make_unique<uhal_tensor>();
  view->struct_size = sizeof *view;
  view->dtype = dtype(spec.dtype);
  view->rank = static_cast<int32_t>(spec.axes.size());
  for (size_t i = 0; i < spec.axes.size(); ++i) view->shape[i] = length(spec.axes[i]);
  lay_out(view.get());
  place(view.get());
  operands_.back() = std::move(view);
}

// Strides: row-major, column-major, with gaps, backwards along one axis.
void BuiltOp::lay_out(uhal_tensor* view) {
  const int layout = input_.below(4);
  const int64_t gap = layout == 2 ? 2 : 1;
  int64_t stride = gap;
  for (int i = 0; i < view->rank; ++i) {
    const int axis = layout == 1 ? i : view->rank - 1 - i;
    view->strides[axis] = stride;
    stride *= std::max<int64_t>(view->shape[axis], 1);
  }
  if (layout == 3 && view->rank > 0) view->strides[input_.below(view->rank)] *= -1;
}

// Takes the next part of the arena; past its end, an address there that is not big enough.
void BuiltOp::place(uhal_tensor* view) {
  const int64_t size = static_cast<int64_t>(uhal_dtype_size(view->dtype));
  int64_t low = 0;
  int64_t high = 0;
  for (int i = 0; i < view->rank; ++i) {
    const int64_t reach = std::max<int64_t>(view->shape[i] - 1, 0) * view->strides[i];
    (reach < 0 ? low : high) += reach;
  }
  const size_t bytes = static_cast<size_t>((high - low + 1) * size);
  used_ = std::min((used_ + kGap + kGap - 1) / kGap * kGap, arena_.bytes - kGap);
  view->data = arena_.base + used_ - low * size;
  used_ += bytes;
}

int64_t BuiltOp::odd_number() {
  const int choice = input_.below(static_cast<int>(std::size(kOddNumbers)) + 1);
  return choice < static_cast<int>(std::size(kOddNumbers)) ? kOddNumbers[choice] : input_.take<int64_t>();
}

void BuiltOp::spoil() {
  for (int times = std::max(0, input_.below(8) - 4); times > 0; --times) {
    const size_t which = static_cast<size_t>(input_.below(static_cast<int>(operands_.size()) + 1));
    if (which == operands_.size()) {
      spoil_op();
    } else if (operands_[which] != nullptr) {
      if (input_.below(16) == 0) {
        operands_[which].reset();
      } else {
        spoil_view(operands_[which].get());
      }
    }
  }
}

void BuiltOp::spoil_op() {
  switch (input_.below(4)) {
    case 0:
      op_.struct_size = static_cast<size_t>(odd_number());
      break;
    case 1:
      op_.kind = static_cast<uhal_op_kind>(input_.below(2) == 0 ? input_.below(140) : odd_number());
      break;
    case 2:  // never more than there are: the core can only believe a count
      op_.input_count = std::min(static_cast<int32_t>(odd_number()), op_.input_count);
      break;
    default:
      op_.output_count = std::min(static_cast<int32_t>(odd_number()), op_.output_count);
  }
}

void BuiltOp::spoil_view(uhal_tensor* view) {
  const int axis = input_.below(UHAL_MAX_RANK);
  switch (input_.below(8)) {
    case 0:
      view->struct_size = static_cast<size_t>(odd_number());
      break;
    case 1:
      view->data = nullptr;
      break;
    case 2:
      // Unsigned, since another spoiling may have left the highest address there.
      view->data = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(view->data) +
                                           static_cast<uintptr_t>(odd_number() % (1 << 20)));
      break;
    case 3:
      view->data = reinterpret_cast<void*>(odd_number());
      break;
    case 4:
      view->dtype = static_cast<uhal_dtype>(input_.below(2) == 0 ? input_.below(18) : odd_number());
      break;
    case 5:
      view->rank = static_cast<int32_t>(input_.below(2) == 0 ? input_.below(12) : odd_number());
      break;
    case 6:
      view->shape[axis] = odd_number();
      break;
    default:
      view->strides[axis] = odd_number();
  }
}

// One word after struct_size, or struct_size itself; then the memory is no longer than it says.
void BuiltOp::spoil_attributes() {
  const size_t words = row_.attributes_size / sizeof(int32_t);
  const size_t word = static_cast<size_t>(input_.byte()) % words;
  char* place = attributes_.get() + word * sizeof(int32_t);
  if (word < sizeof(size_t) / sizeof(int32_t)) {
    const size_t size =
        input_.below(2) == 0 ? input_.below(static_cast<int>(row_.attributes_size)) : row_.attributes_size;
    memcpy(attributes_.get(), &size, sizeof size);
    return;
  }
  const int choice = input_.below(3);
  if (choice == 0 && word % 2 == 0) {
    const double real = kOddReals[input_.below(static_cast<int>(std::size(kOddReals)))];
    memcpy(place, &real, sizeof real);
  } else if (choice == 1 && word % 2 == 0) {
    const int64_t number = odd_number();
    memcpy(place, &number, sizeof number);
  } else {
    const int32_t number = input_.below(4) == 0 ? static_cast<int32_t>(odd_number()) : input_.below(14) - 2;
    memcpy(place, &number, sizeof number);
  }
}

int64_t BuiltOp::elements() const {
  int64_t sum = 0;
  for (const auto& view : operands_) {
    int64_t count = 1;
    bool overflows = false;
    for (int i = 0; view != nullptr && i < std::clamp(view->rank, 0, static_cast<int32_t>(UHAL_MAX_RANK)); ++i) {
      if (view->shape[i] == 0) return 0;
      overflows = overflows || __builtin_mul_overflow(count, view->shape[i], &count);
    }
    if (overflows || __builtin_add_overflow(sum, count, &sum)) return INT64_MAX;
  }
  return sum;
}

}  // namespace fuzz
