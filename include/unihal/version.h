/* unihal ABI: version numbers and linkage macros.
 *
 * Every header under include/unihal is C11 and C++17, has no dependency beyond the C standard
 * library, and is a contract: a caller needs nothing but these files and docs/abi.md.
 *
 * Compatibility. A major number is one binary contract; minors only append. Every struct that
 * crosses the boundary begins with `struct_size`, set by whoever allocates it to the sizeof() it
 * was compiled with; the other side reads and writes only fields that lie within it. Enumerators
 * are never renumbered, and slots of tables never recycled. A field named `reserved` is 0; a later
 * minor may give it a name and a meaning, in which 0 is what was before. tests/core/abi_layout_test.cc
 * freezes each offset.
 */
#ifndef UNIHAL_VERSION_H_
#define UNIHAL_VERSION_H_

#include <stddef.h>
#include <stdint.h>

#define UHAL_ABI_MAJOR 1
#define UHAL_ABI_MINOR 13

#if defined(UHAL_BUILDING_CORE)
#define UHAL_API __attribute__((visibility("default")))
#else
#define UHAL_API
#endif

#ifdef __cplusplus
#define UHAL_EXTERN_C_BEGIN extern "C" {
#define UHAL_EXTERN_C_END }
#else
#define UHAL_EXTERN_C_BEGIN
#define UHAL_EXTERN_C_END
#endif

UHAL_EXTERN_C_BEGIN

/* The ABI version of the loaded libunihal.so: major in the upper 16 bits, minor in the lower. */
UHAL_API uint32_t uhal_abi_version(void);

/* The release of the loaded libunihal.so, such as "0.1.0". Static storage. */
UHAL_API const char* uhal_version_string(void);

UHAL_EXTERN_C_END

#endif /* UNIHAL_VERSION_H_ */
