/* What Q4_0, Q4_1, Q5_0 and Q5_1 have in common: blocks of 32 elements with one scale, and a minimum or a
 * zero in the middle. A format is how a block is laid out. */
#ifndef RDG_QUANT_BLOCK32_H
#define RDG_QUANT_BLOCK32_H

#include "quant/search.h"

#include <stddef.h>

typedef struct rdg_block32_format {
    int top;      /* largest quantum */
    bool has_min; /* x = d q - min; without, x = d (q - (top + 1) / 2) */
    size_t block_bytes;
    void (*store)(float d, float min, const uint8_t q[32], void *block);
} rdg_block32_format;

/* importance may be NULL */
void rdg_block32_quantise(const rdg_block32_format *f, const rdg_search *search, const float *src, void *dst,
                          int64_t n_columns, const float *importance);

#endif
