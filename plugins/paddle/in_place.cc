#include "plugins/paddle/in_place.h"

#include <dlfcn.h>
#include <unwind.h>

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>

#include "plugins/paddle/error.h"
#include "plugins/paddle/library.h"

namespace unihal::paddle {
namespace {

[[noreturn]] void refuse(const std::string& op, const FallenKernel& fallen) {
  raise(UHAL_UNIMPLEMENTED,
        "(unihal) " + op + " writes in place, and kernel '" + fallen.name + "' does not run on the device (" +
            fallen.why +
            "). Paddle's fallback to the CPU would lose what it writes; call it out of place, or on CPU tensors");
}

// -- Eager mode
// --------------------------------------------------------------------------------------------------------

constexpr const char* kEagerSuffix = "_ad_func";
// Ops that write into an operand although their name does not say so: Paddle calls those outputs views.
constexpr const char* kWriteIntoViews[] = {"batch_norm"};

// "_Z13relu__ad_funcRN6paddle6TensorE" -> "relu_"; "" for other functions. Eager functions are not in a namespace, or
// in one for sparse tensors and the like.
std::string eager_op(const char* symbol) {
  if (symbol == nullptr || std::strncmp(symbol, "_Z", 2) != 0) return "";
  const char* at = symbol + 2 + (symbol[2] == 'N' ? 1 : 0);
  while (std::isdigit(static_cast<unsigned char>(*at)) != 0) {
    char* name = nullptr;
    const size_t length = std::strtoul(at, &name, 10);
    const size_t suffix = std::strlen(kEagerSuffix);
    if (length > std::strlen(name)) return "";
    if (length > suffix && std::strncmp(name + length - suffix, kEagerSuffix, suffix) == 0) {
      return std::string(name, length - suffix);
    }
    at = name + length;
  }
  return "";
}

bool writes_in_place(const std::string& op) {
  for (const char* name : kWriteIntoViews) {
    if (op == name) return true;
  }
  return !op.empty() && op.back() == '_';
}

struct Search {
  std::string op;
  int frames_left = 16;  // the function is a few frames above the choice of the kernel
};

_Unwind_Reason_Code look_at_frame(_Unwind_Context* context, void* argument) {
  auto* search = static_cast<Search*>(argument);
  // The call lies before the address of return.
  Dl_info info = {};
  const uintptr_t address = _Unwind_GetIP(context) - 1;
  if (dladdr(reinterpret_cast<void*>(address), &info) != 0) search->op = eager_op(info.dli_sname);
  return !search->op.empty() || --search->frames_left == 0 ? _URC_END_OF_STACK : _URC_NO_REASON;
}

// -- Graphs
// ------------------------------------------------------------------------------------------------------------

constexpr const char* kPrintSymbol = "_ZNK3pir7Program5PrintERSo";
using Print = void (*)(const void* program, std::ostream& stream);

thread_local LoweringWatch* innermost = nullptr;

std::string printed(const void* program) {
  static const auto print = [] {
    void* library = find_paddle_library(kPrintSymbol);
    return library == nullptr ? nullptr : reinterpret_cast<Print>(dlsym(library, kPrintSymbol));
  }();
  std::ostringstream stream;
  if (print != nullptr) print(program, stream);
  return stream.str();
}

bool contains(const std::string& line, const std::string& part) { return line.find(part) != std::string::npos; }

// "name:"value"" -> value
std::string text_attribute(const std::string& line, const char* name) {
  const std::string key = std::string(name) + ":\"";
  const size_t at = line.find(key);
  if (at == std::string::npos) return "";
  const size_t begin = at + key.size();
  return line.substr(begin, line.find('"', begin) - begin);
}

// Lowered ops are printed one a line: (%3, %4) = "sgd_(phi_kernel)" (%1, %2) {attributes} : (types) -> types
std::vector<std::string> values_in_parentheses(const std::string& line, size_t from) {
  std::vector<std::string> values;
  const size_t open = line.find('(', from), close = line.find(')', open);
  if (close == std::string::npos) return values;
  std::istringstream list(line.substr(open + 1, close - open - 1));
  for (std::string value; std::getline(list >> std::ws, value, ',');) values.push_back(value);
  return values;
}

bool is_copy_to_host(const std::string& line) { return text_attribute(line, "kernel_name") == "memcpy_d2h"; }

// Whether an operand is, or was copied from, memory of the device.
bool reads_the_device(const std::string& line, const std::set<std::string>& copied) {
  if (contains(line, "(custom_device_tensor") || contains(line, ", custom_device_tensor")) return true;
  for (const std::string& value : values_in_parentheses(line, line.find("\" ("))) {
    if (copied.count(value) != 0) return true;
  }
  return false;
}

}  // namespace

void refuse_in_place_call(const FallenKernel& fallen) {
  Search search;
  _Unwind_Backtrace(look_at_frame, &search);
  if (writes_in_place(search.op)) refuse(search.op, fallen);
}

LoweringWatch::LoweringWatch() : outer_(innermost) { innermost = this; }
LoweringWatch::~LoweringWatch() { innermost = outer_; }
LoweringWatch* LoweringWatch::current() { return innermost; }

void LoweringWatch::refuse_in_place_ops(const void* lowered) const {
  if (fallen_.empty()) return;
  std::set<std::string> copied;
  std::istringstream program(printed(lowered));
  for (std::string line; std::getline(program, line);) {
    if (is_copy_to_host(line)) {
      for (const std::string& value : values_in_parentheses(line, 0)) copied.insert(value);
    }
    if (!contains(line, "is_inplace:true") || !contains(line, "kernel_key:<backend:CPU|")) continue;
    const std::string kernel = text_attribute(line, "kernel_name");
    for (const FallenKernel& fallen : fallen_) {
      if (fallen.name == kernel && reads_the_device(line, copied)) refuse(text_attribute(line, "op_name"), fallen);
    }
  }
}

}  // namespace unihal::paddle
