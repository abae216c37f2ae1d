// Memory of small outputs: see small_outputs.h.
#include "plugins/tensorflow/shim/small_outputs.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/framework/log_memory.h"

namespace unihal::tensorflow_shim {
namespace {

using ::tensorflow::Allocator;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorBuffer;

// Blocks are 256, 512, ... 4096 bytes; TensorFlow's pool rounds to 256 too.
constexpr size_t kSmallestBlock = 256;
constexpr size_t kLargestBlock = 4096;
constexpr size_t kSizes = 5;
constexpr size_t kSlabBytes = 16 << 10;
constexpr size_t kMostBlocks = kSlabBytes / kSmallestBlock;
static_assert(kSmallestBlock << (kSizes - 1) == kLargestBlock && kSmallestBlock >= Allocator::kAllocatorAlignment);

struct Slab;

void give_back(void* buffer);

// Lives in its block: an object of its own would be one more allocation for each output.
class Buffer final : public TensorBuffer {
 public:
  Buffer(void* data, size_t bytes, size_t block_bytes, Allocator* allocator)
      : TensorBuffer(data), bytes_(bytes), block_bytes_(block_bytes), allocator_(allocator) {}
  static void operator delete(void* buffer) { give_back(buffer); }

  size_t size() const override { return bytes_; }
  TensorBuffer* root_buffer() override { return this; }
  ::tensorflow::AllocatorMemoryType GetMemoryType() const override { return allocator_->GetMemoryType(); }
  bool GetAllocatedBytes(size_t* bytes) const override {
    *bytes = block_bytes_;
    return true;
  }
  void FillAllocationDescription(::tensorflow::AllocationDescription* description) const override {
    description->set_requested_bytes(static_cast<int64_t>(bytes_));
    description->set_allocated_bytes(static_cast<int64_t>(block_bytes_));
    description->set_allocator_name(allocator_->Name());
    description->set_ptr(reinterpret_cast<uintptr_t>(data()));
    if (RefCountIsOne()) description->set_has_single_reference(true);
  }

 private:
  ~Buffer() override = default;

  size_t bytes_;
  size_t block_bytes_;
  Allocator* allocator_;
};

struct Block {
  alignas(Buffer) std::byte buffer[sizeof(Buffer)];  // first: what TensorFlow deletes is found by it
  Slab* slab;
  char* data;
  Block* next;
};

class Blocks;

struct Slab {
  Blocks* owner = nullptr;
  char* memory = nullptr;
  Block* free = nullptr;
  size_t used = 0;
  Slab* previous = nullptr;  // among those with free blocks
  Slab* next = nullptr;
  std::array<Block, kMostBlocks> blocks;
};

// The blocks of one size in the memory of one allocator.
class Blocks {
 public:
  void set(Allocator* allocator, size_t block_bytes) { allocator_ = allocator, block_bytes_ = block_bytes; }

  // With one reference; nullptr where there is no memory.
  TensorBuffer* take(size_t bytes) {
    Block* block = take_block();
    return block != nullptr ? ::new (block->buffer) Buffer(block->data, bytes, block_bytes_, allocator_) : nullptr;
  }

  void give_back(Block* block) {
    std::lock_guard<std::mutex> lock(mutex_);
    Slab* slab = block->slab;
    if (slab->free == nullptr) link(slab);
    block->next = slab->free;
    slab->free = block;
    if (--slab->used != 0) return;
    // One stays, or a lone output would take and give back a slab each time.
    if (++empty_ > 1) remove(slab);
  }

 private:
  Block* take_block() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (open_ == nullptr && !add_slab()) return nullptr;
    Slab* slab = open_;
    Block* block = slab->free;
    slab->free = block->next;
    if (slab->used++ == 0) --empty_;
    if (slab->free == nullptr) unlink(slab);
    return block;
  }

  // What is rare lies apart: an output's own way is as long as the lines of code that it has to wait for.
  __attribute__((cold, noinline)) bool add_slab() {
    ::tensorflow::AllocationAttributes attributes;
    attributes.retry_on_failure = false;  // TensorFlow's own way for the output may wait for memory
    void* memory = allocator_->AllocateRaw(Allocator::kAllocatorAlignment, kSlabBytes, attributes);
    if (memory == nullptr) return false;
    auto* slab = new Slab;
    slab->owner = this;
    slab->memory = static_cast<char*>(memory);
    for (size_t i = kSlabBytes / block_bytes_; i-- > 0;) {
      slab->blocks[i].slab = slab;
      slab->blocks[i].data = slab->memory + i * block_bytes_;
      slab->blocks[i].next = slab->free;
      slab->free = &slab->blocks[i];
    }
    ++empty_;
    link(slab);
    return true;
  }

  __attribute__((cold, noinline)) void remove(Slab* slab) {
    --empty_;
    unlink(slab);
    allocator_->DeallocateRaw(slab->memory);
    delete slab;
  }

  __attribute__((cold, noinline)) void link(Slab* slab) {
    slab->previous = nullptr;
    slab->next = open_;
    if (open_ != nullptr) open_->previous = slab;
    open_ = slab;
  }

  __attribute__((cold, noinline)) void unlink(Slab* slab) {
    (slab->previous != nullptr ? slab->previous->next : open_) = slab->next;
    if (slab->next != nullptr) slab->next->previous = slab->previous;
  }

  Allocator* allocator_ = nullptr;
  size_t block_bytes_ = 0;
  std::mutex mutex_;
  Slab* open_ = nullptr;  // the slabs with free blocks
  size_t empty_ = 0;      // of these, how many have no other
};

void give_back(void* buffer) {
  auto* block = static_cast<Block*>(buffer);
  block->slab->owner->give_back(block);
}

// Of one allocator. TensorFlow keeps a device's allocator as long as the process, also when the context that made the
// device is reset; so pools stay as well.
struct Pool {
  explicit Pool(Allocator* of) : allocator(of) {
    for (size_t i = 0; i < kSizes; ++i) sizes[i].set(allocator, kSmallestBlock << i);
  }

  Allocator* const allocator;
  std::array<Blocks, kSizes> sizes;
  Pool* next = nullptr;
};

std::atomic<bool> is_on = false;

// By dtype, as TensorFlow's function has it: 0 of those with objects for elements.
std::array<uint8_t, ::tensorflow::DataType_ARRAYSIZE> element_bytes;

std::atomic<Pool*> pools = nullptr;

Pool* find_pool(const Allocator* allocator) {
  Pool* pool = pools.load(std::memory_order_acquire);
  while (pool != nullptr && pool->allocator != allocator) pool = pool->next;
  return pool;
}

__attribute__((cold, noinline)) Pool* make_pool(Allocator* allocator) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  if (Pool* pool = find_pool(allocator)) return pool;
  auto* pool = new Pool(allocator);
  pool->next = pools.load(std::memory_order_relaxed);
  pools.store(pool, std::memory_order_release);
  return pool;
}

}  // namespace

void set_small_outputs(bool on) {
  for (size_t i = 0; i < element_bytes.size(); ++i) {
    element_bytes[i] = static_cast<uint8_t>(::tensorflow::DataTypeSize(static_cast<::tensorflow::DataType>(i)));
  }
  is_on = on && !::tensorflow::LogMemory::IsEnabled();
}

bool make_small_output(OpKernelContext* context, int index, const ::tensorflow::TensorShape& shape, Tensor** output) {
  const auto elements = static_cast<size_t>(shape.num_elements());
  if (elements > kLargestBlock || !is_on.load(std::memory_order_relaxed)) return false;
  const ::tensorflow::DataType dtype = context->expected_output_dtype(index);
  const size_t bytes = elements * element_bytes[static_cast<size_t>(dtype)];
  if (bytes == 0 || bytes > kLargestBlock) return false;
  const ::tensorflow::AllocatorAttributes attributes = context->output_alloc_attr(index);
  if (context->output_memory_type(index) != ::tensorflow::DEVICE_MEMORY || attributes.on_host() ||
      attributes.scope_id > 0 || context->track_allocations()) {
    return false;
  }
  Allocator* allocator = context->device()->GetAllocator(attributes);
  Pool* pool = find_pool(allocator);
  if (pool == nullptr) pool = make_pool(allocator);
  size_t size = 0;
  while (kSmallestBlock << size < bytes) ++size;
  TensorBuffer* buffer = pool->sizes[size].take(bytes);
  if (buffer == nullptr) return false;
  context->set_output(index, Tensor(dtype, shape, ::tensorflow::core::RefCountPtr<TensorBuffer>(buffer)));
  *output = context->mutable_output(index);
  return true;
}

}  // namespace unihal::tensorflow_shim
