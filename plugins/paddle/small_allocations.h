// Small allocations of Paddle's pool that are handed out again whole.
#pragma once

namespace unihal::paddle {

// From now on a small allocation of Paddle's pool whose tensor is gone is kept as it is for the next one of its size.
// Does nothing in a Paddle whose pool is not as expected.
void keep_small_allocations();

// From now on none is kept any more.
void keep_no_small_allocations();

}  // namespace unihal::paddle
