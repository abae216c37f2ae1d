// Which device each thread has chosen, and what Paddle asks about it for each op.
//
// Paddle sets the thread's device three times an op, and turns places into backends and back five times. Each time it
// looks our device types up by the texts of their names, under a lock: a tenth of the host's time for a small op. What
// it looks up is known here by number.
#pragma once

#include "plugins/paddle/phi_types.h"

namespace unihal::paddle {

// Device types by their row in the core's table, of which there are at most so many.
constexpr int kMostDeviceTypes = 6;

// This thread's device of a type; -1 where it has chosen none yet.
int current_ordinal(int type_row);

// Paddle sets this thread's device, as it does before anything else on the device.
void choose_ordinal(int type_row, int ordinal);

// Whether `place` could be filled in with this thread's device of the type that a backend stands for.
bool find_current_place(uint8_t backend, Place* place);

// Redirects two of Paddle's functions; once per process. In a Paddle without them it looks names up, as it did.
void answer_by_number();

}  // namespace unihal::paddle
