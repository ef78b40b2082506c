/* Q5_0: 32 elements, one scale, fifth bit apart.
 * Low four bits as in Q4_0; the fifth is bit i mod 8 of qh[i / 8].
 * y = d (q - 16) */
#ifndef RDG_QUANT_Q5_0_H
#define RDG_QUANT_Q5_0_H

#include "quant/block.h"

typedef struct rdg_block_q5_0 {
    uint16_t d; /* f16 */
    uint8_t qh[4];
    uint8_t qs[16];
} rdg_block_q5_0;
RDG_BLOCK_SIZE(rdg_block_q5_0, 22);

#endif
