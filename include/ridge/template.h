/* Chat templates: a Jinja engine of ridge's own. A template is program text from strangers, so it runs
 * without files, network or access to anything but the conversation, under budgets for steps, depth, memory
 * and output. The semantics are those of Jinja2's immutable sandbox with trim_blocks, lstrip_blocks and loop
 * controls. A compiled template is immutable: any number of threads may render it. */
#ifndef RIDGE_TEMPLATE_H
#define RIDGE_TEMPLATE_H

#include <ridge/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rdg_template rdg_template;

/* 0 in a field stands for the default, which is given in brackets. */
typedef struct rdg_template_limits {
    size_t max_template_bytes; /* [1 MiB] */
    size_t max_memory_bytes;   /* for compiling, and again for each rendering [256 MiB] */
    size_t max_output_bytes;   /* of the rendering, and of any string on the way [32 MiB] */
    int64_t max_steps; /* of one rendering [20 million]: about one each expression, and one per 64 bytes */
    int64_t max_range; /* elements of range() [100,000] */
    int max_depth;     /* of nesting in the template, macro calls and data [400] */
} rdg_template_limits;

/* MALFORMED with the line for a syntax error, UNSUPPORTED for a tag that ridge does not offer, LIMIT beyond a
 * limit. limits may be NULL. text need not stay. */
rdg_err rdg_template_compile(const char *text, size_t n, const rdg_template_limits *limits,
                             rdg_template **out, rdg_error *e);
void rdg_template_destroy(rdg_template *t);

typedef struct rdg_template_time {
    int year, month, day, hour, minute, second; /* 2026, 1 … 12, 1 … 31, … */
} rdg_template_time;

typedef struct rdg_template_input {
    /* A JSON object: {"messages": […], "tools": […], "add_generation_prompt": true, …}; every member becomes
     * a variable. messages must be there; tools is none and add_generation_prompt false unless given. */
    const char *json;
    size_t json_bytes;
    const char *bos_token, *eos_token; /* NULL: "" */
    rdg_template_time now;             /* for strftime_now; all 0: calling it is an error */
} rdg_template_input;

/* Bytes [begin, end) of the rendering that came out of the JSON input, not out of the template. Only outside
 * these spans may control tokens be parsed: else a user who writes "<|im_end|>" ends his own message. */
typedef struct rdg_template_span {
    size_t begin, end;
} rdg_template_span;

typedef struct rdg_template_result {
    char *text; /* UTF-8, NUL-terminated */
    size_t n;
    rdg_template_span *input_spans; /* rising, disjoint, not empty */
    size_t n_input_spans;
} rdg_template_result;

/* UNSUPPORTED when the template refuses the conversation (raise_exception) or as above, MALFORMED for errors
 * in the template or the JSON, LIMIT as above. Messages name the template's line. *out is empty on failure.
 */
rdg_err rdg_template_render(const rdg_template *t, const rdg_template_input *in, rdg_template_result *out,
                            rdg_error *e);
void rdg_template_result_free(rdg_template_result *r);

#ifdef __cplusplus
}
#endif
#endif
