/* Streams: queues of asynchronous work on one device.
 *
 * Work submitted to one stream runs in order of submission; work of different streams is ordered by
 * events only. Submissions from several threads to one stream are serialized by the core, in an
 * order that only the callers can fix. Submission returns before the work has run (the stub's fast
 * mode, and others where it costs nothing, may run it at once).
 *
 * Errors of asynchronous work stick to their stream. They come out, once, at its next
 * uhal_stream_query or uhal_stream_synchronize (or uhal_device_synchronize), naming the op.
 */
#ifndef UNIHAL_STREAM_H_
#define UNIHAL_STREAM_H_

#include "unihal/device.h"

UHAL_EXTERN_C_BEGIN

/* Creates a stream. The caller owns it. */
UHAL_API uhal_status uhal_stream_create(uhal_device* device, uhal_stream** stream);

/* Waits for the stream's work, then destroys it. Later use of the handle returns
 * UHAL_INVALID_ARGUMENT. Returns the sticky error, if any; the stream is destroyed all the same. NULL is
 * ignored. */
UHAL_API uhal_status uhal_stream_destroy(uhal_stream* stream);

/* *done becomes 1 if all submitted work has run, else 0. Returns the sticky error, if any. */
UHAL_API uhal_status uhal_stream_query(uhal_stream* stream, int32_t* done);

/* Blocks until all submitted work has run. Returns the sticky error, if any. */
UHAL_API uhal_status uhal_stream_synchronize(uhal_stream* stream);

/* Work submitted to `stream` from now on waits for the event's last record; an event that was never
 * recorded is complete. The event may belong to another stream or device. */
UHAL_API uhal_status uhal_stream_wait_event(uhal_stream* stream, uhal_event* event);

/* Calls function(user_data), on a thread of the backend's choice, after the work submitted so far. The function may
 * submit work, also to this stream, but must not throw, and cannot wait: functions that wait for a device (the
 * synchronize functions, uhal_stream_destroy, uhal_copy_peer, waits for events of other devices, uhal_profiler_stop,
 * uhal_finalize) return UHAL_FAILED_PRECONDITION in it, since what they wait for may come after the callback. */
typedef void (*uhal_host_function)(void* user_data);
UHAL_API uhal_status uhal_stream_host_callback(uhal_stream* stream, uhal_host_function function, void* user_data);

/* Lets the calling thread's waits give way, such as to an interrupt key. While a function is set,
 * uhal_stream_synchronize, uhal_event_synchronize, uhal_device_synchronize and uhal_stream_destroy call it now and then
 * (up to 40 times a second); if it returns other than 0, they return UHAL_CANCELLED. What was waited for goes on and
 * may be waited for again; the stream is not destroyed. NULL, as at first: waits end when they end. Since ABI 1.3. */
typedef int32_t (*uhal_wait_function)(void* user_data);
UHAL_API void uhal_set_wait_function(uhal_wait_function function, void* user_data);

/* The stream's device. NULL, with an error record, for a destroyed stream. */
UHAL_API uhal_device* uhal_stream_device(uhal_stream* stream);

UHAL_EXTERN_C_END

#endif /* UNIHAL_STREAM_H_ */
