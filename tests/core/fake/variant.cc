// Compiled once for each variant, by the FAKE_* macros that its line in CMakeLists.txt sets.
#include "tests/core/fake/variant.h"

#include "unihal/backend.h"

#ifndef FAKE_STRUCT_SIZE
#define FAKE_STRUCT_SIZE sizeof(uhal_backend)
#endif
#ifndef FAKE_MAJOR
#define FAKE_MAJOR UHAL_ABI_MAJOR
#endif
#ifndef FAKE_MINOR
#define FAKE_MINOR UHAL_ABI_MINOR
#endif
#ifndef FAKE_NAME
#define FAKE_NAME "fake"
#endif
#ifndef FAKE_COUNTS_DEVICES
#define FAKE_COUNTS_DEVICES true
#endif
#ifndef FAKE_LAUNCHES
#define FAKE_LAUNCHES true
#endif
#ifndef FAKE_ANSWER
#define FAKE_ANSWER kTable
#endif

const fake::Variant fake::kVariant = {FAKE_STRUCT_SIZE,    FAKE_MAJOR,    FAKE_MINOR,         FAKE_NAME,
                                      FAKE_COUNTS_DEVICES, FAKE_LAUNCHES, Answer::FAKE_ANSWER};
