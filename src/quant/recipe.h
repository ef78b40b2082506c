/* Which type each tensor of a model gets: the field's mixed recipes, as tables (recipe.c). Used by
 * quantisation of files and by conversion straight to a quantised type. */
#ifndef RDG_QUANT_RECIPE_H
#define RDG_QUANT_RECIPE_H

#include <ridge/quantize.h>
#include "base/mem.h"

/* What the rules look at. Counts are 0 when the model has no such thing. */
typedef struct rdg_recipe_model {
    int64_t n_layers;
    int64_t n_heads, n_heads_kv; /* of layer 0 */
    int64_t n_experts;
} rdg_recipe_model;

typedef struct rdg_recipe_tensor {
    /* in */
    const char *name;
    int n_dims;
    int64_t n_columns;   /* the innermost dim */
    rdg_type type;       /* as it is now */
    bool has_importance; /* there is importance for this tensor */
    /* out */
    bool quantisable; /* false: keeps its type whatever the recipe says */
    rdg_type chosen;  /* == type: copy */
    char *warning;    /* why it is not the type that the recipe names, or NULL; in the arena */
} rdg_recipe_tensor;

typedef struct rdg_recipe_request {
    rdg_recipe recipe;
    bool has_imatrix; /* an importance matrix is in use at all */
    bool pure;        /* the base type everywhere */
    int output_type;  /* of output.weight, or of token_embd.weight if there is none (tied); an rdg_type, or -1
                       */
    int token_embedding_type; /* of token_embd.weight, whatever it is used for; an rdg_type, or -1 */
    const rdg_tensor_override *overrides; /* the first pattern found in a tensor's name decides */
    int n_overrides;
} rdg_recipe_request;

/* Fills in the out fields of all n tensors of one model. Any order of tensors gives the same types. Patterns
 * that select no quantisable tensor are reported to log. */
rdg_err rdg_recipe_plan(const rdg_recipe_request *request, const rdg_recipe_model *model,
                        rdg_recipe_tensor *tensors, int64_t n_tensors, rdg_arena *arena, const rdg_log *log,
                        rdg_error *e);

/* The type that the recipe is named after. False for a value that is not a recipe. */
bool rdg_recipe_base_type(rdg_recipe recipe, rdg_type *out);

#endif
