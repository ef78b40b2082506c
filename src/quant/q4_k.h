/* Q4_K: 256 elements, 8 sub-blocks of 32 with a 6-bit scale and a 6-bit minimum each (packing: scale_min.h).
 * j = i / 32; q_i is the low (i mod 64 < 32) or high nibble of qs[32 (i / 64) + i mod 32]
 * y = d sc_j q - dmin mn_j */
#ifndef RDG_QUANT_Q4_K_H
#define RDG_QUANT_Q4_K_H

#include "quant/block.h"

typedef struct rdg_block_q4_k {
    uint16_t d, dmin; /* f16 */
    uint8_t scales[12];
    uint8_t qs[128];
} rdg_block_q4_k;
RDG_BLOCK_SIZE(rdg_block_q4_k, 144);

#endif
