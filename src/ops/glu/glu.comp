#version 460
// glu: out = act(gate) * up. One thread an element.
#extension GL_GOOGLE_include_directive : require
#include "ops/glsl/common.glsl"
#include "ops/glsl/activate.glsl"

layout(local_size_x = 128) in;
layout(constant_id = 0) const uint KIND = 0;
layout(push_constant, scalar) uniform Push {
    uint64_t gate, up, result;
    uint n, d1, d2, n_rows;
    uint gate_stride[3], up_stride[3], out_stride[3]; // elements
    float alpha, limit;
};

void main()
{
    uint i = linear_group() * 128 + gl_LocalInvocationID.x;
    if (i >= n * n_rows) return;
    uint c = i % n, row = i / n, i1 = row % d1, i2 = row / d1 % d2, i3 = row / (d1 * d2);
    float g = F32(gate).v[i1 * gate_stride[0] + i2 * gate_stride[1] + i3 * gate_stride[2] + c];
    float u = F32(up).v[i1 * up_stride[0] + i2 * up_stride[1] + i3 * up_stride[2] + c];
    F32(result).v[i1 * out_stride[0] + i2 * out_stride[1] + i3 * out_stride[2] + c] = gated(KIND, g, u, alpha, limit);
}
