#version 460
// layernorm: out = weight * (x - mean(x)) / sqrt(var(x) + eps) + bias. One workgroup a row; the variance is summed around
// the mean in a second pass, so that a large mean does not eat it.
#extension GL_GOOGLE_include_directive : require
#include "ops/glsl/common.glsl"
#include "ops/glsl/reduce.glsl"

layout(local_size_x_id = 0) in;
layout(push_constant, scalar) uniform Push {
    uint64_t x, weight, bias, result;
    uint n, d1, d2;
    uint x_stride1, x_stride2, x_stride3;
    uint out_stride1, out_stride2, out_stride3;
    uint weight_stride1, bias_stride1;
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
    for (uint i = gl_LocalInvocationID.x; i < n; i += gl_WorkGroupSize.x) sum += src.v[i];
    float mean = group_sum(sum) / float(n);
    sum = 0;
    for (uint i = gl_LocalInvocationID.x; i < n; i += gl_WorkGroupSize.x) {
        float d = src.v[i] - mean;
        sum += d * d;
    }
    float scale = 1.0 / sqrt(group_sum(sum) / float(n) + eps);
    for (uint i = gl_LocalInvocationID.x; i < n; i += gl_WorkGroupSize.x) {
        float y = (src.v[i] - mean) * scale;
        if (weight != 0) y *= F32(weight).v[i1 * weight_stride1 + i];
        if (bias != 0) y += F32(bias).v[i1 * bias_stride1 + i];
        dst.v[i] = y;
    }
}
