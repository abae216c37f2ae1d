// Tables that backend libraries hand out: whether they can be used, and how far.
#pragma once

#include <string>

#include "unihal/backend.h"

namespace unihal::core {

// Empty if the table can be used, else what is wrong with it. At least its struct_size, and that many bytes, must be
// readable. `expected_name` empty: any name.
std::string check_backend_table(const uhal_backend* table, const std::string& expected_name);

// A copy of a table that passed the check, with NULL in every slot that the library does not have.
uhal_backend usable_backend_table(const uhal_backend* table);

}  // namespace unihal::core
