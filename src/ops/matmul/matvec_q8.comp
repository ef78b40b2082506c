#version 460
// matvec for one token, quantised weights times 8-bit activations, with what stands around it in a decode step:
//   before  rmsnorm of x (NORM), done by every workgroup for itself: cheaper than a launch and a barrier
//   after   bias, residual, or GLU: act(W x) * (W2 x)
// A lane takes chunks of 32 weights (16 bytes of nibbles, whatever else belongs to them) of ROWS rows at a time. The first
// chunks are on their way from memory while the workgroup normalises and quantises x.
//
//   subgroup s of workgroup g, turn n: rows ROWS ((g TURNS + n) S + s) …, lane l: chunks l, l + W, l + 2 W … of each
//
// Weights with blocks of odd size come "planar": per row first all quants, then all scales (see gpu_planar.h), so every
// load is 16 bytes wide and aligned.
#extension GL_GOOGLE_include_directive : require
#include "ops/glsl/common.glsl"
#include "ops/glsl/reduce.glsl"
#include "ops/glsl/activate.glsl"
#include "ops/glsl/dot.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint TYPE = 12;
layout(constant_id = 2) const uint N_COLUMNS = 256;
layout(constant_id = 3) const uint ROWS = 2;
layout(constant_id = 4) const uint NORM = 0;
layout(constant_id = 5) const uint GLU = 0; // 0, or 1 + kind of activation
layout(constant_id = 6) const uint WIDTH = 32; // subgroup width
layout(constant_id = 7) const uint DEPTH = 2;  // chunks of a row in flight in a lane
layout(constant_id = 8) const uint TURNS = 1;  // groups of rows a subgroup takes one after the other: one x for all
layout(constant_id = 9) const uint HOLD = 0; // 1: x stays in registers; 2: and the norm's weights come before x
layout(constant_id = 10) const uint CHAIN = 0;
#include "ops/glsl/quantise.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t weight, weight2, x, norm_weight, bias, residual, result, chain, clock;
    uint n_rows, row_bytes, chain_before;
    float eps, alpha, limit;
};
#include "ops/glsl/chain.glsl"

const uint N_CHUNKS = N_COLUMNS / 32;
const uint STREAMS = GLU != 0 ? 2 * ROWS : ROWS;

struct Chunk {
    uvec4 head, low, high;
};

Chunk fetch(uint64_t row, uint c)
{
    Chunk k;
    k.head = k.low = k.high = uvec4(0);
    if (TYPE == T_Q4_K || TYPE == T_Q5_K) {
        uint m = c % 8, units = TYPE == T_Q4_K ? 9 : 11, at = c / 8 * units;
        k.head = U4(row).v[at];
        if (TYPE == T_Q5_K) {
            k.high = U4(row).v[at + 1 + m % 2];
            k.low = U4(row).v[at + 3 + m];
        } else {
            k.low = U4(row).v[at + 1 + m];
        }
    } else if (TYPE == T_Q6_K_PLANAR) {
        const uint blocks = N_COLUMNS / 256;
        uint b = c / 8, m = c % 8, n = m / 4, h = m % 2;
        k.low = U4(row).v[8 * b + m];
        k.high = U4(row).v[8 * blocks + 4 * b + 2 * n + h];
        uint64_t scales = row + 192 * blocks, s = 16 * b + 8 * n + (m / 2 % 2) * 2 + h;
        k.head.x = uint(U8(scales).v[uint(s)]);
        k.head.y = uint(U8(scales).v[uint(s) + 4]);
        k.head.z = uint(U16(row + 208 * blocks).v[b]);
    } else if (TYPE == T_Q8_0_PLANAR) {
        k.low = U4(row).v[2 * c];
        k.high = U4(row).v[2 * c + 1];
        k.head.x = uint(U16(row + N_COLUMNS).v[c]);
    } else { // T_Q4_0_PLANAR
        k.low = U4(row).v[c];
        k.head.x = uint(U16(row + N_COLUMNS / 2).v[c]);
    }
    return k;
}

int dot16(uvec4 w, uvec4 a)
{
    return dot4(w.x, a.x) + dot4(w.y, a.y) + dot4(w.z, a.z) + dot4(w.w, a.w);
}

// Where the two halves of a chunk lie in the row, in units of 16 elements.
uvec2 halves(uint c)
{
    if (TYPE == T_Q4_K || TYPE == T_Q5_K) {
        uint at = c / 8 * 16 + (c % 8) / 2 * 4 + c % 2;
        return uvec2(at, at + 2);
    }
    if (TYPE == T_Q6_K_PLANAR) {
        uint m = c % 8, at = c / 8 * 16 + m / 4 * 8 + m / 2 % 2 * 2 + m % 2;
        return uvec2(at, at + 4);
    }
    return uvec2(2 * c, 2 * c + 1);
}

float multiply(Chunk k, uint c, uvec4 a_low, uvec4 a_high, vec4 f) // f: scales and sums of both halves
{
    uvec4 low, high;
    vec2 scale, offset = vec2(0);
    if (TYPE == T_Q4_K || TYPE == T_Q5_K) {
        uint g = (c % 8) / 2, shift = 16 * (g & 1), sc, mn;
        if (g < 2) {
            sc = (k.head.y >> shift) & 0x3f3fu;
            mn = (k.head.z >> shift) & 0x3f3fu;
        } else {
            sc = ((k.head.w >> shift) & 0x0f0fu) | ((k.head.y >> (shift + 2)) & 0x3030u);
            mn = ((k.head.w >> (shift + 4)) & 0x0f0fu) | ((k.head.z >> (shift + 2)) & 0x3030u);
        }
        vec2 d = unpackHalf2x16(k.head.x);
        scale = d.x * vec2(float(sc & 255u), float(sc >> 8));
        offset = -d.y * vec2(float(mn & 255u), float(mn >> 8));
        low = k.low & 0x0f0f0f0fu;
        high = (k.low >> 4) & 0x0f0f0f0fu;
        if (TYPE == T_Q5_K) {
            low |= ((k.high >> (2 * g)) & 0x01010101u) << 4;
            high |= ((k.high >> (2 * g + 1)) & 0x01010101u) << 4;
        }
    } else if (TYPE == T_Q6_K_PLANAR) {
        uint p = (c % 8) / 2 % 2;
        float d = unpackHalf2x16(k.head.z).x;
        scale = d * vec2(float(int(k.head.x << 24) >> 24), float(int(k.head.y << 24) >> 24));
        offset = -32.0 * scale;
        low = (k.low & 0x0f0f0f0fu) | ((k.high >> (2 * p)) & 0x03030303u) << 4;
        high = ((k.low >> 4) & 0x0f0f0f0fu) | ((k.high >> (2 * p + 4)) & 0x03030303u) << 4;
    } else if (TYPE == T_Q8_0_PLANAR) {
        scale = vec2(unpackHalf2x16(k.head.x).x);
        low = k.low;
        high = k.high;
    } else {
        scale = vec2(unpackHalf2x16(k.head.x).x);
        offset = -8.0 * scale;
        low = k.low & 0x0f0f0f0fu;
        high = (k.low >> 4) & 0x0f0f0f0fu;
    }
    vec2 dots = vec2(float(dot16(low, a_low)), float(dot16(high, a_high)));
    float y = dot(scale * f.xy, dots);
    if (TYPE != T_Q8_0_PLANAR) y += dot(offset, f.zw);
    return y;
}

const uint QUADS = N_COLUMNS / 4, ROUNDS = (QUADS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
// What registers hold costs workgroups their place on the device where a thread has many weights in flight.
vec4 x_mine[HOLD > 0 ? ROUNDS : 1], norm_mine[HOLD > 1 ? ROUNDS : 1];

uint quad_of(uint i)
{
    return i * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
}

// Past the end: the last one, so that no branch keeps the loads from leaving together.
vec4 x_at(uint i)
{
    return live4(x, min(quad_of(i), QUADS - 1));
}

vec4 norm_at(uint i)
{
    return V4(norm_weight).v[min(quad_of(i), QUADS - 1)];
}

void begin_norm()
{
    if (NORM != 0 && HOLD > 1) [[unroll]] for (uint i = 0; i < ROUNDS; i++) norm_mine[i] = norm_at(i);
}

void quantise_x()
{
    if (HOLD > 0) [[unroll]] for (uint i = 0; i < ROUNDS; i++) x_mine[i] = x_at(i);
    float scale = 1;
    if (NORM != 0) {
        float sum = 0;
        [[unroll]] for (uint i = 0; i < ROUNDS; i++) {
            vec4 v = HOLD > 0 ? x_mine[i] : x_at(i);
            if (quad_of(i) < QUADS) sum += dot(v, v);
        }
        scale = 1.0 / sqrt(group_sum(sum) / float(N_COLUMNS) + eps);
    }
    [[unroll]] for (uint i = 0; i < ROUNDS; i++) {
        vec4 v = HOLD > 0 ? x_mine[i] : x_at(i);
        if (NORM != 0) v *= scale * (HOLD > 1 ? norm_mine[i] : norm_at(i));
        if (quad_of(i) < QUADS) act_put(quad_of(i), v);
    }
    barrier();
}

uint64_t row[STREAMS];
Chunk now[DEPTH][STREAMS];

void begin_rows(uint r0, uint lane)
{
    [[unroll]] for (uint s = 0; s < STREAMS; s++) {
        uint r = min(r0 + s % ROWS, n_rows - 1); // past the end: computed and dropped
        row[s] = (s < ROWS ? weight : weight2) + uint64_t(r) * row_bytes;
    }
    [[unroll]] for (uint d = 0; d < DEPTH; d++)
        [[unroll]] for (uint s = 0; s < STREAMS; s++) now[d][s] = fetch(row[s], min(lane + d * WIDTH, N_CHUNKS - 1));
}

void main()
{
    const uint subs = gl_WorkGroupSize.x / WIDTH;
    uint sub = gl_LocalInvocationID.x / WIDTH, lane = gl_LocalInvocationID.x % WIDTH;
    uint group = linear_group() * TURNS * subs + sub;
    chain_begin();
    begin_rows(group * ROWS, lane);
    begin_norm();
    bool whole = chain_wait();
    quantise_x();
    for (uint turn = 0; turn < TURNS; turn++) {
        float acc[STREAMS];
        [[unroll]] for (uint s = 0; s < STREAMS; s++) acc[s] = 0;
        for (uint c0 = lane; c0 < N_CHUNKS; c0 += DEPTH * WIDTH) {
            [[unroll]] for (uint d = 0; d < DEPTH; d++) {
                uint c = c0 + d * WIDTH;
                if (c >= N_CHUNKS) break;
                uvec2 at = halves(c);
                uvec4 a_low = act_bytes[at.x], a_high = act_bytes[at.y];
                vec4 f = vec4(act_scale[at.x / 2], act_scale[at.y / 2], act_sum[at.x], act_sum[at.y]);
                [[unroll]] for (uint s = 0; s < STREAMS; s++) acc[s] += multiply(now[d][s], c, a_low, a_high, f);
            }
            if (c0 + DEPTH * WIDTH < N_CHUNKS) {
                [[unroll]] for (uint d = 0; d < DEPTH; d++)
                    [[unroll]] for (uint s = 0; s < STREAMS; s++)
                        now[d][s] = fetch(row[s], min(c0 + (DEPTH + d) * WIDTH, N_CHUNKS - 1));
            }
        }
        uint r0 = (group + turn * subs) * ROWS;
        if (turn + 1 < TURNS) begin_rows(r0 + subs * ROWS, lane); // on their way while the sums are made
        [[unroll]] for (uint s = 0; s < STREAMS; s++) acc[s] = subgroupAdd(acc[s]);
        if (lane != 0) continue;
        [[unroll]] for (uint s = 0; s < ROWS; s++) {
            uint r = r0 + s;
            if (r >= n_rows) break;
            float y = acc[s];
            if (GLU != 0) y = gated(GLU - 1, y, acc[s + STREAMS - ROWS], alpha, limit);
            if (bias != 0) y += F32(bias).v[r];
            if (residual != 0) y += live(residual, r);
            put_live(result, r, whole ? y : uintBitsToFloat(0x7fc00000u));
        }
    }
    chain_done();
}
