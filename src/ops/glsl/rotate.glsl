// Sine and cosine of an angle given in turns as a 0.64 fixed-point fraction: position times frequency modulo one turn is
// exact in 64-bit integers, and the range is one eighth of a turn for the polynomials.
vec2 cos_sin_turns(uint64_t turns)
{
    uint top = uint(turns >> 32);
    uint quadrant = (top + 0x20000000u) >> 30;
    float x = float(int(top - (quadrant << 30))) * (6.283185307179586 / 4294967296.0); // |x| <= pi / 4
    float x2 = x * x;
    float s = x + x * x2 * (-1.6666667163e-1 + x2 * (8.3333337680e-3 + x2 * (-1.9841270114e-4 + x2 * 2.7557314297e-6)));
    float c = 1.0 + x2 * (-0.5 + x2 * (4.1666667908e-2 + x2 * (-1.3888889225e-3 + x2 * (2.4801587642e-5 - x2 * 2.7557314297e-7))));
    if (quadrant == 0) return vec2(c, s);
    if (quadrant == 1) return vec2(-s, c);
    if (quadrant == 2) return vec2(-c, -s);
    return vec2(s, -c);
}

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer U64 { uint64_t v[]; };
