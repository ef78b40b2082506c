// What every kernel includes: memory by address, half conversions, reductions over a workgroup.
// Operands arrive as 64-bit addresses in the push constants; 0 stands for an absent operand.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer F32 { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer I32 { int v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer U32 { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer U16 { uint16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer U8 { uint8_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer V4 { vec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer U4 { uvec4 v[]; };

// Ids of element and block types: those of the file format.
const uint T_F32 = 0, T_F16 = 1, T_Q4_0 = 2, T_Q4_1 = 3, T_Q5_0 = 6, T_Q5_1 = 7, T_Q8_0 = 8, T_Q2_K = 10, T_Q3_K = 11,
           T_Q4_K = 12, T_Q5_K = 13, T_Q6_K = 14, T_IQ4_NL = 20, T_IQ4_XS = 23, T_BF16 = 30, T_TQ1_0 = 34,
           T_TQ2_0 = 35, T_MXFP4 = 39, T_NVFP4 = 40, T_Q1_0 = 41, T_Q2_0 = 42;
// Planar forms of a row on the device: all quants, then all scales, so that loads are wide and aligned (gpu_planar.h).
const uint T_PLANAR = 64, T_Q4_0_PLANAR = T_PLANAR + T_Q4_0, T_Q8_0_PLANAR = T_PLANAR + T_Q8_0,
           T_Q6_K_PLANAR = T_PLANAR + T_Q6_K;

uint linear_group()
{
    return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
}

float half_to_float(uint h)
{
    return unpackHalf2x16(h).x;
}

// Round to nearest even, as base/half.h does it: packHalf2x16 may truncate.
uint float_to_half(float f)
{
    uint u = floatBitsToUint(f), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return sign | 0x7e00u | ((a >> 13) & 0x3ffu);
    if (a >= 0x477ff000u) return sign | 0x7c00u;
    if (a < 0x38800000u) {
        precise float r = uintBitsToFloat(a) + 0.5;
        return sign | (floatBitsToUint(r) - 0x3f000000u);
    }
    return sign | ((a + 0xc8000fffu + ((a >> 13) & 1u)) >> 13);
}

float bf16_to_float(uint b)
{
    return uintBitsToFloat(b << 16);
}

uint float_to_bf16(float f)
{
    uint u = floatBitsToUint(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (u >> 16) | 0x40u;
    return (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}

// GLSL's round() leaves halves to the implementation; this takes them away from zero, for |x| < 2^22, as the formats' own
// quantisation does.
float round_away(float x)
{
    precise float whole = trunc(x);
    precise float rest = x - whole; // exact
    return abs(rest) >= 0.5 ? whole + sign(x) : whole;
}
