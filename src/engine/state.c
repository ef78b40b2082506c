/* Saving a session to a file and restoring it (format/state.h). A file is checked as a whole, and against the
 * model and the session, before the session changes. */
#include "engine/session_internal.h"
#include "base/hash.h"
#include "format/gguf.h"
#include "format/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Which model
 * ------------------------------------------------------------------------------------------------- */

static void hash_u64(rdg_hash64 *h, uint64_t v)
{
    rdg_hash64_update(h, &v, sizeof v);
}

static void hash_bytes(rdg_hash64 *h, const void *p, size_t n)
{
    hash_u64(h, n);
    if (n) rdg_hash64_update(h, p, n);
}

static void hash_kv(rdg_hash64 *h, const rdg_gguf_kv *kv)
{
    hash_bytes(h, kv->key.p, kv->key.n);
    hash_u64(h, (uint64_t)kv->type);
    hash_u64(h, kv->count);
    for (uint64_t i = 0; kv->strings && i < kv->count; i++) hash_bytes(h, kv->strings[i].p, kv->strings[i].n);
    rdg_gguf_value_type element = kv->type == RDG_GGUF_ARRAY ? kv->element_type : kv->type;
    if (!kv->strings) hash_bytes(h, kv->data, (size_t)kv->count * rdg_gguf_value_bytes(element));
}

/* Hyper-parameters, and name, type, shape and a sample of every tensor: two quantisations of a model, or two
 * trainings of an architecture, are two models, and no 5 GB have to be read to see it. */
static uint64_t fingerprint(const rdg_model *m)
{
    enum { SAMPLE_BYTES = 256 };
    rdg_hash64 h;
    size_t arch_bytes = strlen(m->arch->name);
    rdg_hash64_init(&h);
    hash_bytes(&h, m->arch->name, arch_bytes);
    for (int64_t i = 0; i < rdg_gguf_n_kv(m->gguf); i++) {
        const rdg_gguf_kv *kv = rdg_gguf_kv_at(m->gguf, i);
        if (kv->key.n > arch_bytes && kv->key.p[arch_bytes] == '.' &&
            memcmp(kv->key.p, m->arch->name, arch_bytes) == 0)
            hash_kv(&h, kv);
    }
    for (int64_t i = 0; i < rdg_gguf_n_tensors(m->gguf); i++) {
        const rdg_gguf_tensor *t = rdg_gguf_tensor_at(m->gguf, i);
        size_t n = RDG_MIN(t->bytes, SAMPLE_BYTES), at = (size_t)(t->bytes - n) / 2;
        hash_bytes(&h, t->name, strlen(t->name));
        hash_u64(&h, (uint64_t)t->type);
        for (int d = 0; d < 4; d++) hash_u64(&h, (uint64_t)t->dim[d]);
        hash_bytes(&h, (const char *)t->data + at, n);
    }
    return rdg_hash64_value(&h);
}

static void describe(const rdg_session *s, rdg_state_head *h)
{
    const rdg_hparams *hp = &s->model->hparams;
    *h = (rdg_state_head){.model = fingerprint(s->model),
                          .type = {s->params.kv_type_k, s->params.kv_type_v},
                          .n_vocab = (uint32_t)hp->n_vocab,
                          .n_tokens = s->n_past};
    snprintf(h->model_name, sizeof h->model_name, "%s %s", s->model->info.architecture, s->model->info.name);
    if (hp->longrope && s->params.n_ctx > hp->n_ctx_orig) h->flags |= RDG_STATE_LONG_ROPE;
}

/* The caches
 * -------------------------------------------------------------------------------------------------- */

/* The plan that names the session's states; making it ready creates them. */
static rdg_err states_of(rdg_session *s, const rdg_plan **plan, rdg_error *e)
{
    rdg_prepared *prepared;
    if (s->lost.code) return rdg_fail(e, s->lost.code, "%s", s->lost.message);
    if (s->embeddings || s->collect_imatrix)
        return rdg_fail(e, RDG_E_UNSUPPORTED, "a session for embeddings or importance has no state to keep");
    rdg_err err = rdg_session_plan(s, 1, 1, &prepared, e);
    if (!err) *plan = prepared->plan;
    return err;
}

static bool is_cache(const rdg_state *st)
{
    return st->kind == RDG_STATE_K || st->kind == RDG_STATE_V;
}

static bool is_local(const rdg_session *s, const rdg_state *st)
{
    return s->model->hparams.window > 0 && s->model->hparams.layer_flags[st->index] & RDG_LAYER_LOCAL;
}

static rdg_state_record record_of(const rdg_session *s, const rdg_state *st)
{
    int64_t n_slots = st->shape.dim[1];
    rdg_state_record r = {.layer = (uint32_t)st->index,
                          .kind = st->kind == RDG_STATE_V,
                          .row_elems = (uint32_t)st->shape.dim[0],
                          .n_heads = (uint32_t)st->shape.dim[2],
                          .first = RDG_MAX(s->n_past - n_slots, 0)};
    if (is_local(s, st)) r.first = RDG_MAX(r.first, s->window_first);
    r.n_positions = s->n_past - r.first;
    r.row_bytes = (size_t)rdg_type_row_bytes(st->shape.type, st->shape.dim[0]);
    return r;
}

/* Host memory for the largest cache of the plan. */
static rdg_err cache_buffer(const rdg_plan *plan, unsigned char **buffer, rdg_error *e)
{
    int64_t most = 0;
    for (size_t i = 0; i < plan->n_states; i++)
        most = RDG_MAX(most, rdg_tensor_bytes(&plan->states[i].shape));
    *buffer = rdg_alloc((size_t)most);
    return *buffer ? RDG_OK : rdg_fail(e, RDG_E_NOMEM, "no memory for a cache of %" PRId64 " bytes", most);
}

static size_t slot_at(const rdg_state *st, const rdg_state_record *r, uint32_t head, int64_t position)
{
    return ((size_t)head * (size_t)st->shape.dim[1] + (size_t)(position % st->shape.dim[1])) * r->row_bytes;
}

/* Saving
 * ------------------------------------------------------------------------------------------------------ */

static rdg_err save_cache(rdg_session *s, const rdg_state *st, unsigned char *buffer, rdg_state_writer *w,
                          rdg_error *e)
{
    rdg_state_record r = record_of(s, st);
    rdg_err err = rdg_state_write_record(w, &r, e);
    if (!err)
        err = s->exec->class->read_state(s->exec, st->kind, st->index, buffer,
                                         (size_t)rdg_tensor_bytes(&st->shape), e);
    for (uint32_t head = 0; head < r.n_heads && !err; head++)
        for (int64_t p = r.first; p < s->n_past && !err; p++)
            err = rdg_state_write(w, buffer + slot_at(st, &r, head, p), r.row_bytes, e);
    if (err == RDG_E_DEVICE_LOST) s->lost = *e;
    return err;
}

rdg_err rdg_session_save_state(rdg_session *s, const char *path, const char *note, size_t note_bytes,
                               rdg_error *e)
{
    rdg_error local;
    rdg_state_head head;
    rdg_state_writer w = {.out = {.fd = -1}};
    const rdg_plan *plan = NULL;
    unsigned char *buffer = NULL;
    uint64_t rows_bytes = 0;
    if (!e) e = &local;
    rdg_err err = states_of(s, &plan, e);
    if (err) return err;
    describe(s, &head);
    head.note_bytes = note_bytes;
    for (size_t i = 0; i < plan->n_states; i++) {
        if (!is_cache(&plan->states[i])) continue;
        rdg_state_record r = record_of(s, &plan->states[i]);
        rows_bytes += (uint64_t)r.n_heads * (uint64_t)r.n_positions * r.row_bytes;
        head.n_records++;
    }
    const float *logits =
        s->n_past && s->logits_at == s->n_past ? rdg_session_logits(s, s->n_logits_rows - 1) : NULL;
    if (logits) head.n_logits = head.n_vocab;
    if ((err = cache_buffer(plan, &buffer, e))) return err;
    err = rdg_state_writer_open(&w, path, &head, s->tokens, logits, note, rows_bytes, e);
    for (size_t i = 0; i < plan->n_states && !err; i++)
        if (is_cache(&plan->states[i])) err = save_cache(s, &plan->states[i], buffer, &w, e);
    if (!err) err = rdg_state_writer_commit(&w, e);
    rdg_state_writer_close(&w);
    rdg_free(buffer);
    return err;
}

/* Restoring
 * --------------------------------------------------------------------------------------------------- */

static rdg_err check_head(const rdg_session *s, const rdg_state_head *h, rdg_error *e)
{
    rdg_state_head own;
    describe(s, &own);
    if (h->model != own.model || h->n_vocab != own.n_vocab)
        return rdg_fail(e, RDG_E_UNSUPPORTED,
                        "the state belongs to another model, %s; this one is %s. Another quantisation counts "
                        "as another model",
                        rdg_quote(h->model_name, strlen(h->model_name)).text,
                        rdg_quote(own.model_name, strlen(own.model_name)).text);
    if (h->type[0] != own.type[0] || h->type[1] != own.type[1])
        return rdg_fail(e, RDG_E_UNSUPPORTED,
                        "the state holds a KV cache of %s and %s, this session one of %s and %s; choose the "
                        "same type (--kv-type)",
                        rdg_type_name(h->type[0]), rdg_type_name(h->type[1]), rdg_type_name(own.type[0]),
                        rdg_type_name(own.type[1]));
    if (h->n_tokens > s->params.n_ctx)
        return rdg_fail(e, RDG_E_CONTEXT_FULL,
                        "the state's %" PRId64 " tokens do not fit into the context of %" PRId64
                        "; use a larger one (-c)",
                        h->n_tokens, s->params.n_ctx);
    if (h->flags != own.flags)
        return rdg_fail(e, RDG_E_UNSUPPORTED,
                        "this model rotates keys in another way beyond a context of %" PRId64
                        ", and the state was made %s that; choose the context accordingly (-c)",
                        s->model->hparams.n_ctx_orig, h->flags ? "beyond" : "within");
    return RDG_OK;
}

/* The record belongs to this cache and reaches back as far as the layer looks. */
static rdg_err check_record(const rdg_session *s, const rdg_state *st, const rdg_state_record *r,
                            rdg_error *e)
{
    rdg_state_record own = record_of(s, st);
    if (r->layer != own.layer || r->kind != own.kind || r->row_elems != own.row_elems ||
        r->n_heads != own.n_heads)
        return rdg_fail(
            e, RDG_E_MALFORMED,
            "the state has the cache of layer %" PRIu32 " (kind %" PRIu32 ", %" PRIu32 " heads of %" PRIu32
            ") where the model has layer %" PRIu32 " (kind %" PRIu32 ", %" PRIu32 " heads of %" PRIu32 ")",
            r->layer, r->kind, r->n_heads, r->row_elems, own.layer, own.kind, own.n_heads, own.row_elems);
    int64_t end = r->first + r->n_positions;
    int64_t needed = is_local(s, st) ? RDG_MAX(end - s->model->hparams.window, 0) : 0;
    if (r->first > needed)
        return rdg_fail(e, RDG_E_MALFORMED,
                        "the state's cache of layer %" PRIu32 " begins at position %" PRId64
                        ", but the layer looks back to %" PRId64,
                        r->layer, r->first, needed);
    return RDG_OK;
}

static rdg_err check_records(const rdg_session *s, const rdg_plan *plan, const rdg_state_file *f,
                             rdg_error *e)
{
    size_t at = f->records_at, n = 0;
    rdg_err err = RDG_OK;
    for (size_t i = 0; i < plan->n_states; i++) n += is_cache(&plan->states[i]);
    if (n != f->head.n_records)
        return rdg_fail(e, RDG_E_MALFORMED, "the state has %" PRIu32 " caches, the model %zu",
                        f->head.n_records, n);
    for (size_t i = 0; i < plan->n_states && !err; i++) {
        rdg_state_record r;
        if (!is_cache(&plan->states[i])) continue;
        err = rdg_state_next(f, &at, &r, e);
        if (!err) err = check_record(s, &plan->states[i], &r, e);
    }
    return err;
}

static rdg_err restore_cache(rdg_session *s, const rdg_state *st, const rdg_state_record *r,
                             unsigned char *buffer, rdg_error *e)
{
    size_t bytes = (size_t)rdg_tensor_bytes(&st->shape);
    int64_t end = r->first + r->n_positions, first = RDG_MAX(r->first, end - st->shape.dim[1]);
    memset(buffer, 0, bytes);
    for (uint32_t head = 0; head < r->n_heads; head++)
        for (int64_t p = first; p < end; p++)
            memcpy(buffer + slot_at(st, r, head, p),
                   r->rows + ((size_t)head * (size_t)r->n_positions + (size_t)(p - r->first)) * r->row_bytes,
                   r->row_bytes);
    if (first > 0) s->window_first = RDG_MAX(s->window_first, first);
    return s->exec->class->write_state(s->exec, st->kind, st->index, buffer, bytes, e);
}

static rdg_err restore(rdg_session *s, const rdg_plan *plan, const rdg_state_file *f, unsigned char *buffer,
                       rdg_error *e)
{
    size_t at = f->records_at;
    rdg_err err = rdg_session_reserve_logits(s, 1, e);
    if (err) return err;
    rdg_session_reset(s);
    for (size_t i = 0; i < plan->n_states && !err; i++) {
        rdg_state_record r;
        if (!is_cache(&plan->states[i])) continue;
        err = rdg_state_next(f, &at, &r, e);
        if (!err) err = restore_cache(s, &plan->states[i], &r, buffer, e);
    }
    if (err == RDG_E_DEVICE_LOST) s->lost = *e;
    if (err) {
        rdg_session_reset(s);
        return err;
    }
    memcpy(s->tokens, f->tokens, (size_t)f->head.n_tokens * sizeof *s->tokens);
    s->n_past = f->head.n_tokens;
    s->n_logits_rows = f->head.n_logits != 0;
    s->logits_at = s->n_logits_rows ? s->n_past : -1;
    memcpy(s->logits, f->logits, (size_t)f->head.n_logits * sizeof *s->logits);
    return RDG_OK;
}

rdg_err rdg_session_restore_state(rdg_session *s, const void *data, size_t bytes, char **note,
                                  size_t *note_bytes, rdg_error *e)
{
    rdg_error local;
    rdg_state_file f;
    const rdg_plan *plan = NULL;
    unsigned char *buffer = NULL;
    char *copy = NULL;
    if (!e) e = &local;
    rdg_err err = rdg_state_parse(data, bytes, &f, e);
    if (!err) err = check_head(s, &f.head, e);
    if (!err) err = states_of(s, &plan, e);
    if (!err) err = check_records(s, plan, &f, e);
    if (!err) err = cache_buffer(plan, &buffer, e);
    if (!err && note && !(copy = rdg_strndup((const char *)f.note, (size_t)f.head.note_bytes)))
        err = rdg_fail(e, RDG_E_NOMEM, "no memory for the state's note");
    if (!err) err = restore(s, plan, &f, buffer, e);
    if (!err && note) {
        *note = copy;
        *note_bytes = (size_t)f.head.note_bytes;
        copy = NULL;
    }
    rdg_free(copy);
    rdg_free(buffer);
    return err;
}

rdg_err rdg_session_load_state(rdg_session *s, const char *path, char **note, size_t *note_bytes,
                               rdg_error *e)
{
    rdg_map map;
    rdg_err err = rdg_map_open(&map, path, e);
    if (err) return err;
    if ((err = rdg_session_restore_state(s, map.data, map.bytes, note, note_bytes, e)))
        rdg_fail_prefix(e, err, "'%s'", path);
    rdg_map_close(&map);
    return err;
}
