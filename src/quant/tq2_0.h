/* TQ2_0: 256 ternary elements, two bits each.
 * q = (qs[32 (i / 128) + i mod 32] >> 2 ((i mod 128) / 32)) & 3; y = d (q - 1) */
#ifndef RDG_QUANT_TQ2_0_H
#define RDG_QUANT_TQ2_0_H

#include "quant/block.h"

typedef struct rdg_block_tq2_0 {
    uint8_t qs[64];
    uint16_t d; /* f16 */
} rdg_block_tq2_0;
RDG_BLOCK_SIZE(rdg_block_tq2_0, 66);

#endif
