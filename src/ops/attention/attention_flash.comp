#version 460
// attention of many tokens on matrix units, F16 cache: a subgroup owns 16 query rows (16 / GROUP tokens x the GROUP heads
// that share a key head) and walks the keys 16 at a time, twice: first for the largest score of each row, then for the
// weights and the sum of values. With the maximum known nothing has to be scaled on the way, which accumulators with an
// unknown layout could not do; the scores are computed twice, a hundredth of the prefill's work.
//
// Keys and values come straight from the cache as matrices (the first-level cache serves the subgroups' neighbours);
// scores pass through workgroup memory, where a lane has half a row of 16.
// EMULATED: the same without matrix units, for tests.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "ops/glsl/common.glsl"
#include "ops/glsl/activate.glsl"
#ifndef EMULATED
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint HEAD_DIM = 128;
layout(constant_id = 2) const uint GROUP = 4;
layout(constant_id = 3) const uint WIDTH = 32;
layout(constant_id = 4) const uint SUBS = 4; // subgroups of the workgroup
const uint TILES = HEAD_DIM / 16, TOKENS = 16 / GROUP, PITCH = HEAD_DIM + 8, TURNS = 32 / WIDTH;

layout(push_constant, scalar) uniform Push {
    uint64_t q, k, v, pos, sinks, result;
    uint n_heads, n_tokens, n_slots;
    uint q_stride1, q_stride2, out_stride1, out_stride2; // elements
    float scale, softcap;
    int window;
};
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer F16 { float16_t v[]; };

shared float16_t query[SUBS * 16 * PITCH];
shared float scores[SUBS * 256];
shared float16_t weights[SUBS * 256];
shared float row_value[SUBS * 16];

#ifdef EMULATED
shared float acc[16 * HEAD_DIM]; // one subgroup only
#define UNROLL
#else
#define UNROLL [[unroll]]
coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> q_mat[TILES];
coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> acc[TILES];
#endif

// Scores of keys slot … slot + 15 into this subgroup's part of `scores`, row by row.
void score_tile(F16 keys, uint slot, uint sub, uint lane)
{
#ifdef EMULATED
    for (uint e = lane; e < 256; e += WIDTH) {
        float s = 0;
        for (uint d = 0; d < HEAD_DIM; d++)
            s += float(query[(sub * 16 + e / 16) * PITCH + d]) * float(keys.v[(slot + e % 16) * HEAD_DIM + d]);
        scores[sub * 256 + e] = s;
    }
#else
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> s =
        coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    [[unroll]] for (uint i = 0; i < TILES; i++) {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;
        coopMatLoad(b, keys.v, slot * HEAD_DIM + 16 * i, HEAD_DIM, gl_CooperativeMatrixLayoutColumnMajor);
        s = coopMatMulAdd(q_mat[i], b, s);
    }
    coopMatStore(s, scores, sub * 256, 16, gl_CooperativeMatrixLayoutRowMajor);
#endif
    subgroupMemoryBarrierShared();
    subgroupBarrier();
}

void add_values(F16 values, uint slot, uint sub, uint lane)
{
    subgroupMemoryBarrierShared();
    subgroupBarrier();
#ifdef EMULATED
    for (uint e = lane; e < 16 * HEAD_DIM; e += WIDTH) {
        float s = 0;
        for (uint j = 0; j < 16; j++)
            s += float(weights[e / HEAD_DIM * 16 + j]) * float(values.v[(slot + j) * HEAD_DIM + e % HEAD_DIM]);
        acc[e] += s;
    }
#else
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> w;
    coopMatLoad(w, weights, sub * 256, 16, gl_CooperativeMatrixLayoutRowMajor);
    [[unroll]] for (uint i = 0; i < TILES; i++) {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;
        coopMatLoad(b, values.v, slot * HEAD_DIM + 16 * i, HEAD_DIM, gl_CooperativeMatrixLayoutRowMajor);
        acc[i] = coopMatMulAdd(w, b, acc[i]);
    }
#endif
    subgroupBarrier();
}

// Score c of half a row after soft-capping, or a large negative number where the key is not visible.
float masked(uint sub, uint index, uint c, int j, int p)
{
    float s = scores[sub * 256 + index * 8 + c];
    if (softcap > 0) s = softcap * tanh_exact(s / softcap);
    bool visible = j <= p && (window <= 0 || p - j < window);
    return visible ? s : -1.0e30;
}

void main()
{
    uint me = gl_LocalInvocationID.x, sub = me / WIDTH, lane = me % WIDTH, kv = gl_WorkGroupID.x;
    uint first_token = (gl_WorkGroupID.y * SUBS + sub) * TOKENS;
    for (uint i = lane; i < 16 * HEAD_DIM; i += WIDTH) {
        uint row = i / HEAD_DIM, d = i % HEAD_DIM, t = first_token + row / GROUP, h = kv * GROUP + row % GROUP;
        float x = t < n_tokens ? F32(q + 4 * (uint64_t(t) * q_stride2 + uint64_t(h) * q_stride1)).v[d] * scale : 0.0;
        query[(sub * 16 + row) * PITCH + d] = float16_t(clamp(x, -65504.0, 65504.0));
    }
    // Each lane looks after half of the row index / 2 for index = lane, lane + WIDTH, …
    int p[TURNS], low = 0x7fffffff, high = -1;
    float top[TURNS], sum[TURNS];
    for (uint u = 0; u < TURNS; u++) {
        uint t = first_token + (lane + u * WIDTH) / 2 / GROUP;
        p[u] = t < n_tokens ? I32(pos).v[t] : -1;
        if (p[u] >= 0) low = min(low, p[u]);
        high = max(high, p[u]);
        top[u] = -1.0e30;
        sum[u] = 0;
    }
    low = subgroupMin(low);
    high = subgroupMax(high);
    uint begin = window > 0 && low >= window ? uint(low - window + 1) / 16 * 16 : 0;
    F16 keys = F16(k + uint64_t(kv) * n_slots * HEAD_DIM * 2), values = F16(v + uint64_t(kv) * n_slots * HEAD_DIM * 2);
    subgroupMemoryBarrierShared();
    subgroupBarrier();
#ifdef EMULATED
    for (uint e = lane; e < 16 * HEAD_DIM; e += WIDTH) acc[e] = 0;
#else
    [[unroll]] for (uint i = 0; i < TILES; i++) {
        coopMatLoad(q_mat[i], query, sub * 16 * PITCH + 16 * i, PITCH, gl_CooperativeMatrixLayoutRowMajor);
        acc[i] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    }
#endif
    for (uint j = begin; int(j) <= high; j += 16) {
        score_tile(keys, j % n_slots, sub, lane);
        for (uint u = 0; u < TURNS; u++) {
            uint index = lane + u * WIDTH;
            UNROLL for (uint c = 0; c < 8; c++)
                top[u] = max(top[u], masked(sub, index, c, int(j + index % 2 * 8 + c), p[u]));
        }
        subgroupBarrier();
    }
    // The sink takes no part: below one far above them, the weights would be too small for f16.
    for (uint u = 0; u < TURNS; u++) top[u] = max(top[u], subgroupShuffleXor(top[u], 1));
    for (uint j = begin; int(j) <= high; j += 16) {
        score_tile(keys, j % n_slots, sub, lane);
        for (uint u = 0; u < TURNS; u++) {
            uint index = lane + u * WIDTH;
            UNROLL for (uint c = 0; c < 8; c++) {
                float s = masked(sub, index, c, int(j + index % 2 * 8 + c), p[u]);
                float e = s > -1.0e29 ? exp(s - top[u]) : 0.0;
                weights[sub * 256 + index * 8 + c] = float16_t(e);
                sum[u] += e;
            }
        }
        add_values(values, j % n_slots, sub, lane);
    }
    for (uint u = 0; u < TURNS; u++) {
        uint index = lane + u * WIDTH;
        float s = sum[u] + subgroupShuffleXor(sum[u], 1);
        if (sinks != 0) s += exp(F32(sinks).v[kv * GROUP + index / 2 % GROUP] - top[u]);
        if (index % 2 == 0) row_value[sub * 16 + index / 2] = p[u] >= 0 && s > 0 ? 1.0 / s : 0.0;
    }
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    UNROLL for (uint i = 0; i < TILES; i++) {
#ifdef EMULATED
        for (uint e = lane; e < 256; e += WIDTH) scores[e] = acc[e / 16 * HEAD_DIM + 16 * i + e % 16];
#else
        coopMatStore(acc[i], scores, sub * 256, 16, gl_CooperativeMatrixLayoutRowMajor);
#endif
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        for (uint e = lane; e < 256; e += WIDTH) {
            uint row = e / 16, t = first_token + row / GROUP, h = kv * GROUP + row % GROUP;
            if (t < n_tokens)
                F32(result + 4 * (uint64_t(t) * out_stride2 + uint64_t(h) * out_stride1)).v[16 * i + e % 16] =
                    scores[sub * 256 + e] * row_value[sub * 16 + row];
        }
        subgroupBarrier();
    }
}
