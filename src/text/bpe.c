/* Pair merging, see bpe.h. The symbols form a linked list; a heap holds the candidate merges. A candidate is
 * not taken out when one of its sides changes: on its turn it is compared with what the list holds now. */
#include "text/bpe.h"

#include <string.h>

struct rdg_bpe_candidate {
    uint64_t key; /* rank << 32 | position of the left symbol */
    int32_t merge;
};

enum { NONE = -1, GONE = -2 };

void rdg_bpe_init(rdg_bpe *b)
{
    *b = (rdg_bpe){0};
    rdg_intmap_init(&b->pairs);
}

void rdg_bpe_finish(rdg_bpe *b)
{
    rdg_intmap_finish(&b->pairs);
    rdg_free(b->merges);
    *b = (rdg_bpe){0};
}

static uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

bool rdg_bpe_add(rdg_bpe *b, int32_t left, int32_t right, int32_t result, uint32_t rank)
{
    uint64_t key = pair_key(left, right);
    if (rdg_intmap_get(&b->pairs, key) >= 0) return true;
    if (b->n >= INT32_MAX || !rdg_grow(&b->merges, b->n, &b->cap, sizeof *b->merges)) return false;
    if (!rdg_intmap_put(&b->pairs, key, (int32_t)b->n)) return false;
    b->merges[b->n++] = (struct rdg_bpe_merge){left, right, result, rank};
    return true;
}

void rdg_bpe_work_finish(rdg_bpe_work *w)
{
    rdg_free(w->symbols);
    rdg_free(w->prev);
    rdg_free(w->next);
    rdg_free(w->heap);
    *w = (rdg_bpe_work){0};
}

bool rdg_bpe_push(rdg_bpe_work *w, int32_t symbol)
{
    if (!rdg_grow(&w->symbols, w->n, &w->symbols_cap, sizeof *w->symbols)) return false;
    w->symbols[w->n++] = symbol;
    return true;
}

/* Heap --------------------------------------------------------------------------------------------------- */

static bool heap_push(rdg_bpe_work *w, struct rdg_bpe_candidate c)
{
    if (!rdg_grow(&w->heap, w->n_heap, &w->heap_cap, sizeof *w->heap)) return false;
    size_t i = w->n_heap++;
    for (; i > 0 && w->heap[(i - 1) / 2].key > c.key; i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = c;
    return true;
}

static struct rdg_bpe_candidate heap_pop(rdg_bpe_work *w)
{
    struct rdg_bpe_candidate top = w->heap[0], last = w->heap[--w->n_heap];
    size_t i = 0, n = w->n_heap;
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && w->heap[child + 1].key < w->heap[child].key) child++;
        if (last.key <= w->heap[child].key) break;
        w->heap[i] = w->heap[child];
    }
    w->heap[i] = last;
    return top;
}

/* Merging ------------------------------------------------------------------------------------------------ */

static bool consider(const rdg_bpe *b, rdg_bpe_work *w, int32_t left)
{
    int32_t right = left < 0 ? NONE : w->next[left];
    if (right < 0 || w->symbols[left] < 0 || w->symbols[right] < 0) return true;
    int32_t m = rdg_intmap_get(&b->pairs, pair_key(w->symbols[left], w->symbols[right]));
    if (m < 0) return true;
    return heap_push(w, (struct rdg_bpe_candidate){(uint64_t)b->merges[m].rank << 32 | (uint32_t)left, m});
}

rdg_err rdg_bpe_merge(const rdg_bpe *b, rdg_bpe_work *w, rdg_error *e)
{
    if (w->n < 2) return RDG_OK;
    if (w->n > INT32_MAX)
        return rdg_fail(e, RDG_E_LIMIT, "tokenizer: a word of %zu symbols is too long", w->n);
    int32_t n = (int32_t)w->n;
    if (!rdg_grow(&w->prev, w->n, &w->prev_cap, sizeof *w->prev)) goto no_memory;
    if (!rdg_grow(&w->next, w->n, &w->next_cap, sizeof *w->next)) goto no_memory;
    w->n_heap = 0;
    for (int32_t i = 0; i < n; i++) {
        w->prev[i] = i - 1;
        w->next[i] = i + 1 < n ? i + 1 : NONE;
    }
    for (int32_t i = 0; i + 1 < n; i++)
        if (!consider(b, w, i)) goto no_memory;
    while (w->n_heap) {
        struct rdg_bpe_candidate c = heap_pop(w);
        const struct rdg_bpe_merge *m = &b->merges[c.merge];
        int32_t left = (int32_t)(uint32_t)c.key, right = w->next[left];
        if (w->symbols[left] != m->left || right < 0 || w->symbols[right] != m->right) continue;
        w->symbols[left] = m->result;
        w->symbols[right] = GONE;
        w->next[left] = w->next[right];
        if (w->next[left] >= 0) w->prev[w->next[left]] = left;
        if (!consider(b, w, w->prev[left]) || !consider(b, w, left)) goto no_memory;
    }
    w->n = 0;
    for (int32_t i = 0; i >= 0; i = w->next[i]) w->symbols[w->n++] = w->symbols[i];
    return RDG_OK;
no_memory:
    return rdg_fail(e, RDG_E_NOMEM, "tokenizer: out of memory for a word of %zu symbols", w->n);
}
