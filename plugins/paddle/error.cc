#include "plugins/paddle/error.h"

#include <exception>
#include <utility>

// Paddle's exception type, declared with its name and its leading fields so that Paddle's handlers recognize
// it: catch clauses compare type names, handlers read the fields. An object of any other type that leaves a
// kernel ends the process.
namespace common::enforce {

struct __attribute__((visibility("default"))) EnforceNotMet : public std::exception {
  // The long form ends its line, as Paddle's own do: the executor of old programs prints whole lines only.
  EnforceNotMet(int code, std::string message)
      : code_(code), err_str_(message + "\n"), simple_err_str_(std::move(message)) {}
  const char* what() const noexcept override { return simple_err_str_.c_str(); }

  int code_;
  std::string err_str_;
  std::string simple_err_str_;
  bool guard_ = true;  // PaddleFatalGuard: nothing to restore
};

}  // namespace common::enforce

namespace unihal::paddle {
namespace {

// common::ErrorCode.
enum PaddleErrorCode {
  kInvalidArgument = 1,
  kNotFound = 2,
  kOutOfRange = 3,
  kAlreadyExists = 4,
  kResourceExhausted = 5,
  kPreconditionNotMet = 6,
  kPermissionDenied = 7,
  kUnimplemented = 9,
  kUnavailable = 10,
  kExternal = 12,
};

int paddle_code(uhal_status status) {
  switch (status) {
    case UHAL_INVALID_ARGUMENT:
      return kInvalidArgument;
    case UHAL_NOT_FOUND:
      return kNotFound;
    case UHAL_OUT_OF_RANGE:
      return kOutOfRange;
    case UHAL_ALREADY_EXISTS:
      return kAlreadyExists;
    case UHAL_RESOURCE_EXHAUSTED:
      return kResourceExhausted;
    case UHAL_FAILED_PRECONDITION:
      return kPreconditionNotMet;
    case UHAL_PERMISSION_DENIED:
      return kPermissionDenied;
    case UHAL_UNIMPLEMENTED:
      return kUnimplemented;
    case UHAL_UNAVAILABLE:
      return kUnavailable;
    default:
      return kExternal;
  }
}

// Kernels whose CPU version does not say OutOfRange.
struct OutsideError {
  std::string_view kernel;
  uhal_status status;
};
constexpr OutsideError kOutsideErrors[] = {
    {"embedding", UHAL_INVALID_ARGUMENT},    {"gather_nd", UHAL_INVALID_ARGUMENT},
    {"index_add", UHAL_INVALID_ARGUMENT},    {"index_sample", UHAL_INVALID_ARGUMENT},
    {"index_select", UHAL_INVALID_ARGUMENT}, {"multiplex", UHAL_FAILED_PRECONDITION},
    {"nll_loss", UHAL_INVALID_ARGUMENT},     {"one_hot", UHAL_INVALID_ARGUMENT},
    {"segment_pool", UHAL_INVALID_ARGUMENT},
};

}  // namespace

uhal_status outside_error(std::string_view kernel) {
  for (const OutsideError& row : kOutsideErrors) {
    if (row.kernel == kernel) return row.status;
  }
  return UHAL_OUT_OF_RANGE;
}

void raise(uhal_status status, const std::string& message) {
  throw common::enforce::EnforceNotMet(paddle_code(status), message);
}

std::string describe_last_error(const char* kernel) {
  const uhal_error* error = uhal_last_error();
  std::string message = std::string("(unihal) ") + kernel + ": " + error->message;
  if (error->op[0] != '\0') message += std::string("\n  op: ") + error->op;
  if (error->device[0] != '\0') message += std::string("\n  device: ") + error->device;
  if (error->native_name[0] != '\0') message += std::string("\n  native error: ") + error->native_name;
  return message;
}

void raise_last_error(uhal_status status, const char* kernel) { raise(status, describe_last_error(kernel)); }

}  // namespace unihal::paddle
