// Compilers' logs, for people.
#ifndef UNIHAL_KERNELS_COMPILER_LOG_H_
#define UNIHAL_KERNELS_COMPILER_LOG_H_

#include <string>

namespace unihal::kernels {

// What a person can read of a log: from the first error on, which the rest follows from, some 1200 characters.
std::string readable_log(std::string log);

}  // namespace unihal::kernels

#endif  // UNIHAL_KERNELS_COMPILER_LOG_H_
