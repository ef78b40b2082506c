#include "base/hash.h"

#include <string.h>

static const uint64_t p1 = 0x9E3779B185EBCA87u, p2 = 0xC2B2AE3D27D4EB4Fu, p3 = 0x165667B19E3779F9u,
                      p4 = 0x85EBCA77C2B2AE63u, p5 = 0x27D4EB2F165667C5u;

static inline uint64_t rotate(uint64_t v, int n)
{
    return v << n | v >> (64 - n);
}

static inline uint64_t load64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

static inline uint64_t round64(uint64_t lane, uint64_t input)
{
    return rotate(lane + input * p2, 31) * p1;
}

void rdg_hash64_init(rdg_hash64 *h)
{
    *h = (rdg_hash64){.lane = {p1 + p2, p2, 0, 0 - p1}};
}

static inline void stripe(uint64_t lane[4], const unsigned char *p)
{
    for (int i = 0; i < 4; i++) lane[i] = round64(lane[i], load64(p + 8 * i));
}

void rdg_hash64_update(rdg_hash64 *h, const void *data, size_t n)
{
    const unsigned char *p = data;
    size_t held = h->total % 32;
    h->total += n;
    if (held) {
        size_t take = n < 32 - held ? n : 32 - held;
        memcpy(h->pending + held, p, take);
        p += take;
        n -= take;
        if (held + take < 32) return;
        stripe(h->lane, h->pending);
    }
    uint64_t lane[4] = {h->lane[0], h->lane[1], h->lane[2], h->lane[3]}; /* in registers */
    for (; n >= 32; n -= 32, p += 32) stripe(lane, p);
    memcpy(h->lane, lane, sizeof lane);
    if (n) memcpy(h->pending, p, n);
}

uint64_t rdg_hash64_value(const rdg_hash64 *h)
{
    const unsigned char *p = h->pending;
    size_t n = h->total % 32;
    uint64_t v = p5;
    if (h->total >= 32) {
        v = rotate(h->lane[0], 1) + rotate(h->lane[1], 7) + rotate(h->lane[2], 12) + rotate(h->lane[3], 18);
        for (int i = 0; i < 4; i++) v = (v ^ round64(0, h->lane[i])) * p1 + p4;
    }
    v += h->total;
    for (; n >= 8; n -= 8, p += 8) v = rotate(v ^ round64(0, load64(p)), 27) * p1 + p4;
    if (n >= 4) {
        uint32_t w;
        memcpy(&w, p, 4);
        v = rotate(v ^ w * p1, 23) * p2 + p3;
        n -= 4;
        p += 4;
    }
    for (; n > 0; n--, p++) v = rotate(v ^ *p * p5, 11) * p1;
    v = (v ^ v >> 33) * p2;
    v = (v ^ v >> 29) * p3;
    return v ^ v >> 32;
}
