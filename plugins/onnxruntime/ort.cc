#include "plugins/onnxruntime/ort.h"

#include <cstdlib>
#include <new>

namespace unihal::onnxruntime {

Api ort = {};

namespace {

// The minor number of "1.32.0", which is the version of the API.
uint32_t api_version(const OrtApiBase* base) {
  const char* text = base->GetVersionString();
  char* end = nullptr;
  const unsigned long major = std::strtoul(text, &end, 10);
  if (end == text || *end != '.') return 0;
  const unsigned long minor = std::strtoul(end + 1, nullptr, 10);
  return major > 1 ? kNewestVersion : static_cast<uint32_t>(minor);
}

template <class Function>
void take(Function& function, const void* table, size_t slot) {
  function = reinterpret_cast<Function>(static_cast<void* const*>(table)[slot]);
}

}  // namespace

bool open_api(const OrtApiBase* base) {
  const uint32_t version = api_version(base);
  if (version < kLeastVersion) return false;
  const void* const table = base->GetApi(kLeastVersion);
  if (table == nullptr) return false;
#define ORT_FUNCTION(slot, result, name, parameters) take(ort.name, table, slot);
#define ORT_EP_FUNCTION(slot, result, name, parameters)
#include "ort_functions.def"
#undef ORT_FUNCTION
#undef ORT_EP_FUNCTION
  const void* const ep_table = ort.GetEpApi();
#define ORT_FUNCTION(slot, result, name, parameters)
#define ORT_EP_FUNCTION(slot, result, name, parameters) take(ort.name, ep_table, slot);
#include "ort_functions.def"
#undef ORT_FUNCTION
#undef ORT_EP_FUNCTION
  ort.version = version < kNewestVersion ? version : kNewestVersion;
  return true;
}

std::string slots() {
  std::string text = "{\"OrtApi\": {";
  const char* separator = "";
  const auto add = [&](const char* name, int slot) {
    text += std::string(separator) + "\"" + name + "\": " + std::to_string(slot);
    separator = ", ";
  };
#define ORT_FUNCTION(slot, result, name, parameters) add(#name, slot);
#define ORT_EP_FUNCTION(slot, result, name, parameters)
#include "ort_functions.def"
#undef ORT_FUNCTION
#undef ORT_EP_FUNCTION
  text += "}, \"OrtEpApi\": {";
  separator = "";
#define ORT_FUNCTION(slot, result, name, parameters)
#define ORT_EP_FUNCTION(slot, result, name, parameters) add(#name, slot);
#include "ort_functions.def"
#undef ORT_FUNCTION
#undef ORT_EP_FUNCTION
  return text + "}}";
}

void check(OrtStatus* status) {
  if (__builtin_expect(status == nullptr, 1)) return;
  const int32_t code = ort.GetErrorCode(status);
  const std::string message = ort.GetErrorMessage(status);
  ort.ReleaseStatus(status);
  throw Failure(code, message);
}

OrtStatus* status_of_exception() noexcept {
  try {
    throw;
  } catch (const Failure& failure) {
    return ort.CreateStatus(failure.code, failure.what());
  } catch (const std::bad_alloc&) {
    return ort.CreateStatus(kOrtFail, "unihal: the host has no memory left");
  } catch (const std::exception& error) {
    return ort.CreateStatus(kOrtFail, error.what());
  } catch (...) {
    return ort.CreateStatus(kOrtFail, "unihal: an unknown exception");
  }
}

}  // namespace unihal::onnxruntime
