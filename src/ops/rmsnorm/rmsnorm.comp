#version 460
// rmsnorm: out = weight * x / sqrt(mean(x^2) + eps). One workgroup a row.
#extension GL_GOOGLE_include_directive : require
#include "ops/glsl/common.glsl"
#include "ops/glsl/reduce.glsl"

layout(local_size_x_id = 0) in;
layout(push_constant, scalar) uniform Push {
    uint64_t x, weight, result;
    uint n, d1, d2;                       // row length, rows inside, rows outside
    uint x_stride1, x_stride2, x_stride3; // elements
    uint out_stride1, out_stride2, out_stride3;
    uint weight_stride1;
    float eps;
    uint n_rows;
};

void main()
{
    if (linear_group() >= n_rows) return; // the last row of a large grid is not full
    uint row = linear_group(), i1 = row % d1, i2 = row / d1 % d2, i3 = row / (d1 * d2);
    F32 src = F32(x + 4 * (uint64_t(i1) * x_stride1 + uint64_t(i2) * x_stride2 + uint64_t(i3) * x_stride3));
    F32 dst = F32(result + 4 * (uint64_t(i1) * out_stride1 + uint64_t(i2) * out_stride2 + uint64_t(i3) * out_stride3));
    float sum = 0;
    for (uint i = gl_LocalInvocationID.x; i < n; i += gl_WorkGroupSize.x) sum += src.v[i] * src.v[i];
    float scale = 1.0 / sqrt(group_sum(sum) / float(n) + eps);
    for (uint i = gl_LocalInvocationID.x; i < n; i += gl_WorkGroupSize.x) {
        float w = weight != 0 ? F32(weight).v[i1 * weight_stride1 + i] : 1.0;
        dst.v[i] = w * (src.v[i] * scale);
    }
}
