/* IQ4_XS: 256 elements, 8 sub-blocks of 32 with a signed 6-bit scale each, values K of IQ4_NL.
 * j = i / 32; ls_j = nibble j mod 2 of scales_l[j / 2] + 16 ((scales_h >> 2 j) & 3)
 * q_i is the low (i mod 32 < 16) or high nibble of qs[16 j + i mod 16]
 * y = d (ls_j - 32) K[q] */
#ifndef RDG_QUANT_IQ4_XS_H
#define RDG_QUANT_IQ4_XS_H

#include "quant/block.h"
#include "quant/iq4_nl.h"

typedef struct rdg_block_iq4_xs {
    uint16_t d; /* f16 */
    uint16_t scales_h;
    uint8_t scales_l[4];
    uint8_t qs[128];
} rdg_block_iq4_xs;
RDG_BLOCK_SIZE(rdg_block_iq4_xs, 136);

#endif
