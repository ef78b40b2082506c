/* What the golden tests share: temporary conversion, sessions, comparison of logits. */
#ifndef RDG_TESTS_GOLDEN_H
#define RDG_TESTS_GOLDEN_H

#include "device/device.h"
#include "format/json.h"
#include "format/npy.h"
#include <ridge/convert.h>
#include <ridge/model.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A fresh temporary folder; removed with its one file by golden_temp_remove. */
typedef struct golden_temp {
    char dir[256], file[300];
} golden_temp;

static inline int golden_temp_make(golden_temp *t)
{
    const char *base = getenv("TMPDIR");
    snprintf(t->dir, sizeof t->dir, "%.200s/ridge-golden-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(t->dir)) return 0;
    snprintf(t->file, sizeof t->file, "%s/model.gguf", t->dir);
    return 1;
}

static inline void golden_temp_remove(golden_temp *t)
{
    remove(t->file);
    rmdir(t->dir);
}

/* False, with the reason printed, where this device cannot be had: the test is skipped then (exit code 77).
 */
static inline bool golden_has_device(const char *name)
{
    rdg_error e = {0};
    rdg_device *d = NULL;
    if (!name || !rdg_device_open(name, NULL, &d, &e)) {
        rdg_device_close(d);
        return true;
    }
    printf("SKIPPED: %s\n", e.message);
    return false;
}

/* The options that the programs share; false for any other. */
static inline bool golden_option(const char *text, const char **device, int64_t *gpu_layers)
{
    const char *value = strchr(text, '=');
    char *end;
    if (!value || !value[1]) return false;
    if (!strncmp(text, "--device=", 9)) {
        *device = value + 1;
        return true;
    }
    if (strncmp(text, "--gpu-layers=", 13)) return false;
    *gpu_layers = strtol(value + 1, &end, 10);
    return !*end;
}

static inline double golden_max_diff(const float *a, const float *b, int64_t n)
{
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= worst)) worst = isnan(d) ? INFINITY : d;
    }
    return worst;
}

static inline int32_t golden_argmax(const float *x, int64_t n)
{
    int32_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = (int32_t)i;
    return best;
}

/* The integers of a JSON array; returns how many, at most cap. */
static inline int golden_ints(const json_t *list, int32_t *out, int cap)
{
    int n = (int)json_array_size(list);
    for (int i = 0; i < n && i < cap; i++)
        out[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    return n < cap ? n : cap;
}

#endif
