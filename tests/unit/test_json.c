/* The JSON helper: limits, messages, defaults. */
#include "../support/support.h"
#include "base/mem.h"
#include "format/json.h"

static void refuse(const char *text, rdg_err code, const char *part)
{
    rdg_error e = {0};
    json_t *root;
    assert_error(rdg_json_parse(text, strlen(text), "config.json", NULL, &root, &e), code, &e, part);
    assert_null(root);
    assert_non_null(strstr(e.message, "'config.json'"));
}

static void test_refused(void **state)
{
    (void)state;
    refuse("", RDG_E_MALFORMED, "line 1");
    refuse("[1]", RDG_E_MALFORMED, "an array where an object");
    refuse("{\"a\":1,\n\"a\":2}", RDG_E_MALFORMED, "line 2, column 3: duplicate");
    refuse("{\"a\":1,\n  \"b\" 2}", RDG_E_MALFORMED, "line 2, column 7");
    refuse("{\"a\":NaN}", RDG_E_MALFORMED, "line 1");
    refuse("{\"a\":99999999999999999999}", RDG_E_MALFORMED, "too big");
    refuse("{\"a\":1e999}", RDG_E_MALFORMED, "line 1");
    refuse("{\"a\":\"\xff\"}", RDG_E_MALFORMED, "line 1");
    refuse("{\"a\":\"\xed\xa0\x80\"}", RDG_E_MALFORMED, "line 1");
    refuse("{} {}", RDG_E_MALFORMED, "line 1");
    refuse("{\"a\":1", RDG_E_MALFORMED, "line 1");
}

static void test_limits(void **state)
{
    (void)state;
    const rdg_json_limits small = {.max_bytes = 40, .max_values = 8, .max_depth = 3};
    const struct {
        const char *text;
        rdg_err code;
    } cases[] = {
        {"{\"a\":[[1]]}", RDG_OK},
        {"{\"a\":[[[1]]]}", RDG_E_LIMIT},
        {"{\"a\":\"[[[[\\\"[[[[{{{{,,,,,,,,,,,\"}", RDG_OK}, /* inside a string nothing counts */
        {"{\"a\":[1,2,3,4,5,6]}", RDG_OK},
        {"{\"a\":[1,2,3,4,5,6,7,8,9]}", RDG_E_LIMIT},
        {"{\"a\":\"0123456789012345678901234567890123456789\"}", RDG_E_LIMIT},
    };
    for (int i = 0; i < RDG_COUNTOF(cases); i++) {
        rdg_error e = {0};
        json_t *root;
        print_message("%s\n", cases[i].text);
        assert_int_equal(rdg_json_parse(cases[i].text, strlen(cases[i].text), "x", &small, &root, &e),
                         cases[i].code);
        json_decref(root);
    }
    /* a million brackets are refused before the parser recurses */
    enum { N = 1000000 };
    char *deep = malloc(N);
    memset(deep, '[', N);
    json_t *root;
    rdg_error e = {0};
    assert_error(rdg_json_parse(deep, N, "x", &rdg_json_large, &root, &e), RDG_E_LIMIT, &e, "offset 64");
    free(deep);
}

static void test_getters(void **state)
{
    (void)state;
    const char text[] =
        "{\"i\":42,\"r\":1.5,\"t\":true,\"s\":\"x\",\"nul\":\"a\\u0000b\",\"n\":null,\"a\":[1],\"o\":{}}";
    rdg_error e = {0};
    json_t *root;
    int64_t i = -7;
    double r = -7;
    bool b = false;
    const char *s = "default";
    const json_t *v = NULL;
    assert_ok(rdg_json_parse(text, sizeof text - 1, "x", NULL, &root, &e), &e);
    /* absent and null leave the default */
    assert_ok(rdg_json_int(root, "absent", 0, 9, &i, &e), &e);
    assert_ok(rdg_json_int(root, "n", 0, 9, &i, &e), &e);
    assert_int_equal(i, -7);
    assert_ok(rdg_json_str(root, "n", &s, &e), &e);
    assert_string_equal(s, "default");
    assert_false(rdg_json_has(root, "n"));
    assert_false(rdg_json_has(root, "absent"));
    assert_true(rdg_json_has(root, "t"));
    assert_ok(rdg_json_int(root, "i", 42, 42, &i, &e), &e);
    assert_int_equal(i, 42);
    assert_ok(rdg_json_real(root, "r", &r, &e), &e);
    assert_true(r == 1.5);
    assert_ok(rdg_json_real(root, "i", &r, &e), &e);
    assert_true(r == 42);
    assert_ok(rdg_json_bool(root, "t", &b, &e), &e);
    assert_true(b);
    assert_ok(rdg_json_str(root, "s", &s, &e), &e);
    assert_string_equal(s, "x");
    assert_ok(rdg_json_array(root, "a", &v, &e), &e);
    assert_int_equal(json_array_size(v), 1);
    assert_ok(rdg_json_object(root, "o", &v, &e), &e);
    assert_int_equal(json_object_size(v), 0);
    assert_error(rdg_json_int(root, "i", 0, 41, &i, &e), RDG_E_MALFORMED, &e,
                 "'i' is 42, it must be 0 to 41");
    assert_error(rdg_json_int(root, "r", 0, 41, &i, &e), RDG_E_MALFORMED, &e,
                 "a real number where an integer");
    assert_error(rdg_json_real(root, "s", &r, &e), RDG_E_MALFORMED, &e, "a string where a number");
    assert_error(rdg_json_bool(root, "i", &b, &e), RDG_E_MALFORMED, &e, "an integer where a boolean");
    assert_error(rdg_json_str(root, "nul", &s, &e), RDG_E_MALFORMED, &e, "NUL");
    assert_error(rdg_json_str(root, "o", &s, &e), RDG_E_MALFORMED, &e, "an object where a string");
    assert_error(rdg_json_array(root, "t", &v, &e), RDG_E_MALFORMED, &e, "a boolean where an array");
    assert_error(rdg_json_object(root, "a", &v, &e), RDG_E_MALFORMED, &e, "an array where an object");
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_getters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
