/* Events: points in a stream that others can wait for, and time between.
 *
 * Threads: any. An event may be recorded again; waits refer to the record that was last when they
 * were called.
 */
#ifndef UNIHAL_EVENT_H_
#define UNIHAL_EVENT_H_

#include "unihal/device.h"

UHAL_EXTERN_C_BEGIN

/* Creates an event of a device. The caller owns it. */
UHAL_API uhal_status uhal_event_create(uhal_device* device, uhal_event** event);

/* Destroys an event; pending waits for it are kept. Later use of the handle returns
 * UHAL_INVALID_ARGUMENT. NULL is ignored. */
UHAL_API uhal_status uhal_event_destroy(uhal_event* event);

/* Marks the present end of a stream of the same device. */
UHAL_API uhal_status uhal_event_record(uhal_event* event, uhal_stream* stream);

/* *done becomes 1 if the last record has been reached (or there was none), else 0. */
UHAL_API uhal_status uhal_event_query(uhal_event* event, int32_t* done);

/* Blocks until the last record has been reached. */
UHAL_API uhal_status uhal_event_synchronize(uhal_event* event);

/* Device time from one recorded and reached event to another of the same device.
 * UHAL_FAILED_PRECONDITION if either was not recorded or not reached. */
UHAL_API uhal_status uhal_event_elapsed_nanoseconds(uhal_event* start, uhal_event* end, int64_t* nanoseconds);

UHAL_EXTERN_C_END

#endif /* UNIHAL_EVENT_H_ */
