/* Q3_K: 256 elements, 16 sub-blocks of 16 with a signed 6-bit scale each.
 * j = i / 16; two low bits of q as in Q2_K, the third is bit i / 32 of hmask[i mod 32].
 * Scale j: low four bits are the low (j < 8) or high nibble of scales[j mod 8], the upper two are bits 2 (j /
 * 4) and following of scales[8 + j mod 4]; 32 is subtracted. y = d scale_j (q - 4) */
#ifndef RDG_QUANT_Q3_K_H
#define RDG_QUANT_Q3_K_H

#include "quant/block.h"

typedef struct rdg_block_q3_k {
    uint8_t hmask[32];
    uint8_t qs[64];
    uint8_t scales[12];
    uint16_t d; /* f16 */
} rdg_block_q3_k;
RDG_BLOCK_SIZE(rdg_block_q3_k, 110);

#endif
