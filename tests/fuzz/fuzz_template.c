/* A chat template and its input, both hostile: "TEMPLATE\0JSON", the JSON optional. Budgets are small, so
 * that an input which finds a way around them shows as a slow or a large one. */
#include "fuzz.h"
#include <ridge/template.h>

#include <string.h>

static const char default_json[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi \\u00e9 "
                                   "\\ud83d\\ude42\"}, {\"role\": \"assistant\", "
                                   "\"content\": null, \"tool_calls\": [{\"function\": {\"name\": \"f\", "
                                   "\"arguments\": {\"x\": [1, 2.5, true]}}}]}], "
                                   "\"tools\": [], \"n\": 3, \"s\": \"a,b\", \"l\": [3, 1, 2]}";

static void check_result(const rdg_template_result *r)
{
    size_t at = 0;
    FUZZ_CHECK(r->text && r->text[r->n] == 0);
    fuzz_touch(r->text, r->n + 1);
    for (size_t i = 0; i < r->n_input_spans; i++) {
        rdg_template_span s = r->input_spans[i];
        FUZZ_CHECK(s.begin < s.end && s.end <= r->n && (i == 0 || s.begin > at));
        at = s.end;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const rdg_template_limits limits = {.max_template_bytes = 1 << 16,
                                               .max_memory_bytes = 8 << 20,
                                               .max_output_bytes = 1 << 20,
                                               .max_steps = 200000,
                                               .max_range = 1000,
                                               .max_depth = 100};
    const char *text = (const char *)data, *split = n ? memchr(data, 0, n) : NULL;
    size_t n_text = split ? (size_t)(split - text) : n;
    rdg_template *t;
    rdg_template_result out;
    rdg_error e = {0};
    rdg_template_input in = {default_json, sizeof default_json - 1, "<s>", "</s>", {2026, 1, 2, 3, 4, 5}};
    if (split) {
        in.json = split + 1;
        in.json_bytes = n - n_text - 1;
    }
    rdg_err err = rdg_template_compile(text, n_text, &limits, &t, &e);
    FUZZ_CHECK((err != 0) == (t == NULL) && err != RDG_E_NOMEM && err != RDG_E_INTERNAL);
    if (!err) {
        err = rdg_template_render(t, &in, &out, &e);
        FUZZ_CHECK((err != 0) == (out.text == NULL) && err != RDG_E_NOMEM && err != RDG_E_INTERNAL);
        if (!err) check_result(&out);
        rdg_template_result_free(&out);
        rdg_template_destroy(t);
    }
    if (err)
        FUZZ_CHECK(e.code == err && e.message[0] && strlen(e.message) < sizeof e.message &&
                   !strchr(e.message, '\n'));
    return 0;
}
