#include "format/json.h"
#include "base/file.h"
#include "format/names.h"

#include <string.h>

const rdg_json_limits rdg_json_small = {.max_bytes = 16u << 20, .max_values = 1u << 20, .max_depth = 32};
const rdg_json_limits rdg_json_large = {.max_bytes = 256u << 20, .max_values = 16u << 20, .max_depth = 64};

/* Counts brackets and commas outside strings, so that neither the parser's recursion nor its memory is the
 * file's choice. What is no JSON at all is left to the parser. */
static rdg_err check_limits(const char *data, size_t bytes, const char *source, const rdg_json_limits *limits,
                            rdg_error *e)
{
    size_t n_values = 0;
    int depth = 0;
    bool in_string = false;
    if (bytes > limits->max_bytes)
        return rdg_fail(e, RDG_E_LIMIT, "'%s': %zu bytes of JSON, the limit is %zu", source, bytes,
                        limits->max_bytes);
    for (size_t i = 0; i < bytes; i++) {
        switch (data[i]) {
        case '"': in_string = !in_string; break;
        case '\\': i += in_string; break;
        case '[':
        case '{':
            depth += !in_string;
            n_values += !in_string;
            break;
        case ']':
        case '}': depth -= !in_string; break;
        case ',': n_values += !in_string; break;
        }
        if (depth > limits->max_depth)
            return rdg_fail(e, RDG_E_LIMIT, "'%s': offset %zu: JSON nested deeper than %d levels", source, i,
                            limits->max_depth);
        if (n_values > limits->max_values)
            return rdg_fail(e, RDG_E_LIMIT, "'%s': offset %zu: more than %zu JSON values", source, i,
                            limits->max_values);
    }
    return RDG_OK;
}

rdg_err rdg_json_parse(const char *data, size_t bytes, const char *source, const rdg_json_limits *limits,
                       json_t **out, rdg_error *e)
{
    json_error_t je;
    *out = NULL;
    rdg_err err = check_limits(data, bytes, source, limits ? limits : &rdg_json_small, e);
    if (err) return err;
    json_t *root = json_loadb(data, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &je);
    if (!root) {
        /* when it runs out of memory, jansson leaves the text empty or names a code of its own */
        if (!je.text[0] || json_error_code(&je) == json_error_out_of_memory)
            return rdg_fail(e, RDG_E_NOMEM, "no memory for the JSON of '%s'", source);
        /* the text may quote the file */
        return rdg_fail(e, RDG_E_MALFORMED, "'%s': line %d, column %d: %s", source, je.line, je.column,
                        rdg_name_printable(je.text, strlen(je.text)) ? je.text : "not valid JSON");
    }
    if (!json_is_object(root)) {
        err = rdg_fail(e, RDG_E_MALFORMED, "'%s': holds %s where an object is needed", source,
                       rdg_json_type_name(root));
        json_decref(root);
        return err;
    }
    *out = root;
    return RDG_OK;
}

rdg_err rdg_json_load(const char *path, const rdg_json_limits *limits, json_t **out, rdg_error *e)
{
    rdg_map map;
    *out = NULL;
    rdg_err err = rdg_map_open(&map, path, e);
    if (err) return err;
    err = rdg_json_parse((const char *)map.data, map.bytes, path, limits, out, e);
    rdg_map_close(&map);
    return err;
}

/* Access
 * ------------------------------------------------------------------------------------------------------ */

const char *rdg_json_type_name(const json_t *v)
{
    if (!v) return "nothing";
    switch (json_typeof(v)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a real number";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    case JSON_NULL: return "null";
    }
    return "an unknown value";
}

/* The member, or NULL if it is absent or null: the default holds. */
static const json_t *member(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    return json_is_null(v) ? NULL : v;
}

bool rdg_json_has(const json_t *object, const char *key)
{
    return member(object, key) != NULL;
}

static rdg_err wrong(const json_t *v, const char *key, const char *needed, rdg_error *e)
{
    return rdg_fail(e, RDG_E_MALFORMED, "key '%s' is %s where %s is needed", key, rdg_json_type_name(v),
                    needed);
}

rdg_err rdg_json_int(const json_t *object, const char *key, int64_t min, int64_t max, int64_t *v,
                     rdg_error *e)
{
    const json_t *m = member(object, key);
    if (!m) return RDG_OK;
    if (!json_is_integer(m)) return wrong(m, key, "an integer", e);
    int64_t i = json_integer_value(m);
    if (i < min || i > max)
        return rdg_fail(e, RDG_E_MALFORMED, "key '%s' is %lld, it must be %lld to %lld", key, (long long)i,
                        (long long)min, (long long)max);
    *v = i;
    return RDG_OK;
}

rdg_err rdg_json_real(const json_t *object, const char *key, double *v, rdg_error *e)
{
    const json_t *m = member(object, key);
    if (!m) return RDG_OK;
    if (!json_is_number(m)) return wrong(m, key, "a number", e);
    *v = json_number_value(m); /* jansson holds no others than finite ones */
    return RDG_OK;
}

rdg_err rdg_json_bool(const json_t *object, const char *key, bool *v, rdg_error *e)
{
    const json_t *m = member(object, key);
    if (!m) return RDG_OK;
    if (!json_is_boolean(m)) return wrong(m, key, "a boolean", e);
    *v = json_is_true(m);
    return RDG_OK;
}

rdg_err rdg_json_str(const json_t *object, const char *key, const char **v, rdg_error *e)
{
    const json_t *m = member(object, key);
    if (!m) return RDG_OK;
    if (!json_is_string(m)) return wrong(m, key, "a string", e);
    if (strlen(json_string_value(m)) != json_string_length(m))
        return rdg_fail(e, RDG_E_MALFORMED, "key '%s' is a string that holds a NUL", key);
    *v = json_string_value(m);
    return RDG_OK;
}

rdg_err rdg_json_array(const json_t *object, const char *key, const json_t **v, rdg_error *e)
{
    const json_t *m = member(object, key);
    if (!m) return RDG_OK;
    if (!json_is_array(m)) return wrong(m, key, "an array", e);
    *v = m;
    return RDG_OK;
}

rdg_err rdg_json_object(const json_t *object, const char *key, const json_t **v, rdg_error *e)
{
    const json_t *m = member(object, key);
    if (!m) return RDG_OK;
    if (!json_is_object(m)) return wrong(m, key, "an object", e);
    *v = m;
    return RDG_OK;
}
