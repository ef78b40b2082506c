#version 460
// route: softmax over the experts of a token, the n_used best and their weights. One workgroup a token.
#extension GL_GOOGLE_include_directive : require
#include "ops/glsl/common.glsl"
#include "ops/glsl/reduce.glsl"
#include "ops/glsl/activate.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KIND = 0; // rdg_route_kind: 0 softmax, 1 renormalised, 2 softmax of the chosen
layout(push_constant, scalar) uniform Push {
    uint64_t logits, ids, weights;
    uint n_experts, n_used;
    uint logits_stride, ids_stride, weights_stride; // elements
    float scale;
    uint n_tokens;
};
shared float value[1024];
shared uint picked;

void main()
{
    if (linear_group() >= n_tokens) return;
    uint t = linear_group(), me = gl_LocalInvocationID.x;
    float top = -3.4e38;
    for (uint i = me; i < n_experts; i += gl_WorkGroupSize.x) {
        value[i] = F32(logits).v[t * logits_stride + i];
        top = max(top, value[i]);
    }
    top = group_max(top);
    float sum = 0;
    for (uint i = me; i < n_experts; i += gl_WorkGroupSize.x) sum += exp_exact(value[i] - top);
    sum = group_sum(sum);
    float chosen = 0;
    for (uint k = 0; k < n_used; k++) {
        barrier();
        float best = -3.4e38;
        for (uint i = me; i < n_experts; i += gl_WorkGroupSize.x) best = max(best, value[i]);
        best = group_max(best);
        if (me == 0) picked = 0xffffffffu;
        barrier();
        for (uint i = me; i < n_experts; i += gl_WorkGroupSize.x)
            if (value[i] == best) atomicMin(picked, i);
        barrier();
        uint e = min(picked, n_experts - 1);
        float w = exp_exact(best - top);
        chosen += w;
        if (me == 0) {
            I32(ids).v[t * ids_stride + k] = int(e);
            F32(weights).v[t * weights_stride + k] = w;
            value[e] = uintBitsToFloat(0xff800000u); // minus infinity: not again
        }
    }
    if (me != 0) return;
    float divisor = KIND == 0 ? sum : chosen;
    for (uint k = 0; k < n_used; k++) {
        float w = F32(weights).v[t * weights_stride + k];
        F32(weights).v[t * weights_stride + k] = w / divisor * scale;
    }
}
