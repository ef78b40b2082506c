#version 460
// Greedy sampling on the device: the index of the largest logit (the first of equals) becomes the next step's token, the
// position moves on, and the token goes into a ring that the host reads. All NaN gives -1. Workgroups share the logits;
// the one that finishes last merges.
#extension GL_GOOGLE_include_directive : require
#include "ops/glsl/common.glsl"
#extension GL_KHR_shader_subgroup_shuffle : require

layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Push {
    uint64_t logits, token, position, ring, scratch; // scratch: done, step, then a value and an index a workgroup
    uint n, ring_size;
};
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Shared32 { uint v[]; };
shared float best_value[256];
shared uint best_index[256];
shared uint arrived;

void merge(uint me)
{
    barrier();
    for (uint half_size = 128; half_size > 0; half_size /= 2) {
        if (me < half_size) {
            float v = best_value[me + half_size];
            uint i = best_index[me + half_size];
            if (v > best_value[me] || (v == best_value[me] && i < best_index[me])) best_value[me] = v, best_index[me] = i;
        }
        barrier();
    }
}

void main()
{
    uint me = gl_LocalInvocationID.x, groups = gl_NumWorkGroups.x;
    float v = uintBitsToFloat(0xff800000u);
    uint at = 0xffffffffu;
    for (uint i = gl_WorkGroupID.x * 256 + me; i < n; i += groups * 256) {
        float x = F32(logits).v[i];
        if (x > v) v = x, at = i;
    }
    best_value[me] = v;
    best_index[me] = at;
    merge(me);
    Shared32 s = Shared32(scratch);
    if (me == 0) {
        s.v[2 + 2 * gl_WorkGroupID.x] = floatBitsToUint(best_value[0]);
        s.v[3 + 2 * gl_WorkGroupID.x] = best_index[0];
        memoryBarrierBuffer();
        arrived = atomicAdd(s.v[0], 1u);
    }
    barrier();
    if (arrived != groups - 1) return;
    memoryBarrierBuffer();
    best_value[me] = me < groups ? uintBitsToFloat(s.v[2 + 2 * me]) : uintBitsToFloat(0xff800000u);
    best_index[me] = me < groups ? s.v[3 + 2 * me] : 0xffffffffu;
    merge(me);
    if (me != 0) return;
    uint step = s.v[1];
    int id = int(best_index[0]);
    I32(token).v[0] = id;
    I32(position).v[0] += 1;
    I32(ring).v[step % ring_size] = id;
    s.v[1] = step + 1;
    s.v[0] = 0;
}
