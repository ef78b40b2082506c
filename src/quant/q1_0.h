/* Q1_0: 128 signs, one scale.
 * bit i mod 8 of qs[i / 8]; y = d if set, else -d */
#ifndef RDG_QUANT_Q1_0_H
#define RDG_QUANT_Q1_0_H

#include "quant/block.h"

typedef struct rdg_block_q1_0 {
    uint16_t d; /* f16 */
    uint8_t qs[16];
} rdg_block_q1_0;
RDG_BLOCK_SIZE(rdg_block_q1_0, 18);

#endif
