/* The kernels behind the CPU's roofs: one list for each instruction set. */
#ifndef RDG_PROFILE_ROOFS_CPU_KERNELS_H
#define RDG_PROFILE_ROOFS_CPU_KERNELS_H

#include "base/compiler.h"

#include <stddef.h>
#include <stdint.h>

typedef enum rdg_roof_kind {
    RDG_ROOF_READ,
    RDG_ROOF_WRITE,
    RDG_ROOF_COPY,
    RDG_ROOF_TRIAD,
    RDG_ROOF_FP32,
    RDG_ROOF_INT8,
    RDG_ROOF_COUNT
} rdg_roof_kind;

/* Pieces that memory kernels are called with: a whole number of large pages, so that streams and unrolled
 * loops divide it and need no tails. */
enum { RDG_ROOF_PIECE_BYTES = 2 << 20 };

typedef struct rdg_roof_kernel {
    const char *name; /* NULL ends a list */
    rdg_roof_kind kind;
    uint32_t requires_mask;
    /* Memory: one piece of each array; read looks at a only, write fills a, copy is a = b, triad a = b + 3 c.
     * Compute: a, b, c unused, `n` rounds. The value keeps the work alive. */
    uint64_t (*run)(void *a, const void *b, const void *c, int64_t n);
    double ops_per_round; /* compute kernels */
} rdg_roof_kernel;

extern const rdg_roof_kernel rdg_roof_kernels_avx512[], rdg_roof_kernels_avx2[], rdg_roof_kernels_c[];

#endif
