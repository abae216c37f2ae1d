#include "tests/stub/strict_test.h"

#include <cstdlib>

#include "plugins/common/view.h"

namespace strict_test {
namespace {

void launch(uhal_stream* stream, uhal_op_kind kind, const std::vector<const uhal_tensor*>& inputs,
            const uhal_tensor* output, const void* attributes) {
  uhal_op op = {};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.input_count = static_cast<int32_t>(inputs.size());
  op.output_count = 1;
  op.inputs = inputs.data();
  op.outputs = &output;
  op.attributes = attributes;
  require(uhal_launch(stream, &op));
}

}  // namespace

void require(uhal_status status) {
  if (status == UHAL_OK) return;
  ADD_FAILURE() << message();
  std::abort();
}

uhal_device* device(int32_t ordinal) {
  setenv("UNIHAL_STUB", "strict", 1);
  require(uhal_select_backend("stub"));
  uhal_device* opened = nullptr;
  require(uhal_device_get("rdna", ordinal, &opened));
  return opened;
}

uhal_stream* new_stream(int32_t ordinal) {
  uhal_stream* stream = nullptr;
  require(uhal_stream_create(device(ordinal), &stream));
  return stream;
}

void* allocate(size_t bytes, uhal_memory_kind kind, int32_t ordinal) {
  void* pointer = nullptr;
  require(uhal_allocate(device(ordinal), nullptr, kind, bytes, &pointer));
  return pointer;
}

void submit_fill(uhal_stream* stream, void* data, int64_t elements, int64_t value) {
  const unihal::View view(data, UHAL_INT32, {elements});
  uhal_fill_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.integer_value = value;
  launch(stream, UHAL_OP_FILL, {}, &view, &attributes);
}

void submit_add(uhal_stream* stream, void* y, const void* x, int64_t elements) {
  const unihal::View to(y, UHAL_INT32, {elements});
  const unihal::View from(const_cast<void*>(x), UHAL_INT32, {elements});
  uhal_map_attributes attributes = {};
  attributes.struct_size = sizeof attributes;
  attributes.function = uhal_map_function_find("add");
  launch(stream, UHAL_OP_MAP, {&to, &from}, &to, &attributes);
}

std::vector<int32_t> read(uhal_stream* stream, const void* data, size_t elements) {
  std::vector<int32_t> result(elements);
  require(uhal_copy(stream, result.data(), data, elements * sizeof(int32_t), UHAL_COPY_DEVICE_TO_HOST));
  require(uhal_stream_synchronize(stream));
  return result;
}

Gate::Gate(uhal_stream* stream) : state_(std::make_shared<State>()) {
  auto* shared = new std::shared_ptr<State>(state_);
  require(uhal_stream_host_callback(
      stream,
      [](void* user_data) {
        const std::unique_ptr<std::shared_ptr<State>> own(static_cast<std::shared_ptr<State>*>(user_data));
        State& state = **own;
        std::unique_lock<std::mutex> lock(state.mutex);
        state.changed.wait(lock, [&] { return state.open; });
      },
      shared));
}

void Gate::open() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->open = true;
  state_->changed.notify_all();
}

}  // namespace strict_test
