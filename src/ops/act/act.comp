#version 460
// act: out = cap * act(x / cap). One thread an element.
#extension GL_GOOGLE_include_directive : require
#include "ops/glsl/common.glsl"
#include "ops/glsl/activate.glsl"

layout(local_size_x = 128) in;
layout(constant_id = 0) const uint KIND = 0;
layout(push_constant, scalar) uniform Push {
    uint64_t x, result;
    uint n, d1, d2, n_rows;
    uint x_stride[3], out_stride[3]; // elements
    float cap;
};

void main()
{
    uint i = linear_group() * 128 + gl_LocalInvocationID.x;
    if (i >= n * n_rows) return;
    uint c = i % n, row = i / n, i1 = row % d1, i2 = row / d1 % d2, i3 = row / (d1 * d2);
    float z = F32(x).v[i1 * x_stride[0] + i2 * x_stride[1] + i3 * x_stride[2] + c];
    float y = cap == 1.0 ? activate(KIND, z) : cap * activate(KIND, z / cap);
    F32(result).v[i1 * out_stride[0] + i2 * out_stride[1] + i3 * out_stride[2] + c] = y;
}
