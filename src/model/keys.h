/* Typed, range-checked access to the "<architecture>.*" keys of a file, with a sticky error: read many, check
 * once. */
#ifndef RDG_MODEL_KEYS_H
#define RDG_MODEL_KEYS_H

#include "base/err.h"
#include <ridge/gguf.h>

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct rdg_keys {
    const rdg_gguf *gguf;
    const char *arch;
    int64_t n_layer; /* arrays of per-layer values must have this many; 0 = not known yet */
    rdg_err failed;  /* the first error; later calls return their fallback */
    rdg_error error;
} rdg_keys;

#define RDG_KEY_REQUIRED   INT64_MIN
#define RDG_KEY_REQUIRED_F NAN

/* The value of "<arch>.<suffix>", lo <= value <= hi. Absent: the fallback, or an error if that is
 * RDG_KEY_REQUIRED. A per-layer array counts as its value if all entries are equal, and is UNSUPPORTED
 * otherwise. */
int64_t rdg_key_int(rdg_keys *k, const char *suffix, int64_t lo, int64_t hi, int64_t fallback);
float rdg_key_float(rdg_keys *k, const char *suffix, float lo, float hi, float fallback);
bool rdg_key_bool(rdg_keys *k, const char *suffix, bool fallback);
/* An empty string if absent. */
rdg_str rdg_key_str(rdg_keys *k, const char *suffix);
/* The raw entry, NULL if absent. */
const rdg_gguf_kv *rdg_key_find(const rdg_keys *k, const char *suffix);
/* Keeps the first error. */
void rdg_keys_fail(rdg_keys *k, rdg_err code, const char *fmt, ...) RDG_PRINTF(3, 4);

#endif
