/* A fake device for tests: records what it is asked to do, runs no kernel, and fails the Nth call on request.
 */
#ifndef RDG_DEVICE_TRACE_H
#define RDG_DEVICE_TRACE_H

#include "device/device.h"

/* The Nth call of the backend from now on fails with `code` (DEVICE, NOMEM, DEVICE_LOST); 0 = never. */
void rdg_trace_fail_at(rdg_device *d, int64_t nth, rdg_err code);
int64_t rdg_trace_calls(const rdg_device *d); /* calls made so far */
/* One line a call: "dispatch matvec", "barrier decode", … Owned by the device; "" at first. */
const char *rdg_trace_text(const rdg_device *d);
void rdg_trace_clear(rdg_device *d);

#endif
