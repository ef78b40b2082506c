/* Block formats → 256 integers q with a scale and a minimum for each 16: w = scale q - min (see q8.h).
 *
 * Plain C, written so that the compiler makes vectors of it; the hot formats have hand-written forms as well
 * (unpack_avx512.h). Each unpacker reads n_blocks blocks, 256 elements or what is left of the row, and fills
 * the rest with zeros. q of every format with true minima is 0 … 63 at most. Formats whose minimum is a fixed
 * multiple of the scale (w = scale (q - offset)) say so in RDG_OFFSET_*: the matmul folds the offset into q.
 */
#ifndef RDG_OPS_MATVEC_UNPACK_H
#define RDG_OPS_MATVEC_UNPACK_H

#include "base/compiler.h"
#include "base/half.h"
#include "quant/iq4_nl.h"
#include "quant/iq4_xs.h"
#include "quant/mxfp4.h"
#include "quant/q2_k.h"
#include "quant/q3_k.h"
#include "quant/q4_0.h"
#include "quant/q4_1.h"
#include "quant/q4_k.h"
#include "quant/q5_0.h"
#include "quant/q5_1.h"
#include "quant/q5_k.h"
#include "quant/q6_k.h"
#include "quant/q8_0.h"
#include "quant/scale_min.h"

#include <ridge/type.h>

#include <string.h>

typedef struct rdg_unpacked {
    RDG_ALIGNED(64) uint8_t q[256];
    float scale[16], min[16];
} rdg_unpacked;

/* q - offset is the signed weight; 0: the format has true minima. */
enum {
    RDG_OFFSET_NONE = 0,
    RDG_OFFSET_Q3_K = 4,
    RDG_OFFSET_Q4_0 = 8,
    RDG_OFFSET_MXFP4 = 12,
    RDG_OFFSET_Q5_0 = 16,
    RDG_OFFSET_Q6_K = 32,
    RDG_OFFSET_Q8_0 = 128,
    RDG_OFFSET_IQ4 = 128,
};

/* K + 128 and F + 12 by nibble */
#define RDG_IQ4_UNSIGNED                                                                                     \
    {                                                                                                        \
        1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241                              \
    }
#define RDG_MXFP4_UNSIGNED                                                                                   \
    {                                                                                                        \
        12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0                                            \
    }

typedef void rdg_unpack_fn(const uint8_t *src, int n_blocks, rdg_unpacked *u);

/* Sub-block pair j of a 32-element sub-block. */
RDG_INLINE void rdg_unpack_pair(rdg_unpacked *u, int j, float scale, float min)
{
    u->scale[2 * j] = u->scale[2 * j + 1] = scale;
    u->min[2 * j] = u->min[2 * j + 1] = min;
}

/* n_blocks of the eight 32-element blocks are there. */
RDG_INLINE void rdg_unpack_zero_tail(rdg_unpacked *u, int n_blocks)
{
    for (int j = n_blocks; j < 8; j++) {
        memset(u->q + 32 * j, 0, 32);
        rdg_unpack_pair(u, j, 0.0f, 0.0f);
    }
}

RDG_INLINE void rdg_unpack_nibbles(const uint8_t *qs, uint8_t *q, int n)
{
    for (int l = 0; l < n; l++) q[l] = qs[l] & 15;
    for (int l = 0; l < n; l++) q[n + l] = qs[l] >> 4;
}

static inline void rdg_unpack_q4_k(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    rdg_block_q4_k b;
    uint8_t sc[8], mn[8];
    (void)n_blocks;
    memcpy(&b, src, sizeof b);
    rdg_scale_min_unpack(b.scales, sc, mn);
    float d = rdg_half_to_f32(b.d), dmin = rdg_half_to_f32(b.dmin);
    for (int j = 0; j < 8; j++) rdg_unpack_pair(u, j, d * sc[j], dmin * mn[j]);
    for (int p = 0; p < 4; p++) rdg_unpack_nibbles(b.qs + 32 * p, u->q + 64 * p, 32);
}

static inline void rdg_unpack_q5_k(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    rdg_block_q5_k b;
    uint8_t sc[8], mn[8];
    (void)n_blocks;
    memcpy(&b, src, sizeof b);
    rdg_scale_min_unpack(b.scales, sc, mn);
    float d = rdg_half_to_f32(b.d), dmin = rdg_half_to_f32(b.dmin);
    for (int j = 0; j < 8; j++) rdg_unpack_pair(u, j, d * sc[j], dmin * mn[j]);
    for (int p = 0; p < 4; p++) {
        rdg_unpack_nibbles(b.qs + 32 * p, u->q + 64 * p, 32);
        for (int l = 0; l < 32; l++) u->q[64 * p + l] |= (uint8_t)(((b.qh[l] >> (2 * p)) & 1) << 4);
        for (int l = 0; l < 32; l++) u->q[64 * p + 32 + l] |= (uint8_t)(((b.qh[l] >> (2 * p + 1)) & 1) << 4);
    }
}

static inline void rdg_unpack_q6_k(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    rdg_block_q6_k b;
    (void)n_blocks;
    memcpy(&b, src, sizeof b);
    float d = rdg_half_to_f32(b.d);
    for (int k = 0; k < 16; k++) {
        u->scale[k] = d * b.scales[k];
        u->min[k] = RDG_OFFSET_Q6_K * u->scale[k];
    }
    for (int n = 0; n < 2; n++) {
        rdg_unpack_nibbles(b.ql + 64 * n, u->q + 128 * n, 64);
        for (int g = 0; g < 4; g++)
            for (int l = 0; l < 32; l++)
                u->q[128 * n + 32 * g + l] |= (uint8_t)(((b.qh[32 * n + l] >> (2 * g)) & 3) << 4);
    }
}

static inline void rdg_unpack_q2_k(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    rdg_block_q2_k b;
    (void)n_blocks;
    memcpy(&b, src, sizeof b);
    float d = rdg_half_to_f32(b.d), dmin = rdg_half_to_f32(b.dmin);
    for (int k = 0; k < 16; k++) {
        u->scale[k] = d * (b.scales[k] & 15);
        u->min[k] = dmin * (b.scales[k] >> 4);
    }
    for (int n = 0; n < 2; n++)
        for (int g = 0; g < 4; g++)
            for (int l = 0; l < 32; l++) u->q[128 * n + 32 * g + l] = (b.qs[32 * n + l] >> (2 * g)) & 3;
}

static inline void rdg_unpack_q3_k(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    rdg_block_q3_k b;
    (void)n_blocks;
    memcpy(&b, src, sizeof b);
    float d = rdg_half_to_f32(b.d);
    for (int k = 0; k < 16; k++) {
        int low = k < 8 ? b.scales[k] & 15 : b.scales[k - 8] >> 4;
        int high = (b.scales[8 + (k & 3)] >> (2 * (k / 4))) & 3;
        u->scale[k] = d * (float)(low + 16 * high - 32);
        u->min[k] = RDG_OFFSET_Q3_K * u->scale[k];
    }
    for (int n = 0; n < 2; n++)
        for (int g = 0; g < 4; g++)
            for (int l = 0; l < 32; l++)
                u->q[128 * n + 32 * g + l] =
                    (uint8_t)(((b.qs[32 * n + l] >> (2 * g)) & 3) | ((b.hmask[l] >> (4 * n + g)) & 1) << 2);
}

static inline void rdg_unpack_iq4_xs(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    static const uint8_t value[16] = RDG_IQ4_UNSIGNED;
    rdg_block_iq4_xs b;
    (void)n_blocks;
    memcpy(&b, src, sizeof b);
    float d = rdg_half_to_f32(b.d);
    for (int j = 0; j < 8; j++) {
        int ls = ((b.scales_l[j / 2] >> (4 * (j & 1))) & 15) + 16 * ((b.scales_h >> (2 * j)) & 3);
        float scale = d * (float)(ls - 32);
        rdg_unpack_pair(u, j, scale, RDG_OFFSET_IQ4 * scale);
        rdg_unpack_nibbles(b.qs + 16 * j, u->q + 32 * j, 16);
    }
    for (int i = 0; i < 256; i++) u->q[i] = value[u->q[i]];
}

static inline void rdg_unpack_q4_0(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    for (int j = 0; j < n_blocks; j++) {
        rdg_block_q4_0 b;
        memcpy(&b, src + j * (int)sizeof b, sizeof b);
        float d = rdg_half_to_f32(b.d);
        rdg_unpack_pair(u, j, d, RDG_OFFSET_Q4_0 * d);
        rdg_unpack_nibbles(b.qs, u->q + 32 * j, 16);
    }
    rdg_unpack_zero_tail(u, n_blocks);
}

static inline void rdg_unpack_q4_1(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    for (int j = 0; j < n_blocks; j++) {
        rdg_block_q4_1 b;
        memcpy(&b, src + j * (int)sizeof b, sizeof b);
        rdg_unpack_pair(u, j, rdg_half_to_f32(b.d), -rdg_half_to_f32(b.m));
        rdg_unpack_nibbles(b.qs, u->q + 32 * j, 16);
    }
    rdg_unpack_zero_tail(u, n_blocks);
}

/* Adds 16 to the elements whose bit of qh is set. */
RDG_INLINE void rdg_unpack_fifth_bits(const uint8_t qh[4], uint8_t *q)
{
    for (int i = 0; i < 32; i++) q[i] |= (uint8_t)(((qh[i / 8] >> (i & 7)) & 1) << 4);
}

static inline void rdg_unpack_q5_0(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    for (int j = 0; j < n_blocks; j++) {
        rdg_block_q5_0 b;
        memcpy(&b, src + j * (int)sizeof b, sizeof b);
        float d = rdg_half_to_f32(b.d);
        rdg_unpack_pair(u, j, d, RDG_OFFSET_Q5_0 * d);
        rdg_unpack_nibbles(b.qs, u->q + 32 * j, 16);
        rdg_unpack_fifth_bits(b.qh, u->q + 32 * j);
    }
    rdg_unpack_zero_tail(u, n_blocks);
}

static inline void rdg_unpack_q5_1(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    for (int j = 0; j < n_blocks; j++) {
        rdg_block_q5_1 b;
        memcpy(&b, src + j * (int)sizeof b, sizeof b);
        rdg_unpack_pair(u, j, rdg_half_to_f32(b.d), -rdg_half_to_f32(b.m));
        rdg_unpack_nibbles(b.qs, u->q + 32 * j, 16);
        rdg_unpack_fifth_bits(b.qh, u->q + 32 * j);
    }
    rdg_unpack_zero_tail(u, n_blocks);
}

static inline void rdg_unpack_q8_0(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    for (int j = 0; j < n_blocks; j++) {
        rdg_block_q8_0 b;
        memcpy(&b, src + j * (int)sizeof b, sizeof b);
        float d = rdg_half_to_f32(b.d);
        rdg_unpack_pair(u, j, d, RDG_OFFSET_Q8_0 * d);
        for (int l = 0; l < 32; l++) u->q[32 * j + l] = (uint8_t)((uint8_t)b.qs[l] ^ 0x80);
    }
    rdg_unpack_zero_tail(u, n_blocks);
}

static inline void rdg_unpack_iq4_nl(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    static const uint8_t value[16] = RDG_IQ4_UNSIGNED;
    for (int j = 0; j < n_blocks; j++) {
        rdg_block_iq4_nl b;
        memcpy(&b, src + j * (int)sizeof b, sizeof b);
        float d = rdg_half_to_f32(b.d);
        rdg_unpack_pair(u, j, d, RDG_OFFSET_IQ4 * d);
        rdg_unpack_nibbles(b.qs, u->q + 32 * j, 16);
        for (int l = 0; l < 32; l++) u->q[32 * j + l] = value[u->q[32 * j + l]];
    }
    rdg_unpack_zero_tail(u, n_blocks);
}

static inline void rdg_unpack_mxfp4(const uint8_t *src, int n_blocks, rdg_unpacked *u)
{
    static const uint8_t value[16] = RDG_MXFP4_UNSIGNED;
    for (int j = 0; j < n_blocks; j++) {
        rdg_block_mxfp4 b;
        memcpy(&b, src + j * (int)sizeof b, sizeof b);
        /* 2^(e - 128); the two smallest are subnormal */
        float d = rdg_f32_from_bits(b.e >= 2 ? (uint32_t)(b.e - 1) << 23 : 0x00200000u << b.e);
        rdg_unpack_pair(u, j, d, RDG_OFFSET_MXFP4 * d);
        rdg_unpack_nibbles(b.qs, u->q + 32 * j, 16);
        for (int l = 0; l < 32; l++) u->q[32 * j + l] = value[u->q[32 * j + l]];
    }
    rdg_unpack_zero_tail(u, n_blocks);
}

/* What a format is to the kernels. sub_elems: 16 or 32; offset: RDG_OFFSET_*. */
typedef struct rdg_block_format {
    int block_elems, block_bytes, sub_elems, offset;
    rdg_unpack_fn *unpack;
} rdg_block_format;

#endif
