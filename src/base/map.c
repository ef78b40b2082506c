/* Hash maps, see map.h. Load stays below 3/4; a slot is empty when its value is negative.
 * The seed comes from the clock and from where the map lies: enough to keep a prepared file from choosing its
 * slots. */
#include "base/map.h"
#include "base/clock.h"

#include <string.h>

struct rdg_strmap_slot {
    const char *key;
    size_t n;
    uint32_t hash; /* upper half: compared before the bytes are */
    int32_t value;
};

struct rdg_intmap_slot {
    uint64_t key;
    int32_t value;
};

static uint64_t mix(uint64_t a)
{
    a ^= a >> 32;
    a *= 0xd6e8feb86659fd93u;
    a ^= a >> 32;
    a *= 0xd6e8feb86659fd93u;
    a ^= a >> 32;
    return a;
}

uint64_t rdg_hash_bytes(const void *data, size_t n, uint64_t seed)
{
    const unsigned char *p = data;
    uint64_t h = seed ^ (n * 0x9e3779b97f4a7c15u), word;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&word, p, 8);
        h = mix(h ^ word) + seed;
    }
    word = 0;
    if (n) memcpy(&word, p, n);
    return mix(h ^ word);
}

static uint64_t fresh_seed(const void *where)
{
    return mix((uint64_t)rdg_clock_ns() ^ mix((uint64_t)(uintptr_t)where));
}

/* The number of slots for n entries, 0 if there is none. */
static size_t slots_for(size_t n)
{
    size_t slots = 16;
    while (slots / 4 * 3 < n)
        if (RDG_MUL_OVERFLOW(slots, (size_t)2, &slots)) return 0;
    return slots;
}

/* Strings ------------------------------------------------------------------------------------------------ */

void rdg_strmap_init(rdg_strmap *m)
{
    *m = (rdg_strmap){.seed = fresh_seed(m)};
}

void rdg_strmap_finish(rdg_strmap *m)
{
    rdg_free(m->slots);
    *m = (rdg_strmap){0};
}

/* The slot of the key, or the empty one where it belongs. */
static struct rdg_strmap_slot *str_slot(const rdg_strmap *m, const char *key, size_t n, uint64_t hash)
{
    size_t mask = m->n_slots - 1, i = (size_t)hash & mask;
    for (;; i = (i + 1) & mask) {
        struct rdg_strmap_slot *s = &m->slots[i];
        if (s->value < 0) return s;
        if (s->hash == (uint32_t)(hash >> 32) && s->n == n && (n == 0 || memcmp(s->key, key, n) == 0))
            return s;
    }
}

bool rdg_strmap_reserve(rdg_strmap *m, size_t n)
{
    size_t want = slots_for(n);
    if (want == 0) return false;
    if (want <= m->n_slots) return true;
    rdg_strmap old = *m;
    struct rdg_strmap_slot *slots = rdg_alloc_array(want, sizeof *slots);
    if (!slots) return false;
    for (size_t i = 0; i < want; i++) slots[i].value = -1;
    m->slots = slots;
    m->n_slots = want;
    for (size_t i = 0; i < old.n_slots; i++) {
        struct rdg_strmap_slot *s = &old.slots[i];
        if (s->value >= 0) *str_slot(m, s->key, s->n, rdg_hash_bytes(s->key, s->n, m->seed)) = *s;
    }
    rdg_free(old.slots);
    return true;
}

bool rdg_strmap_put(rdg_strmap *m, const char *key, size_t n, int32_t value)
{
    if (value < 0 || !rdg_strmap_reserve(m, m->n + 1)) return false;
    uint64_t hash = rdg_hash_bytes(key, n, m->seed);
    struct rdg_strmap_slot *s = str_slot(m, key, n, hash);
    if (s->value < 0) {
        m->n++;
        s->key = key;
        s->n = n;
        s->hash = (uint32_t)(hash >> 32);
    }
    s->value = value;
    return true;
}

int32_t rdg_strmap_get(const rdg_strmap *m, const char *key, size_t n)
{
    if (m->n == 0) return -1;
    return str_slot(m, key, n, rdg_hash_bytes(key, n, m->seed))->value;
}

/* Integers ----------------------------------------------------------------------------------------------- */

void rdg_intmap_init(rdg_intmap *m)
{
    *m = (rdg_intmap){.seed = fresh_seed(m)};
}

void rdg_intmap_finish(rdg_intmap *m)
{
    rdg_free(m->slots);
    *m = (rdg_intmap){0};
}

static struct rdg_intmap_slot *int_slot(const rdg_intmap *m, uint64_t key)
{
    size_t mask = m->n_slots - 1, i = (size_t)mix(key ^ m->seed) & mask;
    for (;; i = (i + 1) & mask) {
        struct rdg_intmap_slot *s = &m->slots[i];
        if (s->value < 0 || s->key == key) return s;
    }
}

bool rdg_intmap_reserve(rdg_intmap *m, size_t n)
{
    size_t want = slots_for(n);
    if (want == 0) return false;
    if (want <= m->n_slots) return true;
    rdg_intmap old = *m;
    struct rdg_intmap_slot *slots = rdg_alloc_array(want, sizeof *slots);
    if (!slots) return false;
    for (size_t i = 0; i < want; i++) slots[i].value = -1;
    m->slots = slots;
    m->n_slots = want;
    for (size_t i = 0; i < old.n_slots; i++)
        if (old.slots[i].value >= 0) *int_slot(m, old.slots[i].key) = old.slots[i];
    rdg_free(old.slots);
    return true;
}

bool rdg_intmap_put(rdg_intmap *m, uint64_t key, int32_t value)
{
    if (value < 0 || !rdg_intmap_reserve(m, m->n + 1)) return false;
    struct rdg_intmap_slot *s = int_slot(m, key);
    if (s->value < 0) m->n++;
    s->key = key;
    s->value = value;
    return true;
}

int32_t rdg_intmap_get(const rdg_intmap *m, uint64_t key)
{
    if (m->n == 0) return -1;
    return int_slot(m, key)->value;
}
