/* Q8_K: 256 elements; an activation format only, for all 256-element weights.
 * y = d qs[i]; bsums[k] = sum of qs[16 k … 16 k + 15], which folds the offsets of the weights into a dot
 * product */
#ifndef RDG_QUANT_Q8_K_H
#define RDG_QUANT_Q8_K_H

#include "quant/block.h"

typedef struct rdg_block_q8_k {
    float d;
    int8_t qs[256];
    int16_t bsums[16];
} rdg_block_q8_k;
RDG_BLOCK_SIZE(rdg_block_q8_k, 292);

#endif
