#include "ops/glu/glu_loop.h"
#include "ops/glu/glu_variants.h"

static const rdg_cpu_kernel kernel = {.n_phases = 1, .n_items = glu_n_items, .run = glu_run};
const rdg_variant rdg_glu_c = {
    .name = "f32_c",
    .source = "src/ops/glu/glu_c.c",
    .backend = RDG_BACKEND_CPU,
    .cpu = &kernel,
};
