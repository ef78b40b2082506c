/* The tiled product behind matmul: weights are unpacked once into a panel that stays in L1, then multiplied
 * with all tokens of the tile.
 *
 *   item           one tile of tile_rows rows x up to PANEL_TILE_TOKENS tokens
 *   for each block of 256 columns:
 *       unpack     tile_rows x 256 weights -> panel, transposed: a vector lane is a row
 *       multiply   for each group of 6 tokens: 32 rows x 6 tokens in registers, then added to the tile's sums
 *
 * The activations are laid out in groups of six tokens once a call (phase 0). Nothing depends on the number
 * of threads, and the order of every sum is that of the columns. An instruction set provides unpack and
 * multiply; its kernel is bound to them by panel_kernel.h. */
#ifndef RDG_OPS_MATMUL_PANEL_H
#define RDG_OPS_MATMUL_PANEL_H

#include "base/compiler.h"
#include "ops/matmul/matmul.h"
#include "ops/matvec/q8.h"

enum {
    RDG_PANEL_COLUMNS = 256,
    RDG_PANEL_ROWS = 32,        /* rows of one panel */
    RDG_PANEL_TOKENS = 6,       /* tokens of a group */
    RDG_PANEL_TILE_GROUPS = 86, /* groups of a tile, at most: 516 tokens */
};

/* 32 rows x 256 columns, q[k / 4][row][k mod 4]; u8 where the format has minima, s8 where it has a fixed
 * offset. scale, min: [sub-block][row]. In the s8 form of AVX-512 the activations carry + 128, and the
 * integer sums begin with correction = - 128 * sum(q), which takes it away again. */
typedef struct rdg_q8_panel {
    RDG_ALIGNED(64) uint8_t q[RDG_PANEL_COLUMNS / 4][RDG_PANEL_ROWS][4];
    float scale[16][RDG_PANEL_ROWS];
    union {
        float min[16][RDG_PANEL_ROWS];
        int32_t correction[16][RDG_PANEL_ROWS];
    };
} rdg_q8_panel;

/* Six tokens x 256 columns; sum is by sub-block of the weight's format (8 or 16 of them). If the weights are
 * in blocks of 256, x = scale[0] q and sum is of q; if in blocks of 32, x = scale[c / 32] q and sum is of x.
 */
typedef struct rdg_q8_group {
    RDG_ALIGNED(64) int8_t q[RDG_PANEL_COLUMNS / 4][RDG_PANEL_TOKENS][4];
    float sum[16][RDG_PANEL_TOKENS];
    float scale[8][RDG_PANEL_TOKENS];
} rdg_q8_group;

typedef struct rdg_float_panel {
    RDG_ALIGNED(64) float w[RDG_PANEL_COLUMNS][RDG_PANEL_ROWS];
} rdg_float_panel;
typedef struct rdg_float_group {
    RDG_ALIGNED(64) float x[RDG_PANEL_COLUMNS][RDG_PANEL_TOKENS];
} rdg_float_group;

/* sums[6 tokens][32 rows], 64-byte aligned, += panel . group */
typedef void rdg_panel_multiply_fn(const void *panel, const void *group, float *sums);

/* rdg_panel_isa's pack of F32, F16 and BF16 weights. */
void rdg_float_pack(rdg_type type, const float *const *x, int n_tokens, int n_columns, void *group);
/* And that of block formats, for weights in blocks of block_elems and sub-blocks of sub_elems. flip: 0, or
 * 0x80808080 for activations + 128 (the sums stay those of the activations). */
void rdg_q8_pack(const float *const *x, int n_tokens, int n_columns, int block_elems, int sub_elems,
                 uint32_t flip, rdg_q8_quantise_fn *quantise, rdg_q8_group *group);

/* What an instruction set brings. */
typedef struct rdg_panel_isa {
    size_t panel_bytes, group_bytes;
    int tile_panels; /* panels of a tile: the tile has 32 times as many rows */
    /* columns [0, n_columns) of up to six tokens to one group; absent tokens and columns count as zero */
    void (*pack)(rdg_type type, const float *const *x, int n_tokens, int n_columns, void *group);
    /* rows: n_rows (1 … 32; the others count as zero) rows at the start of a block of n_columns (1 … 256)
     * columns */
    void (*unpack)(rdg_type type, const void *rows, int64_t row_stride_bytes, int n_rows, int n_columns,
                   void *panel);
    rdg_panel_multiply_fn *const *multiply; /* by rdg_type; NULL where there is none */
} rdg_panel_isa;

int64_t rdg_panel_n_items(const rdg_op_call *call, int phase, const rdg_panel_isa *isa);
size_t rdg_panel_scratch_bytes(const rdg_op_call *call, int n_threads, const rdg_panel_isa *isa);
void rdg_panel_run(const rdg_op_call *call, const rdg_cpu_task *task, const rdg_panel_isa *isa);

#endif
