#version 460
// sumsq: sums[c, m] += sum of x[c, ., t]^2 over what goes to expert m; counts[m] += how many. One thread a column of one
// matrix; it walks the tokens in order, so the sum does not depend on the launch.
#extension GL_GOOGLE_include_directive : require
#include "ops/glsl/common.glsl"

layout(local_size_x = 64) in;
layout(push_constant, scalar) uniform Push {
    uint64_t x, ids, sums, counts;
    uint n_columns, n_matrices, n_used, n_tokens, x_dim1;
    uint x_stride1, x_stride2, ids_stride, sums_stride; // elements
};

void main()
{
    uint i = linear_group() * 64 + gl_LocalInvocationID.x;
    if (i >= n_columns * n_matrices) return;
    uint c = i % n_columns, m = i / n_columns;
    float sum = 0, correction = 0, count = 0; // compensated: thousands of terms
    for (uint t = 0; t < n_tokens; t++) {
        for (uint k = 0; k < n_used; k++) {
            if (ids != 0 && I32(ids).v[t * ids_stride + k] != int(m)) continue;
            float v = F32(x).v[t * x_stride2 + min(k, x_dim1 - 1) * x_stride1 + c];
            precise float term = v * v - correction;
            precise float next = sum + term;
            correction = (next - sum) - term;
            sum = next;
            count += 1;
        }
    }
    F32(sums).v[m * sums_stride + c] += sum;
    if (c == 0) F32(counts).v[m] += count;
}
