// oneDNN primitives ready to run, kept per thread by what they compute.
#pragma once

#include "stub/onednn/library.h"

#if defined(UNIHAL_STUB_ONEDNN)

#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "unihal/op.h"

namespace unihal::stub {

// What a primitive computes, as numbers: the kind, shapes, strides and attributes. Two ops with equal signatures run
// the same primitive.
class OneDnnSignature {
 public:
  explicit OneDnnSignature(uhal_op_kind kind) { add(kind); }

  void add(int64_t number) {
    words_[count_++] = number;
    hash_ = (hash_ ^ static_cast<uint64_t>(number)) * 0x9E3779B97F4A7C15u;
    hash_ ^= hash_ >> 29;
  }
  void add(const int64_t* numbers, int count) {
    for (int i = 0; i < count; ++i) add(numbers[i]);
  }
  void add_bits(double number) {
    int64_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    add(bits);
  }
  // Shape and strides; nullptr for an absent operand.
  void add(const uhal_tensor* view);

  uint64_t hash() const { return hash_; }
  bool operator==(const OneDnnSignature& other) const;

 private:
  static constexpr int kCapacity = 128;  // five views of full rank and attributes
  int count_ = 0;
  uint64_t hash_ = 0;
  std::array<int64_t, kCapacity> words_;
};

// Owners of oneDNN's objects.
struct OneDnnDelete {
  void operator()(dnnl_memory_desc_t handle) const { onednn()->dnnl_memory_desc_destroy(handle); }
  void operator()(dnnl_primitive_desc_t handle) const { onednn()->dnnl_primitive_desc_destroy(handle); }
  void operator()(dnnl_primitive_t handle) const { onednn()->dnnl_primitive_destroy(handle); }
  void operator()(dnnl_primitive_attr_t handle) const { onednn()->dnnl_primitive_attr_destroy(handle); }
  void operator()(dnnl_post_ops_t handle) const { onednn()->dnnl_post_ops_destroy(handle); }
  void operator()(dnnl_memory_t handle) const { onednn()->dnnl_memory_destroy(handle); }
};
template <typename Handle>
using OneDnnHandle = std::unique_ptr<std::remove_pointer_t<Handle>, OneDnnDelete>;
using OneDnnLayout = OneDnnHandle<dnnl_memory_desc_t>;
using OneDnnDescriptor = OneDnnHandle<dnnl_primitive_desc_t>;
using OneDnnAttributes = OneDnnHandle<dnnl_primitive_attr_t>;

// A float32 layout by shape and strides; nullptr if oneDNN refuses it.
OneDnnLayout onednn_layout(int rank, const int64_t* shape, const int64_t* strides);

// A float32 layout that oneDNN chooses.
OneDnnLayout onednn_any_layout(int rank, const int64_t* shape);

// d = alpha * result + sum * previous d, with scratch memory given by us. `sum` 0: no such step.
OneDnnAttributes onednn_attributes(double alpha, double sum);

// Applies an activation to y, float32 of any strides, in place.
uhal_status activate_in_place(uhal_activation activation, const uhal_tensor& y);

// Around the building and the running of a primitive: a small problem stays on the calling thread, since waking the
// pool would cost more. oneDNN asks for the number of threads in both.
class OneDnnThreads {
 public:
  explicit OneDnnThreads(int64_t multiplications);
  ~OneDnnThreads();
  OneDnnThreads(const OneDnnThreads&) = delete;
  OneDnnThreads& operator=(const OneDnnThreads&) = delete;

 private:
  int restore_;  // 0: nothing was changed
};

struct OneDnnArgument {
  int id;               // DNNL_ARG_SRC...
  OneDnnLayout layout;  // of the caller's memory
  bool output;
};

// A primitive with the reorders between the caller's layouts and those it prefers. One thread at a time.
class OneDnnPrimitive {
 public:
  // nullptr if oneDNN cannot build it.
  static std::unique_ptr<OneDnnPrimitive> create(OneDnnDescriptor descriptor, std::vector<OneDnnArgument> arguments);

  // Runs on the calling thread and the OpenMP pool. `data` holds the arguments' addresses in the order of create.
  uhal_status execute(void* const* data) const;

 private:
  struct Operand {
    int id;
    bool output;
    OneDnnHandle<dnnl_memory_t> caller;
    // Set where the primitive prefers another layout.
    OneDnnHandle<dnnl_memory_t> preferred;
    OneDnnHandle<dnnl_primitive_t> reorder;
    size_t preferred_bytes = 0;
    size_t caller_bytes = 0;
    OneDnnHandle<dnnl_memory_t> reorder_scratch;
    size_t reorder_scratch_bytes = 0;
    // What constant_copy gave for addresses of the caller's, of one generation.
    mutable uint64_t generation = 0;
    mutable std::vector<std::pair<const void*, void*>> copies;
  };

  OneDnnPrimitive() = default;
  bool add_operand(const_dnnl_primitive_desc_t descriptor, OneDnnArgument& argument);
  uhal_status run_reorder(const Operand& operand) const;
  void* kept_copy(const Operand& operand, const void* data) const;

  OneDnnHandle<dnnl_primitive_t> primitive_;
  OneDnnHandle<dnnl_memory_t> scratch_;
  size_t scratch_bytes_ = 0;
  std::vector<Operand> operands_;
};

// The calling thread's primitive for a signature; `build` makes it when it is not there. nullptr is kept, too: it
// stands for what oneDNN cannot do.
using OneDnnBuild = std::unique_ptr<OneDnnPrimitive> (*)(const void* context);
const OneDnnPrimitive* onednn_primitive(const OneDnnSignature& signature, OneDnnBuild build, const void* context);

}  // namespace unihal::stub

#endif  // UNIHAL_STUB_ONEDNN
