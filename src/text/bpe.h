/* Byte-pair merging over numbers. Symbols are token ids, or higher numbers for texts that only merges know;
 * -1 never merges. One engine serves byte-level BPE (a rank for each merge line) and SentencePiece's BPE (a
 * rank for each score: its merges are all ways to cut a token into two symbols). */
#ifndef RDG_TEXT_BPE_H
#define RDG_TEXT_BPE_H

#include "base/map.h"

typedef struct rdg_bpe {
    rdg_intmap pairs; /* left << 32 | right → index into merges */
    struct rdg_bpe_merge {
        int32_t left, right, result;
        uint32_t rank; /* the lowest goes first; equal ranks go from left to right */
    } * merges;
    size_t n, cap;
} rdg_bpe;

void rdg_bpe_init(rdg_bpe *b);
void rdg_bpe_finish(rdg_bpe *b);
/* The first merge of a pair stays. False on exhaustion. */
bool rdg_bpe_add(rdg_bpe *b, int32_t left, int32_t right, int32_t result, uint32_t rank);

/* Reusable memory of the merge loop. */
typedef struct rdg_bpe_work {
    int32_t *symbols; /* input and output of rdg_bpe_merge */
    size_t n, symbols_cap;
    int32_t *prev, *next;
    size_t prev_cap, next_cap;
    struct rdg_bpe_candidate *heap;
    size_t n_heap, heap_cap;
} rdg_bpe_work;
void rdg_bpe_work_finish(rdg_bpe_work *w);
bool rdg_bpe_push(rdg_bpe_work *w, int32_t symbol);
/* Merges w->symbols in place, in O(n log n). LIMIT beyond 2^31 - 1 symbols. */
rdg_err rdg_bpe_merge(const rdg_bpe *b, rdg_bpe_work *w, rdg_error *e);

#endif
