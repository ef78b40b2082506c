/* XXH64 (Yann Collet's public specification), seed 0: a fast 64-bit checksum against accidental damage, not
 * against an adversary. Data in pieces of any size. */
#ifndef RDG_BASE_HASH_H
#define RDG_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct rdg_hash64 {
    uint64_t lane[4];
    uint64_t total;            /* bytes so far */
    unsigned char pending[32]; /* total mod 32 bytes that do not fill a stripe yet */
} rdg_hash64;

void rdg_hash64_init(rdg_hash64 *h);
void rdg_hash64_update(rdg_hash64 *h, const void *data, size_t n);
uint64_t rdg_hash64_value(const rdg_hash64 *h); /* of all data so far; more may follow */

#endif
