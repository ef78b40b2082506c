/* What the sessions of a model share on a GPU: the open device and the weights on it. The first session that
 * asks for a device opens it, the last one closes it. */
#include "graph/exec.h"
#include "graph/gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct rdg_exec_shared {
    pthread_mutex_t mutex; /* of the list and of the counts in it */
    rdg_gpu_context *first;
};

rdg_err rdg_exec_shared_create(rdg_exec_shared **out, rdg_error *e)
{
    *out = rdg_alloc(sizeof **out);
    if (!*out) return rdg_fail(e, RDG_E_NOMEM, "no memory for a model");
    pthread_mutex_init(&(*out)->mutex, NULL);
    return RDG_OK;
}

void rdg_exec_shared_destroy(rdg_exec_shared *s)
{
    if (!s) return;
    pthread_mutex_destroy(&s->mutex);
    rdg_free(s);
}

static void free_context(rdg_gpu_context *c)
{
    if (!c) return;
    rdg_gpu_weights_destroy(c->weights);
    rdg_device_close(c->device);
    rdg_free(c);
}

static rdg_err open_context(const rdg_exec_request *r, const rdg_gpu_options *o, rdg_gpu_context **out,
                            rdg_error *e)
{
    rdg_gpu_context *c = rdg_alloc(sizeof *c);
    if (!c) return rdg_fail(e, RDG_E_NOMEM, "no memory for a device");
    c->owner = r->shared;
    c->import = !o->no_import;
    c->n_users = 1;
    rdg_device_options d = {.validation = o->validation, .cache_dir = o->cache_dir, .log = r->log};
    rdg_err rc = rdg_device_open(r->device, &d, &c->device, e);
    if (!rc) rc = rdg_gpu_weights_create(c->device, r->gguf, c->import, &c->weights, e);
    if (rc) {
        free_context(c);
        return rc;
    }
    const rdg_device_facts *f = rdg_device_get_facts(c->device);
    snprintf(c->asked, sizeof c->asked, "%s", r->device);
    snprintf(c->name, sizeof c->name, "%s:%d", f->backend, f->index);
    rdg_log_info(r->log, "device: %s %s, driver %s: %s", c->name, f->name, f->driver, f->reason);
    *out = c;
    return RDG_OK;
}

rdg_err rdg_gpu_context_get(const rdg_exec_request *r, const rdg_gpu_options *o, rdg_gpu_context **out,
                            rdg_error *e)
{
    rdg_exec_shared *s = r->shared;
    rdg_err rc = RDG_OK;
    *out = NULL;
    if (!s) return open_context(r, o, out, e);
    pthread_mutex_lock(&s->mutex);
    for (rdg_gpu_context *c = s->first; c && !*out; c = c->next)
        if (c->import == !o->no_import && !o->validation && !rdg_device_lost(c->device) &&
            (!strcmp(c->asked, r->device) || !strcmp(c->name, r->device)))
            *out = c;
    if (*out) {
        (*out)->n_users++;
    } else if (!(rc = open_context(r, o, out, e))) {
        (*out)->next = s->first;
        s->first = *out;
    }
    pthread_mutex_unlock(&s->mutex);
    return rc;
}

void rdg_gpu_context_put(rdg_gpu_context *c, const rdg_log *log)
{
    if (!c) return;
    rdg_exec_shared *s = c->owner;
    if (s) pthread_mutex_lock(&s->mutex);
    bool last = --c->n_users == 0;
    rdg_device_set_log(c->device, last ? log : NULL); /* the log it was opened with may go with its session */
    for (rdg_gpu_context **at = s ? &s->first : NULL; last && at && *at; at = &(*at)->next) {
        if (*at != c) continue;
        *at = c->next;
        break;
    }
    if (s) pthread_mutex_unlock(&s->mutex);
    if (last) free_context(c);
}
