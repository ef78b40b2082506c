/* The parts of the tokenizer, each against a slow and simple version of itself. */
#include "../support/random.h"
#include "format/tokenizer_json.h"
#include "text/bpe.h"
#include "text/pretokenizer.h"
#include "text/special.h"
#include "text/tokenizer_impl.h"
#include "text/utf8.h"

static rdg_rng rng;

static int setup(void **state)
{
    (void)state;
    seed_fresh(&rng);
    return 0;
}

static void test_utf8(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp <= 0x10ffff; cp++) {
        char c[4];
        uint32_t back;
        if (cp >= 0xd800 && cp <= 0xdfff) continue;
        int len = rdg_utf8_encode(cp, c);
        assert_int_equal(rdg_utf8_decode(c, 4, &back), len);
        assert_int_equal(back, cp);
        if (len > 1) assert_int_equal(rdg_utf8_decode(c, (size_t)len - 1, &back), 0);
    }
    static const char *const invalid[] = {"\xc0\x80",
                                          "\xc1\xbf",
                                          "\xe0\x9f\xbf",
                                          "\xed\xa0\x80",
                                          "\xf0\x8f\xbf\xbf",
                                          "\xf4\x90\x80\x80",
                                          "\xf8\x88\x80\x80\x80",
                                          "\x80",
                                          "\xff",
                                          "\xc3("};
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++) {
        uint32_t cp;
        assert_int_equal(rdg_utf8_decode(invalid[i], strlen(invalid[i]), &cp), 0);
    }
    assert_int_equal(rdg_utf8_valid_prefix("a\xc3\xa9\xc3", 4), 3);
}

static void test_byte_alphabet(void **state)
{
    bool seen[0x144] = {false};
    (void)state;
    for (int b = 0; b < 256; b++) {
        uint32_t cp = rdg_byte_to_char((unsigned char)b);
        assert_true(cp < 0x144 && !seen[cp]);
        seen[cp] = true;
        assert_int_equal(rdg_char_to_byte(cp), b);
    }
    assert_int_equal(rdg_byte_to_char(' '), 0x120);
    assert_int_equal(rdg_byte_to_char('\n'), 0x10a);
    assert_int_equal(rdg_byte_to_char(0xad), 0x143);
    assert_int_equal(rdg_char_to_byte(0x144), -1);
    assert_int_equal(rdg_char_to_byte(' '), -1);
}

/* Merging
 * ----------------------------------------------------------------------------------------------------- */

/* Lowest rank first, leftmost on ties, one merge at a time. */
static size_t merge_slowly(const rdg_bpe *b, int32_t *s, size_t n)
{
    for (;;) {
        size_t best = SIZE_MAX;
        const struct rdg_bpe_merge *m = NULL;
        for (size_t i = 0; i + 1 < n; i++)
            for (size_t k = 0; k < b->n; k++)
                if (b->merges[k].left == s[i] && b->merges[k].right == s[i + 1] &&
                    (!m || b->merges[k].rank < m->rank)) {
                    m = &b->merges[k];
                    best = i;
                }
        if (!m) return n;
        s[best] = m->result;
        memmove(s + best + 1, s + best + 2, (n - best - 2) * sizeof *s);
        n--;
    }
}

static void test_merging(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        rdg_bpe b;
        rdg_bpe_work w = {0};
        rdg_error e = {0};
        int32_t slow[64];
        rdg_bpe_init(&b);
        /* symbols 0 … 2 are letters, 3 … 22 results; ranks are shared now and then, as scores are */
        for (int i = 0; i < 20; i++)
            assert_true(rdg_bpe_add(&b, (int32_t)rdg_rng_below(&rng, 3 + (uint64_t)i),
                                    (int32_t)rdg_rng_below(&rng, 3 + (uint64_t)i), 3 + i,
                                    (uint32_t)rdg_rng_below(&rng, 8)));
        size_t n = rdg_rng_below(&rng, 64);
        for (size_t i = 0; i < n; i++) {
            slow[i] = (int32_t)rdg_rng_below(&rng, 4) - 1; /* -1 never merges */
            assert_true(rdg_bpe_push(&w, slow[i]));
        }
        n = merge_slowly(&b, slow, n);
        assert_ok(rdg_bpe_merge(&b, &w, &e), &e);
        assert_int_equal(w.n, n);
        if (n) assert_memory_equal(w.symbols, slow, n * sizeof *slow);
        rdg_bpe_work_finish(&w);
        rdg_bpe_finish(&b);
    }
}

/* Special tokens
 * ---------------------------------------------------------------------------------------------- */

/* For each length from long to short, cut from left to right out of what is left. owner[i]: the token at byte
 * i. */
static void cut_slowly(const char *const *tokens, int n_tokens, const char *text, size_t n, int *owner,
                       int *serial)
{
    int cuts = 0;
    for (size_t i = 0; i < n; i++) owner[i] = -1, serial[i] = -1;
    for (size_t len = 8; len > 0; len--)
        for (size_t at = 0; at + len <= n; at++)
            for (int k = 0; k < n_tokens; k++) {
                bool is_free = strlen(tokens[k]) == len && memcmp(text + at, tokens[k], len) == 0;
                for (size_t i = at; i < at + len && is_free; i++) is_free = owner[i] < 0;
                if (!is_free) continue;
                for (size_t i = at; i < at + len; i++) owner[i] = k, serial[i] = cuts;
                cuts++;
            }
}

static void test_special_tokens(void **state)
{
    static const char *const tokens[] = {"ab", "abc", "bcda", "cd", "a", "ddd", "dd", "cab"};
    enum { N_TOKENS = sizeof tokens / sizeof *tokens };
    rdg_special s;
    (void)state;
    assert_true(rdg_special_init(&s));
    for (int i = 0; i < N_TOKENS; i++) assert_true(rdg_special_add(&s, tokens[i], strlen(tokens[i]), i));
    assert_true(rdg_special_add(&s, "ab", 2, 99)); /* the first of equal texts stays */
    assert_true(rdg_special_add(&s, "", 0, 98));
    rdg_special_seal(&s);
    for (int round = 0; round < 5000; round++) {
        char text[40];
        int owner[40], serial[40];
        rdg_special_part *parts;
        size_t n = rdg_rng_below(&rng, sizeof text), n_parts, at = 0;
        rdg_error e = {0};
        for (size_t i = 0; i < n; i++) text[i] = (char)('a' + rdg_rng_below(&rng, 5));
        cut_slowly(tokens, N_TOKENS, text, n, owner, serial);
        assert_ok(rdg_special_split(&s, text, n, NULL, &parts, &n_parts, &e), &e);
        for (size_t i = 0; i < n_parts; at = parts[i++].end) {
            assert_int_equal(parts[i].start, at);
            assert_true(parts[i].end > at);
            for (size_t k = parts[i].start; k < parts[i].end; k++) {
                assert_int_equal(owner[k], parts[i].id);
                assert_int_equal(serial[k], serial[at]);
            }
            if (i && parts[i].id < 0) assert_true(parts[i - 1].id >= 0); /* fragments are as long as can be */
        }
        assert_int_equal(at, n);
        rdg_free(parts);
    }
    rdg_special_finish(&s);
}

/* Pre-tokenisers
 * ---------------------------------------------------------------------------------------------- */

/* "a|bc|d": the pieces of the text, joined. */
static void check_split(const char *expression, const char *text, const char *want)
{
    rdg_error e = {0};
    rdg_pretokenizer *p;
    rdg_str x = {expression, strlen(expression)};
    size_t *ends, n, start = 0;
    char got[256] = "";
    assert_ok(rdg_pretokenizer_create(&x, 1, &p, &e), &e);
    assert_ok(rdg_pretokenizer_split(p, text, strlen(text), &ends, &n, &e), &e);
    for (size_t i = 0; i < n; start = ends[i++])
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%.*s", i ? "|" : "", (int)(ends[i] - start),
                 text + start);
    assert_string_equal(got, want);
    rdg_free(ends);
    rdg_pretokenizer_destroy(p);
}

static void test_pretokenizer(void **state)
{
    (void)state;
    check_split("b+", "abbac", "a|bb|ac");
    check_split("x", "abc", "abc");
    check_split("", "", "");
    check_split("(?!)", "abc", "abc");
    check_split("", "abc", "a|b|c");                               /* empty matches cut */
    check_split("(?=(\\d{3})+(?!\\d))", "x1234567", "x1|234|567"); /* as in superbpe */
    check_split("\\p{L}+", "d\xc3\xa9j\xc3\xa0 vu", "d\xc3\xa9j\xc3\xa0| |vu");
    check_split("\\s+",
                "a\xe1\xa0\x8e"
                "b\xc2\xa0"
                "c",
                "a\xe1\xa0\x8e"
                "b|\xc2\xa0|c"); /* U+180E is no white space */
    check_split("[^\\S]+", "a b", "a| |b");
    check_split("\\\\s", "a\\sb", "a|\\s|b"); /* an escaped backslash */
    check_split("$", "a\nb", "a|\nb");        /* at every line */
    /* An invalid byte is a character that is neither letter nor space, and is kept as it is. */
    check_split("\\p{L}+",
                "ab\xff\xfe"
                "cd",
                "ab|\xff\xfe|cd");
    check_split("[^\\p{L}]",
                "\xe4\xbd"
                "a\x80",
                "\xe4|\xbd|a|\x80");
}

static void test_pretokenizer_limits(void **state)
{
    rdg_error e = {0};
    rdg_pretokenizer *p;
    size_t *ends, n;
    char text[64];
    (void)state;
    memset(text, 'a', sizeof text);
    rdg_str x = {"(?:a+)+(?:a+)+b", 15};
    assert_ok(rdg_pretokenizer_create(&x, 1, &p, &e), &e);
    text[63] = 'c';
    text[62] = 'b', text[61] = 'c'; /* b is there, so that no search for it ends the matter at once */
    assert_error(rdg_pretokenizer_split(p, text, sizeof text, &ends, &n, &e), RDG_E_LIMIT, &e, "backtracks");
    assert_null(ends);
    rdg_pretokenizer_destroy(p);
    x = (rdg_str){"[a", 2};
    assert_error(rdg_pretokenizer_create(&x, 1, &p, &e), RDG_E_MALFORMED, &e, "[a");
    assert_null(p);
    x = (rdg_str){"\\C", 2}; /* would cut characters */
    assert_error(rdg_pretokenizer_create(&x, 1, &p, &e), RDG_E_MALFORMED, &e, "\\C");
}

/* Every rule of the table compiles, has its name back, and its pieces are the text. */
static void test_rules(void **state)
{
    static const char *const names[] = {
        "llama-bpe",  "smaug-bpe",   "gpt-2",        "qwen2",          "qwen35", "smollm", "tekken",
        "gpt-4o",     "deepseek-v3", "deepseek-llm", "deepseek-coder", "falcon", "bloom",  "viking",
        "seed-coder", "superbpe",    "bailingmoe",   "chameleon",      "default"};
    static const char text[] =
        "Hello  World'S 12345 \n\n \xe4\xbd\xa0\xe5\xa5\xbd, \xd0\xbf\xd1\x80!! \t x\xff 3.14   ";
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const rdg_pre_rule *rule = rdg_pre_rule_find(names[i]);
        rdg_str x[RDG_PRE_EXPRESSIONS];
        rdg_pretokenizer *p;
        rdg_error e = {0};
        size_t *ends, n_ends;
        char name[64];
        assert_non_null(rule);
        size_t n = rdg_pre_rule_expressions(rule, x);
        assert_true(n > 0);
        assert_ok(rdg_pretokenizer_create(x, n, &p, &e), &e);
        assert_ok(rdg_pretokenizer_split(p, text, sizeof text - 1, &ends, &n_ends, &e), &e);
        assert_true(n_ends > 4);
        for (size_t k = 1; k < n_ends; k++) assert_true(ends[k] > ends[k - 1]);
        assert_int_equal(ends[n_ends - 1], sizeof text - 1);
        rdg_free(ends);
        rdg_pretokenizer_destroy(p);
        assert_true(rdg_pre_rule_name(x, n, rule->ignore_merges, name, sizeof name) > 0);
        assert_ptr_equal(rdg_pre_rule_find(name), rule);
    }
    assert_ptr_equal(rdg_pre_rule_find("llama3"), rdg_pre_rule_find("llama-bpe"));
    assert_null(rdg_pre_rule_find("llama"));
    assert_null(rdg_pre_rule_find(""));
    assert_null(rdg_pre_rule_find("gpt-2 phi-2"));
    assert_true(rdg_pre_rule_find("llama-bpe")->ignore_merges && rdg_pre_rule_find("tekken")->add_bos);
}

/* Normalisation
 * ----------------------------------------------------------------------------------------------- */

static void check_normal(unsigned steps, const char *text, const char *want)
{
    rdg_buf b;
    rdg_error e = {0};
    rdg_buf_init(&b);
    assert_ok(rdg_normalize(text, strlen(text), steps, &b, &e), &e);
    assert_string_equal(b.data ? b.data : "", want);
    rdg_buf_finish(&b);
}

static void test_normalize(void **state)
{
    (void)state;
    check_normal(RDG_NORMALIZE_NFC, "e\xcc\x81", "\xc3\xa9");
    check_normal(RDG_NORMALIZE_NFD, "\xc3\xa9", "e\xcc\x81");
    check_normal(RDG_NORMALIZE_NFKC, "\xef\xbc\x91\xe2\x85\xa0", "1I");
    check_normal(RDG_NORMALIZE_NFC, "\xef\xbc\x91", "\xef\xbc\x91");
    check_normal(RDG_NORMALIZE_NFC,
                 "\xff"
                 "e\xcc\x81\x80",
                 "\xff\xc3\xa9\x80"); /* invalid bytes stay */
    check_normal(RDG_NORMALIZE_LOWERCASE,
                 "\xc3\x89"
                 "A\xc4\xb0",
                 "\xc3\xa9"
                 "ai\xcc\x87");
    check_normal(RDG_NORMALIZE_LOWERCASE | RDG_NORMALIZE_STRIP_ACCENTS, "\xc3\x89t\xc3\xa9", "ete");
    check_normal(RDG_NORMALIZE_NFC, "", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8),         cmocka_unit_test(test_byte_alphabet),
        cmocka_unit_test(test_merging),      cmocka_unit_test(test_special_tokens),
        cmocka_unit_test(test_pretokenizer), cmocka_unit_test(test_pretokenizer_limits),
        cmocka_unit_test(test_rules),        cmocka_unit_test(test_normalize),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
