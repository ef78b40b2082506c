#include "ops/act/act_loop.h"
#include "ops/act/act_variants.h"

static const rdg_cpu_kernel kernel = {.n_phases = 1, .n_items = act_n_items, .run = act_run};
const rdg_variant rdg_act_c = {
    .name = "f32_c",
    .source = "src/ops/act/act_c.c",
    .backend = RDG_BACKEND_CPU,
    .cpu = &kernel,
};
