/* What Q2_K, Q4_K and Q5_K have in common: 256 elements as y = d sc_j q - dmin mn_j. */
#ifndef RDG_QUANT_AFFINE_BLOCK_H
#define RDG_QUANT_AFFINE_BLOCK_H

#include "quant/search.h"

typedef struct rdg_affine_format {
    int n_sub;                       /* sub-blocks of 256 / n_sub elements */
    int scale_levels;                /* largest sc_j and mn_j */
    rdg_affine_grid plain, weighted; /* without and with importance */
    bool plain_rms;                  /* weights without importance: rms of the sub-block + |x|, else |x| */
    float s_factor;                  /* with importance: S = s_factor * mean square of the block */
} rdg_affine_format;

typedef struct rdg_affine_block {
    uint16_t d, dmin; /* f16 */
    uint8_t sc[16], mn[16];
    uint8_t q[256];
} rdg_affine_block;

/* importance may be NULL */
void rdg_affine_block_quantise(const rdg_search *search, const rdg_affine_format *f, const float *x,
                               const float *importance, rdg_affine_block *out);

#endif
