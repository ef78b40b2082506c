/* Weights on the device, for all sessions that use it. On a unified device the file's map is imported and
 * nothing is copied; elsewhere they are uploaded once, in file order, into buffers of about a gibibyte. Rows
 * of formats with odd blocks are turned planar on the way (ops/gpu_planar.h); they lie in buffers of their
 * own, whose tag says so. */
#include "graph/gpu.h"
#include "base/clock.h"
#include "format/gguf.h"
#include "graph/place.h"
#include "ops/gpu_planar.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 1 << 30 };

typedef struct chunk {
    rdg_buffer *buffer;
    uint64_t used;
} chunk;

struct rdg_gpu_weights {
    rdg_device *device;
    const rdg_gguf *gguf;
    /* Held while weights are loaded. Sessions that share them look only at tensors that a load of their own
     * has seen arrive; those never change again. */
    pthread_mutex_t mutex;
    bool import;
    chunk *chunks;
    size_t n_chunks, cap_chunks;
    rdg_buffer **parts; /* imported maps, by part */
    /* By index of the tensor. A place is kept when the upload fails, for the next try. */
    rdg_gpu_place *places; /* buffer NULL = none yet */
    bool *arrived;
};

rdg_err rdg_gpu_weights_create(rdg_device *d, const rdg_gguf *g, bool import, rdg_gpu_weights **out,
                               rdg_error *e)
{
    *out = NULL;
    rdg_gpu_weights *w = rdg_alloc(sizeof *w);
    if (w) {
        pthread_mutex_init(&w->mutex, NULL);
        w->arrived = rdg_alloc_array((size_t)rdg_gguf_n_tensors(g), sizeof *w->arrived);
        w->places = rdg_alloc_array((size_t)rdg_gguf_n_tensors(g), sizeof *w->places);
        w->parts = rdg_alloc_array((size_t)rdg_gguf_n_parts(g), sizeof *w->parts);
    }
    if (!w || !w->places || !w->parts || !w->arrived) {
        rdg_gpu_weights_destroy(w);
        return rdg_fail(e, RDG_E_NOMEM, "no memory for a table of weights");
    }
    w->device = d;
    w->gguf = g;
    w->import = import && rdg_device_get_facts(d)->unified && rdg_device_get_facts(d)->imports_host_memory;
    *out = w;
    return RDG_OK;
}

void rdg_gpu_weights_destroy(rdg_gpu_weights *w)
{
    if (!w) return;
    for (size_t i = 0; i < w->n_chunks; i++) rdg_buffer_destroy(w->chunks[i].buffer);
    for (int i = 0; w->parts && w->gguf && i < rdg_gguf_n_parts(w->gguf); i++)
        rdg_buffer_destroy(w->parts[i]);
    rdg_free(w->chunks);
    rdg_free(w->parts);
    rdg_free(w->places);
    rdg_free(w->arrived);
    pthread_mutex_destroy(&w->mutex);
    rdg_free(w);
}

static int64_t tensor_index(const rdg_gpu_weights *w, const rdg_gguf_tensor *t)
{
    return t - rdg_gguf_tensor_at(w->gguf, 0); /* one array, in file order */
}

rdg_gpu_place rdg_gpu_weights_find(rdg_gpu_weights *w, const rdg_gguf_tensor *t)
{
    int64_t i = tensor_index(w, t);
    pthread_mutex_lock(&w->mutex);
    rdg_gpu_place place = w->arrived[i] ? w->places[i] : (rdg_gpu_place){0};
    pthread_mutex_unlock(&w->mutex);
    return place;
}

bool rdg_gpu_weights_import(rdg_gpu_weights *w)
{
    pthread_mutex_lock(&w->mutex);
    bool import = w->import;
    pthread_mutex_unlock(&w->mutex);
    return import;
}

uint64_t rdg_gpu_weights_device_bytes(rdg_gpu_weights *w)
{
    uint64_t bytes = 0;
    pthread_mutex_lock(&w->mutex);
    for (size_t i = 0; i < w->n_chunks; i++) bytes += rdg_buffer_bytes(w->chunks[i].buffer);
    pthread_mutex_unlock(&w->mutex);
    return bytes;
}

/* The tensor where it lies in the map. False (and no error) when this map cannot be imported. */
static bool import_tensor(rdg_gpu_weights *w, const rdg_gguf_tensor *t, const rdg_log *log)
{
    const rdg_gguf_part *part = &w->gguf->parts[t->part];
    uint64_t a = rdg_device_get_facts(w->device)->import_alignment;
    if (!w->parts[t->part]) {
        if (part->map.fd < 0 || (uintptr_t)part->data % a) return false;
        rdg_error why;
        uint64_t bytes = (part->bytes + a - 1) / a * a; /* the map covers its last page */
        if (rdg_buffer_import(w->device, (void *)(uintptr_t)part->data, bytes, "weights", &w->parts[t->part],
                              &why)) {
            rdg_log_info(log, "weights are copied: %s", why.message);
            w->import = false;
            return false;
        }
    }
    int64_t i = tensor_index(w, t);
    w->places[i] =
        (rdg_gpu_place){w->parts[t->part], (uint64_t)((const unsigned char *)t->data - part->data)};
    w->arrived[i] = true;
    return true;
}

/* chunk_bytes: of a new chunk, if one is needed. */
static rdg_err reserve(rdg_gpu_weights *w, uint64_t bytes, uint32_t tag, uint64_t chunk_bytes,
                       rdg_gpu_place *out, rdg_error *e)
{
    for (size_t i = w->n_chunks; i-- > 0;) {
        chunk *c = &w->chunks[i];
        if (rdg_buffer_tag(c->buffer) != tag || rdg_buffer_bytes(c->buffer) - c->used < bytes) continue;
        *out = (rdg_gpu_place){c->buffer, c->used};
        c->used += bytes;
        return RDG_OK;
    }
    if (!rdg_grow(&w->chunks, w->n_chunks, &w->cap_chunks, sizeof *w->chunks))
        return rdg_fail(e, RDG_E_NOMEM, "no memory for a table of weights");
    chunk *c = &w->chunks[w->n_chunks];
    *c = (chunk){0};
    rdg_err rc = rdg_buffer_create(w->device, RDG_MEMORY_DEVICE, chunk_bytes, "weights", &c->buffer, e);
    if (rc) return rc;
    rdg_buffer_set_tag(c->buffer, tag);
    w->n_chunks++;
    *out = (rdg_gpu_place){c->buffer, 0};
    c->used = bytes;
    return RDG_OK;
}

static void rewrite(const rdg_upload_piece *p, const void *row, void *out)
{
    rdg_gpu_make_planar((rdg_type)p->user[0], p->user[1], row, out);
}

static bool turn(const rdg_gguf_tensor *t)
{
    return t->n_dims >= 2 && rdg_gpu_can_be_planar(t->type, t->dim[0]);
}

/* A chunk for tensors[0] holds it and those of its kind behind it, up to CHUNK_BYTES: no byte is left over.
 */
static uint64_t chunk_for(const rdg_gguf_tensor *const *tensors, size_t n)
{
    uint64_t bytes = rdg_place_weight_bytes(tensors[0]->bytes);
    for (size_t i = 1; i < n; i++) {
        if (turn(tensors[i]) != turn(tensors[0])) continue;
        uint64_t more = rdg_place_weight_bytes(tensors[i]->bytes);
        if (bytes + more > CHUNK_BYTES) break;
        bytes += more;
    }
    return bytes;
}

static int by_file_order(const void *a, const void *b)
{
    const rdg_upload_piece *x = a, *y = b;
    return x->src < y->src ? -1 : x->src > y->src;
}

/* The plan's weights that are not there yet and that cannot be imported. */
static size_t list_missing(rdg_gpu_weights *w, const rdg_plan *p, const rdg_log *log,
                           const rdg_gguf_tensor **missing)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_values; i++) {
        const rdg_gguf_tensor *t = p->values[i].weight;
        if (p->values[i].kind != RDG_VALUE_WEIGHT || w->arrived[tensor_index(w, t)]) continue;
        if (!w->import || !import_tensor(w, t, log)) missing[n++] = t;
    }
    return n;
}

static rdg_err make_pieces(rdg_gpu_weights *w, const rdg_gguf_tensor *const *missing, size_t n,
                           rdg_upload_piece *pieces, rdg_error *e)
{
    for (size_t i = 0; i < n; i++) {
        const rdg_gguf_tensor *t = missing[i];
        rdg_gpu_place *place = &w->places[tensor_index(w, t)];
        const rdg_map *map = &w->gguf->parts[t->part].map;
        if (!place->buffer) {
            rdg_err rc = reserve(w, rdg_place_weight_bytes(t->bytes), turn(t) ? RDG_GPU_PLANAR : 0,
                                 chunk_for(missing + i, n - i), place, e);
            if (rc) return rdg_fail_prefix(e, rc, "weight '%s'", t->name);
        }
        pieces[i] = (rdg_upload_piece){.dst = place->buffer,
                                       .dst_offset = place->offset,
                                       .src = t->data,
                                       .bytes = t->bytes,
                                       .file = map->fd >= 0 ? map : NULL};
        if (turn(t)) {
            pieces[i].row_bytes = (uint64_t)rdg_type_row_bytes(t->type, t->dim[0]);
            pieces[i].rewrite = rewrite;
            pieces[i].user[0] = t->type;
            pieces[i].user[1] = t->dim[0];
        }
    }
    qsort(pieces, n, sizeof *pieces, by_file_order);
    return RDG_OK;
}

rdg_err rdg_gpu_weights_load(rdg_gpu_weights *w, const rdg_plan *p, rdg_pool *pool,
                             const rdg_upload_options *o, const rdg_log *log, rdg_upload_stats *stats,
                             rdg_error *e)
{
    rdg_upload_piece *pieces = rdg_alloc_array(p->n_values + 1, sizeof *pieces);
    const rdg_gguf_tensor **missing = rdg_alloc_array(p->n_values + 1, sizeof *missing);
    rdg_upload_stats st = {0};
    rdg_err rc = RDG_OK;
    pthread_mutex_lock(&w->mutex);
    if (!pieces || !missing) {
        rc = rdg_fail(e, RDG_E_NOMEM, "no memory for a table of weights");
        goto done;
    }
    size_t n = list_missing(w, p, log, missing);
    if (n == 0) goto done;
    if ((rc = make_pieces(w, missing, n, pieces, e))) goto done;
    if ((rc = rdg_upload(w->device, pieces, n, pool, o, log, &st, e))) {
        rdg_fail_prefix(e, rc, "upload of the weights");
        goto done;
    }
    for (size_t i = 0; i < n; i++) w->arrived[tensor_index(w, missing[i])] = true;
    rdg_log_info(
        log,
        "%zu weights, %.2f GB to the device in %.2f s: %.1f GB/s (%d threads; %.2f s reading the %s, %.2f s "
        "waiting for the bus)",
        n, (double)st.bytes * 1e-9, st.seconds, (double)st.bytes * 1e-9 / st.seconds, st.n_threads,
        st.fill_seconds, st.from_map ? "map" : "file", st.wait_seconds);
done:
    pthread_mutex_unlock(&w->mutex);
    if (stats) *stats = st;
    rdg_free(missing);
    rdg_free(pieces);
    return rc;
}
