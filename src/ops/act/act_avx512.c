#include "ops/act/act_loop.h"
#include "ops/act/act_variants.h"
#include "base/cpu.h"

static const rdg_cpu_kernel kernel = {.n_phases = 1, .n_items = act_n_items, .run = act_run};
const rdg_variant rdg_act_avx512 = {
    .name = "f32_avx512",
    .source = "src/ops/act/act_avx512.c",
    .backend = RDG_BACKEND_CPU,
    .requires_mask = RDG_CPU_AVX512,
    .cpu = &kernel,
};
