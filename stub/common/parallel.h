// Parallel loops on the OpenMP pool (libgomp, which oneDNN shares; OMP_NUM_THREADS is honoured).
#pragma once

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <cstdint>

#ifndef _OPENMP  // a build without it (UNIHAL_STUB_OPENMP): the calling thread alone
inline int omp_get_max_threads() { return 1; }
inline int omp_get_num_threads() { return 1; }
inline int omp_get_thread_num() { return 0; }
inline bool omp_in_parallel() { return false; }
#endif

namespace unihal::stub {

// Work below this many units (an element of a cheap function is about one unit) is done by the calling thread: a pool
// that fell asleep since the last op takes about 100 us to wake on a virtual machine.
inline constexpr int64_t kSerialWork = 262144;

// Off under ThreadSanitizer, which does not know libgomp's barriers and would report false races.
#ifdef __SANITIZE_THREAD__
inline constexpr bool kThreads = false;
#else
inline constexpr bool kThreads = true;
#endif

// Calls body(begin, end) over disjoint ranges that cover [0, count), on several threads if `count` items of
// `work_per_item` units are worth it. Ranges begin at multiples of `align`. `body` must not throw.
template <class Body>
void parallel_for(int64_t count, int64_t work_per_item, int64_t align, const Body& body) {
  if (count <= 0) return;
  const int64_t serial_count = std::max<int64_t>(1, kSerialWork / std::max<int64_t>(1, work_per_item));
  int64_t threads = 1;
  if (kThreads && count > 1 && count >= serial_count && !omp_in_parallel()) {
    threads = std::min<int64_t>({omp_get_max_threads(), 2 * count / serial_count, count});
  }
  if (threads <= 1) {
    body(int64_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(static_cast<int>(threads))
  {
    // The runtime may give fewer threads than asked for.
    const int64_t given = omp_get_num_threads();
    const int64_t index = omp_get_thread_num();
    const int64_t blocks = (count + align - 1) / align;
    const int64_t begin = std::min(count, blocks * index / given * align);
    const int64_t end = std::min(count, blocks * (index + 1) / given * align);
    if (begin < end) body(begin, end);
  }
}

template <class Body>
void parallel_for(int64_t count, int64_t work_per_item, const Body& body) {
  parallel_for(count, work_per_item, int64_t{1}, body);
}

}  // namespace unihal::stub
