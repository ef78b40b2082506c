#version 460
// matmul for any format without matrix units: a workgroup of 256 makes a tile of 64 rows x 64 tokens, 4 x 4 a thread.
// Per step of 32 columns both tiles are put into workgroup memory as f32, columns outside, so that a thread reads four
// rows and four tokens as vectors.
#extension GL_GOOGLE_include_directive : require
#include "ops/glsl/common.glsl"
#include "ops/glsl/blocks.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint TYPE = 0;
layout(push_constant, scalar) uniform Push {
    uint64_t weight, x, bias, residual, result;
    uint n_columns, n_rows, n_tokens;
    uint row_bytes;
    uint x_stride, residual_stride, out_stride; // elements
};
shared vec4 tile_w[32][17]; // [column][row / 4]; 17: no two columns in the same banks
shared vec4 tile_x[32][17];

void main()
{
    uint me = gl_LocalInvocationID.x, r0 = gl_WorkGroupID.x * 64, t0 = gl_WorkGroupID.y * 64;
    uint load_row = me / 4, load_c = me % 4 * 8; // 64 rows x 4 chunks of eight columns
    uint my_r = me % 16, my_t = me / 16;
    vec4 acc[4];
    [[unroll]] for (uint j = 0; j < 4; j++) acc[j] = vec4(0);
    for (uint c0 = 0; c0 < n_columns; c0 += 32) {
        float w[8], v[8];
        [[unroll]] for (uint i = 0; i < 8; i++) w[i] = v[i] = 0;
        uint c = c0 + load_c;
        if (c < n_columns) {
            if (r0 + load_row < n_rows)
                decode8_any(TYPE, weight + uint64_t(r0 + load_row) * row_bytes, c, n_columns, w);
            if (t0 + load_row < n_tokens)
                decode8_any(T_F32, x + 4 * uint64_t(t0 + load_row) * x_stride, c, n_columns, v);
        }
        barrier();
        [[unroll]] for (uint i = 0; i < 8; i++) {
            tile_w[load_c + i][load_row / 4][load_row % 4] = w[i];
            tile_x[load_c + i][load_row / 4][load_row % 4] = v[i];
        }
        barrier();
        [[unroll]] for (uint i = 0; i < 32; i++) {
            vec4 a = tile_w[i][my_r], b = tile_x[i][my_t];
            [[unroll]] for (uint j = 0; j < 4; j++) acc[j] += a * b[j];
        }
    }
    [[unroll]] for (uint j = 0; j < 4; j++) {
        uint t = t0 + my_t * 4 + j;
        [[unroll]] for (uint i = 0; i < 4; i++) {
            uint r = r0 + my_r * 4 + i;
            if (r >= n_rows || t >= n_tokens) continue;
            float y = acc[j][i];
            if (bias != 0) y += F32(bias).v[r];
            if (residual != 0) y += F32(residual).v[t * residual_stride + r];
            F32(result).v[t * out_stride + r] = y;
        }
    }
}
