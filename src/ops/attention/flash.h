/* How the fast attention kernels cut a call, whatever the instruction set.
 *
 * An item is one KV head, a block of tokens (its queries: the tokens' heads that share the KV head) and a
 * chunk of the keys these tokens see. When tokens and heads alone make enough items there is one chunk and
 * items write the output; else every item leaves its maximum, sum and unscaled output for each query, and
 * phase 1 joins the chunks in order. The cut depends on the call alone, so the result does not depend on the
 * number of threads. */
#ifndef RDG_OPS_ATTENTION_FLASH_H
#define RDG_OPS_ATTENTION_FLASH_H

#include "base/mem.h"
#include "ops/attention/attention.h"

enum { RDG_FLASH_QUERIES = 96, RDG_FLASH_CHUNK_KEYS = 512, RDG_FLASH_KEYS = 64, RDG_FLASH_GROUP = 6 };

typedef struct rdg_flash_cut {
    int64_t share; /* query heads of a KV head */
    int64_t n_kv_heads, n_tokens, tokens_per_item, n_token_blocks, n_chunks;
    int64_t row_v;       /* floats from one output row to the next: dim_v rounded up to 32 */
    int64_t part_floats; /* of one query's part: output, maximum, sum */
} rdg_flash_cut;
/* n_visible 0: as many chunks as the cache could need. */
rdg_flash_cut rdg_flash_cut_of(const rdg_op_call *call, int64_t n_visible);

/* Keys of token t: [*first, *end), empty for a token that sees none. */
void rdg_flash_visible(const rdg_op_call *call, int64_t t, int64_t *first, int64_t *end);

typedef struct rdg_flash_item {
    int64_t g, first_token, n_tokens; /* KV head, tokens */
    int64_t first_key, end_key;       /* of the chunk; empty when equal */
    int64_t chunk;
} rdg_flash_item;
rdg_flash_item rdg_flash_item_at(const rdg_op_call *call, const rdg_flash_cut *c, int64_t item);

/* Rows of queries and outputs for n queries: whole groups of the direct form, and at least one of the other.
 */
static inline int64_t rdg_flash_padded(int64_t n)
{
    return RDG_MAX(rdg_round_up(n, 4), RDG_FLASH_GROUP);
}

/* One thread's working memory, in floats from its start; all parts are multiples of 16. */
typedef struct rdg_flash_layout {
    int64_t keys;    /* [dim][KEYS]: transposed */
    int64_t values;  /* [KEYS][row_v] */
    int64_t rows;    /* [KEYS][dim or dim_v rounded up to 16]: where quantised caches are dequantised */
    int64_t scores;  /* [6][KEYS] */
    int64_t queries; /* [n_queries][dim rounded up to 16], scaled */
    int64_t out;     /* [n_queries][row_v] */
    int64_t maxima;  /* [n_queries] */
    int64_t sums;    /* [n_queries][16]: a vector of partial sums each */
    int64_t total;
} rdg_flash_layout;
rdg_flash_layout rdg_flash_layout_of(const rdg_op_call *call, const rdg_flash_cut *c);

/* How many of the keys [j, end) to look at together: a block, or up to the last slot, where they begin again.
 */
int64_t rdg_flash_run_of(const rdg_op_call *call, int64_t j, int64_t end);
/* Rows of a cache one after the other. */
typedef struct rdg_flash_rows {
    rdg_type type; /* F32, F16 or BF16 */
    int64_t n, stride;
    const char *first;
} rdg_flash_rows;
static inline const char *rdg_flash_row(const rdg_flash_rows *r, int64_t i)
{
    return r->first + i * r->stride;
}
/* n keys or values of KV head g from key j on, as rdg_flash_run_of gave it. Rows of a quantised type, or
 * whose length is no multiple of `whole`, are made f32 in memory first, each padded with zeros to a multiple
 * of 16. */
rdg_flash_rows rdg_flash_rows_at(const rdg_tensor *t, int64_t g, int64_t j, int64_t n, int64_t whole,
                                 float *memory);

/* The kernel's parts that need no instruction set. `item` computes one item with a thread's memory. */
typedef void rdg_flash_item_fn(const rdg_op_call *call, const rdg_flash_cut *c, const rdg_flash_item *x,
                               const rdg_flash_layout *l, float *memory, float *parts);
int64_t rdg_flash_n_items(const rdg_op_call *call, int phase);
size_t rdg_flash_scratch_bytes(const rdg_op_call *call, int n_threads);
void rdg_flash_run(const rdg_op_call *call, const rdg_cpu_task *task, rdg_flash_item_fn *item);

/* Where query (token, head) leaves its part of a chunk: output [row_v], maximum, sum. */
static inline float *rdg_flash_part(const rdg_flash_cut *c, float *parts, int64_t token, int64_t head,
                                    int64_t chunk)
{
    return parts + ((token * c->share * c->n_kv_heads + head) * c->n_chunks + chunk) * c->part_floats;
}

#endif
