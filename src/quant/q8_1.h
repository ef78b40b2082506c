/* Q8_1: 32 elements with their sum; an activation format only, for weights with an offset (Q4_1, Q5_1).
 * y = d qs[i]; s = d * sum of qs, so that a dot product is d_w d sum(q_w q) + m_w s */
#ifndef RDG_QUANT_Q8_1_H
#define RDG_QUANT_Q8_1_H

#include "quant/block.h"

typedef struct rdg_block_q8_1 {
    uint16_t d, s; /* f16 */
    int8_t qs[32];
} rdg_block_q8_1;
RDG_BLOCK_SIZE(rdg_block_q8_1, 36);

#endif
