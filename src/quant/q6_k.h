/* Q6_K: 256 elements, 16 sub-blocks of 16 with a signed 8-bit scale each.
 * n = i / 128, g = (i mod 128) / 32, l = i mod 32: the low four bits are the low (g < 2) or high nibble of
 * ql[64 n + 32 (g mod 2) + l], the upper two are (qh[32 n + l] >> 2 g) & 3
 * y = d scales[i / 16] (q - 32) */
#ifndef RDG_QUANT_Q6_K_H
#define RDG_QUANT_Q6_K_H

#include "quant/block.h"

typedef struct rdg_block_q6_k {
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16];
    uint16_t d; /* f16 */
} rdg_block_q6_k;
RDG_BLOCK_SIZE(rdg_block_q6_k, 210);

#endif
