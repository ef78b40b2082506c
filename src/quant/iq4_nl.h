/* IQ4_NL: 32 elements, one scale, sixteen unevenly spaced values K.
 * q as in Q4_0.
 * y = d K[q] */
#ifndef RDG_QUANT_IQ4_NL_H
#define RDG_QUANT_IQ4_NL_H

#include "quant/block.h"

/* The values K, for an initialiser: each language declares its own array. */
#define RDG_IQ4_VALUES -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113

typedef struct rdg_block_iq4_nl {
    uint16_t d; /* f16 */
    uint8_t qs[16];
} rdg_block_iq4_nl;
RDG_BLOCK_SIZE(rdg_block_iq4_nl, 18);

#endif
