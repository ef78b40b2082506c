/* The 12 bytes that hold eight 6-bit scales and eight 6-bit minima in Q4_K and Q5_K:
 *   bytes 0-3   low six bits: scales 0-3;  upper two: bits 4-5 of scales 4-7
 *   bytes 4-7   low six bits: minima 0-3;  upper two: bits 4-5 of minima 4-7
 *   bytes 8-11  low nibble: bits 0-3 of scales 4-7; high nibble: bits 0-3 of minima 4-7 */
#ifndef RDG_QUANT_SCALE_MIN_H
#define RDG_QUANT_SCALE_MIN_H

#include <stdint.h>

static inline void rdg_scale_min_unpack(const uint8_t s[12], uint8_t sc[8], uint8_t mn[8])
{
    for (int j = 0; j < 4; j++) {
        sc[j] = s[j] & 63;
        mn[j] = s[j + 4] & 63;
        sc[j + 4] = (uint8_t)((s[j + 8] & 15) | (s[j] >> 6) << 4);
        mn[j + 4] = (uint8_t)((s[j + 8] >> 4) | (s[j + 4] >> 6) << 4);
    }
}

static inline void rdg_scale_min_pack(const uint8_t sc[8], const uint8_t mn[8], uint8_t s[12])
{
    for (int j = 0; j < 4; j++) {
        s[j] = (uint8_t)(sc[j] | (sc[j + 4] >> 4) << 6);
        s[j + 4] = (uint8_t)(mn[j] | (mn[j + 4] >> 4) << 6);
        s[j + 8] = (uint8_t)((sc[j + 4] & 15) | (mn[j + 4] & 15) << 4);
    }
}

#endif
