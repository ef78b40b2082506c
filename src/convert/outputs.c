/* Tensors of the folder → tensors of the file: matching of names, completeness, and the addressing of
 * transforms. */
#include "convert/outputs.h"
#include "base/map.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Patterns
 * ------------------------------------------------------------------------------------------------------ */

/* A number as frameworks write it: digits, no sign, no leading zero. Returns the digits read, 0 = none. */
static size_t number(const char *s, int64_t *v)
{
    size_t n = 0;
    *v = 0;
    while (s[n] >= '0' && s[n] <= '9' && n < 9) *v = *v * 10 + (s[n++] - '0');
    return n > 1 && s[0] == '0' ? 0 : n;
}

bool rdg_map_match(const char *pattern, const char *name, int64_t *i, int64_t *e, const char **suffix)
{
    const char *p = pattern, *s = name;
    *i = *e = -1;
    *suffix = "";
    while (*p) {
        if (strcmp(p, "**") == 0) return *s != 0;
        if (strcmp(p, ".*") == 0) {
            *suffix = s;
            return strcmp(s, ".weight") == 0 || strcmp(s, ".bias") == 0;
        }
        if (*p == '{') {
            size_t n = number(s, p[1] == 'i' ? i : e);
            if (n == 0) return false;
            s += n;
            p += 3;
        } else if (*p++ != *s++) {
            return false;
        }
    }
    return *s == 0;
}

/* The name that a pattern stands for. False if it does not fit. */
static bool expand(const char *pattern, int64_t i, int64_t e, const char *suffix, char *out, size_t cap)
{
    size_t n = 0;
    for (const char *p = pattern; *p && n < cap;) {
        if (strcmp(p, ".*") == 0) {
            n += (size_t)snprintf(out + n, cap - n, "%s", suffix);
            break;
        }
        if (*p == '{') {
            n += (size_t)snprintf(out + n, cap - n, "%" PRId64, p[1] == 'i' ? i : e);
            p += 3;
        } else {
            out[n++] = *p++;
        }
    }
    if (n >= cap) return false;
    out[n] = 0;
    return true;
}

/* Matching
 * ------------------------------------------------------------------------------------------------------ */

enum { NAME_CAP = 256, LISTED = 6 };

typedef struct matcher {
    rdg_hf *c;
    const rdg_safetensors *s;
    rdg_hf_outputs *out;
    rdg_strmap by_name;
    const char *prefix; /* the one that this folder's tensors have, for messages */
    rdg_buf unknown, absent;
    int n_unknown, n_absent;
    int64_t n_dropped;
} matcher;

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static const char *strip(matcher *m, const char *name)
{
    for (int i = 0; i < RDG_MAP_PREFIXES && m->c->cls->prefixes[i]; i++) {
        const char *prefix = m->c->cls->prefixes[i];
        size_t n = strlen(prefix);
        if (strncmp(name, prefix, n) != 0) continue;
        m->prefix = prefix;
        return name + n;
    }
    return name;
}

static void list(rdg_buf *b, int *n, const char *prefix, const char *name)
{
    if (++*n <= LISTED) rdg_buf_printf(b, "%s'%s%s'", *n > 1 ? ", " : "", prefix, name);
}

static int64_t stack_size(const rdg_hf *c, const rdg_map_rule *rule)
{
    if (!(rule->flags & RDG_MAP_STACK)) return 1;
    return strstr(rule->hf, "{h}") ? c->n_head : strstr(rule->hf, "{g}") ? c->n_head_kv : c->n_expert;
}

static rdg_hf_output *new_output(matcher *m, const char *name, int64_t n_sources)
{
    rdg_hf_outputs *o = m->out;
    if (!rdg_grow(&o->items, (size_t)o->n, &o->cap, sizeof *o->items)) goto nomem;
    rdg_hf_output *t = &o->items[o->n];
    memset(t, 0, sizeof *t);
    snprintf(t->name, sizeof t->name, "%s", name);
    t->source = rdg_arena_array(&m->c->arena, (size_t)n_sources, sizeof *t->source);
    char *key = rdg_arena_strndup(&m->c->arena, name, strlen(name));
    if (!t->source || !key || !rdg_strmap_put(&m->by_name, key, strlen(key), (int32_t)o->n)) goto nomem;
    t->n_sources = n_sources;
    o->n++;
    return t;
nomem:
    rdg_hf_fail(m->c, RDG_E_NOMEM, "no memory for the list of tensors");
    return NULL;
}

/* Puts tensor t into the output that the rule names. */
static void place(matcher *m, const rdg_map_rule *rule, int order, const rdg_safetensor *t, int64_t i,
                  int64_t e, const char *suffix)
{
    rdg_hf *c = m->c;
    char name[NAME_CAP];
    int64_t n_sources = stack_size(c, rule), index = rule->flags & RDG_MAP_STACK ? e : 0;
    if (i >= c->n_layer || index >= n_sources) {
        rdg_hf_fail(c, RDG_E_MALFORMED,
                    "tensor '%s' lies outside the model that config.json describes (%" PRId64
                    " layers, %" PRId64 " experts)",
                    t->name, c->n_layer, c->n_expert);
        return;
    }
    if (!expand(rule->gguf, i, e, suffix, name, sizeof((rdg_hf_output *)0)->name)) {
        rdg_hf_fail(c, RDG_E_UNSUPPORTED, "the name for tensor '%s' does not fit into 63 bytes", t->name);
        return;
    }
    int32_t at = rdg_strmap_get(&m->by_name, name, strlen(name));
    rdg_hf_output *o = at >= 0 ? &m->out->items[at] : new_output(m, name, n_sources);
    if (!o) return;
    if (at >= 0 && (o->rule != rule || o->source[index])) {
        const rdg_safetensor *first = o->source[0];
        for (int64_t k = 1; k < o->n_sources && !first; k++) first = o->source[k];
        rdg_hf_fail(c, RDG_E_MALFORMED, "tensors '%s' and '%s' both mean '%s'", first ? first->name : "?",
                    t->name, name);
        return;
    }
    o->rule = rule;
    o->order = order;
    o->layer = i;
    o->source[index] = t;
}

/* Buffers and caches that old checkpoints carry along. */
static bool leftover(const char *name)
{
    return ends_with(name, ".rotary_emb.inv_freq") || ends_with(name, ".attention.masked_bias") ||
           ends_with(name, ".attention.bias");
}

static void match_tensor(matcher *m, const rdg_safetensor *t)
{
    const char *name = strip(m, t->name), *suffix;
    int64_t i, e;
    int order = 0, hits = 0;
    if (leftover(name)) {
        m->n_dropped++;
        return;
    }
    for (int g = 0; g < RDG_MAP_GROUPS && m->c->cls->groups[g]; g++) {
        for (const rdg_map_rule *r = m->c->cls->groups[g]; r->hf; r++, order++) {
            if (!rdg_map_match(r->hf, name, &i, &e, &suffix)) continue;
            hits++;
            if ((r->flags & RDG_MAP_HEAD) && m->c->tied == 1)
                continue; /* the framework would not read it either */
            if (r->flags & RDG_MAP_DROP)
                m->n_dropped++;
            else
                place(m, r, order, t, i, e, suffix);
        }
    }
    if (hits == 0) list(&m->unknown, &m->n_unknown, "", t->name);
}

/* Completeness
 * --------------------------------------------------------------------------------------------------- */

/* Checks one rule in layer i: its output exists and has all its sources. */
static void require(matcher *m, const rdg_map_rule *r, int64_t i)
{
    char name[NAME_CAP], hf[NAME_CAP];
    const char *prefix = r->flags & RDG_MAP_HEAD ? "" : m->prefix;
    expand(r->gguf, i, 0, ".weight", name, sizeof name);
    int32_t at = rdg_strmap_get(&m->by_name, name, strlen(name));
    if (at < 0) {
        if (r->flags & RDG_MAP_OPTIONAL) return;
        expand(r->hf, i, 0, ".weight", hf, sizeof hf);
        list(&m->absent, &m->n_absent, prefix, hf);
        /* alternatives of the same target complain once */
        new_output(m, name, 1);
        return;
    }
    rdg_hf_output *o = &m->out->items[at];
    if (o->rule != r) return;
    for (int64_t e = 0; e < o->n_sources; e++) {
        if (o->source[e]) continue;
        expand(r->hf, i, e, ".weight", hf, sizeof hf);
        list(&m->absent, &m->n_absent, prefix, hf);
    }
}

static void require_all(matcher *m)
{
    for (int g = 0; g < RDG_MAP_GROUPS && m->c->cls->groups[g]; g++) {
        for (const rdg_map_rule *r = m->c->cls->groups[g]; r->hf; r++) {
            if (r->flags & RDG_MAP_DROP) continue;
            if ((r->flags & RDG_MAP_HEAD) && m->c->tied != 0) continue;
            bool per_layer = strstr(r->hf, "{i}") != NULL;
            for (int64_t i = 0; i < (per_layer ? m->c->n_layer : 1); i++) require(m, r, per_layer ? i : -1);
        }
    }
}

static void report(matcher *m)
{
    rdg_hf *c = m->c;
    if (m->unknown.failed || m->absent.failed) rdg_hf_fail(c, RDG_E_NOMEM, "no memory for a message");
    if (m->n_unknown > 0)
        rdg_hf_fail(c, RDG_E_UNSUPPORTED, "%s has no place for %d tensor%s of this folder: %s%s",
                    c->cls->name, m->n_unknown, m->n_unknown > 1 ? "s" : "", m->unknown.data,
                    m->n_unknown > LISTED ? ", …" : "");
    if (m->n_absent > 0)
        rdg_hf_fail(c, RDG_E_MALFORMED, "%d tensor%s missing from this folder: %s%s", m->n_absent,
                    m->n_absent > 1 ? "s are" : " is", m->absent.data, m->n_absent > LISTED ? ", …" : "");
}

/* Shapes
 * ---------------------------------------------------------------------------------------------------------
 */

static bool dtype_type(rdg_dtype d, rdg_type *t)
{
    switch (d) {
    case RDG_DTYPE_F64:
    case RDG_DTYPE_F32: *t = RDG_TYPE_F32; return true;
    case RDG_DTYPE_F16: *t = RDG_TYPE_F16; return true;
    case RDG_DTYPE_BF16: *t = RDG_TYPE_BF16; return true;
    default: return false;
    }
}

static void bad_shape(rdg_hf *c, const rdg_safetensor *t, const char *why)
{
    char shape[160];
    int n = 0;
    for (int k = 0; k < t->n_dims && n < (int)sizeof shape - 24; k++)
        n += snprintf(shape + n, sizeof shape - (size_t)n, "%s%" PRId64, k ? ", " : "", t->shape[k]);
    shape[n] = 0;
    rdg_hf_fail(c, RDG_E_MALFORMED, "tensor '%s' has shape [%s]: %s", t->name, shape, why);
}

/* dims of the output from its matrices; matrices of one row are 1-D */
static void set_dims(rdg_hf_output *o, int n_dims)
{
    o->n_dims = n_dims;
    o->dim[0] = o->n_columns;
    o->dim[1] = n_dims > 1 ? o->n_rows : 1;
    o->dim[2] = n_dims > 2 ? o->n_matrices : 1;
    o->dim[3] = 1;
}

/* Fused experts, (E, n_embd, 2 n_ff) or (E, 2 n_ff, n_embd): told apart by the sizes of the model. */
static void address_fused(rdg_hf *c, rdg_hf_output *o, const rdg_safetensor *t)
{
    unsigned flags = o->rule->flags;
    int64_t out = flags & RDG_MAP_FUSED ? c->n_embd : 2 * c->n_ff_expert,
            in = flags & RDG_MAP_FUSED ? c->n_ff_expert : c->n_embd;
    if (t->n_dims != 3 || t->shape[0] != c->n_expert) {
        bad_shape(c, t, "three dimensions, experts first, are needed");
        return;
    }
    bool out_in = t->shape[1] == out && t->shape[2] == in, in_out = t->shape[1] == in && t->shape[2] == out;
    if (out_in == in_out) {
        bad_shape(c, t,
                  out_in ? "inputs and outputs are equally many, so their order cannot be told; save the "
                           "model with one "
                           "tensor an expert"
                         : "it fits neither (experts, out, in) nor (experts, in, out)");
        return;
    }
    int64_t half = flags & (RDG_MAP_FIRST | RDG_MAP_SECOND) ? out / 2 : out,
            first = flags & RDG_MAP_SECOND ? half : 0;
    o->n_columns = in;
    o->n_rows = half;
    o->n_matrices = c->n_expert;
    o->stride_column = out_in ? 1 : out;
    o->stride_row = out_in ? in : 1;
    o->offset = first * o->stride_row;
    o->stride_matrix = in * out;
    set_dims(o, 3);
}

/* Blocks (E, rows, n_columns / 32, 16) with scales (E, rows, n_columns / 32). */
static void address_mxfp4(rdg_hf *c, rdg_hf_output *o, const rdg_safetensor *t, const rdg_safetensors *s)
{
    char name[NAME_CAP];
    size_t n = strlen(t->name) - strlen("_blocks");
    snprintf(name, sizeof name, "%.*s_scales", (int)n, t->name);
    o->scales = rdg_safetensors_find(s, name);
    if (!o->scales) {
        rdg_hf_fail(c, RDG_E_MALFORMED, "tensor '%s' is missing: it belongs to '%s'", name, t->name);
        return;
    }
    if (t->n_dims != 4 || t->shape[3] != 16 || t->dtype != RDG_DTYPE_U8) {
        bad_shape(c, t, "MXFP4 blocks are U8 (experts, rows, columns / 32, 16)");
        return;
    }
    const rdg_safetensor *sc = o->scales;
    if (sc->n_dims != 3 || sc->dtype != RDG_DTYPE_U8 ||
        memcmp(sc->shape, t->shape, 3 * sizeof *t->shape) != 0) {
        bad_shape(c, sc, "MXFP4 scales are U8, one for each block");
        return;
    }
    unsigned parity = o->rule->flags & (RDG_MAP_EVEN | RDG_MAP_ODD);
    if (parity && t->shape[1] % 2) {
        bad_shape(c, t, "gate and up alternate, so rows must be even in number");
        return;
    }
    o->present = RDG_TYPE_MXFP4;
    o->n_columns = t->shape[2] * 32;
    o->n_rows = parity ? t->shape[1] / 2 : t->shape[1];
    o->n_matrices = t->shape[0];
    /* in blocks */
    o->stride_row = t->shape[2] * (parity ? 2 : 1);
    o->offset = o->rule->flags & RDG_MAP_ODD ? t->shape[2] : 0;
    o->stride_matrix = t->shape[1] * t->shape[2];
    set_dims(o, 3);
}

/* Everything else: 1 to 3 dimensions as stored, with transposition, every second output, stacking,
 * permutation. */
static void address_plain(rdg_hf *c, rdg_hf_output *o, const rdg_safetensor *t)
{
    unsigned flags = o->rule->flags;
    int n = t->n_dims;
    int64_t columns = t->shape[n - 1], rows = n > 1 ? t->shape[n - 2] : 1,
            matrices = n > 2 ? t->shape[n - 3] : 1;
    o->n_columns = columns;
    o->n_rows = rows;
    o->n_matrices = matrices;
    o->stride_column = 1;
    o->stride_row = columns;
    o->stride_matrix = rows * columns;
    if ((flags & RDG_MAP_TRANSPOSE) && n > 1) {
        o->n_columns = rows;
        o->n_rows = columns;
        o->stride_column = columns;
        o->stride_row = 1;
    }
    if (flags & (RDG_MAP_EVEN | RDG_MAP_ODD)) { /* of the last axis as stored */
        if (columns % 2) {
            bad_shape(c, t, "gate and up alternate along the last axis, so it must be even");
            return;
        }
        bool transposed = (flags & RDG_MAP_TRANSPOSE) && n > 1;
        if (transposed) {
            o->n_rows = columns / 2;
            o->stride_row = 2;
        } else {
            o->n_columns = columns / 2;
            o->stride_column = 2;
        }
        o->offset = flags & RDG_MAP_ODD ? 1 : 0;
    }
    if (flags & RDG_MAP_STACK) {
        o->n_matrices = o->n_sources;
        n++;
        if (n == 2) { /* vectors become the rows of one matrix, each from its own source */
            o->n_rows = 1;
            set_dims(o, 2);
            o->dim[1] = o->n_sources;
            return;
        }
    }
    set_dims(o, n);
    if (flags & (RDG_MAP_PERMUTE_Q | RDG_MAP_PERMUTE_K)) {
        int64_t heads = flags & RDG_MAP_PERMUTE_Q ? c->n_head : c->n_head_kv,
                outputs = n > 1 ? rows : columns;
        if (n > 2 || outputs != heads * c->head_dim || c->head_dim % 2) {
            bad_shape(c, t, "it does not split into the heads that config.json describes");
            return;
        }
        if (n == 1) { /* a bias: rows of one element */
            o->n_columns = 1;
            o->n_rows = columns;
            o->stride_row = 1;
        }
        o->permute_head_dim = c->head_dim;
    }
}

static void address(rdg_hf *c, rdg_hf_output *o, const rdg_safetensors *s)
{
    const rdg_safetensor *t = o->source[0];
    unsigned flags = o->rule->flags;
    if (flags & RDG_MAP_MXFP4) {
        address_mxfp4(c, o, t, s);
        return;
    }
    for (int64_t k = 0; k < o->n_sources; k++) {
        const rdg_safetensor *other = o->source[k];
        if (!dtype_type(other->dtype, &o->present)) {
            rdg_hf_fail(c, RDG_E_UNSUPPORTED,
                        "tensor '%s' has dtype %s; F64, F32, F16 and BF16 are supported: convert from the "
                        "unquantised model",
                        other->name, rdg_dtype_name(other->dtype));
            return;
        }
        if (other->n_dims < 1 || other->n_dims > 3 || other->n_elements == 0) {
            bad_shape(c, other, "one to three dimensions, none of them empty, are supported");
            return;
        }
        if (other->dtype != t->dtype || other->n_dims != t->n_dims ||
            memcmp(other->shape, t->shape, sizeof t->shape) != 0) {
            rdg_hf_fail(c, RDG_E_MALFORMED, "tensors '%s' and '%s' are stacked but differ in shape or dtype",
                        t->name, other->name);
            return;
        }
    }
    dtype_type(t->dtype, &o->present);
    if (flags & (RDG_MAP_FIRST | RDG_MAP_SECOND | RDG_MAP_FUSED))
        address_fused(c, o, t);
    else
        address_plain(c, o, t);
}

/* ----------------------------------------------------------------------------------------------------------------
 */

static int by_place(const void *a, const void *b)
{
    const rdg_hf_output *x = a, *y = b;
    if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
    if (x->order != y->order) return x->order < y->order ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void add_generated(matcher *m)
{
    for (int i = 0; i < m->c->n_generated; i++) {
        const rdg_hf_generated *g = &m->c->generated[i];
        rdg_hf_output *o = new_output(m, g->name, 1);
        if (!o) return;
        o->generated = g->data;
        o->layer = -1;
        o->order = INT32_MAX;
        o->present = RDG_TYPE_F32;
        o->n_columns = g->n;
        o->n_rows = o->n_matrices = 1;
        set_dims(o, 1);
    }
}

rdg_err rdg_hf_outputs_build(rdg_hf *c, const rdg_safetensors *s, rdg_hf_outputs *out)
{
    matcher m = {.c = c, .s = s, .out = out, .prefix = ""};
    memset(out, 0, sizeof *out);
    rdg_strmap_init(&m.by_name);
    rdg_buf_init(&m.unknown);
    rdg_buf_init(&m.absent);
    for (int64_t i = 0; i < rdg_safetensors_n(s) && !c->failed; i++)
        match_tensor(&m, rdg_safetensors_at(s, i));
    if (!c->failed && c->tied == -1 && rdg_strmap_get(&m.by_name, "output.weight", 13) < 0) c->tied = 1;
    if (!c->failed && m.n_unknown == 0) require_all(&m);
    report(&m);
    for (int64_t i = 0; i < out->n && !c->failed; i++) address(c, &out->items[i], s);
    if (!c->failed) add_generated(&m);
    if (!c->failed) qsort(out->items, (size_t)out->n, sizeof *out->items, by_place);
    if (!c->failed && m.n_dropped > 0)
        rdg_log_info(c->log, "%" PRId64 " tensors of this folder are not needed and were left out",
                     m.n_dropped);
    rdg_buf_finish(&m.absent);
    rdg_buf_finish(&m.unknown);
    rdg_strmap_finish(&m.by_name);
    return c->failed;
}

void rdg_hf_outputs_finish(rdg_hf_outputs *out)
{
    rdg_free(out->items);
    memset(out, 0, sizeof *out);
}
