#version 460
// Activations as f16, rows padded with zero tokens to a whole tile: what matmul_f16.comp reads. One thread: 8 elements.
#extension GL_GOOGLE_include_directive : require
#include "ops/glsl/common.glsl"

layout(local_size_x = 128) in;
layout(push_constant, scalar) uniform Push {
    uint64_t x, result;
    uint n_columns, n_tokens, n_padded, x_stride; // elements
};

void main()
{
    uint i = linear_group() * 128 + gl_LocalInvocationID.x, chunks = n_columns / 8;
    if (i >= chunks * n_padded) return;
    uint t = i / chunks, c = i % chunks;
    uvec4 w = uvec4(0);
    if (t < n_tokens) {
        V4 src = V4(x + 4 * uint64_t(t) * x_stride);
        vec4 a = clamp(src.v[2 * c], -65504.0, 65504.0), b = clamp(src.v[2 * c + 1], -65504.0, 65504.0);
        w = uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
    }
    U4(result).v[i] = w;
}
