#include "ops/glu/glu_loop.h"
#include "ops/glu/glu_variants.h"
#include "base/cpu.h"

static const rdg_cpu_kernel kernel = {.n_phases = 1, .n_items = glu_n_items, .run = glu_run};
const rdg_variant rdg_glu_avx512 = {
    .name = "f32_avx512",
    .source = "src/ops/glu/glu_avx512.c",
    .backend = RDG_BACKEND_CPU,
    .requires_mask = RDG_CPU_AVX512,
    .cpu = &kernel,
};
