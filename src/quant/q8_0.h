/* Q8_0: 32 elements, one scale. Also an activation format.
 * y = d qs[i] */
#ifndef RDG_QUANT_Q8_0_H
#define RDG_QUANT_Q8_0_H

#include "quant/block.h"

typedef struct rdg_block_q8_0 {
    uint16_t d; /* f16 */
    int8_t qs[32];
} rdg_block_q8_0;
RDG_BLOCK_SIZE(rdg_block_q8_0, 34);

#endif
