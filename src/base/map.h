/* Hash maps from byte strings or 64-bit keys to non-negative 32-bit values. Open addressing, no removal.
 * The hash is keyed per map, so a file cannot be made to collide on purpose; nothing depends on the order of
 * slots. */
#ifndef RDG_BASE_MAP_H
#define RDG_BASE_MAP_H

#include "base/mem.h"

typedef struct rdg_strmap {
    struct rdg_strmap_slot *slots; /* n_slots of them, a power of two, or NULL while empty */
    size_t n_slots, n;
    uint64_t seed;
} rdg_strmap;
void rdg_strmap_init(rdg_strmap *m);
void rdg_strmap_finish(rdg_strmap *m);
/* Room for n entries in all without growing again. False on exhaustion. */
bool rdg_strmap_reserve(rdg_strmap *m, size_t n);
/* Sets key to value (>= 0), replacing what was there. The key's bytes are borrowed: they must outlive the
 * map. False on exhaustion. */
bool rdg_strmap_put(rdg_strmap *m, const char *key, size_t n, int32_t value);
int32_t rdg_strmap_get(const rdg_strmap *m, const char *key, size_t n); /* -1 if absent */

typedef struct rdg_intmap {
    struct rdg_intmap_slot *slots;
    size_t n_slots, n;
    uint64_t seed;
} rdg_intmap;
void rdg_intmap_init(rdg_intmap *m);
void rdg_intmap_finish(rdg_intmap *m);
bool rdg_intmap_reserve(rdg_intmap *m, size_t n);
bool rdg_intmap_put(rdg_intmap *m, uint64_t key, int32_t value);
int32_t rdg_intmap_get(const rdg_intmap *m, uint64_t key); /* -1 if absent */

/* The hash itself, for callers with a table of their own. */
uint64_t rdg_hash_bytes(const void *data, size_t n, uint64_t seed);

#endif
