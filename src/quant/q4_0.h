/* Q4_0: 32 elements, one scale.
 * q_i = low nibble of qs[i] for i < 16, high nibble of qs[i - 16] for i >= 16.
 * y = d (q - 8) */
#ifndef RDG_QUANT_Q4_0_H
#define RDG_QUANT_Q4_0_H

#include "quant/block.h"

typedef struct rdg_block_q4_0 {
    uint16_t d; /* f16 */
    uint8_t qs[16];
} rdg_block_q4_0;
RDG_BLOCK_SIZE(rdg_block_q4_0, 18);

#endif
