#version 460
// combine: out[:, t] = residual[:, t] + sum_k weights[k, t] * x[:, k, t]. One thread an element.
#extension GL_GOOGLE_include_directive : require
#include "ops/glsl/common.glsl"

layout(local_size_x = 128) in;
layout(push_constant, scalar) uniform Push {
    uint64_t x, weights, residual, result;
    uint n, n_used, n_tokens;
    uint x_stride1, x_stride2, weights_stride, residual_stride, out_stride; // elements
};

void main()
{
    uint i = linear_group() * 128 + gl_LocalInvocationID.x;
    if (i >= n * n_tokens) return;
    uint c = i % n, t = i / n;
    float y = residual != 0 ? F32(residual).v[t * residual_stride + c] : 0.0;
    for (uint k = 0; k < n_used; k++)
        y += F32(weights).v[t * weights_stride + k] * F32(x).v[t * x_stride2 + k * x_stride1 + c];
    F32(result).v[t * out_stride + c] = y;
}
