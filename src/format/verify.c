/* Which bytes of a block are its scales is one table; the walk over tensors deals pieces of a few megabytes
 * to threads, which meet only in the counters of the tensor. */
#include "format/verify.h"
#include "base/mem.h"
#include "base/pool.h"
#include "format/gguf.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

typedef enum scale_kind {
    NO_SCALE, /* integers */
    HALF,     /* IEEE binary16 */
    BFLOAT,
    FLOAT,
    DOUBLE,
    E8M0,   /* one byte, 255 is NaN */
    E4M3,   /* four bytes, each without its sign bit 127 if NaN */
    NIBBLES /* binary16 spread over the upper four bits of four 16-bit words */
} scale_kind;

static const struct {
    scale_kind kind;
    int16_t at[2]; /* byte offsets of the scales in a block */
    int8_t n;
} scales[RDG_TYPE_COUNT] = {
    [RDG_TYPE_F32] = {FLOAT, {0}, 1},      [RDG_TYPE_F16] = {HALF, {0}, 1},
    [RDG_TYPE_BF16] = {BFLOAT, {0}, 1},    [RDG_TYPE_F64] = {DOUBLE, {0}, 1},
    [RDG_TYPE_Q4_0] = {HALF, {0}, 1},      [RDG_TYPE_Q4_1] = {HALF, {0, 2}, 2},
    [RDG_TYPE_Q5_0] = {HALF, {0}, 1},      [RDG_TYPE_Q5_1] = {HALF, {0, 2}, 2},
    [RDG_TYPE_Q8_0] = {HALF, {0}, 1},      [RDG_TYPE_Q8_1] = {HALF, {0, 2}, 2},
    [RDG_TYPE_Q2_K] = {HALF, {80, 82}, 2}, [RDG_TYPE_Q3_K] = {HALF, {108}, 1},
    [RDG_TYPE_Q4_K] = {HALF, {0, 2}, 2},   [RDG_TYPE_Q5_K] = {HALF, {0, 2}, 2},
    [RDG_TYPE_Q6_K] = {HALF, {208}, 1},    [RDG_TYPE_Q8_K] = {FLOAT, {0}, 1},
    [RDG_TYPE_IQ2_XXS] = {HALF, {0}, 1},   [RDG_TYPE_IQ2_XS] = {HALF, {0}, 1},
    [RDG_TYPE_IQ2_S] = {HALF, {0}, 1},     [RDG_TYPE_IQ3_XXS] = {HALF, {0}, 1},
    [RDG_TYPE_IQ3_S] = {HALF, {0}, 1},     [RDG_TYPE_IQ1_S] = {HALF, {0}, 1},
    [RDG_TYPE_IQ1_M] = {NIBBLES, {48}, 1}, [RDG_TYPE_IQ4_NL] = {HALF, {0}, 1},
    [RDG_TYPE_IQ4_XS] = {HALF, {0}, 1},    [RDG_TYPE_TQ1_0] = {HALF, {52}, 1},
    [RDG_TYPE_TQ2_0] = {HALF, {64}, 1},    [RDG_TYPE_MXFP4] = {E8M0, {0}, 1},
    [RDG_TYPE_NVFP4] = {E4M3, {0}, 1},     [RDG_TYPE_Q1_0] = {HALF, {0}, 1},
    [RDG_TYPE_Q2_0] = {HALF, {0}, 1},
};

static bool half_bad(uint16_t h)
{
    return (h & 0x7c00) == 0x7c00;
}

static uint16_t load16(const unsigned char *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static bool scale_bad(scale_kind kind, const unsigned char *p)
{
    uint32_t u32;
    uint64_t u64;
    switch (kind) {
    case HALF: return half_bad(load16(p));
    case BFLOAT: return (load16(p) & 0x7f80) == 0x7f80;
    case FLOAT: memcpy(&u32, p, 4); return (u32 & 0x7f800000) == 0x7f800000;
    case DOUBLE: memcpy(&u64, p, 8); return (u64 & 0x7ff0000000000000) == 0x7ff0000000000000;
    case E8M0: return p[0] == 255;
    case E4M3:
        return (p[0] & 127) == 127 || (p[1] & 127) == 127 || (p[2] & 127) == 127 || (p[3] & 127) == 127;
    case NIBBLES:
        return half_bad((uint16_t)(load16(p) >> 12 | (load16(p + 2) >> 8 & 0xf0) |
                                   (load16(p + 4) >> 4 & 0xf00) | (load16(p + 6) & 0xf000)));
    case NO_SCALE: break;
    }
    return false;
}

/* With kind and block_bytes constants at each call, the loop over a stretch is specialised, and becomes
 * vector code for plain types. Only a stretch that is not all fine is looked at block by block. */
RDG_INLINE int64_t count_bad(scale_kind kind, const unsigned char *p, int64_t n_blocks, int64_t block_bytes,
                             int64_t *first)
{
    enum { STRETCH = 256 };
    int64_t n_bad = 0;
    for (int64_t begin = 0; begin < n_blocks; begin += STRETCH) {
        int64_t end = RDG_MIN(begin + STRETCH, n_blocks);
        unsigned any = 0;
        for (int64_t i = begin; i < end; i++) any |= scale_bad(kind, p + i * block_bytes);
        if (!any) continue;
        for (int64_t i = begin; i < end; i++) {
            if (!scale_bad(kind, p + i * block_bytes)) continue;
            if (*first < 0) *first = i;
            n_bad++;
        }
    }
    return n_bad;
}

/* Blocks with two scales: one that is bad in both counts once. */
static int64_t count_bad_pair(const unsigned char *p, int64_t n_blocks, int64_t block_bytes, int first_at,
                              int second_at, int64_t *first)
{
    int64_t n_bad = 0;
    for (int64_t i = 0; i < n_blocks; i++, p += block_bytes) {
        if (!half_bad(load16(p + first_at)) && !half_bad(load16(p + second_at))) continue;
        if (*first < 0) *first = i;
        n_bad++;
    }
    return n_bad;
}

int64_t rdg_blocks_not_finite(rdg_type type, const void *data, int64_t n_blocks, int64_t *first)
{
    const unsigned char *p = data;
    int64_t bytes = rdg_type_block_bytes(type);
    *first = -1;
    if (!rdg_type_valid(type)) return 0;
    if (scales[type].n == 2)
        return count_bad_pair(p, n_blocks, bytes, scales[type].at[0], scales[type].at[1], first);
    p += scales[type].at[0];
    switch (scales[type].kind) {
    case HALF:
        return bytes == 2 ? count_bad(HALF, p, n_blocks, 2, first)
                          : count_bad(HALF, p, n_blocks, bytes, first);
    case BFLOAT: return count_bad(BFLOAT, p, n_blocks, 2, first);
    case FLOAT:
        return bytes == 4 ? count_bad(FLOAT, p, n_blocks, 4, first)
                          : count_bad(FLOAT, p, n_blocks, bytes, first);
    case DOUBLE: return count_bad(DOUBLE, p, n_blocks, 8, first);
    case E8M0: return count_bad(E8M0, p, n_blocks, bytes, first);
    case E4M3: return count_bad(E4M3, p, n_blocks, bytes, first);
    case NIBBLES: return count_bad(NIBBLES, p, n_blocks, bytes, first);
    case NO_SCALE: break;
    }
    return 0;
}

/* The walk
 * ---------------------------------------------------------------------------------------------------- */

enum { PIECE_BYTES = 4 << 20 };

typedef struct tally {
    _Atomic int64_t n_bad, first; /* first is INT64_MAX while there is none */
} tally;

typedef struct walk {
    const rdg_gguf *g;
    const rdg_log *log;
    tally *tallies;       /* one a tensor */
    int64_t *first_piece; /* number of the first piece of each tensor, and of all pieces at the end */
    _Atomic int64_t next; /* piece */
    _Atomic bool cancelled;
} walk;

static int64_t tensor_blocks(const rdg_gguf_tensor *t)
{
    return (int64_t)t->bytes / rdg_type_block_bytes(t->type);
}

static int64_t piece_blocks(const rdg_gguf_tensor *t)
{
    return PIECE_BYTES / rdg_type_block_bytes(t->type);
}

/* The tensor a piece belongs to. */
static int64_t find_tensor(const walk *w, int64_t piece)
{
    int64_t low = 0, high = rdg_gguf_n_tensors(w->g) - 1;
    while (low < high) {
        int64_t middle = high - (high - low) / 2;
        if (w->first_piece[middle] <= piece)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static void check_piece(walk *w, int64_t piece)
{
    int64_t i = find_tensor(w, piece), first;
    const rdg_gguf_tensor *t = rdg_gguf_tensor_at(w->g, i);
    int64_t begin = (piece - w->first_piece[i]) * piece_blocks(t);
    int64_t n = RDG_MIN(piece_blocks(t), tensor_blocks(t) - begin);
    const unsigned char *data = (const unsigned char *)t->data + begin * rdg_type_block_bytes(t->type);
    int64_t n_bad = rdg_blocks_not_finite(t->type, data, n, &first);
    /* the checksums come next and read from the page cache, but the process need not hold the whole file */
    if (w->g->parts[t->part].path) rdg_map_release(data, (size_t)(n * rdg_type_block_bytes(t->type)));
    if (n_bad == 0) return;
    atomic_fetch_add(&w->tallies[i].n_bad, n_bad);
    int64_t seen = atomic_load(&w->tallies[i].first);
    while (begin + first < seen && !atomic_compare_exchange_weak(&w->tallies[i].first, &seen, begin + first))
        continue;
}

static void check_pieces(void *ctx, int thread, int n_threads)
{
    walk *w = ctx;
    int64_t n = w->first_piece[rdg_gguf_n_tensors(w->g)], piece;
    (void)n_threads;
    while (!atomic_load(&w->cancelled) && (piece = atomic_fetch_add(&w->next, 1)) < n) {
        check_piece(w, piece);
        /* the callback belongs to the calling thread */
        if (thread == 0 && rdg_log_progress(w->log, "verifying", (double)(piece + 1), (double)n))
            atomic_store(&w->cancelled, true);
    }
}

static rdg_err add_problem(rdg_verify_result *out, size_t *cap, const rdg_gguf *g, const rdg_gguf_tensor *t,
                           const tally *c, rdg_error *e)
{
    if (!rdg_grow(&out->problems, (size_t)out->n_problems, cap, sizeof *out->problems))
        return rdg_fail(e, RDG_E_NOMEM, "no memory for the list of problems");
    rdg_verify_problem *p = &out->problems[out->n_problems++];
    bool is_block = rdg_type_is_quantised(t->type);
    *p =
        (rdg_verify_problem){.tensor = t, .n_bad = c->n_bad, .n_blocks = tensor_blocks(t), .first = c->first};
    p->offset =
        g->parts[t->part].data_start + t->offset + (uint64_t)(p->first * rdg_type_block_bytes(t->type));
    snprintf(p->text, sizeof p->text,
             "tensor '%s': %lld of %lld %s not finite, the first is number %lld at offset %llu", t->name,
             (long long)p->n_bad, (long long)p->n_blocks,
             is_block ? "blocks have a scale that is" : "values are", (long long)p->first,
             (unsigned long long)p->offset);
    return RDG_OK;
}

rdg_err rdg_gguf_verify(const rdg_gguf *g, int n_threads, const rdg_log *log, rdg_verify_result *out,
                        rdg_error *e)
{
    int64_t n = rdg_gguf_n_tensors(g);
    walk w = {.g = g, .log = log};
    rdg_pool *pool = NULL;
    size_t cap = 0;
    rdg_err err;
    *out = (rdg_verify_result){.n_tensors = n};
    w.tallies = rdg_alloc_array((size_t)n, sizeof *w.tallies);
    w.first_piece = rdg_alloc_array((size_t)n + 1, sizeof *w.first_piece);
    if (!w.tallies || !w.first_piece) {
        err = rdg_fail(e, RDG_E_NOMEM, "no memory to verify %lld tensors", (long long)n);
        goto done;
    }
    for (int64_t i = 0; i < n; i++) {
        const rdg_gguf_tensor *t = rdg_gguf_tensor_at(g, i);
        atomic_store(&w.tallies[i].first, INT64_MAX);
        w.first_piece[i + 1] = w.first_piece[i] + rdg_div_up(tensor_blocks(t), piece_blocks(t));
        out->bytes += t->bytes;
    }
    if ((err = rdg_gguf_recheck(g, e)) || (err = rdg_pool_create(n_threads, &pool, e))) goto done;
    rdg_pool_run(pool, check_pieces, &w);
    if (atomic_load(&w.cancelled))
        err = rdg_fail(e, RDG_E_CANCELLED, "verifying '%s' was stopped", rdg_gguf_path(g));
    for (int64_t i = 0; i < n && !err; i++)
        if (w.tallies[i].n_bad > 0)
            err = add_problem(out, &cap, g, rdg_gguf_tensor_at(g, i), &w.tallies[i], e);
done:
    rdg_pool_destroy(pool);
    rdg_free(w.tallies);
    rdg_free(w.first_piece);
    if (err) rdg_verify_result_finish(out);
    return err;
}

void rdg_verify_result_finish(rdg_verify_result *r)
{
    rdg_free(r->problems);
    *r = (rdg_verify_result){0};
}
