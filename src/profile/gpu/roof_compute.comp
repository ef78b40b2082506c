#version 460
// Arithmetic rates: KIND 0 f32 multiply-add, 1 f16 in pairs, 2 packed 8-bit dot products, 3 matrices of 16 x 16 x 16
// (f16 in, f32 sums; only with MATRIX). Independent chains hide the latency; the result is stored where it depends on data.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "ops/glsl/common.glsl"
#include "ops/glsl/dot.glsl"
#ifdef MATRIX
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#endif

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint KIND = 0;
layout(push_constant, scalar) uniform Push {
    uint64_t result;
    uint n; // turns; each is 64 operations of the kind a thread (32 matrices a subgroup)
    float x;
};

void main()
{
    uint me = gl_GlobalInvocationID.x;
    float outcome = 0;
#ifdef MATRIX
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a =
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>(float16_t(x));
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b =
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>(float16_t(x));
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> c[8];
    [[unroll]] for (uint i = 0; i < 8; i++) c[i] = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(float(i));
    for (uint k = 0; k < n; k++)
        [[unroll]] for (uint u = 0; u < 4; u++)
            [[unroll]] for (uint i = 0; i < 8; i++) c[i] = coopMatMulAdd(a, b, c[i]);
    [[unroll]] for (uint i = 1; i < 8; i++) c[0] += c[i];
    // every element counts, or the compiler leaves out the half of the products that none of them needs
    for (uint i = 0; i < c[0].length(); i++) outcome += c[0][i];
#else
    if (KIND == 0) {
        float v[8];
        [[unroll]] for (uint i = 0; i < 8; i++) v[i] = float(me + i);
        for (uint k = 0; k < n; k++)
            [[unroll]] for (uint u = 0; u < 8; u++)
                [[unroll]] for (uint i = 0; i < 8; i++) v[i] = fma(v[i], x, 1.0);
        [[unroll]] for (uint i = 0; i < 8; i++) outcome += v[i];
    } else if (KIND == 1) {
        f16vec2 v[8], f = f16vec2(float16_t(x));
        [[unroll]] for (uint i = 0; i < 8; i++) v[i] = f16vec2(float16_t(me + i), float16_t(i));
        for (uint k = 0; k < n; k++)
            [[unroll]] for (uint u = 0; u < 8; u++)
                [[unroll]] for (uint i = 0; i < 8; i++) v[i] = fma(v[i], f, f);
        [[unroll]] for (uint i = 0; i < 8; i++) outcome += float(v[i].x + v[i].y);
    } else {
        int v[8];
        [[unroll]] for (uint i = 0; i < 8; i++) v[i] = int(me + i);
        uint w = floatBitsToUint(x);
        for (uint k = 0; k < n; k++)
            [[unroll]] for (uint u = 0; u < 8; u++)
                [[unroll]] for (uint i = 0; i < 8; i++) v[i] += dot4(uint(v[i]), w);
        [[unroll]] for (uint i = 0; i < 8; i++) outcome += float(v[i]);
    }
#endif
    if (outcome == 1.2345e30) F32(result).v[0] = outcome;
}
