/* A byte trie: finds all keys that start at a position. Nodes are numbers, edges a hash map. */
#ifndef RDG_TEXT_TRIE_H
#define RDG_TEXT_TRIE_H

#include "base/map.h"

typedef struct rdg_trie {
    rdg_intmap edges; /* node << 8 | byte → node */
    int32_t *values;  /* by node; -1 if no key ends there */
    size_t n_nodes, cap;
} rdg_trie;

bool rdg_trie_init(rdg_trie *t);
void rdg_trie_finish(rdg_trie *t);
/* Replaces the value of a key that is there. The empty key is refused. False on exhaustion. */
bool rdg_trie_put(rdg_trie *t, const char *key, size_t n, int32_t value);
/* The next node or -1; node 0 is the root. */
static inline int32_t rdg_trie_step(const rdg_trie *t, int32_t node, unsigned char byte)
{
    return rdg_intmap_get(&t->edges, (uint64_t)node << 8 | byte);
}

#endif
