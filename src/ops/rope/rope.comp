#version 460
// rope: rotates the first n_dims elements of each head. One thread a pair or, past n_dims, one element to copy.
// `table` holds n_dims / 2 frequencies as turns per position, 0.64 fixed point, with scaling, factors and yarn folded in.
#extension GL_GOOGLE_include_directive : require
#include "ops/glsl/common.glsl"
#include "ops/glsl/rotate.glsl"

layout(local_size_x = 64) in;
layout(push_constant, scalar) uniform Push {
    uint64_t x, pos, table, result;
    uint head_dim, n_heads, n_tokens, n_dims;
    uint x_stride1, x_stride2, out_stride1, out_stride2; // elements
    uint neox;
    float magnitude;
};

void main()
{
    uint half_dims = n_dims / 2, per_head = half_dims + head_dim - n_dims;
    uint i = linear_group() * 64 + gl_LocalInvocationID.x;
    if (i >= per_head * n_heads * n_tokens) return;
    uint k = i % per_head, h = i / per_head % n_heads, t = i / (per_head * n_heads);
    F32 src = F32(x + 4 * (uint64_t(h) * x_stride1 + uint64_t(t) * x_stride2));
    F32 dst = F32(result + 4 * (uint64_t(h) * out_stride1 + uint64_t(t) * out_stride2));
    if (k >= half_dims) {
        uint at = n_dims + k - half_dims;
        dst.v[at] = src.v[at];
        return;
    }
    vec2 cs = magnitude * cos_sin_turns(uint64_t(int64_t(I32(pos).v[t])) * U64(table).v[k]);
    uint ia = neox != 0 ? k : 2 * k, ib = neox != 0 ? k + half_dims : 2 * k + 1;
    float a = src.v[ia], b = src.v[ib];
    dst.v[ia] = a * cs.x - b * cs.y;
    dst.v[ib] = a * cs.y + b * cs.x;
}
