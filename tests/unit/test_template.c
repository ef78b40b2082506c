/* Chat templates against the reference's renderings: those whose publishers allow it are in
 * tests/data/templates; all of them where RIDGE_TEST_DATA points to the full data. "test_template table DIR"
 * prints the counts per template, "test_template vectors DIR" runs DIR/vectors.json. */
#include <ridge/template.h>
#include "base/file.h"
#include "base/mem.h"

#include <dirent.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const rdg_template_time reference_time = {2026, 1, 2, 3, 4, 5};

static json_t *load(const char *dir, const char *name, const char *suffix)
{
    char *path = rdg_format("%s/%s%s", dir, name, suffix);
    json_error_t je;
    json_t *j = json_load_file(path, JSON_ALLOW_NUL, &je);
    if (!j) fail_msg("%s: %s", path, je.text);
    rdg_free(path);
    return j;
}

static rdg_err render_text(const char *text, size_t n, const char *json, rdg_template_result *out,
                           rdg_error *e)
{
    rdg_template *t;
    *out = (rdg_template_result){0};
    rdg_err err = rdg_template_compile(text, n, NULL, &t, e);
    if (err) return err;
    rdg_template_input in = {json, strlen(json), "<s>", "</s>", reference_time};
    err = rdg_template_render(t, &in, out, e);
    rdg_template_destroy(t);
    return err;
}

/* Renders all cases of one template; the number of those that come out as they should. */
static int run_template(const char *dir, const char *name, json_t *cases, int *n_cases, bool loud)
{
    char *path = rdg_format("%s/%s.jinja", dir, name), *text;
    size_t n;
    rdg_error e = {0};
    json_t *expected = load(dir, name, ".expected.json"), *want;
    const char *key;
    int good = 0;
    *n_cases = 0;
    if (rdg_file_read(path, 1 << 20, false, &text, &n, &e)) fail_msg("%s", e.message);
    json_object_foreach(expected, key, want)
    {
        rdg_template_result got;
        char *json = json_dumps(json_object_get(cases, key), 0);
        rdg_err err = render_text(text, n, json, &got, &e);
        const char *should = json_string_value(json_object_get(want, "text"));
        bool ok = should ? !err && strcmp(got.text, should) == 0 : err != RDG_OK;
        if (!ok && loud) {
            size_t at = 0;
            while (should && !err && got.text[at] == should[at]) at++;
            print_message("%s, %s: %s\n", name, key,
                          err      ? e.message
                          : should ? "differs"
                                   : "renders, but should fail");
            if (should && !err)
                print_message("  at byte %zu\n  got  ...%.80s\n  want ...%.80s\n", at,
                              got.text + (at > 20 ? at - 20 : 0), should + (at > 20 ? at - 20 : 0));
        }
        good += ok;
        ++*n_cases;
        rdg_template_result_free(&got);
        free(json);
    }
    json_decref(expected);
    rdg_free(text);
    rdg_free(path);
    return good;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All NAME.jinja in dir, in order. */
static int list_templates(const char *dir, char *names[], int max)
{
    DIR *d = opendir(dir);
    int n = 0;
    if (!d) return -1;
    for (struct dirent *f; (f = readdir(d)) && n < max;) {
        size_t len = strlen(f->d_name);
        if (len > 6 && strcmp(f->d_name + len - 6, ".jinja") == 0)
            names[n++] = rdg_strndup(f->d_name, len - 6);
    }
    closedir(d);
    qsort(names, (size_t)n, sizeof *names, by_name);
    return n;
}

static int run_folder(const char *dir, bool table)
{
    char *names[200];
    int n = list_templates(dir, names, 200), bad = 0, total = 0;
    if (n <= 0) fail_msg("%s holds no templates", dir);
    json_t *cases = load(dir, "cases", ".json");
    for (int i = 0; i < n; i++) {
        int n_cases, good = run_template(dir, names[i], cases, &n_cases, true);
        if (table) printf("%-60s %d/%d\n", names[i], good, n_cases);
        bad += n_cases - good;
        total += n_cases;
        rdg_free(names[i]);
    }
    json_decref(cases);
    print_message("%d templates, %d of %d cases as the reference\n", n, total - bad, total);
    return bad;
}

static void test_committed(void **state)
{
    (void)state;
    assert_int_equal(run_folder(TEST_DATA_DIR "/templates", false), 0);
}

static void test_all(void **state)
{
    (void)state;
    const char *data = getenv("RIDGE_TEST_DATA");
    if (!data) {
        print_message("RIDGE_TEST_DATA is not set: skipped\n");
        skip();
    }
    char *dir = rdg_format("%s/templates", data);
    int bad = run_folder(dir, false);
    rdg_free(dir);
    assert_int_equal(bad, 0);
}

/* vectors.json: {"context": …, "vectors": [[template, expected text or null for an error], …]} */
static int run_vectors(const char *dir)
{
    json_t *file = load(dir, "vectors", ".json"), *row;
    char *json = json_dumps(json_object_get(file, "context"), 0);
    size_t i;
    int bad = 0;
    json_array_foreach(json_object_get(file, "vectors"), i, row)
    {
        const char *text = json_string_value(json_array_get(row, 0));
        const char *want = json_string_value(json_array_get(row, 1));
        rdg_template_result got;
        rdg_error e = {0};
        rdg_err err = render_text(text, strlen(text), json, &got, &e);
        if (want ? err || strcmp(got.text, want) : err == RDG_OK) {
            print_message("%s\n  got  %s\n  want %s\n", text, err ? e.message : got.text,
                          want ? want : "an error");
            bad++;
        }
        rdg_template_result_free(&got);
    }
    free(json);
    print_message("%zu vectors, %d differ\n", i, bad);
    json_decref(file);
    return bad;
}

static void test_vectors(void **state)
{
    (void)state;
    assert_int_equal(run_vectors(TEST_DATA_DIR "/templates"), 0);
}

/* Single renderings ----------------------------------------------------------------------------------- */

static const char small[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi <|end|>\"}], \"n\": 3}";

static void expect_text(const char *text, const char *want)
{
    rdg_template_result got;
    rdg_error e = {0};
    if (render_text(text, strlen(text), small, &got, &e)) fail_msg("%s: %s", text, e.message);
    assert_string_equal(got.text, want);
    rdg_template_result_free(&got);
}

static void expect_error(const char *text, rdg_err code, const char *part)
{
    rdg_template_result got;
    rdg_error e = {0};
    rdg_err err = render_text(text, strlen(text), small, &got, &e);
    if (err != code || !strstr(e.message, part))
        fail_msg("%.60s: %s (%s), want \"%s\"", text, rdg_err_name(err), e.message, part);
    assert_null(got.text);
}

static void test_messages(void **state)
{
    (void)state;
    expect_error("a\nb{% if %}", RDG_E_MALFORMED, "line 2");
    expect_error("{% include 'x' %}", RDG_E_UNSUPPORTED, "include");
    expect_error("{% import 'x' as y %}", RDG_E_UNSUPPORTED, "import");
    expect_error("{% bogus %}", RDG_E_MALFORMED, "bogus");
    expect_error("{{ 1|bogus }}", RDG_E_UNSUPPORTED, "bogus");
    expect_error("{{ 1 is bogus }}", RDG_E_UNSUPPORTED, "bogus");
    expect_error("{{ 'a'.encode() }}", RDG_E_UNSUPPORTED, "encode");
    expect_error("{{ ''|striptags }}", RDG_E_UNSUPPORTED, "striptags");
    expect_error("{{ messages.append(1) }}", RDG_E_UNSUPPORTED, "append");
    expect_error("\n\n{{ nothing.at_all }}", RDG_E_MALFORMED, "line 3: 'nothing' is undefined");
    expect_error("{{ messages[0].x.y }}", RDG_E_MALFORMED, "no attribute 'x'");
    expect_error("{{ raise_exception('no\nway') }}", RDG_E_UNSUPPORTED, "refuses the conversation: no way");
    expect_error("{% for x in messages %}", RDG_E_MALFORMED, "endfor");
    expect_error("{{ 'a", RDG_E_MALFORMED, "not closed");
    expect_error("{# a", RDG_E_MALFORMED, "not closed");
    expect_error("{{ 9223372036854775807 + 1 }}", RDG_E_UNSUPPORTED, "64 bits");
    expect_error("{% break %}", RDG_E_MALFORMED, "outside of a loop");
    expect_error("a\xff", RDG_E_MALFORMED, "UTF-8");
    expect_text("{{ messages[0].__class__ }}|{{ messages.append }}", "|");
}

static void test_input(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "[]", "{}", "{\"messages\": [}", "{\"messages\": \"\\ud800\"}"};
    for (int i = 0; i < 5; i++) {
        rdg_template_result got;
        rdg_error e = {0};
        if (render_text("x", 1, bad[i], &got, &e) != RDG_E_MALFORMED) fail_msg("accepted: %s", bad[i]);
        assert_null(got.text);
    }
    expect_text("{{ tools }} {{ add_generation_prompt }} {{ n + 1 }} {{ bos_token }}", "None False 4 <s>");
}

/* What came from the input is marked, through whatever the template does to it. */
static void test_spans(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want; /* output with the input's bytes in [] */
    } rows[] = {
        {"<|start|>{{ messages[0].content }}<|end|>", "<|start|>[Hi <|end|>]<|end|>"},
        {"{{ '<' ~ messages[0].role|upper + '>' }}", "<[USER]>"},
        {"{{ messages[0].content[3:].strip('<>') }}.", "[|end|]."},
        {"{{ messages[0].content.replace('Hi', 'Ho') }}", "Ho[ <|end|>]"},
        {"{{ messages[0]|tojson }}", "{\"[role]\": \"[user]\", \"[content]\": \"[Hi <|end|>]\"}"},
        {"{% set x %}a{{ messages[0].role }}b{% endset %}{{ x[1:3] }}{{ x * 2 }}", "[us]a[user]ba[user]b"},
        {"{{ messages[0].content.split(' ')|join('-') }}", "[Hi]-[<|end|>]"},
        {"{{ '%s!'|format(messages[0].role) }}{{ messages }}",
         "[user]![{'[role]': '[user]', '[content]': '[Hi <|end|>]'}]"},
    };
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
        rdg_template_result got;
        rdg_error e = {0};
        rdg_buf b;
        rdg_buf_init(&b);
        if (render_text(rows[i].text, strlen(rows[i].text), small, &got, &e)) fail_msg("%s", e.message);
        size_t at = 0;
        for (size_t k = 0; k < got.n_input_spans; k++) {
            rdg_template_span s = got.input_spans[k];
            assert_true(s.begin < s.end && s.begin >= at && s.end <= got.n);
            rdg_buf_append(&b, got.text + at, s.begin - at);
            rdg_buf_printf(&b, "[%.*s]", (int)(s.end - s.begin), got.text + s.begin);
            at = s.end;
        }
        rdg_buf_append(&b, got.text + at, got.n - at);
        assert_string_equal(b.data, rows[i].want);
        rdg_buf_finish(&b);
        rdg_template_result_free(&got);
    }
}

/* Budgets: hostile templates end in an error, soon. */
static void test_budgets(void **state)
{
    (void)state;
    expect_error("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
                 RDG_E_LIMIT, "");
    expect_error("{{ range(1000000000)|length }}", RDG_E_LIMIT, "range");
    expect_error("{{ range(99999999999999)|length }}", RDG_E_LIMIT, "range");
    expect_error("{% set ns = namespace(s='xxxxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s "
                 "%}{% endfor %}",
                 RDG_E_LIMIT, "");
    expect_error(
        "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        RDG_E_LIMIT, "");
    expect_error("{{ 'x' * 1000000000000 }}", RDG_E_LIMIT, "");
    expect_error("{{ [1] * 1000000000000 }}", RDG_E_LIMIT, "");
    expect_error("{{ '%1000000000d' % 1 }}", RDG_E_LIMIT, "");
    expect_error("{{ 'x'.ljust(1000000000000) }}", RDG_E_LIMIT, "");
    expect_error("{{ 'x'|center(1000000000000) }}", RDG_E_LIMIT, "");
    expect_error("{{ [1]|batch(1000000000000, 0)|list }}", RDG_E_LIMIT, "");
    expect_error("{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}", RDG_E_LIMIT, "nests deeper");
    expect_error("{% macro m(x) %}{{ m(x ~ x) }}{% endmacro %}{{ m('xxxx') }}", RDG_E_LIMIT, "");
    expect_error("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", RDG_E_LIMIT, "nests deeper");
    expect_error("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}", RDG_E_LIMIT, "nests deeper");
    expect_error("{% set ns = namespace(l=[]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor "
                 "%}{{ ns.l }}",
                 RDG_E_LIMIT, "nests deeper");
    expect_error("{% set ns = namespace(l=[]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor "
                 "%}{{ ns.l|tojson }}",
                 RDG_E_LIMIT, "nests deeper");
    expect_error("{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% "
                 "endfor %}{{ ns.l == ns.l }}{{ ns.l|string|length }}",
                 RDG_E_LIMIT, "");
    expect_error("{% set s = 'a' * 2000000 %}{% for i in range(100000) %}{{ 'aaaaaaaaaaaaaaaaaaaab' in s "
                 "}}{% endfor %}",
                 RDG_E_LIMIT, "steps");
    expect_error("{% set s = 'a' * 1000000 %}{{ s.rsplit('a' * 50000 ~ 'b') }}", RDG_E_LIMIT, "steps");
    expect_error("{% set s = 'a' * 1000000 %}{{ s.strip(s)|length }}", RDG_E_LIMIT, "steps");
}

static void repeat(rdg_buf *b, const char *unit, int times)
{
    for (int i = 0; i < times; i++) rdg_buf_puts(b, unit);
}

/* Nesting as deep as a template can be long. */
static void test_nesting(void **state)
{
    (void)state;
    static const struct {
        const char *before, *unit, *middle, *unit_end, *after;
        bool fails;
    } rows[] = {
        {"{{ ", "(", "1", ")", " }}", true},
        {"{{ ", "[", "1", "]", " }}", true},
        {"{{ ", "-", "1", "", " }}", true},
        {"{{ ", "not ", "1", "", " }}", true},
        {"{{ 1", "+1", "", "", " }}", true},
        {"{{ n", ".a", "", "", " }}", true},
        {"{{ n", "|string", "", "", " }}", true},
        {"{{ n", " is string", "", "", " }}", true},
        {"{{ 1", " if 1 else 1", "", "", " }}", true},
        {"{{ 1", " and 1", "", "", " }}", true},
        {"{{ 'a'", "~'a'", "", "", " }}", false},
        {"{{ 1", " < 2", "", "", " }}", false},
        {"", "{% if n %}", "", "{% endif %}", "", true},
        {"{% if n == 0 %}", "{% elif n == 0 %}", "", "", "{% endif %}", false},
        {"", "{% for a in messages %}", "", "{% endfor %}", "", true},
        {"", "{% macro m() %}", "", "{% endmacro %}", "", true},
        {"{% set ", "(", "a", ")", " = 1 %}", true},
    };
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
        rdg_buf b;
        rdg_template_result got;
        rdg_error e = {0};
        rdg_buf_init(&b);
        rdg_buf_puts(&b, rows[i].before);
        int times = strlen(rows[i].unit) > 8 ? 30000 : 60000;
        repeat(&b, rows[i].unit, times);
        rdg_buf_puts(&b, rows[i].middle);
        repeat(&b, rows[i].unit_end, times);
        rdg_buf_puts(&b, rows[i].after);
        rdg_err err = render_text(b.data, b.len, small, &got, &e);
        if (rows[i].fails ? err == RDG_OK : err != RDG_OK && err != RDG_E_LIMIT)
            fail_msg("row %d (%s): %s %s", i, rows[i].unit, rdg_err_name(err), e.message);
        rdg_template_result_free(&got);
        rdg_buf_finish(&b);
    }
}

static void test_limits(void **state)
{
    (void)state;
    rdg_template *t;
    rdg_error e;
    rdg_template_limits l = {.max_template_bytes = 10};
    assert_int_equal(rdg_template_compile("01234567890", 11, &l, &t, &e), RDG_E_LIMIT);
    assert_null(t);
    l = (rdg_template_limits){.max_depth = -1};
    assert_int_equal(rdg_template_compile("x", 1, &l, &t, &e), RDG_E_ARGUMENT);
    l = (rdg_template_limits){.max_output_bytes = 4};
    assert_int_equal(rdg_template_compile("{{ 'abc' }}{{ 'de' }}", 21, &l, &t, &e), RDG_OK);
    rdg_template_input in = {small, sizeof small - 1, NULL, NULL, {0}};
    rdg_template_result got;
    assert_int_equal(rdg_template_render(t, &in, &got, &e), RDG_E_LIMIT);
    assert_null(got.text);
    rdg_template_destroy(t);
    rdg_template_destroy(NULL);
    assert_int_equal(rdg_template_compile("{{ strftime_now('%Y') }}", 24, NULL, &t, &e), RDG_OK);
    assert_int_equal(rdg_template_render(t, &in, &got, &e), RDG_E_ARGUMENT);
    rdg_template_destroy(t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_committed), cmocka_unit_test(test_all),     cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_messages),  cmocka_unit_test(test_input),   cmocka_unit_test(test_spans),
        cmocka_unit_test(test_budgets),   cmocka_unit_test(test_nesting), cmocka_unit_test(test_limits),
    };
    if (argc > 2 && strcmp(argv[1], "table") == 0) return run_folder(argv[2], true) != 0;
    if (argc > 2 && strcmp(argv[1], "vectors") == 0) return run_vectors(argv[2]) != 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
