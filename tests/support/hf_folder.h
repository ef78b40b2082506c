/* A made-up Hugging Face folder in a temporary place: config.json and one model.safetensors with random
 * values. */
#ifndef RDG_TESTS_HF_FOLDER_H
#define RDG_TESTS_HF_FOLDER_H

#include "base/half.h"
#include "base/mem.h"
#include "base/rng.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct hf_folder {
    char dir[256], out[300];
    rdg_buf header, data;
    rdg_rng rng;
    float scale; /* of the values, normally distributed */
} hf_folder;

static inline void hf_folder_make(hf_folder *f, uint64_t seed)
{
    const char *base = getenv("TMPDIR");
    memset(f, 0, sizeof *f);
    snprintf(f->dir, sizeof f->dir, "%.200s/ridge-hf-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(f->dir)) f->dir[0] = 0;
    snprintf(f->out, sizeof f->out, "%.255s/out.gguf", f->dir);
    rdg_buf_init(&f->header);
    rdg_buf_init(&f->data);
    rdg_rng_seed(&f->rng, seed);
    f->scale = 0.1f;
}

static inline void hf_folder_file(const hf_folder *f, const char *name, const void *data, size_t n)
{
    char path[400];
    snprintf(path, sizeof path, "%.255s/%s", f->dir, name);
    FILE *file = fopen(path, "wb");
    if (!file) return;
    fwrite(data, 1, n, file);
    fclose(file);
}

static inline void hf_folder_config(const hf_folder *f, const char *json)
{
    hf_folder_file(f, "config.json", json, strlen(json));
}

static inline void hf_folder_entry(hf_folder *f, const char *name, const char *dtype, int n_dims,
                                   const int64_t *shape, size_t begin)
{
    rdg_buf_printf(&f->header, "%s\"%s\": {\"dtype\": \"%s\", \"shape\": [", f->header.len ? ", " : "", name,
                   dtype);
    for (int i = 0; i < n_dims; i++) rdg_buf_printf(&f->header, "%s%" PRId64, i ? ", " : "", shape[i]);
    rdg_buf_printf(&f->header, "], \"data_offsets\": [%zu, %zu]}", begin, f->data.len);
}

/* Given bytes. */
static inline void hf_folder_bytes(hf_folder *f, const char *name, const char *dtype, int n_dims,
                                   const int64_t *shape, const void *bytes, size_t n)
{
    size_t begin = f->data.len;
    rdg_buf_append(&f->data, bytes, n);
    hf_folder_entry(f, name, dtype, n_dims, shape, begin);
}

/* Random values; dtype is BF16, F16 or F32. d1, d2 = 0: fewer dimensions. Shape as stored: outermost first.
 */
static inline void hf_folder_random(hf_folder *f, const char *name, const char *dtype, int64_t d0, int64_t d1,
                                    int64_t d2)
{
    int64_t shape[3] = {d0, d1, d2}, n = d0 * (d1 ? d1 : 1) * (d2 ? d2 : 1);
    size_t begin = f->data.len;
    for (int64_t i = 0; i < n; i++) {
        float v = f->scale * rdg_rng_normal(&f->rng);
        rdg_half h = strcmp(dtype, "F16") == 0 ? rdg_half_from_f32(v) : rdg_bfloat16_from_f32(v);
        if (strcmp(dtype, "F32") == 0)
            rdg_buf_append(&f->data, &v, 4);
        else
            rdg_buf_append(&f->data, &h, 2);
    }
    hf_folder_entry(f, name, dtype, d1 ? d2 ? 3 : 2 : 1, shape, begin);
}

/* Writes model.safetensors from what was added; may be called again after adding more. */
static inline void hf_folder_write(hf_folder *f)
{
    rdg_buf b;
    rdg_buf_init(&b);
    size_t n = (f->header.len + 2 + 7) / 8 * 8;
    for (int i = 0; i < 8; i++) rdg_buf_putc(&b, (char)(n >> 8 * i & 255));
    rdg_buf_printf(&b, "{%s}", f->header.data ? f->header.data : "");
    while (b.len < 8 + n) rdg_buf_putc(&b, ' ');
    if (f->data.len) rdg_buf_append(&b, f->data.data, f->data.len);
    hf_folder_file(f, "model.safetensors", b.data, b.len);
    rdg_buf_finish(&b);
}

static inline void hf_folder_remove(hf_folder *f)
{
    char command[400];
    static const char *const names[] = {"config.json", "model.safetensors", "out.gguf", "two.gguf",
                                        "three.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(command, sizeof command, "%.255s/%s", f->dir, names[i]);
        remove(command);
    }
    rmdir(f->dir);
    rdg_buf_finish(&f->header);
    rdg_buf_finish(&f->data);
}

#endif
