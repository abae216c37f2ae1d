#include "plugins/tensorflow/coverage.h"

#include <map>
#include <mutex>
#include <string>

#include "plugins/tensorflow/adapter.h"

namespace unihal::tensorflow {
namespace {

struct Coverage {
  std::mutex mutex;
  std::map<std::string, DtypeSet> ops;
};

// Never destroyed: nothing runs at exit.
Coverage& coverage() {
  static auto* instance = new Coverage;
  return *instance;
}

}  // namespace

void record_coverage(const char* op, DtypeSet dtypes) {
  std::lock_guard<std::mutex> lock(coverage().mutex);
  coverage().ops[op] |= dtypes;
}

bool find_coverage(const char* op, DtypeSet* dtypes) {
  std::lock_guard<std::mutex> lock(coverage().mutex);
  const auto found = coverage().ops.find(op);
  if (found == coverage().ops.end()) return false;
  *dtypes = found->second;
  return true;
}

}  // namespace unihal::tensorflow

const char* uhal_tensorflow_coverage() {
  using namespace unihal::tensorflow;
  static auto* text = new std::string;
  std::lock_guard<std::mutex> lock(coverage().mutex);
  *text = "[";
  for (const auto& [op, dtypes] : coverage().ops) {
    *text += (text->size() > 1 ? ",\n" : "") + std::string("{\"op\": \"") + op + "\", \"dtypes\": [";
    const char* separator = "";
    for (uhal_dtype dtype = 1; dtype < UHAL_DTYPE_COUNT; ++dtype) {
      if (!contains(dtypes, dtype)) continue;
      *text += std::string(separator) + "\"" + uhal_dtype_name(dtype) + "\"";
      separator = ", ";
    }
    *text += "]}";
  }
  *text += "]";
  return text->c_str();
}
