// The device type that Paddle takes by default.
//
// Paddle computes on the first type of a list, in an order of its own, where a program names none (and in run_check,
// and wherever one type has to do). So the list is put in order: first the types that their first backend drives, since
// a card's own type is the one whose first backend is made for it: an RX 580 is polaris, though rdna reaches it too.
#pragma once

namespace unihal::paddle {

// Of a type that is offered to Paddle.
void note_device_type(const char* device_type);

// Redirects one of Paddle's functions; once per process. Returns nullptr, or what could not be found: then the order is
// Paddle's.
const char* order_device_types();

}  // namespace unihal::paddle
