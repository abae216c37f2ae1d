// UHAL_OP_RANDOM_DISTRIBUTION: each element from a sequence of its own, so that numbers do not depend on the number of
// threads.
#include <algorithm>
#include <cmath>

#include "csrc/backends/common/attributes.h"
#include "stub/common/blocks.h"
#include "stub/common/kernels.h"
#include "stub/common/parallel.h"

namespace unihal::stub {
namespace {

namespace text {

using uint32 = uint32_t;
using uint64 = uint64_t;
using int32 = int32_t;
using std::cos;
using std::exp;
using std::fabs;
using std::floor;
using std::log;
using std::log1p;
using std::sqrt;

// The functions of random_distributions.h, overloaded for float and double.
#define UHAL_INLINE inline
#define C(value) static_cast<T>(value)
#define WIDE_T 0
#define T float
#include "csrc/tables/random_distributions.h"
#undef T
#undef WIDE_T
#define WIDE_T 1
#define T double
namespace wide {
#include "csrc/tables/random_distributions.h"
}
#undef T
#undef WIDE_T
#undef C
#undef UHAL_INLINE

inline float draw(uhal_parameter_distribution distribution, const uhal_sequence* sequence, float p, float q) {
  return distribution == UHAL_RANDOM_GAMMA     ? random_gamma(sequence, p)
         : distribution == UHAL_RANDOM_POISSON ? random_poisson(sequence, p)
                                               : random_binomial(sequence, p, q);
}

inline double draw(uhal_parameter_distribution distribution, const uhal_sequence* sequence, double p, double q) {
  return distribution == UHAL_RANDOM_GAMMA     ? wide::random_gamma(sequence, p)
         : distribution == UHAL_RANDOM_POISSON ? wide::random_poisson(sequence, p)
                                               : wide::random_binomial(sequence, p, q);
}

}  // namespace text

// Units of work of a number, of the order of what one costs.
constexpr int64_t kWork = 64;

template <class T>
void run(const uhal_random_distribution_attributes& attributes, const uhal_tensor& p, const uhal_tensor* q,
         const uhal_tensor& y) {
  const uhal_tensor order = row_major_view(y);
  const uhal_tensor* views[] = {&order, &y, &p, q != nullptr ? q : &p};
  const Space space = make_space(views, 4);
  const ComputeType type = sizeof(T) == 8 ? kDouble : kFloat;
  const BlockOperand to(space, 1, y, type);
  const BlockOperand first(space, 2, p, type);
  const BlockOperand second(space, 3, q != nullptr ? *q : p, type);
  parallel_for(space.count, kWork, kBlock, [&](int64_t begin, int64_t end) {
    Cursor cursor(space, begin);
    BlockBuffer firsts;
    BlockBuffer seconds;
    for (; begin < end; begin += kBlock) {
      const int64_t count = std::min(kBlock, end - begin);
      first.load(cursor, count, firsts.bytes);
      second.load(cursor, count, seconds.bytes);
      T* values = reinterpret_cast<T*>(firsts.bytes);
      const T* others = reinterpret_cast<const T*>(seconds.bytes);
      for (int64_t i = 0; i < count; ++i) {
        const auto sequence = text::uhal_sequence_of(attributes.key, attributes.counter[0], attributes.counter[1],
                                                     static_cast<uint64_t>(begin + i));
        values[i] = text::draw(attributes.distribution, &sequence, values[i], others[i]);
      }
      to.store(cursor, count, firsts.bytes);
      cursor.skip(count);
    }
  });
}

}  // namespace

const char* refuse_random_distribution(const uhal_op&) { return nullptr; }

uhal_status run_random_distribution(const Launch& launch) {
  const uhal_op& op = launch.op;
  const auto attributes =
      attributes_or(op, uhal_random_distribution_attributes{
                            sizeof(uhal_random_distribution_attributes), UHAL_RANDOM_GAMMA, 0, 0, {0, 0}});
  const uhal_tensor& p = *op.inputs[0];
  const uhal_tensor* q = op.input_count > 1 ? op.inputs[1] : nullptr;
  const uhal_tensor& y = *op.outputs[0];
  const bool is_double =
      p.dtype == UHAL_FLOAT64 || y.dtype == UHAL_FLOAT64 || (q != nullptr && q->dtype == UHAL_FLOAT64);
  if (is_double) {
    run<double>(attributes, p, q, y);
  } else {
    run<float>(attributes, p, q, y);
  }
  return UHAL_OK;
}

}  // namespace unihal::stub
