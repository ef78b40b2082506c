/* A stop text in a stream that comes in any pieces. */
#include "../support/random.h"
#include "../../cli/stop_text.h"

static void collect(void *user, const char *text, size_t n)
{
    rdg_buf_append(user, text, n);
}

/* Fed in pieces; what came out, and how much had come out before the stream ended. */
static void feed(const char *stop, const char *text, rdg_rng *rng, rdg_buf *out, size_t *early, bool *ended)
{
    cli_stop_text s;
    size_t n = strlen(text);
    cli_stop_init(&s, stop);
    for (size_t at = 0, piece; at < n; at += piece) {
        piece = 1 + (size_t)rdg_rng_below(rng, 4);
        if (piece > n - at) piece = n - at;
        assert_true(cli_stop_feed(&s, text + at, piece, collect, out));
    }
    *early = out->len;
    cli_stop_flush(&s, collect, out);
    *ended = s.ended;
    cli_stop_finish(&s);
}

static void a_text_ends_where_it_should(void **state)
{
    (void)state;
    static const struct {
        const char *stop, *text, *want;
        size_t held; /* bytes that have to wait for the end */
    } cases[] = {
        {"<|im_end|>", "Hello<|im_end|>never", "Hello", 0},
        {"<|im_end|>", "<|im_end|>", "", 0},
        {"<|im_end|>", "Hello", "Hello", 0},
        {"<|im_end|>", "a < b", "a < b", 0},
        {"<|im_end|>", "a <|im_end", "a <|im_end", 8},
        {"<|im_end|>", "<<|im_<|im_end|>|>", "<<|im_", 0},
        {"aab", "aaab", "a", 0},
        {"abab", "abaabab", "aba", 0},
        {NULL, "<|im_end|>", "<|im_end|>", 0},
        {"", "a", "a", 0},
    };
    rdg_rng rng;
    seed_fresh(&rng);
    for (int i = 0; i < RDG_COUNTOF(cases) * 50; i++) {
        int k = i % RDG_COUNTOF(cases);
        rdg_buf out;
        size_t early;
        bool ended;
        rdg_buf_init(&out);
        feed(cases[k].stop, cases[k].text, &rng, &out, &early, &ended);
        assert_string_equal(out.data ? out.data : "", cases[k].want);
        assert_int_equal(ended, strlen(cases[k].want) < strlen(cases[k].text));
        assert_int_equal(early, strlen(cases[k].want) - cases[k].held);
        rdg_buf_finish(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_text_ends_where_it_should)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
