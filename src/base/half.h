/* f16 and bf16 <-> f32, exact and round-to-nearest-even. Portable; kernels with F16C use the instructions. */
#ifndef RDG_BASE_HALF_H
#define RDG_BASE_HALF_H

#include <stdint.h>
#include <string.h>

typedef uint16_t rdg_half;     /* IEEE binary16 */
typedef uint16_t rdg_bfloat16; /* upper half of binary32 */

static inline float rdg_f32_from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline uint32_t rdg_f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static inline float rdg_half_to_f32(rdg_half h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exp = (h >> 10) & 31u, man = h & 0x3ffu;
    if (exp == 31) return rdg_f32_from_bits(sign | 0x7f800000u | (man << 13)); /* Inf, NaN with its payload */
    if (exp) return rdg_f32_from_bits(sign | ((exp + 112u) << 23) | (man << 13));
    /* zero or subnormal: man * 2^-24 is exact in f32 */
    return rdg_f32_from_bits(sign | rdg_f32_bits((float)man * 0x1p-24f));
}

static inline rdg_half rdg_half_from_f32(float f)
{
    uint32_t u = rdg_f32_bits(f), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return (rdg_half)(sign | 0x7e00u | ((a >> 13) & 0x3ffu)); /* NaN stays NaN */
    if (a >= 0x477ff000u) return (rdg_half)(sign | 0x7c00u);                       /* rounds to Inf */
    if (a < 0x38800000u) {                                                         /* subnormal result */
        /* adding 2^-1 aligns the last kept bit with the last bit of the f32 mantissa: the FPU rounds to even
         */
        float r = rdg_f32_from_bits(a) + 0.5f;
        return (rdg_half)(sign | (rdg_f32_bits(r) - 0x3f000000u));
    }
    uint32_t odd = (a >> 13) & 1u;
    return (rdg_half)(sign | ((a + 0xc8000fffu + odd) >> 13));
}

static inline float rdg_bfloat16_to_f32(rdg_bfloat16 b)
{
    return rdg_f32_from_bits((uint32_t)b << 16);
}

static inline rdg_bfloat16 rdg_bfloat16_from_f32(float f)
{
    uint32_t u = rdg_f32_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (rdg_bfloat16)((u >> 16) | 0x40u);
    return (rdg_bfloat16)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

#endif
