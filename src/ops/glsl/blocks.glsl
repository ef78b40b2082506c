// Block formats: decode8 gives the eight elements c … c + 7 (c a multiple of 8) of a row. Layouts and formulas are those
// of src/quant/<format>.h, with the same association: d * scale first, then times q, then minus; a check compares every
// bit. TYPE is a specialisation constant, so a pipeline holds one branch only.

const float IQ4_VALUES[16] = float[](-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
const float FP4_VALUES[16] = float[](0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);

uint type_elems(uint type)
{
    if (type == T_F32 || type == T_F16 || type == T_BF16) return 1;
    if (type == T_Q4_0 || type == T_Q4_1 || type == T_Q5_0 || type == T_Q5_1 || type == T_Q8_0 || type == T_IQ4_NL ||
        type == T_MXFP4)
        return 32;
    if (type == T_NVFP4 || type == T_Q2_0) return 64;
    if (type == T_Q1_0) return 128;
    return 256;
}

uint type_bytes(uint type)
{
    if (type == T_F32) return 4;
    if (type == T_F16 || type == T_BF16) return 2;
    if (type == T_Q4_0 || type == T_IQ4_NL || type == T_Q1_0 || type == T_Q2_0) return 18;
    if (type == T_Q4_1) return 20;
    if (type == T_Q5_0) return 22;
    if (type == T_Q5_1) return 24;
    if (type == T_Q8_0) return 34;
    if (type == T_MXFP4) return 17;
    if (type == T_NVFP4) return 36;
    if (type == T_Q2_K) return 84;
    if (type == T_Q3_K) return 110;
    if (type == T_Q4_K) return 144;
    if (type == T_Q5_K) return 176;
    if (type == T_Q6_K) return 210;
    if (type == T_IQ4_XS) return 136;
    if (type == T_TQ1_0) return 54;
    return 66; // TQ2_0
}

uint byte_at(uint64_t p, uint k)
{
    return uint(U8(p).v[k]);
}

uint half_bits_at(uint64_t p, uint k)
{
    return byte_at(p, k) | byte_at(p, k + 1) << 8;
}

float half_at(uint64_t p, uint k)
{
    return half_to_float(half_bits_at(p, k));
}

int sbyte_at(uint64_t p, uint k)
{
    return int(byte_at(p, k) << 24) >> 24;
}

float e4m3_half(uint x)
{
    if (x == 0 || x == 0x7f) return 0;
    uint e = (x >> 3) & 15, m = x & 7;
    if (e == 0) return float(m) * (1.0 / 1024.0);
    return uintBitsToFloat((e + 119) << 23 | m << 20); // (1 + m / 8) 2^(e - 8)
}

// Scale (x) and minimum (y) of sub-block j of Q4_K and Q5_K; s is the address of the 12 bytes.
uvec2 scale_min(uint64_t s, uint j)
{
    if (j < 4) return uvec2(byte_at(s, j) & 63, byte_at(s, j + 4) & 63);
    uint low = byte_at(s, j + 4);
    return uvec2((low & 15) | (byte_at(s, j - 4) >> 6) << 4, (low >> 4) | (byte_at(s, j) >> 6) << 4);
}

// n_columns is used by the planar forms only.
void decode8(uint type, uint64_t row, uint c, uint n_columns, out float w[8])
{
    if (type == T_Q4_0_PLANAR) {
        uint b = c / 32, i = c % 32;
        float d = half_to_float(uint(U16(row + n_columns / 2).v[b]));
        [[unroll]] for (uint k = 0; k < 8; k++)
            w[k] = d * float(int((byte_at(row, 16 * b + (i & 15) + k) >> (i < 16 ? 0 : 4)) & 15) - 8);
        return;
    }
    if (type == T_Q8_0_PLANAR) {
        float d = half_to_float(uint(U16(row + n_columns).v[c / 32]));
        [[unroll]] for (uint k = 0; k < 8; k++) w[k] = d * float(sbyte_at(row, c + k));
        return;
    }
    if (type == T_Q6_K_PLANAR) {
        uint blocks = n_columns / 256, b = c / 256, i = c % 256, n = i / 128, g = (i % 128) / 32, l = i % 32;
        precise float d = half_to_float(uint(U16(row + 208 * blocks).v[b])) * float(sbyte_at(row + 192 * blocks, c / 16));
        [[unroll]] for (uint k = 0; k < 8; k++) {
            uint low = (byte_at(row, 128 * b + 64 * n + 32 * (g & 1) + l + k) >> (g < 2 ? 0 : 4)) & 15;
            uint top = (byte_at(row + 128 * blocks, 64 * b + 32 * n + l + k) >> (2 * g)) & 3;
            precise float y = d * float(int(low | top << 4) - 32);
            w[k] = y;
        }
        return;
    }
    uint64_t p = row + uint64_t(c / type_elems(type)) * type_bytes(type);
    uint i = c % type_elems(type); // first element inside the block
    if (type == T_F32) {
        if ((uint(p) & 15u) == 0) { // wide loads where the row allows them
            vec4 a = V4(p).v[0], b = V4(p).v[1];
            [[unroll]] for (uint k = 0; k < 4; k++) w[k] = a[k], w[k + 4] = b[k];
        } else {
            [[unroll]] for (uint k = 0; k < 8; k++) w[k] = F32(p).v[k];
        }
    } else if (type == T_F16 || type == T_BF16) {
        uvec4 x;
        if ((uint(p) & 15u) == 0) {
            x = U4(p).v[0];
        } else {
            [[unroll]] for (uint k = 0; k < 4; k++) x[k] = uint(U16(p).v[2 * k]) | uint(U16(p).v[2 * k + 1]) << 16;
        }
        [[unroll]] for (uint k = 0; k < 4; k++) {
            if (type == T_F16) {
                vec2 h = unpackHalf2x16(x[k]);
                w[2 * k] = h.x, w[2 * k + 1] = h.y;
            } else {
                w[2 * k] = uintBitsToFloat(x[k] << 16), w[2 * k + 1] = uintBitsToFloat(x[k] & 0xffff0000u);
            }
        }
    } else if (type == T_Q4_0 || type == T_Q4_1 || type == T_Q5_0 || type == T_Q5_1 || type == T_IQ4_NL ||
               type == T_MXFP4) {
        bool has_min = type == T_Q4_1 || type == T_Q5_1, has_high = type == T_Q5_0 || type == T_Q5_1;
        uint qs = type == T_MXFP4 ? 1 : (has_min ? 4 : 2) + (has_high ? 4 : 0), shift = i < 16 ? 0 : 4;
        float d = 0, m = 0;
        if (type == T_MXFP4) {
            uint e = byte_at(p, 0); // 2^(e - 128), subnormal below e = 2
            d = e >= 2 ? uintBitsToFloat((e - 1) << 23) : uintBitsToFloat(0x200000u << e);
        } else {
            d = half_at(p, 0);
        }
        if (has_min) m = half_at(p, 2);
        uint high = has_high ? byte_at(p, (has_min ? 4 : 2) + i / 8) : 0;
        [[unroll]] for (uint k = 0; k < 8; k++) {
            uint q = (byte_at(p, qs + (i & 15) + k) >> shift) & 15;
            if (has_high) q |= ((high >> k) & 1) << 4;
            precise float y;
            if (type == T_IQ4_NL) y = d * IQ4_VALUES[q];
            else if (type == T_MXFP4) y = d * FP4_VALUES[q];
            else if (has_min) {
                y = d * float(q);
                y = y + m;
            } else {
                y = d * float(int(q) - (has_high ? 16 : 8));
            }
            w[k] = y;
        }
    } else if (type == T_Q8_0) {
        float d = half_at(p, 0);
        [[unroll]] for (uint k = 0; k < 8; k++) w[k] = d * float(sbyte_at(p, 2 + i + k));
    } else if (type == T_Q2_K) {
        uint sc = byte_at(p, i / 16), at = 16 + 32 * (i / 128) + i % 32, shift = 2 * ((i % 128) / 32);
        precise float d = half_at(p, 80) * float(sc & 15), m = half_at(p, 82) * float(sc >> 4);
        [[unroll]] for (uint k = 0; k < 8; k++) {
            precise float y = d * float((byte_at(p, at + k) >> shift) & 3);
            y = y - m;
            w[k] = y;
        }
    } else if (type == T_Q3_K) {
        uint j = i / 16, at = 32 + 32 * (i / 128) + i % 32, shift = 2 * ((i % 128) / 32), bit = i / 32;
        uint low = j < 8 ? byte_at(p, 96 + j) & 15 : byte_at(p, 88 + j) >> 4;
        uint top = (byte_at(p, 104 + (j & 3)) >> (2 * (j / 4))) & 3;
        precise float d = half_at(p, 108) * float(int(low + 16 * top) - 32);
        [[unroll]] for (uint k = 0; k < 8; k++) {
            int q = int((byte_at(p, at + k) >> shift) & 3) + 4 * int((byte_at(p, i % 32 + k) >> bit) & 1) - 4;
            precise float y = d * float(q);
            w[k] = y;
        }
    } else if (type == T_Q4_K || type == T_Q5_K) {
        uint j = i / 32, qs = type == T_Q5_K ? 48 : 16, shift = i % 64 < 32 ? 0 : 4;
        uvec2 sm = scale_min(p + 4, j);
        precise float d = half_at(p, 0) * float(sm.x), m = half_at(p, 2) * float(sm.y);
        [[unroll]] for (uint k = 0; k < 8; k++) {
            uint q = (byte_at(p, qs + 32 * (i / 64) + i % 32 + k) >> shift) & 15;
            if (type == T_Q5_K) q |= ((byte_at(p, 16 + i % 32 + k) >> j) & 1) << 4;
            precise float y = d * float(q);
            y = y - m;
            w[k] = y;
        }
    } else if (type == T_Q6_K) {
        uint n = i / 128, g = (i % 128) / 32, l = i % 32;
        precise float d = half_at(p, 208) * float(sbyte_at(p, 192 + i / 16));
        [[unroll]] for (uint k = 0; k < 8; k++) {
            uint low = (byte_at(p, 64 * n + 32 * (g & 1) + l + k) >> (g < 2 ? 0 : 4)) & 15;
            uint top = (byte_at(p, 128 + 32 * n + l + k) >> (2 * g)) & 3;
            precise float y = d * float(int(low | top << 4) - 32);
            w[k] = y;
        }
    } else if (type == T_IQ4_XS) {
        uint j = i / 32;
        uint ls = ((byte_at(p, 4 + j / 2) >> (4 * (j & 1))) & 15) | ((half_bits_at(p, 2) >> (2 * j)) & 3) << 4;
        precise float d = half_at(p, 0) * float(int(ls) - 32);
        [[unroll]] for (uint k = 0; k < 8; k++) {
            precise float y = d * IQ4_VALUES[(byte_at(p, 8 + 16 * j + i % 16 + k) >> (i % 32 < 16 ? 0 : 4)) & 15];
            w[k] = y;
        }
    } else if (type == T_NVFP4) {
        uint s = i / 16;
        float d = e4m3_half(byte_at(p, s));
        [[unroll]] for (uint k = 0; k < 8; k++)
            w[k] = d * FP4_VALUES[(byte_at(p, 4 + 8 * s + k) >> (i % 16 < 8 ? 0 : 4)) & 15];
    } else if (type == T_Q1_0) {
        float d = half_at(p, 0);
        uint bits = byte_at(p, 2 + i / 8);
        [[unroll]] for (uint k = 0; k < 8; k++) w[k] = ((bits >> k) & 1) != 0 ? d : -d;
    } else if (type == T_Q2_0) {
        float d = half_at(p, 0);
        [[unroll]] for (uint k = 0; k < 8; k++)
            w[k] = d * float(int((byte_at(p, 2 + (i + k) / 4) >> (2 * (k & 3))) & 3) - 1);
    } else if (type == T_TQ2_0) {
        float d = half_at(p, 64);
        [[unroll]] for (uint k = 0; k < 8; k++)
            w[k] = d * float(int((byte_at(p, 32 * (i / 128) + i % 32 + k) >> (2 * ((i % 128) / 32))) & 3) - 1);
    } else if (type == T_TQ1_0) {
        float d = half_at(p, 52);
        [[unroll]] for (uint k = 0; k < 8; k++) {
            uint e = i + k, at, n;
            if (e < 160) at = e % 32, n = e / 32;
            else if (e < 240) at = 32 + (e - 160) % 16, n = (e - 160) / 16;
            else at = 48 + (e - 240) % 4, n = (e - 240) / 4;
            uint b = byte_at(p, at);
            for (uint r = 0; r < n; r++) b *= 3;
            w[k] = d * float(int(((b & 255) * 3) >> 8) - 1);
        }
    }
}

// The same for the last elements of a row of a type without blocks: n < 8 of them exist, the rest are 0.
void decode8_tail(uint type, uint64_t row, uint c, uint n, out float w[8])
{
    [[unroll]] for (uint k = 0; k < 8; k++) {
        w[k] = 0;
        if (k < n) {
            if (type == T_F32) w[k] = F32(row).v[c + k];
            else if (type == T_F16) w[k] = half_to_float(uint(U16(row).v[c + k]));
            else if (type == T_BF16) w[k] = bf16_to_float(uint(U16(row).v[c + k]));
        }
    }
}

void decode8_any(uint type, uint64_t row, uint c, uint n_columns, out float w[8])
{
    if (c + 8 <= n_columns) decode8(type, row, c, n_columns, w);
    else decode8_tail(type, row, c, n_columns - c, w);
}
