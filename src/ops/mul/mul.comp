#version 460
// mul: out = a * b, b broadcast. One thread an element.
#extension GL_GOOGLE_include_directive : require
#include "ops/glsl/common.glsl"

layout(local_size_x = 128) in;
layout(push_constant, scalar) uniform Push {
    uint64_t a, b, result;
    uint n, d1, d2, n_rows;
    uint a_stride[3], b_stride[4], out_stride[3]; // elements; 0 = broadcast
};

void main()
{
    uint i = linear_group() * 128 + gl_LocalInvocationID.x;
    if (i >= n * n_rows) return;
    uint c = i % n, row = i / n, i1 = row % d1, i2 = row / d1 % d2, i3 = row / (d1 * d2);
    float p = F32(a).v[i1 * a_stride[0] + i2 * a_stride[1] + i3 * a_stride[2] + c];
    float y = p * F32(b).v[c * b_stride[0] + i1 * b_stride[1] + i2 * b_stride[2] + i3 * b_stride[3]];
    F32(result).v[i1 * out_stride[0] + i2 * out_stride[1] + i3 * out_stride[2] + c] = y;
}
