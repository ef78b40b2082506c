/* NVFP4: 64 E2M1 values, one unsigned E4M3 scale for each 16.
 * s = i / 16, r = i mod 16; q_i is the low (r < 8) or high nibble of qs[8 s + r mod 8]
 * y = u(d[s]) F[q] with F of MXFP4; u(x) = 0 for 0 and 0x7f, else with e = (x >> 3) & 15, m = x & 7:
 * m 2^-10 for e = 0, (1 + m / 8) 2^(e - 8) otherwise */
#ifndef RDG_QUANT_NVFP4_H
#define RDG_QUANT_NVFP4_H

#include "quant/block.h"
#include "quant/mxfp4.h"

typedef struct rdg_block_nvfp4 {
    uint8_t d[4]; /* E4M3 */
    uint8_t qs[32];
} rdg_block_nvfp4;
RDG_BLOCK_SIZE(rdg_block_nvfp4, 36);

#endif
