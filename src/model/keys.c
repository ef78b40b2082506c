/* Architecture keys of a GGUF file: see keys.h. */
#include "model/keys.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { KEY_CAP = 160 };

static void full_key(const rdg_keys *k, const char *suffix, char out[KEY_CAP])
{
    snprintf(out, KEY_CAP, "%s.%s", k->arch, suffix);
}

void rdg_keys_fail(rdg_keys *k, rdg_err code, const char *fmt, ...)
{
    if (k->failed) return;
    char text[sizeof k->error.message];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    k->failed = rdg_fail(&k->error, code, "%s", text);
}

const rdg_gguf_kv *rdg_key_find(const rdg_keys *k, const char *suffix)
{
    char key[KEY_CAP];
    full_key(k, suffix, key);
    return rdg_gguf_find(k->gguf, key);
}

static bool is_integer(rdg_gguf_value_type t)
{
    return t <= RDG_GGUF_INT32 || t == RDG_GGUF_UINT64 || t == RDG_GGUF_INT64;
}

/* The common value of a per-layer array. */
static bool uniform_int(rdg_keys *k, const char *key, const rdg_gguf_kv *kv, int64_t *v)
{
    if (!is_integer(kv->element_type) || kv->count == 0 ||
        (k->n_layer && kv->count != (uint64_t)k->n_layer)) {
        rdg_keys_fail(k, RDG_E_MALFORMED,
                      "key '%s' must be an integer or an array of %" PRId64 " integers, one a block", key,
                      k->n_layer);
        return false;
    }
    *v = rdg_gguf_kv_int(kv, 0);
    for (uint64_t i = 1; i < kv->count; i++) {
        if (rdg_gguf_kv_int(kv, i) == *v) continue;
        rdg_keys_fail(k, RDG_E_UNSUPPORTED,
                      "key '%s' differs between blocks (%" PRId64 " in block 0, %" PRId64 " in block %" PRIu64
                      "): such models are not supported",
                      key, *v, rdg_gguf_kv_int(kv, i), i);
        return false;
    }
    return true;
}

int64_t rdg_key_int(rdg_keys *k, const char *suffix, int64_t lo, int64_t hi, int64_t fallback)
{
    char key[KEY_CAP];
    full_key(k, suffix, key);
    int64_t safe = fallback == RDG_KEY_REQUIRED ? lo : fallback, v = safe;
    if (k->failed) return safe;
    const rdg_gguf_kv *kv = rdg_gguf_find(k->gguf, key);
    if (!kv) {
        if (fallback == RDG_KEY_REQUIRED) rdg_keys_fail(k, RDG_E_MALFORMED, "key '%s' is missing", key);
        return safe;
    }
    if (kv->type == RDG_GGUF_ARRAY) {
        if (!uniform_int(k, key, kv, &v)) return safe;
    } else if ((k->failed = rdg_gguf_get_i64(k->gguf, key, &v, &k->error))) {
        return safe;
    }
    if (v < lo || v > hi) {
        rdg_keys_fail(k, RDG_E_MALFORMED, "key '%s' is %" PRId64 ", it must be %" PRId64 " … %" PRId64, key,
                      v, lo, hi);
        return safe;
    }
    return v;
}

float rdg_key_float(rdg_keys *k, const char *suffix, float lo, float hi, float fallback)
{
    char key[KEY_CAP];
    full_key(k, suffix, key);
    float safe = isnan(fallback) ? lo : fallback, v = safe;
    if (k->failed) return safe;
    rdg_err err = rdg_gguf_get_f32(k->gguf, key, &v, &k->error);
    if (err == RDG_E_NOT_FOUND) {
        if (isnan(fallback)) rdg_keys_fail(k, RDG_E_MALFORMED, "key '%s' is missing", key);
        return safe;
    }
    if (err) {
        k->failed = err;
        return safe;
    }
    if (!(v >= lo && v <= hi)) {
        rdg_keys_fail(k, RDG_E_MALFORMED, "key '%s' is %g, it must be %g … %g", key, (double)v, (double)lo,
                      (double)hi);
        return safe;
    }
    return v;
}

bool rdg_key_bool(rdg_keys *k, const char *suffix, bool fallback)
{
    char key[KEY_CAP];
    full_key(k, suffix, key);
    bool v = fallback;
    if (k->failed) return fallback;
    rdg_err err = rdg_gguf_get_bool(k->gguf, key, &v, &k->error);
    if (err && err != RDG_E_NOT_FOUND) k->failed = err;
    return err ? fallback : v;
}

rdg_str rdg_key_str(rdg_keys *k, const char *suffix)
{
    char key[KEY_CAP];
    full_key(k, suffix, key);
    rdg_str v = {"", 0};
    if (k->failed) return v;
    rdg_err err = rdg_gguf_get_str(k->gguf, key, &v, &k->error);
    if (err && err != RDG_E_NOT_FOUND) k->failed = err;
    return err ? (rdg_str){"", 0} : v;
}
