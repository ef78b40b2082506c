/* Q5_1: 32 elements, scale and offset, fifth bit apart.
 * Bits as in Q5_0.
 * y = d q + m */
#ifndef RDG_QUANT_Q5_1_H
#define RDG_QUANT_Q5_1_H

#include "quant/block.h"

typedef struct rdg_block_q5_1 {
    uint16_t d, m; /* f16 */
    uint8_t qh[4];
    uint8_t qs[16];
} rdg_block_q5_1;
RDG_BLOCK_SIZE(rdg_block_q5_1, 24);

#endif
