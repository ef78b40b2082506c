/* The normaliser, pre-tokeniser and post-processor of tokenizer.json. Each is a tagged object or a sequence
 * of them. Pre-tokenisers become expressions that cut text into matches and the gaps between them, in
 * sequence, which is what almost all of them are; the few that also drop text are reported. */
#include "format/tokenizer_json_parts.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 8, MAX_EXPRESSIONS = 64, MAX_WARNINGS = 32 };

#define GPT2_EXPRESSION "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define SPACE_MARK      "\xe2\x96\x81" /* U+2581 */

rdg_err rdg_tokenizer_json_warn(rdg_tokenizer_json *t, rdg_error *e, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    if (t->n_warnings == MAX_WARNINGS) return RDG_OK; /* the last one says that there are more */
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (t->n_warnings == MAX_WARNINGS - 1)
        snprintf(text, sizeof text, "more warnings of this kind were left out");
    if (!t->warnings) t->warnings = rdg_arena_array(&t->arena, MAX_WARNINGS, sizeof *t->warnings);
    char *copy = rdg_arena_strndup(&t->arena, text, strlen(text));
    if (!t->warnings || !copy) return rdg_fail(e, RDG_E_NOMEM, "tokenizer.json: out of memory");
    t->warnings[t->n_warnings++] = copy;
    return RDG_OK;
}

static const char *type_of(const json_t *j)
{
    const char *type = json_string_value(json_object_get(j, "type"));
    return type ? type : "";
}

static bool flag(const json_t *j, const char *name, bool absent)
{
    const json_t *v = json_object_get(j, name);
    return json_is_boolean(v) ? json_is_true(v) : absent;
}

static bool is_string(const json_t *j, const char *text)
{
    return json_is_string(j) && strcmp(json_string_value(j), text) == 0;
}

/* Runs fn over the members of a sequence. */
static rdg_err each(rdg_tokenizer_json *t, json_t *list, int depth, rdg_error *e, const char *what,
                    rdg_err (*fn)(rdg_tokenizer_json *, json_t *, int, rdg_error *))
{
    size_t i;
    json_t *j;
    if (depth >= MAX_DEPTH)
        return rdg_fail(e, RDG_E_LIMIT, "tokenizer.json: %s: sequences nested deeper than %d", what,
                        MAX_DEPTH);
    json_array_foreach(list, i, j)
    {
        rdg_err err = fn(t, j, depth + 1, e);
        if (err) return err;
    }
    return RDG_OK;
}

/* Normaliser --------------------------------------------------------------------------------------------- */

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static rdg_err read_charsmap(rdg_tokenizer_json *t, const json_t *j, rdg_error *e)
{
    const char *s = json_string_value(j);
    size_t n = json_string_length(j), used = 0;
    if (!s || n == 0) return RDG_OK; /* an empty map changes nothing */
    char *out = rdg_arena_alloc(&t->arena, n / 4 * 3 + 3);
    if (!out) return rdg_fail(e, RDG_E_NOMEM, "tokenizer.json: out of memory");
    uint32_t bits = 0;
    int n_bits = 0;
    size_t i = 0;
    for (; i < n && s[i] != '='; i++) {
        int digit = base64_digit(s[i]);
        if (digit < 0)
            return rdg_fail(e, RDG_E_MALFORMED,
                            "tokenizer.json: normalizer.precompiled_charsmap: no base64 digit at %zu", i);
        bits = bits << 6 | (uint32_t)digit;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            out[used++] = (char)(bits >> n_bits & 255);
        }
    }
    t->charsmap = (rdg_str){out, used};
    return RDG_OK;
}

static rdg_err replace_step(rdg_tokenizer_json *t, json_t *j, rdg_error *e)
{
    json_t *pattern = json_object_get(j, "pattern"), *content = json_object_get(j, "content");
    json_t *literal = json_object_get(pattern, "String"), *regex = json_object_get(pattern, "Regex");
    if (is_string(literal, " ") && is_string(content, SPACE_MARK)) {
        t->metaspace = true;
        return RDG_OK;
    }
    if (is_string(regex, " {2,}") && (is_string(content, " ") || is_string(content, SPACE_MARK))) {
        t->collapse_spaces = true;
        return RDG_OK;
    }
    const char *from = json_string_value(literal ? literal : regex), *to = json_string_value(content);
    return rdg_tokenizer_json_warn(t, e, "normalizer: Replace %s by %s is not carried over", quote(from).text,
                                   quote(to).text);
}

rdg_err rdg_tokenizer_json_normalizer(rdg_tokenizer_json *t, json_t *j, int depth, rdg_error *e)
{
    static const struct {
        const char *type;
        unsigned bit;
    } simple[] = {{"NFC", RDG_NORMALIZE_NFC},
                  {"NFD", RDG_NORMALIZE_NFD},
                  {"NFKC", RDG_NORMALIZE_NFKC},
                  {"NFKD", RDG_NORMALIZE_NFKD},
                  {"Lowercase", RDG_NORMALIZE_LOWERCASE},
                  {"StripAccents", RDG_NORMALIZE_STRIP_ACCENTS}};
    if (!json_is_object(j)) return RDG_OK;
    const char *type = type_of(j);
    for (int i = 0; i < RDG_COUNTOF(simple); i++) {
        if (strcmp(type, simple[i].type) != 0) continue;
        t->normalize |= simple[i].bit;
        return RDG_OK;
    }
    if (strcmp(type, "Sequence") == 0)
        return each(t, json_object_get(j, "normalizers"), depth, e, "normalizer",
                    rdg_tokenizer_json_normalizer);
    if (strcmp(type, "Prepend") == 0 && is_string(json_object_get(j, "prepend"), SPACE_MARK)) {
        t->prepend = true;
        return RDG_OK;
    }
    if (strcmp(type, "Strip") == 0 && flag(j, "strip_right", true)) {
        t->strip_right = true;
        return RDG_OK;
    }
    if (strcmp(type, "Replace") == 0) return replace_step(t, j, e);
    if (strcmp(type, "Precompiled") == 0)
        return read_charsmap(t, json_object_get(j, "precompiled_charsmap"), e);
    if (strcmp(type, "BertNormalizer") == 0) {
        t->bert_normalizer = true;
        t->bert_clean_text = flag(j, "clean_text", true);
        t->bert_chinese_chars = flag(j, "handle_chinese_chars", true);
        bool lower = flag(j, "lowercase", true);
        if (lower) t->normalize |= RDG_NORMALIZE_LOWERCASE;
        if (flag(j, "strip_accents", lower)) t->normalize |= RDG_NORMALIZE_STRIP_ACCENTS;
        return RDG_OK;
    }
    return rdg_tokenizer_json_warn(t, e, "normalizer: %s is not carried over", quote(type).text);
}

/* Pre-tokeniser ------------------------------------------------------------------------------------------ */

static rdg_err add_expression(rdg_tokenizer_json *t, const char *text, size_t n, rdg_error *e)
{
    if (t->n_expressions == MAX_EXPRESSIONS)
        return rdg_fail(e, RDG_E_LIMIT, "tokenizer.json: pre_tokenizer: more than %d expressions",
                        MAX_EXPRESSIONS);
    if (!t->expressions) t->expressions = rdg_arena_array(&t->arena, MAX_EXPRESSIONS, sizeof *t->expressions);
    char *copy = rdg_arena_strndup(&t->arena, text, n);
    if (!t->expressions || !copy) return rdg_fail(e, RDG_E_NOMEM, "tokenizer.json: out of memory");
    t->expressions[t->n_expressions++] = (rdg_str){copy, n};
    return RDG_OK;
}

static rdg_err add_text(rdg_tokenizer_json *t, const char *text, rdg_error *e)
{
    return add_expression(t, text, strlen(text), e);
}

static rdg_err split_step(rdg_tokenizer_json *t, json_t *j, rdg_error *e)
{
    json_t *pattern = json_object_get(j, "pattern");
    json_t *literal = json_object_get(pattern, "String"), *regex = json_object_get(pattern, "Regex");
    json_t *behavior = json_object_get(j, "behavior");
    rdg_buf b;
    rdg_err err = RDG_OK;
    /* The splitter of Gemma's files: its normaliser has replaced every space before. */
    if (is_string(literal, " ") && t->metaspace) return RDG_OK;
    if (!json_is_string(literal) && !json_is_string(regex))
        return rdg_fail(e, RDG_E_MALFORMED,
                        "tokenizer.json: pre_tokenizer: Split has neither String nor Regex pattern");
    /* "Removed" with invert keeps the matches: the same cuts, as such an expression matches everything. */
    bool invert = flag(j, "invert", false);
    bool contiguous = is_string(behavior, "Contiguous");
    if (!is_string(behavior, "Isolated") && !contiguous && !(is_string(behavior, "Removed") && invert)) {
        const char *name = json_string_value(behavior);
        err = rdg_tokenizer_json_warn(t, e, "pre_tokenizer: Split behavior %s is treated as Isolated",
                                      quote(name).text);
        if (err) return err;
    }
    rdg_buf_init(&b);
    if (contiguous) rdg_buf_puts(&b, "(?:");
    if (regex) {
        rdg_buf_append(&b, json_string_value(regex), json_string_length(regex));
    } else {
        for (const char *p = json_string_value(literal); *p; p++) {
            if (strchr("\\^$.|?*+()[]{}-#", *p)) rdg_buf_putc(&b, '\\');
            rdg_buf_putc(&b, *p);
        }
    }
    if (contiguous) rdg_buf_puts(&b, ")+");
    err = b.failed ? rdg_fail(e, RDG_E_NOMEM, "tokenizer.json: out of memory")
                   : add_expression(t, b.data, b.len, e);
    rdg_buf_finish(&b);
    return err;
}

static rdg_err byte_level_step(rdg_tokenizer_json *t, json_t *j, rdg_error *e)
{
    t->byte_level = true;
    t->add_prefix_space = flag(j, "add_prefix_space", true);
    return flag(j, "use_regex", true) ? add_text(t, GPT2_EXPRESSION, e) : RDG_OK;
}

static rdg_err metaspace_step(rdg_tokenizer_json *t, json_t *j, rdg_error *e)
{
    (void)e;
    json_t *scheme = json_object_get(j, "prepend_scheme");
    t->metaspace = true;
    t->prepend = scheme ? !is_string(scheme, "never") : flag(j, "add_prefix_space", true);
    t->prepend_first = is_string(scheme, "first");
    t->prepend_unless_space = true;
    return RDG_OK;
}

static rdg_err digits_step(rdg_tokenizer_json *t, json_t *j, rdg_error *e)
{
    return add_text(t, flag(j, "individual_digits", false) ? "\\p{N}" : "\\p{N}+", e);
}

static rdg_err punctuation_step(rdg_tokenizer_json *t, json_t *j, rdg_error *e)
{
    bool contiguous = is_string(json_object_get(j, "behavior"), "Contiguous");
    return add_text(t, contiguous ? "[\\p{P}\\$\\+<=>\\^~\\|`]+" : "[\\p{P}\\$\\+<=>\\^~\\|`]", e);
}

static rdg_err bert_step(rdg_tokenizer_json *t, json_t *j, rdg_error *e)
{
    (void)j, (void)e;
    t->bert_pre_tokenizer = true;
    return RDG_OK;
}

/* Whitespace itself is kept as a piece of its own here but dropped there. */
static rdg_err whitespace_step(rdg_tokenizer_json *t, json_t *j, rdg_error *e)
{
    const char *type = type_of(j);
    if (t->model == RDG_TOKENIZER_JSON_UNIGRAM &&
        strcmp(type, "WhitespaceSplit") == 0) { /* goes with Metaspace */
        t->collapse_spaces = true;
        return RDG_OK;
    }
    rdg_err err = rdg_tokenizer_json_warn(t, e, "pre_tokenizer: %s drops whitespace, which is kept here",
                                          quote(type).text);
    if (err) return err;
    return add_text(t, strcmp(type, "Whitespace") == 0 ? "\\w+|[^\\w\\s]+" : "\\S+", e);
}

static rdg_err pre_tokenizer_sequence(rdg_tokenizer_json *t, json_t *j, int depth, rdg_error *e)
{
    return each(t, json_object_get(j, "pretokenizers"), depth, e, "pre_tokenizer",
                rdg_tokenizer_json_pre_tokenizer);
}

rdg_err rdg_tokenizer_json_pre_tokenizer(rdg_tokenizer_json *t, json_t *j, int depth, rdg_error *e)
{
    static const struct {
        const char *type;
        rdg_err (*fn)(rdg_tokenizer_json *, json_t *, rdg_error *);
    } steps[] = {
        {"Split", split_step},           {"ByteLevel", byte_level_step},      {"Metaspace", metaspace_step},
        {"Digits", digits_step},         {"Punctuation", punctuation_step},   {"BertPreTokenizer", bert_step},
        {"Whitespace", whitespace_step}, {"WhitespaceSplit", whitespace_step}};
    if (!json_is_object(j)) return RDG_OK;
    const char *type = type_of(j);
    if (strcmp(type, "Sequence") == 0) return pre_tokenizer_sequence(t, j, depth, e);
    for (int i = 0; i < RDG_COUNTOF(steps); i++)
        if (strcmp(type, steps[i].type) == 0) return steps[i].fn(t, j, e);
    return rdg_tokenizer_json_warn(t, e, "pre_tokenizer: %s is not carried over", quote(type).text);
}

/* Post-processor: which single tokens it puts around one sequence. --------------------------------------- */

static rdg_err template_step(rdg_tokenizer_json *t, json_t *j, rdg_error *e)
{
    json_t *part, *specials = json_object_get(j, "special_tokens");
    size_t i;
    bool behind = false;
    json_array_foreach(json_object_get(j, "single"), i, part)
    {
        if (json_object_get(part, "Sequence")) {
            behind = true;
            continue;
        }
        const char *name = json_string_value(json_object_get(json_object_get(part, "SpecialToken"), "id"));
        json_t *ids = name ? json_object_get(json_object_get(specials, name), "ids") : NULL;
        json_t *id = json_array_get(ids, 0);
        bool *adds = behind ? &t->adds_eos : &t->adds_bos;
        if (!json_is_integer(id) || json_array_size(ids) != 1 || *adds) {
            rdg_err err = rdg_tokenizer_json_warn(
                t, e, "post_processor: only one token is added %s the text; %s is not",
                behind ? "behind" : "before", quote(name).text);
            if (err) return err;
            continue;
        }
        json_int_t value = json_integer_value(id);
        if (value < 0 || value >= t->n_tokens)
            return rdg_fail(e, RDG_E_MALFORMED,
                            "tokenizer.json: post_processor: id %lld of %s is not an id of %d tokens",
                            (long long)value, quote(name).text, (int)t->n_tokens);
        *adds = true;
        *(behind ? &t->eos_id : &t->bos_id) = (int32_t)value;
    }
    return RDG_OK;
}

/* {"sep": ["[SEP]", 102], "cls": ["[CLS]", 101]} */
static rdg_err pair_step(rdg_tokenizer_json *t, json_t *j, rdg_error *e)
{
    json_t *cls = json_array_get(json_object_get(j, "cls"), 1),
           *sep = json_array_get(json_object_get(j, "sep"), 1);
    json_int_t a = json_integer_value(cls), b = json_integer_value(sep);
    if (!json_is_integer(cls) || !json_is_integer(sep) || a < 0 || a >= t->n_tokens || b < 0 ||
        b >= t->n_tokens)
        return rdg_fail(e, RDG_E_MALFORMED,
                        "tokenizer.json: post_processor: cls or sep is not an id of %d tokens",
                        (int)t->n_tokens);
    t->adds_bos = t->adds_eos = true;
    t->bos_id = (int32_t)a;
    t->eos_id = (int32_t)b;
    return RDG_OK;
}

rdg_err rdg_tokenizer_json_post_processor(rdg_tokenizer_json *t, json_t *j, int depth, rdg_error *e)
{
    if (!json_is_object(j)) return RDG_OK;
    const char *type = type_of(j);
    if (strcmp(type, "Sequence") == 0)
        return each(t, json_object_get(j, "processors"), depth, e, "post_processor",
                    rdg_tokenizer_json_post_processor);
    t->has_post_processor = true;
    if (strcmp(type, "TemplateProcessing") == 0) return template_step(t, j, e);
    if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0)
        return pair_step(t, j, e);
    if (strcmp(type, "ByteLevel") == 0) return RDG_OK; /* offsets only */
    return rdg_tokenizer_json_warn(t, e, "post_processor: %s is not carried over", quote(type).text);
}
