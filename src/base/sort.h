/* Order statistics of measured numbers; none may be NaN. */
#ifndef RDG_BASE_SORT_H
#define RDG_BASE_SORT_H

#include <stddef.h>

void rdg_sort_doubles(double *v, size_t n); /* rising */
/* Of rising numbers, n > 0: the middle one, or the mean of the middle two. */
double rdg_median_sorted(const double *v, size_t n);

#endif
