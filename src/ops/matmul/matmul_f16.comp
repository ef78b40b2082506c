#version 460
// matmul for many tokens on matrix units: weights are turned to f16 on their way into workgroup memory, products are
// 16 x 16 x 16 with f32 sums.
//
//   workgroup: 128 rows x 128 tokens, 8 subgroups of 64 rows x 32 tokens (4 x 2 matrices each);
//              SMALL: 64 x 64, 4 subgroups of 32 x 32, for products that would leave most of the device idle
//   step: 64 columns; while it multiplies them a thread holds its part of the next ones in registers and puts it into
//         workgroup memory afterwards. One tile each and two barriers a step: a second pair of tiles would only fit
//         with half the columns, which was slower (README)
//
// Rows of a tile are padded to 144 bytes: eight rows of 16 bytes meet all banks.
// EMULATED: the same kernel without matrix units, to test everything around them on any device.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "ops/glsl/common.glsl"
#ifdef EMULATED
#define UNROLL // a matrix unit's worth of loops in each place would take the compiler minutes
#else
#define UNROLL [[unroll]]
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#endif

#if defined(EMULATED)
const uint BM = 32, BN = 32, WM = 16, WN = 16; // workgroup memory of the smallest devices
#define THREADS 256
#elif defined(SMALL)
const uint BM = 64, BN = 64, WM = 32, WN = 32;
#define THREADS 128
#else
const uint BM = 128, BN = 128, WM = 64, WN = 32;
#define THREADS 256
#endif
layout(local_size_x = THREADS) in;
layout(constant_id = 0) const uint TYPE = 12;
layout(constant_id = 1) const uint WIDTH = 32;

layout(push_constant, scalar) uniform Push {
    uint64_t weight, x, bias, residual, result; // x: f16, rows of n_columns, padded to whole tiles
    uint n_columns, n_rows, n_tokens;
    uint row_bytes, residual_stride, out_stride; // strides in elements
    uint whole; // every tile lies inside, no bias: results go straight to memory
};

const uint BK = 64;
const uint PITCH = BK / 4 + 2; // in groups of four halves
const uint LINE = BK / 16;     // pieces of 16 columns, which is what a thread fetches at a time, in a line of a tile
const uint NW = (BM * LINE + THREADS - 1) / THREADS, NX = (BN * LINE + THREADS - 1) / THREADS; // pieces of a thread
const uint MI = WM / 16, NJ = WN / 16;  // matrices of a subgroup
const uint PARTS = BM / WM * (BN / WN);                   // what one subgroup makes
shared f16vec4 tile_w[BM * PITCH];
shared f16vec4 tile_x[BN * PITCH];
shared float stage[PARTS * 256];

struct Raw { // 16 weights as they lie in memory
    uvec4 head, low, high;
};

Raw fetch(uint64_t row, uint k)
{
    Raw f;
    f.head = f.low = f.high = uvec4(0);
    if (TYPE == T_F16 || TYPE == T_BF16) {
        f.low = U4(row).v[k / 8];
        f.high = U4(row).v[k / 8 + 1];
    } else if (TYPE == T_F32) {
        f.head = U4(row).v[k / 4];
        f.low = U4(row).v[k / 4 + 1];
        f.high = U4(row).v[k / 4 + 2];
    } else if (TYPE == T_Q4_K || TYPE == T_Q5_K) {
        uint at = k / 256 * (TYPE == T_Q4_K ? 9 : 11), m = k % 256 / 64 * 2 + k % 32 / 16;
        f.head = U4(row).v[at];
        if (TYPE == T_Q5_K) f.high = U4(row).v[at + 1 + k % 32 / 16];
        f.low = U4(row).v[at + (TYPE == T_Q4_K ? 1 : 3) + m];
    } else if (TYPE == T_Q6_K_PLANAR) {
        uint blocks = n_columns / 256, b = k / 256, n = k % 256 / 128, g = k % 128 / 32, h = k % 32 / 16;
        f.low = U4(row).v[8 * b + 4 * n + 2 * (g & 1) + h];
        f.high = U4(row).v[8 * blocks + 4 * b + 2 * n + h];
        f.head.x = uint(U8(row + 192 * blocks).v[k / 16]);
        f.head.y = uint(U16(row + 208 * blocks).v[b]);
    } else if (TYPE == T_Q8_0_PLANAR) {
        f.low = U4(row).v[k / 16];
        f.head.x = uint(U16(row + n_columns).v[k / 32]);
    } else { // T_Q4_0_PLANAR
        f.low = U4(row).v[k / 32];
        f.head.x = uint(U16(row + n_columns / 2).v[k / 32]);
    }
    return f;
}

// Four unsigned bytes of a word as halves: 1024 + byte is the half with the byte as its last bits.
f16vec4 bytes_to_half(uint w, float16_t zero)
{
    f16vec2 even = unpackFloat2x16((w & 0x00ff00ffu) | 0x64006400u) - f16vec2(zero);
    f16vec2 odd = unpackFloat2x16(((w >> 8) & 0x00ff00ffu) | 0x64006400u) - f16vec2(zero);
    return f16vec4(even.x, odd.x, even.y, odd.y);
}

f16vec4 four_halves(uint a, uint b)
{
    return f16vec4(unpackFloat2x16(a), unpackFloat2x16(b));
}

f16vec4 four_bf16(uint a, uint b)
{
    return f16vec4(vec4(uintBitsToFloat(a << 16), uintBitsToFloat(a & 0xffff0000u), uintBitsToFloat(b << 16),
                        uintBitsToFloat(b & 0xffff0000u)));
}

void put_weights(uint at, Raw f, uint64_t row, uint k)
{
    if (TYPE == T_F16) {
        tile_w[at] = four_halves(f.low.x, f.low.y);
        tile_w[at + 1] = four_halves(f.low.z, f.low.w);
        tile_w[at + 2] = four_halves(f.high.x, f.high.y);
        tile_w[at + 3] = four_halves(f.high.z, f.high.w);
        return;
    }
    if (TYPE == T_BF16) {
        tile_w[at] = four_bf16(f.low.x, f.low.y);
        tile_w[at + 1] = four_bf16(f.low.z, f.low.w);
        tile_w[at + 2] = four_bf16(f.high.x, f.high.y);
        tile_w[at + 3] = four_bf16(f.high.z, f.high.w);
        return;
    }
    uvec4 w;
    float scale, minus = 0;
    float16_t zero = float16_t(1024);
    if (TYPE == T_Q4_K || TYPE == T_Q5_K) {
        uint j = k % 256 / 32, sc, mn, s = 8 * (j & 3);
        if (j < 4) {
            sc = (f.head.y >> s) & 63;
            mn = (f.head.z >> s) & 63;
        } else {
            sc = ((f.head.w >> s) & 15) | ((f.head.y >> (s + 2)) & 0x30);
            mn = ((f.head.w >> (s + 4)) & 15) | ((f.head.z >> (s + 2)) & 0x30);
        }
        vec2 d = unpackHalf2x16(f.head.x);
        scale = d.x * float(sc);
        minus = d.y * float(mn);
        w = (f.low >> (4 * (j & 1))) & 0x0f0f0f0fu;
        if (TYPE == T_Q5_K) w |= ((f.high >> j) & 0x01010101u) << 4;
    } else if (TYPE == T_Q6_K_PLANAR) {
        uint g = k % 128 / 32;
        scale = unpackHalf2x16(f.head.y).x * float(int(f.head.x << 24) >> 24);
        zero = float16_t(1024 + 32);
        w = ((f.low >> (g < 2 ? 0 : 4)) & 0x0f0f0f0fu) | ((f.high >> (2 * g)) & 0x03030303u) << 4;
    } else if (TYPE == T_Q8_0_PLANAR) {
        scale = unpackHalf2x16(f.head.x).x;
        zero = float16_t(1024 + 128);
        w = f.low ^ 0x80808080u;
    } else {
        scale = unpackHalf2x16(f.head.x).x;
        zero = float16_t(1024 + 8);
        w = (f.low >> (k % 32 < 16 ? 0 : 4)) & 0x0f0f0f0fu;
    }
    f16vec4 s4 = f16vec4(float16_t(scale)), m4 = f16vec4(float16_t(minus));
    tile_w[at] = bytes_to_half(w.x, zero) * s4 - m4;
    tile_w[at + 1] = bytes_to_half(w.y, zero) * s4 - m4;
    tile_w[at + 2] = bytes_to_half(w.z, zero) * s4 - m4;
    tile_w[at + 3] = bytes_to_half(w.w, zero) * s4 - m4;
}

void put_activations(uint at, uvec4 a, uvec4 b)
{
    tile_x[at] = four_halves(a.x, a.y);
    tile_x[at + 1] = four_halves(a.z, a.w);
    tile_x[at + 2] = four_halves(b.x, b.y);
    tile_x[at + 3] = four_halves(b.z, b.w);
}

#ifdef EMULATED
// A subgroup's results: lane l holds elements l, l + W, … of each 16 x 16 matrix.
const uint PER_LANE = 256 / WIDTH;
float acc[MI][NJ][PER_LANE];
#else
coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> acc[MI][NJ];
#endif

void multiply_tiles(uint sub_r, uint sub_t, uint lane)
{
    UNROLL for (uint kk = 0; kk < BK / 4; kk += 4) {
#ifdef EMULATED
        UNROLL for (uint i = 0; i < MI; i++)
            UNROLL for (uint j = 0; j < NJ; j++)
                for (uint e = 0; e < PER_LANE; e++) {
                    uint r = (lane + e * WIDTH) / 16, t = (lane + e * WIDTH) % 16;
                    float s = 0;
                    for (uint q = 0; q < 4; q++)
                        s += dot(vec4(tile_w[(sub_r + 16 * i + r) * PITCH + kk + q]),
                                 vec4(tile_x[(sub_t + 16 * j + t) * PITCH + kk + q]));
                    acc[i][j][e] += s;
                }
#else
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a[MI];
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;
        UNROLL for (uint i = 0; i < MI; i++)
            coopMatLoad(a[i], tile_w, (sub_r + 16 * i) * PITCH + kk, PITCH, gl_CooperativeMatrixLayoutRowMajor);
        UNROLL for (uint j = 0; j < NJ; j++) {
            coopMatLoad(b, tile_x, (sub_t + 16 * j) * PITCH + kk, PITCH, gl_CooperativeMatrixLayoutColumnMajor);
            UNROLL for (uint i = 0; i < MI; i++) acc[i][j] = coopMatMulAdd(a[i], b, acc[i][j]);
        }
#endif
    }
}

// One matrix into this subgroup's part of `stage`, token by token.
void stage_matrix(uint i, uint j, uint sub, uint lane)
{
#ifdef EMULATED
    for (uint e = 0; e < PER_LANE; e++) {
        uint r = (lane + e * WIDTH) / 16, t = (lane + e * WIDTH) % 16;
        stage[sub * 256 + t * 16 + r] = acc[i][j][e];
    }
#else
    coopMatStore(acc[i][j], stage, sub * 256, 16, gl_CooperativeMatrixLayoutColumnMajor);
#endif
}

// Past the last column: zeros, which decode to a product of zero.
void fetch_all(uint64_t row[NW], U4 column[NX], uint k, out Raw w[NW], out uvec4 a[NX], out uvec4 b[NX])
{
    if (k >= n_columns) {
        UNROLL for (uint i = 0; i < NW; i++) w[i].head = w[i].low = w[i].high = uvec4(0);
        UNROLL for (uint i = 0; i < NX; i++) a[i] = b[i] = uvec4(0);
        return;
    }
    UNROLL for (uint i = 0; i < NW; i++) w[i] = fetch(row[i], k);
    UNROLL for (uint i = 0; i < NX; i++) {
        a[i] = column[i].v[k / 8];
        b[i] = column[i].v[k / 8 + 1];
    }
}

void put_all(uint line, uint in_line, Raw w[NW], uint64_t row[NW], uint k, uvec4 a[NX], uvec4 b[NX])
{
    UNROLL for (uint i = 0; i < NW; i++) {
        uint l = line + i * (THREADS / LINE);
        if (l < BM) put_weights(l * PITCH + in_line / 4, w[i], row[i], k);
    }
    UNROLL for (uint i = 0; i < NX; i++) {
        uint l = line + i * (THREADS / LINE);
        if (l < BN) put_activations(l * PITCH + in_line / 4, a[i], b[i]);
    }
}

void main()
{
    uint me = gl_LocalInvocationID.x, sub = me / WIDTH, lane = me % WIDTH;
    uint t0 = gl_WorkGroupID.x * BN, r0 = gl_WorkGroupID.y * BM;
    uint n_subs = THREADS / WIDTH;
    // A thread's pieces: the lines are THREADS / LINE apart, the columns are the same.
    uint load_line = me / LINE, load_k = me % LINE * 16;
    uint64_t row[NW];
    U4 column[NX];
    UNROLL for (uint i = 0; i < NW; i++)
        row[i] = weight + uint64_t(min(r0 + min(load_line + i * (THREADS / LINE), BM - 1), n_rows - 1)) * row_bytes;
    UNROLL for (uint i = 0; i < NX; i++)
        column[i] = U4(x + 2 * uint64_t(t0 + min(load_line + i * (THREADS / LINE), BN - 1)) * n_columns);
    Raw next_w[NW];
    uvec4 next_a[NX], next_b[NX];
    fetch_all(row, column, load_k, next_w, next_a, next_b);
    // On a device with other subgroup widths (EMULATED only) a subgroup takes several of the eight parts in turn.
    uint n_steps = (n_columns + BK - 1) / BK;
#ifdef EMULATED
    for (uint first = 0; first < PARTS; first += n_subs) {
        uint part = first + sub; // past the last: idle
#else
    {
        const uint part = sub;
#endif
        uint sub_r = part / (BN / WN) * WM, sub_t = part % (BN / WN) * WN;
        UNROLL for (uint i = 0; i < MI; i++)
            UNROLL for (uint j = 0; j < NJ; j++) {
#ifdef EMULATED
                for (uint e = 0; e < PER_LANE; e++) {
                    uint r = r0 + sub_r + 16 * i + (lane + e * WIDTH) / 16, t = t0 + sub_t + 16 * j + (lane + e * WIDTH) % 16;
                    bool add = whole != 0 && residual != 0 && part < PARTS;
                    acc[i][j][e] = add ? F32(residual).v[t * residual_stride + r] : 0;
                }
#else
                if (whole != 0 && residual != 0) {
                    uint at = (t0 + sub_t + 16 * j) * residual_stride + r0 + sub_r + 16 * i;
                    coopMatLoad(acc[i][j], F32(residual).v, at, residual_stride, gl_CooperativeMatrixLayoutColumnMajor);
                } else {
                    acc[i][j] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
                }
#endif
            }
        barrier();
        put_all(load_line, load_k, next_w, row, load_k, next_a, next_b);
        barrier();
        for (uint s = 0; s < n_steps; s++) {
            uint k = (s + 1) * BK + load_k;
            bool more = s + 1 < n_steps;
            if (more) fetch_all(row, column, k, next_w, next_a, next_b);
            if (part < PARTS) multiply_tiles(sub_r, sub_t, lane);
            barrier();
            if (more) put_all(load_line, load_k, next_w, row, k, next_a, next_b);
            barrier();
        }
        UNROLL for (uint i = 0; i < MI; i++) {
            UNROLL for (uint j = 0; j < NJ; j++) {
                uint r = r0 + sub_r + 16 * i, t = t0 + sub_t + 16 * j;
#ifndef EMULATED
                if (whole != 0) {
                    coopMatStore(acc[i][j], F32(result).v, t * out_stride + r, out_stride,
                                 gl_CooperativeMatrixLayoutColumnMajor);
                    continue;
                }
#endif
                if (part < PARTS) stage_matrix(i, j, part, lane);
                // The whole workgroup waits: a subgroup's barrier does not order a matrix store and the plain
                // reads behind it on NVIDIA 580.159 (H200, 2026-11-30: NaN and stale values in every other run).
                barrier();
                for (uint e = lane; e < 256; e += WIDTH) {
                    uint rr = r + e % 16, tt = t + e / 16;
                    if (rr < n_rows && tt < n_tokens && part < PARTS) {
                        float y = stage[part * 256 + e];
                        if (bias != 0) y += F32(bias).v[rr];
                        if (residual != 0 && whole == 0) y += F32(residual).v[tt * residual_stride + rr];
                        F32(result).v[tt * out_stride + rr] = y;
                    }
                }
                barrier();
            }
        }
#ifdef EMULATED
        fetch_all(row, column, load_k, next_w, next_a, next_b); // the next part starts over
#endif
    }
}
