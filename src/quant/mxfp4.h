/* MXFP4: 32 E2M1 values under one power of two (OCP microscaling).
 * q as in Q4_0.
 * y = 2^(e - 128) F[q]; e = 255 is invalid */
#ifndef RDG_QUANT_MXFP4_H
#define RDG_QUANT_MXFP4_H

#include "quant/block.h"

/* Twice the E2M1 values, for an initialiser: each language declares its own array. */
#define RDG_FP4_VALUES 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12

typedef struct rdg_block_mxfp4 {
    uint8_t e;
    uint8_t qs[16];
} rdg_block_mxfp4;
RDG_BLOCK_SIZE(rdg_block_mxfp4, 17);

#endif
