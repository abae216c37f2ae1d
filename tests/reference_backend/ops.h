/* What this backend computes. */
#ifndef REFERENCE_BACKEND_OPS_H_
#define REFERENCE_BACKEND_OPS_H_

#include "unihal/op.h"

/* Why the backend does not take a validated op, valid until the thread's next call; NULL if it does. Data pointers may
 * be NULL. */
const char* refuse_op(const uhal_op* op);

/* Computes an op that is not refused. */
void run_op(const uhal_op* op);

/* maps.c: the rows of UHAL_OP_MAP. */
const char* refuse_map(const uhal_op* op);
void run_map(const uhal_op* op);

/* Formats a reason: printf's conversions, in a buffer of the thread. */
const char* reason(const char* format, ...) __attribute__((format(printf, 1, 2)));

#endif /* REFERENCE_BACKEND_OPS_H_ */
