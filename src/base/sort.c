#include "base/sort.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void rdg_sort_doubles(double *v, size_t n)
{
    if (n > 1) qsort(v, n, sizeof *v, by_value);
}

double rdg_median_sorted(const double *v, size_t n)
{
    return n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}
