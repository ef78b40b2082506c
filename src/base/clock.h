#ifndef RDG_BASE_CLOCK_H
#define RDG_BASE_CLOCK_H

#include <stdint.h>

int64_t rdg_clock_ns(void);     /* monotonic */
double rdg_clock_seconds(void); /* the same clock */

#endif
