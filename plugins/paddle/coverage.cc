// uhal_paddle_coverage: what the adapter offers, for the documentation's coverage page and `unihal doctor`.
#include <string>

#include "plugins/paddle/registry.h"
#include "plugins/paddle/signature.h"

namespace unihal::paddle {
namespace {

std::string describe_row(const KernelRow& row) {
  std::string json =
      std::string("{\"kernel\":\"") + row.name + "\",\"signature\":\"" + signature_of(row.entry) + "\",\"dtypes\":[";
  bool first = true;
  for (int dtype = kUndefined; dtype < kDtypeCount; ++dtype) {
    if ((row.dtypes >> dtype & 1) == 0) continue;
    json += std::string(first ? "\"" : ",\"") + dtype_name(static_cast<Dtype>(dtype)) + "\"";
    first = false;
  }
  return json + "],\"skipped\":\"" + skip_reason(row) + "\"}";
}

}  // namespace
}  // namespace unihal::paddle

// A JSON array with an object per row of the tables: kernel, signature, dtypes, and, in a process where Paddle
// has loaded the adapter, why the row was skipped ("" if it was not). The text lives until the next call.
extern "C" __attribute__((visibility("default"))) const char* uhal_paddle_coverage() {
  static std::string json;
  json = "[";
  for (const auto& row : unihal::paddle::all_kernels()) {
    if (json.size() > 1) json += ",\n";
    json += unihal::paddle::describe_row(row);
  }
  json += "]\n";
  return json.c_str();
}

// The signature of a kernel of this Paddle ("tensor,tensor;bool;tensor"), as a row for it has to have it; "" if there
// is none. For a process where Paddle has loaded the adapter. The text lives until the next call.
extern "C" __attribute__((visibility("default"))) const char* uhal_paddle_signature(const char* kernel) {
  static std::string signature;
  signature = unihal::paddle::load_phi() == nullptr ? unihal::paddle::paddle_signature(kernel).text : "";
  return signature.c_str();
}
