/* TQ1_0: 256 ternary elements, five to a byte.
 * i < 160: digit i / 32 of qs[i mod 32]; i < 240: digit (i - 160) / 16 of qs[32 + (i - 160) mod 16];
 * else digit (i - 240) / 4 of qh[(i - 240) mod 4]. Digit n of b: t = ((b 3^n mod 256) * 3) >> 8; y = d (t -
 * 1) */
#ifndef RDG_QUANT_TQ1_0_H
#define RDG_QUANT_TQ1_0_H

#include "quant/block.h"

typedef struct rdg_block_tq1_0 {
    uint8_t qs[48];
    uint8_t qh[4];
    uint16_t d; /* f16 */
} rdg_block_tq1_0;
RDG_BLOCK_SIZE(rdg_block_tq1_0, 54);

#endif
