/* Special-token partition, see special.h.
 * The rule is "for each token by descending length, cut out all its occurrences in what is left". Scanning
 * the text once for each of thousands of tokens is avoided: one pass finds the longest candidate at each
 * position, a second treats these by descending length. A candidate that overlaps an earlier cut makes way
 * for the next shorter one there. */
#include "text/special.h"

#include <stdlib.h>
#include <string.h>

bool rdg_special_init(rdg_special *s)
{
    *s = (rdg_special){0};
    return rdg_trie_init(&s->trie);
}

void rdg_special_finish(rdg_special *s)
{
    rdg_trie_finish(&s->trie);
    rdg_free(s->candidates);
    *s = (rdg_special){0};
}

/* The longest candidate that text begins with, or -1. Not longer than n bytes. */
static int32_t longest(const rdg_special *s, const char *text, size_t n)
{
    int32_t found = -1;
    for (size_t i = 0, node = 0; i < n; i++) {
        int32_t next = rdg_trie_step(&s->trie, (int32_t)node, (unsigned char)text[i]);
        if (next < 0) break;
        node = (size_t)next;
        if (s->trie.values[node] >= 0) found = s->trie.values[node];
    }
    return found;
}

bool rdg_special_add(rdg_special *s, const char *text, size_t n, int32_t id)
{
    if (n == 0) return true;
    int32_t known = longest(s, text, n);
    if (known >= 0 && s->candidates[known].n == n) return true;
    if (s->n >= INT32_MAX || !rdg_grow(&s->candidates, s->n, &s->cap, sizeof *s->candidates) ||
        !rdg_trie_put(&s->trie, text, n, (int32_t)s->n))
        return false;
    s->first[(unsigned char)text[0]] = true;
    s->candidates[s->n++] = (struct rdg_special_candidate){text, n, id, -1};
    return true;
}

void rdg_special_seal(rdg_special *s)
{
    for (size_t i = 0; i < s->n; i++)
        s->candidates[i].shorter = longest(s, s->candidates[i].text, s->candidates[i].n - 1);
}

/* Splitting ---------------------------------------------------------------------------------------------- */

typedef struct match {
    size_t n, at; /* length of the candidate, position in the text */
    int32_t candidate;
} match;

typedef struct matches {
    match *m;
    size_t n, cap;
} matches;

static bool before(const match *a, const match *b)
{
    return a->n != b->n ? a->n > b->n : a->at < b->at;
}

static bool heap_push(matches *h, match m)
{
    if (!rdg_grow(&h->m, h->n, &h->cap, sizeof *h->m)) return false;
    size_t i = h->n++;
    for (; i > 0 && before(&m, &h->m[(i - 1) / 2]); i = (i - 1) / 2) h->m[i] = h->m[(i - 1) / 2];
    h->m[i] = m;
    return true;
}

static match heap_pop(matches *h)
{
    match top = h->m[0], last = h->m[--h->n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < h->n; i = child) {
        if (child + 1 < h->n && before(&h->m[child + 1], &h->m[child])) child++;
        if (!before(&h->m[child], &last)) break;
        h->m[i] = h->m[child];
    }
    h->m[i] = last;
    return top;
}

/* Puts a candidate at a position of the text up for cutting, or the longest shorter one that may be. */
static bool offer(const rdg_special *s, const rdg_special_filter *f, matches *heap, int32_t c, size_t at)
{
    while (f && c >= 0 && !f->accepts(f->user, s->candidates[c].id, at, at + s->candidates[c].n))
        c = s->candidates[c].shorter;
    return c < 0 || heap_push(heap, (match){s->candidates[c].n, at, c});
}

/* What is cut out, in the order of cutting. */
static rdg_err choose(const rdg_special *s, const rdg_special_filter *f, size_t n, matches *heap,
                      rdg_special_part **cuts, size_t *n_cuts, rdg_error *e)
{
    size_t cap = 0;
    unsigned char *taken = rdg_alloc(n);
    if (!taken) goto no_memory;
    while (heap->n) {
        match m = heap_pop(heap);
        if (taken[m.at]) continue;
        if (taken[m.at + m.n -
                  1]) { /* cuts made so far are at least as long: they cover an end of what they overlap */
            if (!offer(s, f, heap, s->candidates[m.candidate].shorter, m.at)) goto no_memory;
            continue;
        }
        memset(taken + m.at, 1, m.n);
        if (!rdg_grow(cuts, *n_cuts, &cap, sizeof **cuts)) goto no_memory;
        (*cuts)[(*n_cuts)++] = (rdg_special_part){m.at, m.at + m.n, s->candidates[m.candidate].id};
    }
    rdg_free(taken);
    return RDG_OK;
no_memory:
    rdg_free(taken);
    return rdg_fail(e, RDG_E_NOMEM, "tokenizer: out of memory for the special tokens of %zu bytes", n);
}

static int by_start(const void *a, const void *b)
{
    const rdg_special_part *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

rdg_err rdg_special_split(const rdg_special *s, const char *text, size_t n, const rdg_special_filter *filter,
                          rdg_special_part **parts, size_t *n_parts, rdg_error *e)
{
    matches heap = {0};
    rdg_special_part *cuts = NULL, *out = NULL;
    size_t n_cuts = 0, n_out = 0, at = 0;
    rdg_err err = RDG_OK;
    *parts = NULL;
    *n_parts = 0;
    for (size_t i = 0; i < n && s->n; i++) {
        if (!s->first[(unsigned char)text[i]]) continue;
        if (!offer(s, filter, &heap, longest(s, text + i, n - i), i)) goto no_memory;
    }
    if (heap.n && (err = choose(s, filter, n, &heap, &cuts, &n_cuts, e))) goto done;
    if (n_cuts > 1) qsort(cuts, n_cuts, sizeof *cuts, by_start);
    out = rdg_alloc_array(2 * n_cuts + 1,
                          sizeof *out); /* n_cuts <= n: no overflow for a text that fits in memory */
    if (!out) goto no_memory;
    for (size_t i = 0; i < n_cuts; i++) {
        if (cuts[i].start > at) out[n_out++] = (rdg_special_part){at, cuts[i].start, -1};
        out[n_out++] = cuts[i];
        at = cuts[i].end;
    }
    if (at < n) out[n_out++] = (rdg_special_part){at, n, -1};
    *parts = out;
    *n_parts = n_out;
    goto done;
no_memory:
    err = rdg_fail(e, RDG_E_NOMEM, "tokenizer: out of memory for %zu bytes of text", n);
done:
    rdg_free(cuts);
    rdg_free(heap.m);
    return err;
}
