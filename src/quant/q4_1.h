/* Q4_1: 32 elements, scale and offset.
 * q_i = low nibble of qs[i] for i < 16, high nibble of qs[i - 16] for i >= 16.
 * y = d q + m */
#ifndef RDG_QUANT_Q4_1_H
#define RDG_QUANT_Q4_1_H

#include "quant/block.h"

typedef struct rdg_block_q4_1 {
    uint16_t d, m; /* f16 */
    uint8_t qs[16];
} rdg_block_q4_1;
RDG_BLOCK_SIZE(rdg_block_q4_1, 20);

#endif
