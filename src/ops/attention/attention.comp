#version 460
// attention for any cache type: one workgroup a (head, token). Keys come in tiles of one per thread: scores first, then
// the running softmax, then a thread takes eight elements of the head and every Gth key of the tile.
#extension GL_GOOGLE_include_directive : require
#include "ops/glsl/common.glsl"
#include "ops/glsl/reduce.glsl"
#include "ops/glsl/blocks.glsl"
#include "ops/glsl/activate.glsl"

const uint WIDTH = 128;
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint TYPE_K = 0;
layout(constant_id = 1) const uint TYPE_V = 0;
layout(push_constant, scalar) uniform Push {
    uint64_t q, k, v, pos, sinks, result;
    uint head_dim, head_dim_v, group, n_slots; // group: query heads a key head
    uint q_stride1, q_stride2, out_stride1, out_stride2; // elements
    uint k_stride1, k_stride2, v_stride1, v_stride2;     // bytes: slot, head
    float scale, softcap;
    int window; // 0 = unlimited; < 0: not causal, -window keys
    uint unused;
};
shared float query[1024];
shared float score[WIDTH];
shared float part[WIDTH * 8];

void main()
{
    uint h = gl_WorkGroupID.x, t = gl_WorkGroupID.y, me = gl_LocalInvocationID.x;
    F32 dst = F32(result + 4 * (uint64_t(h) * out_stride1 + uint64_t(t) * out_stride2));
    int p = I32(pos).v[t];
    int first = 0, end = p + 1;
    if (window < 0) end = -window;
    else if (window > 0) first = max(0, p + 1 - window);
    if (p < 0) {
        for (uint i = me; i < head_dim_v; i += WIDTH) dst.v[i] = 0;
        return;
    }
    F32 src = F32(q + 4 * (uint64_t(h) * q_stride1 + uint64_t(t) * q_stride2));
    for (uint i = me; i < (head_dim + 7) / 8 * 8; i += WIDTH) query[i] = i < head_dim ? src.v[i] * scale : 0;
    uint64_t keys = k + uint64_t(h / group) * k_stride2, values = v + uint64_t(h / group) * v_stride2;
    uint chunks = (head_dim_v + 7) / 8, lanes = WIDTH / chunks, my_chunk = me % chunks, my_lane = me / chunks;
    float top = sinks != 0 ? F32(sinks).v[h] : -3.0e38, sum = sinks != 0 ? 1.0 : 0.0;
    float acc[8];
    [[unroll]] for (uint i = 0; i < 8; i++) acc[i] = 0;
    barrier();
    for (int j0 = first; j0 < end; j0 += int(WIDTH)) {
        int j = j0 + int(me);
        float s = -3.0e38;
        if (j < end) {
            uint64_t row = keys + uint64_t(uint(j) % n_slots) * k_stride1;
            s = 0;
            for (uint c = 0; c < head_dim; c += 8) {
                float w[8];
                decode8_any(TYPE_K, row, c, head_dim, w);
                [[unroll]] for (uint i = 0; i < 8; i++) s += w[i] * query[c + i];
            }
            if (softcap > 0) s = softcap * tanh_exact(s / softcap);
        }
        float next = max(top, group_max(s));
        float e = j < end ? exp_exact(s - next) : 0.0, keep = exp_exact(top - next);
        sum = sum * keep + group_sum(e);
        top = next;
        score[me] = e;
        barrier();
        [[unroll]] for (uint i = 0; i < 8; i++) acc[i] *= keep;
        uint n = uint(min(int(WIDTH), end - j0));
        if (my_lane < lanes) {
            for (uint i = my_lane; i < n; i += lanes) {
                float w[8];
                decode8_any(TYPE_V, values + uint64_t(uint(j0 + int(i)) % n_slots) * v_stride1, my_chunk * 8, head_dim_v, w);
                float e2 = score[i];
                [[unroll]] for (uint c = 0; c < 8; c++) acc[c] += e2 * w[c];
            }
        }
        barrier();
    }
    [[unroll]] for (uint i = 0; i < 8; i++) part[me * 8 + i] = acc[i];
    barrier();
    for (uint i = me; i < head_dim_v; i += WIDTH) {
        float y = 0;
        for (uint l = 0; l < lanes; l++) y += part[(l * chunks + i / 8) * 8 + i % 8];
        dst.v[i] = y / sum;
    }
}
