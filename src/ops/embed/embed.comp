#version 460
// embed: out[:, t] = scale * table[:, ids[t]]. One thread: eight elements of one row.
#extension GL_GOOGLE_include_directive : require
#include "ops/glsl/common.glsl"
#include "ops/glsl/blocks.glsl"

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint TYPE = 0;
layout(push_constant, scalar) uniform Push {
    uint64_t table, ids, result;
    uint n_embd, n_tokens, n_rows;
    uint row_bytes, out_stride; // out_stride in elements
    float scale;
};

void main()
{
    uint chunks = (n_embd + 7) / 8;
    uint i = linear_group() * 64 + gl_LocalInvocationID.x;
    if (i >= chunks * n_tokens) return;
    uint t = i / chunks, c = i % chunks * 8;
    int id = I32(ids).v[t];
    float w[8];
    [[unroll]] for (uint k = 0; k < 8; k++) w[k] = 0;
    if (id >= 0 && uint(id) < n_rows) decode8_any(TYPE, table + uint64_t(id) * row_bytes, c, n_embd, w);
    [[unroll]] for (uint k = 0; k < 8; k++)
        if (c + k < n_embd) F32(result).v[t * out_stride + c + k] = scale * w[k];
}
