/* Graph capture: recording the work of a stream once, and running all of it by one call, again and again.
 *
 * Between uhal_graph_capture_begin and uhal_graph_capture_end, what is submitted to the stream does not run: it becomes
 * a graph. uhal_graph_launch runs the graph as one piece of work, with the addresses, sizes and attributes of then, on
 * what the memory holds by now. The work before the capture and other streams go on as ever.
 *
 * What may be captured: ops that the device runs itself, fills, and copies within the device or between it and pinned
 * (or managed) memory of unihal. A graph holds the work of one stream: an event that is recorded on it in the capture
 * marks a place of the graph, for which the same stream may wait in the same capture, where it has been reached anyway.
 * Other uses of such an event return UHAL_FAILED_PRECONDITION until it is recorded outside a capture.
 *
 * What is refused on a capturing stream, with UHAL_FAILED_PRECONDITION and a message that says why: copies from and to
 * other host memory, copies between devices, ops that would run on the host, host callbacks, collectives, launches of
 * graphs, waits for events that were not recorded in the capture, queries of the stream and waits for it (also by
 * uhal_device_synchronize, which waits for the other streams all the same). What is refused is not in the graph, and
 * the capture goes on.
 *
 * Memory
 * - What a launch reads and writes has to stay allocated. The core knows the allocations that the captured work uses,
 *   and refuses a launch when one of them was freed since (UHAL_FAILED_PRECONDITION, naming it).
 * - What uhal_allocate gives for the capturing stream belongs to the graph: freed by the capturing stream in the
 * capture it is used again by later work of the same capture; freed otherwise or later it stays the graph's, since
 * launches write to it. It comes back when the graph is destroyed, in the order of the stream that it was freed for.
 * Memory that was not freed by then is the caller's, as any other. In a capture the allocator does not wait for other
 *   streams when memory is short.
 * - Backends' scratch memory of the captured work belongs to the graph as well.
 *
 * Launches. A graph runs on any stream of its device; its launches run one after the other, on whatever streams. Random
 * ops repeat their numbers, as their attributes say. Errors of a launch (an index outside its axis) stick to the stream
 * of the graph's last launch.
 *
 * Checks. For the check of races a launch is one piece of work, which touches what its parts touch. With
 * UNIHAL_CHECK_NAN, which must see each op when it runs, a capture does not begin (UHAL_FAILED_PRECONDITION).
 *
 * Programs compile kernels and libraries make their plans at the first use: run the work once before it is captured, so
 * that the capture is quick and nothing of a library runs in it that cannot be captured.
 *
 * Threads: any. A capture sees what all threads submit to its stream. When a capture begins, no other thread may be
 * waiting for the stream.
 */
#ifndef UNIHAL_GRAPH_CAPTURE_H_
#define UNIHAL_GRAPH_CAPTURE_H_

#include "unihal/backend.h"
#include "unihal/stream.h"

UHAL_EXTERN_C_BEGIN

/* -- for users; since ABI 1.5 ------------------------------------------------------------------------ */

/* Captured work. Owned by whoever ended the capture. */
typedef struct uhal_graph uhal_graph;

/* Begins a capture. UHAL_UNIMPLEMENTED: the device's backend, or its driver, captures nothing.
 * UHAL_FAILED_PRECONDITION: the stream is capturing already, or a check is on. */
UHAL_API uhal_status uhal_graph_capture_begin(uhal_stream* stream);

/* Ends the capture and makes *graph of it; one without work is legal. If the backend fails, the capture is over and
 * there is no graph (NULL). UHAL_FAILED_PRECONDITION: the stream is not capturing. */
UHAL_API uhal_status uhal_graph_capture_end(uhal_stream* stream, uhal_graph** graph);

/* Ends the capture without a graph; nothing of it runs. UHAL_FAILED_PRECONDITION: the stream is not capturing.
 * uhal_stream_destroy does the same. */
UHAL_API uhal_status uhal_graph_capture_cancel(uhal_stream* stream);

/* *capturing becomes 1 between begin and end, else 0. */
UHAL_API uhal_status uhal_graph_capture_query(uhal_stream* stream, int32_t* capturing);

/* Submits the graph to a stream of its device (UHAL_INVALID_ARGUMENT for another's). */
UHAL_API uhal_status uhal_graph_launch(uhal_graph* graph, uhal_stream* stream);

/* Waits for the graph's launches and destroys it. NULL is ignored; later use of the handle returns
 * UHAL_INVALID_ARGUMENT. UHAL_FAILED_PRECONDITION in a host callback. */
UHAL_API uhal_status uhal_graph_destroy(uhal_graph* graph);

/* What was captured, each time it runs. */
typedef struct uhal_graph_info {
  size_t struct_size;
  uhal_device* device;
  uint64_t work_count; /* ops, copies and fills */
  uint64_t bytes;      /* as the profiler counts them */
  uint64_t flops;
} uhal_graph_info;

UHAL_API uhal_status uhal_graph_info_get(uhal_graph* graph, uhal_graph_info* info);

/* -- for backends: the extension "uhal.graph_capture" ------------------------------------------------- */

#define UHAL_GRAPH_CAPTURE_NAME "uhal.graph_capture"
enum { UHAL_GRAPH_CAPTURE_VERSION = 1 };

/* Defined by the backend. */
typedef struct uhal_backend_graph uhal_backend_graph;

/* All slots are required. Between begin and end or cancel the core calls nothing else of the stream than launch, copy
 * and fill, and answers host->workspace with memory that lives as long as the graph. What else a backend keeps for a
 * stream and uses in work must live as long as the graph too. Calls on one stream are serialized, and so are those on
 * one graph. */
typedef struct uhal_graph_capture {
  size_t struct_size;

  uhal_status (*begin)(uhal_backend_stream* stream);

  /* The stream does not capture afterwards, whatever is returned. */
  uhal_status (*end)(uhal_backend_stream* stream, uhal_backend_graph** graph);
  uhal_status (*cancel)(uhal_backend_stream* stream);

  /* Submits the graph; its earlier launches come before in the stream's order. */
  uhal_status (*launch)(uhal_backend_graph* graph, uhal_backend_stream* stream);

  /* Its launches have run. */
  uhal_status (*destroy)(uhal_backend_graph* graph);
} uhal_graph_capture;

UHAL_EXTERN_C_END

#endif /* UNIHAL_GRAPH_CAPTURE_H_ */
