#include "ops/glu/glu_loop.h"
#include "ops/glu/glu_variants.h"
#include "base/cpu.h"

static const rdg_cpu_kernel kernel = {.n_phases = 1, .n_items = glu_n_items, .run = glu_run};
const rdg_variant rdg_glu_avx2 = {
    .name = "f32_avx2",
    .source = "src/ops/glu/glu_avx2.c",
    .backend = RDG_BACKEND_CPU,
    .requires_mask = RDG_CPU_AVX2,
    .cpu = &kernel,
};
