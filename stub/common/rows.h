// Work along one axis: the positions of all other axes, for several views at once.
#pragma once

#include "csrc/backends/common/rows.h"
#include "csrc/backends/common/space.h"
#include "stub/common/parallel.h"

namespace unihal::stub {

// Calls body(cursor) for every position of a space, in parallel; an item is `work` units.
template <class Body>
void for_each_position(const Space& space, int64_t work, const Body& body) {
  parallel_for(space.count, work, [&](int64_t begin, int64_t end) {
    Cursor cursor(space, begin);
    for (; begin < end; ++begin, cursor.advance(1)) body(static_cast<const Cursor&>(cursor));
  });
}

}  // namespace unihal::stub
