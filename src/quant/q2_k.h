/* Q2_K: 256 elements, 16 sub-blocks of 16 with a 4-bit scale and a 4-bit minimum each.
 * j = i / 16; q_i = (qs[32 (i / 128) + i mod 32] >> 2 ((i mod 128) / 32)) & 3
 * y = d (scales[j] & 15) q - dmin (scales[j] >> 4) */
#ifndef RDG_QUANT_Q2_K_H
#define RDG_QUANT_Q2_K_H

#include "quant/block.h"

typedef struct rdg_block_q2_k {
    uint8_t scales[16];
    uint8_t qs[64];
    uint16_t d, dmin; /* f16 */
} rdg_block_q2_k;
RDG_BLOCK_SIZE(rdg_block_q2_k, 84);

#endif
