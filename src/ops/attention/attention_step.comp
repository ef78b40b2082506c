#version 460
// One token's attention in a decode step, with all that stands before it: per-head rmsnorm of q and k (NORM), rope of q
// and k, the store of k and v into an F16 cache, and the attention itself with its keys split over workgroups.
//
//   workgroup (key head and part, split); L = HEAD_DIM / 8 lanes share a key, each holds 8 elements (16 bytes) of it and of the
//   GROUP query heads that use it; LOCAL / L keys at a time, UNROLL times in flight
//
// Split 0 also makes the new key, stores it and begins with it, so no other workgroup reads what this launch writes. With
// several splits the workgroup that finishes last merges them: no second launch. Where keys are few, PARTS workgroups share
// a key head, each with GROUP of its query heads. What does not depend on the products before it (old keys, angles) is on
// its way before the workgroup waits for them.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "ops/glsl/common.glsl"
#include "ops/glsl/reduce.glsl"
#include "ops/glsl/rotate.glsl"
#include "ops/glsl/activate.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint HEAD_DIM = 128;
layout(constant_id = 2) const uint GROUP = 4;
layout(constant_id = 3) const uint SPLITS = 1;
layout(constant_id = 4) const uint ROPE = 0;   // 0 none, 1 pairs side by side, 2 halves
layout(constant_id = 5) const uint N_ROT = 128;
layout(constant_id = 6) const uint NORM = 0;
layout(constant_id = 7) const uint WRAP = 0;   // the cache is a ring
layout(constant_id = 8) const uint WIDTH = 32; // subgroup width
layout(constant_id = 9) const uint LOCAL = 256;
layout(constant_id = 10) const int WINDOW = 0;
layout(constant_id = 11) const uint PARTS = 1;
layout(constant_id = 12) const float SOFTCAP = 0;
layout(constant_id = 13) const float MAGNITUDE = 1; // of a turned pair
layout(constant_id = 14) const uint CHAIN = 0;
const uint UNROLL = 4;
const uint LANES = HEAD_DIM / 8, KEYS = LOCAL / LANES, SUBS = LOCAL / WIDTH;

layout(push_constant, scalar) uniform Push {
    uint64_t q, k, v, k_cache, v_cache, pos, table, result, scratch, sinks, q_norm, k_norm, chain, clock;
    uint n_slots, chain_before;
    float scale, eps;
};
#include "ops/glsl/chain.glsl"
// What workgroups tell each other goes past the caches that are not shared.
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Counter { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer HalfPair { uint v[]; };

shared float query[GROUP * HEAD_DIM];
shared float new_key[HEAD_DIM], new_value[HEAD_DIM];
shared float part_acc[SUBS * GROUP * HEAD_DIM];
shared float part_max[SUBS * GROUP], part_sum[SUBS * GROUP];
shared uint arrived;

const float NONE = -1.0e30; // a score nobody has: exp of the difference is 0, and no infinities meet

// The element that d turns together with, and where their angle is in the table.
uvec2 partner(uint d)
{
    if (ROPE == 1) return uvec2(d ^ 1, d / 2);
    return d >= N_ROT / 2 ? uvec2(d - N_ROT / 2) : uvec2(d + N_ROT / 2, d);
}

vec2 angle(uint d, int p)
{
    if (ROPE == 0 || d >= N_ROT) return vec2(1, 0);
    return MAGNITUDE * cos_sin_turns(uint64_t(int64_t(p)) * U64(table).v[partner(d).y]);
}

// Element d of a head after norm and rope; n is the inverse norm.
float rotated(uint64_t head, uint64_t norm_weight, float n, uint d, vec2 cs)
{
    float a = live(head, d);
    if (NORM != 0) a *= n * F32(norm_weight).v[d];
    if (ROPE == 0 || d >= N_ROT) return a;
    uint other = partner(d).x;
    float b = live(head, other);
    if (NORM != 0) b *= n * F32(norm_weight).v[other];
    return other < d ? b * cs.y + a * cs.x : a * cs.x - b * cs.y;
}

float inverse_norm(uint64_t head)
{
    float sum = 0;
    for (uint d = gl_LocalInvocationID.x; d < HEAD_DIM; d += LOCAL) {
        float x = live(head, d);
        sum += x * x;
    }
    return 1.0 / sqrt(group_sum(sum) / float(HEAD_DIM) + eps);
}

float my_query[GROUP][8];
float acc[GROUP][8], top[GROUP], sum[GROUP];

// Folds UNROLL keys into the running softmax of this lane's key slot.
void attend(uvec4 keys[UNROLL], uvec4 values[UNROLL], bool valid[UNROLL])
{
    float s[UNROLL][GROUP];
    [[unroll]] for (uint u = 0; u < UNROLL; u++) {
        vec2 a = unpackHalf2x16(keys[u].x), b = unpackHalf2x16(keys[u].y), c = unpackHalf2x16(keys[u].z),
             d = unpackHalf2x16(keys[u].w);
        [[unroll]] for (uint g = 0; g < GROUP; g++) {
            float x = a.x * my_query[g][0] + a.y * my_query[g][1] + b.x * my_query[g][2] + b.y * my_query[g][3] +
                      c.x * my_query[g][4] + c.y * my_query[g][5] + d.x * my_query[g][6] + d.y * my_query[g][7];
            [[unroll]] for (uint m = 1; m < LANES; m *= 2) x += subgroupShuffleXor(x, m);
            if (SOFTCAP > 0) x = SOFTCAP * tanh_exact(x / SOFTCAP);
            s[u][g] = valid[u] ? x : NONE;
        }
    }
    [[unroll]] for (uint g = 0; g < GROUP; g++) {
        float next = top[g];
        [[unroll]] for (uint u = 0; u < UNROLL; u++) next = max(next, s[u][g]);
        float keep = exp(top[g] - next);
        top[g] = next;
        sum[g] *= keep;
        [[unroll]] for (uint i = 0; i < 8; i++) acc[g][i] *= keep;
        [[unroll]] for (uint u = 0; u < UNROLL; u++) {
            s[u][g] = valid[u] ? exp(s[u][g] - next) : 0.0;
            sum[g] += s[u][g];
        }
    }
    [[unroll]] for (uint u = 0; u < UNROLL; u++) {
        vec2 a = unpackHalf2x16(values[u].x), b = unpackHalf2x16(values[u].y), c = unpackHalf2x16(values[u].z),
             d = unpackHalf2x16(values[u].w);
        [[unroll]] for (uint g = 0; g < GROUP; g++) {
            float e = s[u][g];
            acc[g][0] += e * a.x;
            acc[g][1] += e * a.y;
            acc[g][2] += e * b.x;
            acc[g][3] += e * b.y;
            acc[g][4] += e * c.x;
            acc[g][5] += e * c.y;
            acc[g][6] += e * d.x;
            acc[g][7] += e * d.y;
        }
    }
}

uvec4 pack8(uint first, bool value)
{
    uint w[4];
    [[unroll]] for (uint i = 0; i < 4; i++) {
        float a = value ? new_value[first + 2 * i] : new_key[first + 2 * i];
        float b = value ? new_value[first + 2 * i + 1] : new_key[first + 2 * i + 1];
        w[i] = float_to_half(a) | float_to_half(b) << 16;
    }
    return uvec4(w[0], w[1], w[2], w[3]);
}

uvec4 k_now[UNROLL], v_now[UNROLL];
bool valid[UNROLL];

void fetch(U4 keys, U4 values, uint base, uint end, uint slot, uint part)
{
    [[unroll]] for (uint u = 0; u < UNROLL; u++) {
        uint j = base + u * KEYS + slot;
        valid[u] = j < end;
        j = min(j, end - 1);
        uint at = (WRAP != 0 ? j % n_slots : j) * LANES + part;
        k_now[u] = keys.v[at];
        v_now[u] = values.v[at];
    }
}

// The new key is what the running softmax of the first slot begins with.
void begin_with_new(uint part)
{
    uvec4 k4 = pack8(8 * part, false), v4 = pack8(8 * part, true);
    [[unroll]] for (uint g = 0; g < GROUP; g++) {
        float x = 0;
        [[unroll]] for (uint i = 0; i < 4; i++) {
            vec2 a = unpackHalf2x16(k4[i]), b = unpackHalf2x16(v4[i]);
            x += a.x * my_query[g][2 * i] + a.y * my_query[g][2 * i + 1];
            acc[g][2 * i] = b.x;
            acc[g][2 * i + 1] = b.y;
        }
        [[unroll]] for (uint m = 1; m < LANES; m *= 2) x += subgroupShuffleXor(x, m);
        if (SOFTCAP > 0) x = SOFTCAP * tanh_exact(x / SOFTCAP);
        top[g] = x;
        sum[g] = 1;
    }
}

void attend_all()
{
    uint block = gl_WorkGroupID.x, kv = block / PARTS, split = gl_WorkGroupID.y, me = gl_LocalInvocationID.x;
    int p = max(I32(pos).v[0], 0);
    int first = WINDOW > 0 ? max(0, p + 1 - WINDOW) : 0;
    uint n_old = uint(p - first);
    uint begin = first + n_old * split / SPLITS, end = first + n_old * (split + 1) / SPLITS;
    uint64_t cache_row = uint64_t(kv) * n_slots;
    U4 keys = U4(k_cache + cache_row * (HEAD_DIM * 2)), values = U4(v_cache + cache_row * (HEAD_DIM * 2));
    uint slot = me / LANES, part = me % LANES;
    if (begin < end) fetch(keys, values, begin, end, slot, part);
    const bool one_angle = LOCAL % HEAD_DIM == 0; // a thread's elements all have the same place in their heads
    vec2 cs = angle(me % HEAD_DIM, p);
    float one = chain_wait() ? 1.0 : uintBitsToFloat(0x7fc00000u);
    [[unroll]] for (uint g = 0; g < GROUP; g++) {
        uint64_t head = q + 4 * uint64_t((block * GROUP + g) * HEAD_DIM);
        float n = NORM != 0 ? inverse_norm(head) : 1.0;
        for (uint d = me; d < HEAD_DIM; d += LOCAL)
            query[g * HEAD_DIM + d] = one * scale * rotated(head, q_norm, n, d, one_angle ? cs : angle(d, p));
    }
    if (split == 0) {
        uint64_t head = k + 4 * uint64_t(kv * HEAD_DIM);
        float n = NORM != 0 ? inverse_norm(head) : 1.0;
        // from the last thread down: with a small GROUP the first ones have the queries
        for (uint i = LOCAL - 1 - me; i < HEAD_DIM; i += LOCAL) {
            uint d = HEAD_DIM - 1 - i;
            new_key[d] = rotated(head, k_norm, n, d, one_angle ? cs : angle(d, p));
            new_value[d] = live(v, kv * HEAD_DIM + d);
        }
    }
    barrier();
    if (split == 0 && slot == 0 && block % PARTS == 0) {
        uint at = uint(p) % n_slots * LANES + part;
        U4(k_cache + cache_row * (HEAD_DIM * 2)).v[at] = pack8(8 * part, false);
        U4(v_cache + cache_row * (HEAD_DIM * 2)).v[at] = pack8(8 * part, true);
    }
    [[unroll]] for (uint g = 0; g < GROUP; g++) {
        top[g] = NONE;
        sum[g] = 0;
        [[unroll]] for (uint i = 0; i < 8; i++) {
            my_query[g][i] = query[g * HEAD_DIM + 8 * part + i];
            acc[g][i] = 0;
        }
    }
    if (split == 0 && me < WIDTH) { // whole subgroups: the sums are shuffled
        begin_with_new(part);
        if (slot != 0) {
            [[unroll]] for (uint g = 0; g < GROUP; g++) {
                top[g] = NONE;
                sum[g] = 0;
                [[unroll]] for (uint i = 0; i < 8; i++) acc[g][i] = 0;
            }
        }
    }
    for (uint base = begin; base < end; base += KEYS * UNROLL) {
        attend(k_now, v_now, valid);
        if (base + KEYS * UNROLL < end) fetch(keys, values, base + KEYS * UNROLL, end, slot, part);
    }
    // the key slots of a subgroup, then the subgroups
    [[unroll]] for (uint g = 0; g < GROUP; g++) {
        [[unroll]] for (uint m = LANES; m < WIDTH; m *= 2) {
            float other = subgroupShuffleXor(top[g], m), next = max(top[g], other);
            float keep = exp(top[g] - next), theirs = exp(other - next);
            sum[g] = sum[g] * keep + subgroupShuffleXor(sum[g], m) * theirs;
            [[unroll]] for (uint i = 0; i < 8; i++)
                acc[g][i] = acc[g][i] * keep + subgroupShuffleXor(acc[g][i], m) * theirs;
            top[g] = next;
        }
    }
    uint sub = me / WIDTH;
    if (me % WIDTH < LANES) {
        [[unroll]] for (uint g = 0; g < GROUP; g++) {
            if (part == 0) {
                part_max[sub * GROUP + g] = top[g];
                part_sum[sub * GROUP + g] = sum[g];
            }
            [[unroll]] for (uint i = 0; i < 8; i++) part_acc[(sub * GROUP + g) * HEAD_DIM + 8 * part + i] = acc[g][i];
        }
    }
    barrier();
    // scratch: 1 KiB of counters, then for each block of heads and split: sums of values, then maximum and sum of each head
    const uint record = GROUP * (HEAD_DIM + 2);
    Live32 records = Live32(scratch + 1024 + 4 * uint64_t(block * SPLITS * record));
    for (uint i = me; i < GROUP * HEAD_DIM; i += LOCAL) {
        uint g = i / HEAD_DIM;
        float t = NONE, s = 0, y = 0;
        for (uint b = 0; b < SUBS; b++) t = max(t, part_max[b * GROUP + g]);
        for (uint b = 0; b < SUBS; b++) {
            float e = exp(part_max[b * GROUP + g] - t);
            s += e * part_sum[b * GROUP + g];
            y += e * part_acc[b * GROUP * HEAD_DIM + i];
        }
        if (SPLITS == 1) {
            if (sinks != 0) {
                float sink = F32(sinks).v[block * GROUP + g], next = max(t, sink);
                y *= exp(t - next);
                s = s * exp(t - next) + exp(sink - next);
            }
            put_live(result, block * GROUP * HEAD_DIM + i, y / s);
        } else {
            records.v[split * record + i] = y;
            if (i % HEAD_DIM == 0) {
                records.v[split * record + GROUP * HEAD_DIM + 2 * g] = t;
                records.v[split * record + GROUP * HEAD_DIM + 2 * g + 1] = s;
            }
        }
    }
    if (SPLITS == 1) return;
    memoryBarrierBuffer();
    barrier();
    if (me == 0) arrived = atomicAdd(Counter(scratch).v[block], 1u);
    barrier();
    if (arrived != SPLITS - 1) return;
    memoryBarrierBuffer();
    for (uint i = me; i < GROUP * HEAD_DIM; i += LOCAL) {
        uint g = i / HEAD_DIM, at = GROUP * HEAD_DIM + 2 * g;
        float t = sinks != 0 ? F32(sinks).v[block * GROUP + g] : NONE, s = 0, y = 0;
        for (uint b = 0; b < SPLITS; b++) t = max(t, records.v[b * record + at]);
        if (sinks != 0) s = exp(F32(sinks).v[block * GROUP + g] - t);
        for (uint b = 0; b < SPLITS; b++) {
            float e = exp(records.v[b * record + at] - t);
            s += e * records.v[b * record + at + 1];
            y += e * records.v[b * record + i];
        }
        put_live(result, block * GROUP * HEAD_DIM + i, y / s);
    }
    if (me == 0) Counter(scratch).v[block] = 0; // for the next launch
}

void main()
{
    chain_begin();
    attend_all();
    chain_done();
}
