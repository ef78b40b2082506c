/* JSON from files that may be hostile, on top of jansson: limits on size, depth and number of values before
 * anything is built, duplicate keys refused, errors with file, line and column, and typed access with
 * defaults. Results are ordinary json_t, to be released with json_decref. */
#ifndef RDG_FORMAT_JSON_H
#define RDG_FORMAT_JSON_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct rdg_json_limits {
    size_t max_bytes;
    size_t max_values; /* a value costs up to about 150 bytes of memory, whatever its length in the file */
    int max_depth;
} rdg_json_limits;

/* For configuration files and indexes; for tokenizer.json. */
extern const rdg_json_limits rdg_json_small, rdg_json_large;

/* The root is an object, or MALFORMED. limits NULL = rdg_json_small. `source` is the file's name for
 * messages. */
rdg_err rdg_json_load(const char *path, const rdg_json_limits *limits, json_t **out, rdg_error *e);
rdg_err rdg_json_parse(const char *data, size_t bytes, const char *source, const rdg_json_limits *limits,
                       json_t **out, rdg_error *e);

/* Typed members of an object. An absent or null member leaves *v as the caller set it (the default) and is
 * OK; another type or a value out of range is MALFORMED, with the key in the message but not the file: use
 * rdg_fail_prefix. */
rdg_err rdg_json_int(const json_t *object, const char *key, int64_t min, int64_t max, int64_t *v,
                     rdg_error *e);
rdg_err rdg_json_real(const json_t *object, const char *key, double *v,
                      rdg_error *e); /* integers too; finite */
rdg_err rdg_json_bool(const json_t *object, const char *key, bool *v, rdg_error *e);
rdg_err rdg_json_str(const json_t *object, const char *key, const char **v, rdg_error *e); /* holds no NUL */
rdg_err rdg_json_array(const json_t *object, const char *key, const json_t **v, rdg_error *e);
rdg_err rdg_json_object(const json_t *object, const char *key, const json_t **v, rdg_error *e);
bool rdg_json_has(const json_t *object, const char *key); /* present and not null */

const char *rdg_json_type_name(const json_t *v); /* "an integer", "a string", … for messages */

#endif
