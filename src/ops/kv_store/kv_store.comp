#version 460
// kv_store: cache[:, pos[t] mod n_slots, h] = x[:, h, t], converted. One thread an element, or a block of 32.
#extension GL_GOOGLE_include_directive : require
#include "ops/glsl/common.glsl"

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint TYPE = 0;
layout(push_constant, scalar) uniform Push {
    uint64_t x, pos, cache;
    uint head_dim, n_heads, n_tokens, n_slots;
    uint x_stride1, x_stride2;       // elements
    uint cache_stride1, cache_stride2; // bytes: slot, head
};

void store_block(U8 dst, F32 src)
{
    float top = 0, largest = 0; // largest: the value of largest magnitude, with its sign
    [[unroll]] for (uint i = 0; i < 32; i++) {
        float a = abs(src.v[i]);
        if (a > top) top = a, largest = src.v[i];
    }
    precise float d = TYPE == T_Q8_0 ? top / 127.0 : largest / -8.0;
    precise float inverse = abs(d) >= 1.17549435e-38 ? 1.0 / d : 0.0; // below, 1 / d overflows: store zeros
    uint h = float_to_half(d);
    dst.v[0] = uint8_t(h & 255);
    dst.v[1] = uint8_t(h >> 8);
    if (TYPE == T_Q8_0) {
        for (uint i = 0; i < 32; i++) {
            precise float q = src.v[i] * inverse;
            dst.v[2 + i] = uint8_t(int(round_away(q)) & 255);
        }
    } else {
        for (uint i = 0; i < 16; i++) {
            precise float a = src.v[i] * inverse, b = src.v[i + 16] * inverse;
            uint lo = min(uint(int(a + 8.5)), 15u), hi = min(uint(int(b + 8.5)), 15u);
            dst.v[2 + i] = uint8_t(lo | hi << 4);
        }
    }
}

void main()
{
    bool blocks = TYPE == T_Q8_0 || TYPE == T_Q4_0;
    uint per_head = blocks ? head_dim / 32 : head_dim;
    uint i = linear_group() * 64 + gl_LocalInvocationID.x;
    if (i >= per_head * n_heads * n_tokens) return;
    uint c = i % per_head, h = i / per_head % n_heads, t = i / (per_head * n_heads);
    int p = I32(pos).v[t];
    if (p < 0) return;
    uint64_t src = x + 4 * (uint64_t(h) * x_stride1 + uint64_t(t) * x_stride2);
    uint64_t dst = cache + uint64_t(h) * cache_stride2 + uint64_t(uint(p) % n_slots) * cache_stride1;
    if (TYPE == T_F32) F32(dst).v[c] = F32(src).v[c];
    else if (TYPE == T_F16) U16(dst).v[c] = uint16_t(float_to_half(F32(src).v[c]));
    else if (TYPE == T_BF16) U16(dst).v[c] = uint16_t(float_to_bf16(F32(src).v[c]));
    else store_block(U8(dst + uint64_t(c) * (TYPE == T_Q8_0 ? 34 : 18)), F32(src + 128 * uint64_t(c)));
}
