#include "ops/act/act_loop.h"
#include "ops/act/act_variants.h"
#include "base/cpu.h"

static const rdg_cpu_kernel kernel = {.n_phases = 1, .n_items = act_n_items, .run = act_run};
const rdg_variant rdg_act_avx2 = {
    .name = "f32_avx2",
    .source = "src/ops/act/act_avx2.c",
    .backend = RDG_BACKEND_CPU,
    .requires_mask = RDG_CPU_AVX2,
    .cpu = &kernel,
};
