/* Index of the closest of the doubled E2M1 values 0 1 2 3 4 6 8 12 and their negatives (8 is added for the
 * sign). A midpoint belongs to the value nearer to 0; 0 is never stored with a sign. */
#ifndef RDG_QUANT_FP4_H
#define RDG_QUANT_FP4_H

static inline int rdg_fp4_nearest(float v)
{
    float a = v < 0.0f ? -v : v;
    int i = (a > 0.5f) + (a > 1.5f) + (a > 2.5f) + (a > 3.5f) + (a > 5.0f) + (a > 7.0f) + (a > 10.0f);
    return v < 0.0f && i ? i + 8 : i;
}

#endif
