#include "plugins/paddle/device_order.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "plugins/paddle/library.h"
#include "unihal/device.h"

namespace unihal::paddle {
namespace {

constexpr const char* kListSymbol = "_ZN3phi13DeviceManager23GetAllCustomDeviceTypesB5cxx11Ev";
using Types = std::vector<std::string>;
Types (*original_list)() = nullptr;

// How many backends of the type were passed over before the one that drives it, and the type's row in the table, in
// one number. Kept from the time of loading: a forked child may not ask unihal.
std::map<std::string, size_t>& positions() {
  static auto* instance = new std::map<std::string, size_t>;
  return *instance;
}

size_t backends_passed_over(const char* device_type) {
  uhal_backend_report report = {};
  report.struct_size = sizeof report;
  size_t index = 0;
  while (uhal_backend_report_get(device_type, index, &report) == UHAL_OK && report.state != UHAL_BACKEND_CHOSEN) {
    ++index;
  }
  return index;
}

size_t row_of_type(const std::string& device_type) {
  uhal_device_type_info info = {};
  info.struct_size = sizeof info;
  size_t row = 0;
  while (uhal_device_type_get(row, &info) == UHAL_OK && device_type != info.name) ++row;
  return row;
}

// Other plugins' types keep their places before ours.
size_t position_of_type(const std::string& device_type) {
  const auto found = positions().find(device_type);
  return found == positions().end() ? 0 : found->second;
}

Types list() {
  Types types = original_list();
  std::stable_sort(types.begin(), types.end(), [](const std::string& a, const std::string& b) {
    return position_of_type(a) < position_of_type(b);
  });
  return types;
}

}  // namespace

void note_device_type(const char* device_type) {
  positions()[device_type] =
      1 + backends_passed_over(device_type) * uhal_device_type_count() + row_of_type(device_type);
}

const char* order_device_types() {
  static const char* missing = redirect_paddle_function(kListSymbol, list, &original_list);
  return missing;
}

}  // namespace unihal::paddle
