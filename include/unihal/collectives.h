/* Collectives: moving and reducing data among devices, of one process or of many.
 *
 * Each device that takes part is a rank, a number from 0 to size - 1, with a communicator of its own. All of them share
 * an id: one rank makes it (uhal_communicator_id_create), and the others get its bytes by means of their own, such as a
 * file, a socket or shared memory. An id serves for one communicator, once.
 *
 * A collective is work of a stream, as ops are: it runs after what was submitted to the stream before, and the call
 * returns before it has run (the stub's fast mode waits in the call for the other ranks). All ranks submit the same
 * collectives to a communicator, in the same order, with the same count, dtype, reduction and root. Collectives of one
 * communicator run in the order of their submission, on whatever streams. Memory is that of the communicator's device
 * (kinds device and managed), dense, `count` elements for each block.
 *
 * Groups. The calls of a thread between uhal_communicator_group_start and uhal_communicator_group_end are submitted
 * together, at the end. It takes a group (1) where one thread drives several ranks, whose collectives would otherwise
 * wait for each other, and (2) where ranks send and receive in both directions: the sends and receives of a group go on
 * at the same time.
 *
 * Failures. A rank that does not come, dies, or runs another collective is an error of the stream (stream.h) on the
 * ranks that wait for it: UHAL_DEADLINE_EXCEEDED after the communicator's timeout, UHAL_ABORTED for a rank that ended,
 * left or gave up, UHAL_INVALID_ARGUMENT for calls that do not go together; the message names the collective and the
 * ranks. What it was to write is undefined then, and the communicator is of no more use: destroy it, and create another
 * one with a new id. With NCCL and RCCL ranks of other hosts cannot be looked at: a message says so where none of this
 * host is missing, and calls that do not go together are undefined.
 *
 * Threads: any. The core serializes the submissions to one communicator, in an order that only the callers can fix.
 */
#ifndef UNIHAL_COLLECTIVES_H_
#define UNIHAL_COLLECTIVES_H_

#include "unihal/backend.h"
#include "unihal/stream.h"
#include "unihal/tensor.h"

UHAL_EXTERN_C_BEGIN

/* -- for users; since ABI 1.4 ------------------------------------------------------------------------ */

/* One rank of a communicator. Owned by whoever created it. */
typedef struct uhal_communicator uhal_communicator;

enum { UHAL_COMMUNICATOR_ID_BYTES = 256 };

/* What the ranks of a communicator share. Bytes to be copied as they are, of a meaning that only the backend knows. */
typedef struct uhal_communicator_id {
  char bytes[UHAL_COMMUNICATOR_ID_BYTES];
} uhal_communicator_id;

typedef int32_t uhal_collective_kind;
enum {
  /* Blocks of `count` elements, of source and destination; "each" has one block for each rank, in their order.
   *
   *                                source       destination */
  UHAL_ALL_REDUCE = 1,     /*       one          one: the reduction of all sources, on all ranks */
  UHAL_ALL_GATHER = 2,     /*       one          each: the sources of all ranks, on all ranks */
  UHAL_REDUCE_SCATTER = 3, /*       each         one: the reduction of all ranks' blocks of this rank's number */
  UHAL_BROADCAST = 4,      /*       the peer's   one: the peer's source, on all ranks */
  UHAL_REDUCE = 5,         /*       one          the peer's: the reduction of all sources */
  UHAL_ALL_TO_ALL = 6,     /*       each         each: block i comes from rank i, of its block of this rank's number */
  UHAL_SEND = 7,           /*       one          none: to the peer, which receives as many */
  UHAL_RECEIVE = 8,        /*       none         one: from the peer */
  UHAL_COLLECTIVE_KIND_LIMIT = 9
};

/* Of integers and floating numbers; sums and products of integers wrap. Booleans: sum and maximum are "or", product and
 * minimum are "and". Average: floating and complex numbers only. Complex numbers: sum and average only. Which of two
 * numbers a minimum or maximum with NaN gives is the backend's choice; the stub gives NaN.
 *
 * All ranks get the same bits. In which order they are added is the backend's choice; the stub adds in the order of the
 * ranks, in float32 for float16 and bfloat16. */
typedef int32_t uhal_reduction;
enum {
  UHAL_REDUCTION_SUM = 0,
  UHAL_REDUCTION_PRODUCT = 1,
  UHAL_REDUCTION_MINIMUM = 2,
  UHAL_REDUCTION_MAXIMUM = 3,
  UHAL_REDUCTION_AVERAGE = 4,
  UHAL_REDUCTION_LIMIT = 5
};

/* One collective, as one rank calls it.
 *
 * In place: source and destination are apart, or (all-reduce, reduce, broadcast) the same, or (all-gather) the source
 * is this rank's block of the destination, or (reduce-scatter) the destination is this rank's block of the source. A
 * source that is the peer's only is not looked at elsewhere, and may be NULL there; so is such a destination. */
typedef struct uhal_collective {
  size_t struct_size;
  uhal_collective_kind kind;
  uhal_dtype dtype; /* any; reductions: see uhal_reduction. UHAL_UNIMPLEMENTED where the backend has it not */
  uhal_reduction reduction;
  int32_t peer; /* broadcast, reduce: the root; send: the receiver; receive: the sender, never this rank itself */
  const void* source;
  void* destination;
  int64_t count; /* elements of one block; 0: nothing is done, on any rank */
} uhal_collective;

/* Makes an id for a communicator of devices such as this one.
 * UHAL_UNIMPLEMENTED: the device's backend has no collectives. UHAL_UNAVAILABLE: their library is missing; the message
 * says what to install. */
UHAL_API uhal_status uhal_communicator_id_create(uhal_device* device, uhal_communicator_id* id);

/* Creates rank `rank` of `size` on a device, and waits for the other ranks, which do the same. Give each a thread or a
 * process: one thread cannot create two. UHAL_DEADLINE_EXCEEDED after the timeout, with the ranks that did not come;
 * UHAL_ALREADY_EXISTS for a rank that is taken; UHAL_INVALID_ARGUMENT for an id that is none, or if ranks do not agree
 * about the size; UHAL_CANCELLED as the thread's wait function asks; UHAL_FAILED_PRECONDITION in a host callback.
 *
 * `timeout_milliseconds` > 0 is also how long a collective may wait for another rank without progress, from when its
 * turn in the stream has come. */
UHAL_API uhal_status uhal_communicator_create(uhal_device* device, int32_t rank, int32_t size,
                                              const uhal_communicator_id* id, int64_t timeout_milliseconds,
                                              uhal_communicator** communicator);

/* Waits for the communicator's collectives, and destroys it. The other ranks find out at their next collective. NULL is
 * ignored; later use of the handle returns UHAL_INVALID_ARGUMENT. */
UHAL_API uhal_status uhal_communicator_destroy(uhal_communicator* communicator);

/* Ends the communicator's collectives, on all ranks that can be reached, with UHAL_ABORTED as an error of their
 * streams. It is to be destroyed all the same. From any thread at any time. */
UHAL_API uhal_status uhal_communicator_abort(uhal_communicator* communicator);

/* Submits a collective to a stream of the communicator's device, or, in a group, notes it for the group's end. All
 * arguments are checked here. UHAL_FAILED_PRECONDITION: the communicator failed before; the message says how. */
UHAL_API uhal_status uhal_communicator_launch(uhal_communicator* communicator, uhal_stream* stream,
                                              const uhal_collective* collective);

/* A group of the calling thread. Groups nest; the outermost end submits. Calls of one communicator go to one stream,
 * and all communicators belong to one backend (UHAL_INVALID_ARGUMENT). A call that is refused is not in the group.
 * Memory, streams and communicators are checked again at the end; if one is gone, nothing is submitted. */
UHAL_API uhal_status uhal_communicator_group_start(void);
UHAL_API uhal_status uhal_communicator_group_end(void); /* UHAL_FAILED_PRECONDITION without a start */

/* Ends all groups of the calling thread and submits nothing of them. */
UHAL_API void uhal_communicator_group_cancel(void);

/* "all_reduce"; "invalid" for an unknown kind. Static. */
UHAL_API const char* uhal_collective_kind_name(uhal_collective_kind kind);

/* -- for backends: the extension "uhal.collectives" --------------------------------------------------- */

#define UHAL_COLLECTIVES_NAME "uhal.collectives"
enum { UHAL_COLLECTIVES_VERSION = 1 };

/* Defined by the backend. */
typedef struct uhal_backend_communicator uhal_backend_communicator;

/* What one communicator does in a launch: collectives on one of its device's streams, count > 0, all checked. The sends
 * and receives that follow each other go on at the same time. */
typedef struct uhal_collective_batch {
  uhal_backend_communicator* communicator;
  uhal_backend_stream* stream;
  const uhal_collective* const* collectives; /* valid during the call */
  int32_t count;
} uhal_collective_batch;

/* All slots are required. Complex reductions come as twice as many real numbers. */
typedef struct uhal_collectives {
  size_t struct_size;

  uhal_status (*create_id)(uhal_backend_device* device, uhal_communicator_id* id);
  uhal_status (*create)(uhal_backend_device* device, int32_t rank, int32_t size, const uhal_communicator_id* id,
                        int64_t timeout_milliseconds, uhal_backend_communicator** communicator);

  /* The communicator's work may be pending: waits for it. */
  uhal_status (*destroy)(uhal_backend_communicator* communicator);

  /* From any thread, while others call. */
  uhal_status (*abort)(uhal_backend_communicator* communicator);

  /* Submits; the streams are locked by the core. UHAL_UNIMPLEMENTED for a dtype that it does not reduce, and then
   * nothing is submitted. Batches of one communicator come one at a time, and once in a call. */
  uhal_status (*launch)(const uhal_collective_batch* batches, int32_t count);
} uhal_collectives;

UHAL_EXTERN_C_END

#endif /* UNIHAL_COLLECTIVES_H_ */
