#version 460
// matvec and experts for any format: one workgroup a row of the weight and up to eight tokens.
// EXPERTS: the matrix is chosen by ids[k, t]; the workgroup then serves one (k, t).
#extension GL_GOOGLE_include_directive : require
#include "ops/glsl/common.glsl"
#include "ops/glsl/reduce.glsl"
#include "ops/glsl/blocks.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint TYPE = 0;
layout(constant_id = 2) const uint N_TOKENS = 1; // 1 … 8
layout(constant_id = 3) const uint EXPERTS = 0;
layout(push_constant, scalar) uniform Push {
    uint64_t weight, x, bias, residual, result, ids;
    uint n_columns, n_rows;
    uint row_bytes;
    uint x_stride, residual_stride, out_stride; // elements, from token to token
    uint n_used, x_dim1, x_stride1, out_stride1, bias_stride, ids_stride, n_experts; // experts only
    uint64_t expert_bytes;
};

void main()
{
    uint r = gl_WorkGroupID.x, me = gl_LocalInvocationID.x;
    uint64_t row = weight + uint64_t(r) * row_bytes, src = x;
    uint e = 0, k = 0, t = 0;
    if (EXPERTS != 0) {
        k = gl_WorkGroupID.y, t = gl_WorkGroupID.z;
        e = min(uint(max(I32(ids).v[t * ids_stride + k], 0)), n_experts - 1);
        row += uint64_t(e) * expert_bytes;
        src += 4 * (uint64_t(t) * x_stride + uint64_t(min(k, x_dim1 - 1)) * x_stride1);
    }
    float acc[N_TOKENS];
    [[unroll]] for (uint n = 0; n < N_TOKENS; n++) acc[n] = 0;
    for (uint c = me * 8; c < n_columns; c += gl_WorkGroupSize.x * 8) {
        float w[8];
        decode8_any(TYPE, row, c, n_columns, w);
        uint m = min(8, n_columns - c);
        [[unroll]] for (uint n = 0; n < N_TOKENS; n++) {
            F32 xs = F32(src + 4 * uint64_t(n) * x_stride);
            if (m == 8) {
                [[unroll]] for (uint i = 0; i < 8; i++) acc[n] += w[i] * xs.v[c + i];
            } else {
                for (uint i = 0; i < m; i++) acc[n] += w[i] * xs.v[c + i];
            }
        }
    }
    [[unroll]] for (uint n = 0; n < N_TOKENS; n++) {
        float y = group_sum(acc[n]);
        if (me != 0) continue;
        if (EXPERTS != 0) {
            if (bias != 0) y += F32(bias).v[e * bias_stride + r];
            F32(result).v[t * out_stride + k * out_stride1 + r] = y;
        } else {
            if (bias != 0) y += F32(bias).v[r];
            if (residual != 0) y += F32(residual).v[n * residual_stride + r];
            F32(result).v[n * out_stride + r] = y;
        }
    }
}
