#version 460
// The clock that kernels read, once: is it the one that timestamps are taken from?
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_realtime_clock : require

layout(buffer_reference, std430, buffer_reference_align = 8) buffer U64 { uint64_t v; };
layout(push_constant) uniform Push { U64 result; };

void main()
{
    result.v = clockRealtimeEXT();
}
