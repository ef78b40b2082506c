#version 460
// Bandwidth: KIND 0 reads a (the sum is stored only if it is impossible, so nothing is optimised away), 1 copies a to b,
// 2 adds: c = a + s * b. 16 bytes a thread and turn, workgroups walk the buffer together.
#extension GL_GOOGLE_include_directive : require
#include "ops/glsl/common.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint KIND = 0;
layout(push_constant, scalar) uniform Push {
    uint64_t a, b, c;
    uint n; // groups of 16 bytes
};

void main()
{
    uint step = gl_NumWorkGroups.x * 256, i = gl_GlobalInvocationID.x;
    if (KIND == 0) {
        vec4 s0 = vec4(0), s1 = vec4(0), s2 = vec4(0), s3 = vec4(0);
        for (; i + 3 * step < n; i += 4 * step) {
            s0 += V4(a).v[i];
            s1 += V4(a).v[i + step];
            s2 += V4(a).v[i + 2 * step];
            s3 += V4(a).v[i + 3 * step];
        }
        s0 += s1 + s2 + s3;
        if (s0.x + s0.y + s0.z + s0.w == 1.2345e30) V4(b).v[0] = s0;
    } else if (KIND == 1) {
        for (; i + step < n; i += 2 * step) {
            vec4 x = V4(a).v[i], y = V4(a).v[i + step];
            V4(b).v[i] = x;
            V4(b).v[i + step] = y;
        }
    } else {
        for (; i < n; i += step) V4(c).v[i] = V4(a).v[i] + 1.5 * V4(b).v[i];
    }
}
