/* The 8-bit path of matvec, matmul and experts, shared by all block formats and instruction sets.
 *
 * Every weight format is one and the same thing here: 256 small integers with one scale and one minimum for
 * each 16 of them, w = scale q - min. A format is its unpacker and nothing else. The activations are
 * quantised once a call to 8 bits, with one scale for as many elements as a block of the weights has: 256 or
 * 32. One scale for 256 is not enough for the models that formats of 32 are used for, whose activations have
 * few large values that leave their neighbours no bits. A dot product is then the sum over sub-blocks k of
 * act scale * (scale_k * sum(q x) - min_k * sum_k(x)) with exact integer sums inside a sub-block. Rows of
 * 32-element formats need not be a multiple of 256 long: what is missing counts as zero. */
#ifndef RDG_OPS_MATVEC_Q8_H
#define RDG_OPS_MATVEC_Q8_H

#include "base/compiler.h"
#include "base/cpu.h"
#include "ops/matmul/matmul.h"

/* A stream asks for what lies so far ahead. */
enum { RDG_Q8_REACH_BYTES = 2304 };
enum { RDG_Q8_STREAMS = 4, RDG_Q8_ELEMS = 256, RDG_Q8_SUBS = 16, RDG_Q8_MAX_TOKENS = RDG_MATVEC_MAX_TOKENS };

/* 256 activations: x = scale q. A NaN or infinity among them makes its scale NaN or infinite, so it reaches
 * the output. */
typedef struct rdg_q8_block {
    RDG_ALIGNED(64) int8_t q[RDG_Q8_ELEMS];
    float sum[RDG_Q8_SUBS];   /* of q, by sub-block of 16 */
    float sum32[RDG_Q8_SUBS]; /* eight zeros, then the sums of q by sub-block of 32: lies across 8 scales, 8
                                 minima */
    float scale[RDG_Q8_SUBS]; /* of the eight runs of 32 elements, twice, to lie across 8 scales, 8 minima;
                                 all equal if the 256 have one scale */
    /* For kquant_avx512.h, filled by the AVX-512 version only: q with its sub-blocks of 32 in the order 0 2 1
     * 3 4 6 5 7 (the low nibbles of 64 bytes of Q4_K, then the high ones); and in one cache line the sums by
     * sub-block of 16 with their sign changed, those by sub-block of 32, and the scale of all 256. */
    RDG_ALIGNED(64) int8_t pair[RDG_Q8_ELEMS];
    RDG_ALIGNED(64) int16_t less16[RDG_Q8_SUBS];
    int16_t sum32w[RDG_Q8_SUBS / 2];
    float scale256;
} rdg_q8_block;

/* n_columns floats to ceil(n_columns / 256) blocks, the last one filled up with zeros. group: elements under
 * one scale, 32 or 256. */
typedef void rdg_q8_quantise_fn(const float *x, int64_t n_columns, int64_t group, rdg_q8_block *out);
rdg_q8_quantise_fn rdg_q8_quantise_avx512, rdg_q8_quantise_avx2;

/* sums[t * sums_stride + r] = row r . activations of token t. */
typedef struct rdg_q8_dot_args {
    const void *rows;
    int64_t row_stride_bytes, n_rows, n_columns;
    const rdg_q8_block *x[RDG_Q8_MAX_TOKENS];
    int n_tokens; /* 1 … RDG_Q8_MAX_TOKENS */
    float *sums;
    int64_t sums_stride;
    /* Streams: rows k * stream_stride_bytes further on, for k < n_streams, n_rows of each. Then there is one
     * token, and sums[k * sums_stride + r] is of row r of stream k. 1 or the isa's number. */
    int n_streams;
    int64_t stream_stride_bytes;
} rdg_q8_dot_args;
typedef void rdg_q8_dot_fn(const rdg_q8_dot_args *a);

/* Quantises part of the rows of x (dim 0 long) for this type of weights into blocks, row after row: item i of
 * rdg_q8_quantise_items(x). */
int64_t rdg_q8_quantise_items(const rdg_tensor *x);
void rdg_q8_quantise_item(const rdg_tensor *x, rdg_type weight_type, int64_t item, rdg_q8_block *blocks,
                          rdg_q8_quantise_fn *quantise);
int64_t rdg_q8_row_blocks(const rdg_tensor *x); /* blocks of one row of x */
/* Rows of weights an item handles. */
enum { RDG_Q8_MAX_ITEM_ROWS = 32 };
int64_t rdg_q8_item_rows(const rdg_tensor *weight);

/* What an instruction set provides; dot is indexed by rdg_type, NULL where it has none. */
typedef struct rdg_q8_isa {
    rdg_q8_quantise_fn *quantise;
    rdg_q8_dot_fn *const *dot;
    int n_streams; /* a thread reads memory with; at most RDG_Q8_STREAMS */
} rdg_q8_isa;

/* The kernel's parts (q8.c); the variants of an instruction set are these bound to its rdg_q8_isa. */
int64_t rdg_q8_matvec_n_items(const rdg_op_call *call, int phase);
rdg_cpu_streams rdg_q8_matvec_streams(const rdg_op_call *call, int64_t begin, int64_t end,
                                      const rdg_q8_isa *isa);
size_t rdg_q8_matvec_scratch_bytes(const rdg_op_call *call, int n_threads);
void rdg_q8_matvec_run(const rdg_op_call *call, const rdg_cpu_task *task, const rdg_q8_isa *isa);

/* The float path: weights and activations as they are (F32, F16, BF16 weights). Same shape, no phase 0. */
typedef struct rdg_float_dot_args {
    const void *rows;
    int64_t row_stride_bytes, n_rows, n_columns;
    const float *x;
    int64_t x_stride; /* floats */
    int n_tokens;
    float *sums;
    int64_t sums_stride;
} rdg_float_dot_args;
typedef void rdg_float_dot_fn(const rdg_float_dot_args *a);

int64_t rdg_float_matvec_n_items(const rdg_op_call *call, int phase);
void rdg_float_matvec_run(const rdg_op_call *call, const rdg_cpu_task *task, rdg_float_dot_fn *const *dot);

/* experts (experts_q8.c) on the same dot products. */
int64_t rdg_q8_experts_n_items(const rdg_op_call *call, int phase);
size_t rdg_q8_experts_scratch_bytes(const rdg_op_call *call, int n_threads);
void rdg_q8_experts_run(const rdg_op_call *call, const rdg_cpu_task *task, const rdg_q8_isa *isa);

#endif
