/* Inside of rdg_model, for the engine only. */
#ifndef RDG_ENGINE_MODEL_INTERNAL_H
#define RDG_ENGINE_MODEL_INTERNAL_H

#include "base/mem.h"
#include "graph/exec.h"
#include "model/arch.h"
#include <ridge/model.h>

#include <stdatomic.h>

struct rdg_model {
    atomic_int references;
    rdg_arena arena;
    rdg_gguf *gguf;
    rdg_exec_shared *shared;  /* what sessions share on GPUs */
    rdg_tokenizer *tokenizer; /* NULL if the file has none */
    const rdg_arch *arch;
    rdg_hparams hparams;
    rdg_model_info info;
};

/* A finished plan of this model; *out is NULL on failure. */
rdg_err rdg_model_build_plan(const rdg_model *m, const rdg_plan_options *o, bool fuse, rdg_plan **out,
                             rdg_error *e);

#endif
