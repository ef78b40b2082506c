/* The GPU rows of the operations' tables, for the lists in src/ops/<operation>/<operation>.c. */
#ifndef RDG_OPS_GPU_ROWS_H
#define RDG_OPS_GPU_ROWS_H

#include "ops/op.h"

extern const rdg_variant rdg_embed_vulkan, rdg_rmsnorm_vulkan, rdg_layernorm_vulkan, rdg_rope_vulkan,
    rdg_kv_store_vulkan, rdg_attention_vulkan, rdg_glu_vulkan, rdg_act_vulkan, rdg_add_vulkan, rdg_mul_vulkan,
    rdg_route_vulkan, rdg_sample_vulkan, rdg_experts_vulkan, rdg_combine_vulkan, rdg_sumsq_vulkan,
    rdg_matvec_vulkan, rdg_matmul_vulkan, rdg_matvec_q8_vulkan, rdg_matmul_f16_vulkan,
    rdg_matmul_f16_emulated, rdg_attention_flash_vulkan, rdg_attention_flash_emulated;

#endif
