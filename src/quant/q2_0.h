/* Q2_0: 64 elements of two bits, one scale.
 * q = (qs[i / 4] >> 2 (i mod 4)) & 3; y = d (q - 1) */
#ifndef RDG_QUANT_Q2_0_H
#define RDG_QUANT_Q2_0_H

#include "quant/block.h"

typedef struct rdg_block_q2_0 {
    uint16_t d; /* f16 */
    uint8_t qs[16];
} rdg_block_q2_0;
RDG_BLOCK_SIZE(rdg_block_q2_0, 18);

#endif
