/* Byte trie, see trie.h. */
#include "text/trie.h"

bool rdg_trie_init(rdg_trie *t)
{
    *t = (rdg_trie){0};
    rdg_intmap_init(&t->edges);
    if (!rdg_grow(&t->values, 0, &t->cap, sizeof *t->values)) return false;
    t->values[0] = -1;
    t->n_nodes = 1;
    return true;
}

void rdg_trie_finish(rdg_trie *t)
{
    rdg_intmap_finish(&t->edges);
    rdg_free(t->values);
    *t = (rdg_trie){0};
}

bool rdg_trie_put(rdg_trie *t, const char *key, size_t n, int32_t value)
{
    int32_t node = 0;
    if (n == 0) return false;
    for (size_t i = 0; i < n; i++) {
        uint64_t edge = (uint64_t)node << 8 | (unsigned char)key[i];
        int32_t next = rdg_intmap_get(&t->edges, edge);
        if (next < 0) {
            if (t->n_nodes >= INT32_MAX || !rdg_grow(&t->values, t->n_nodes, &t->cap, sizeof *t->values))
                return false;
            next = (int32_t)t->n_nodes;
            if (!rdg_intmap_put(&t->edges, edge, next)) return false;
            t->values[t->n_nodes++] = -1;
        }
        node = next;
    }
    t->values[node] = value;
    return true;
}
