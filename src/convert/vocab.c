/* Tokenizer of a Hugging Face folder, see vocab.h. The facts are spread over up to seven files; when two of
 * them speak of the same thing, the one that the tokenizer of the model's own framework would obey wins:
 * tokenizer.json before tokenizer.model (which only adds scores), tokenizer_config.json before config.json.
 */
#include "convert/vocab_impl.h"
#include "base/file.h"
#include "format/names.h"
#include "text/pretokenizer.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_JSON_BYTES = 256 << 20,
    MAX_TEMPLATE_BYTES = 4 << 20,
    MAX_WARNINGS = 64,
    MAX_TEMPLATES = 64,
    N_SELFTESTS = 8,
};

rdg_err rdg_vocab_no_memory(converter *c)
{
    return rdg_fail(c->e, RDG_E_NOMEM, "vocabulary: out of memory");
}

void rdg_vocab_warn(converter *c, const char *fmt, ...)
{
    rdg_vocab_report *r = c->report;
    char text[700];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    rdg_log_warn(c->log, "%s", text);
    if (r->n_warnings == MAX_WARNINGS) return; /* the log has it */
    if (!r->warnings) r->warnings = rdg_arena_array(&r->arena, MAX_WARNINGS, sizeof *r->warnings);
    char *copy = rdg_arena_strndup(&r->arena, text, strlen(text));
    if (r->warnings && copy) r->warnings[r->n_warnings++] = copy;
}

void rdg_vocab_report_finish(rdg_vocab_report *r)
{
    rdg_arena_finish(&r->arena);
    *r = (rdg_vocab_report){0};
}

/* Files -------------------------------------------------------------------------------------------------- */

static rdg_err exists(converter *c, const char *name, bool *found)
{
    char *path = rdg_path_join(c->dir, name);
    if (!path) return rdg_vocab_no_memory(c);
    *found = rdg_file_exists(path);
    rdg_free(path);
    return RDG_OK;
}

static rdg_err read_file(converter *c, const char *name, size_t limit, char **data, size_t *bytes)
{
    char *path = rdg_path_join(c->dir, name);
    if (!path) return rdg_vocab_no_memory(c);
    rdg_err err = rdg_file_read(path, limit, false, data, bytes, c->e);
    rdg_free(path);
    return err;
}

/* An object from a small file; *out is NULL if there is no such file. */
static rdg_err read_object(converter *c, const char *name, json_t **out)
{
    char *data = NULL;
    size_t bytes = 0;
    *out = NULL;
    bool found = false;
    rdg_err err = exists(c, name, &found);
    if (err || !found) return err;
    err = read_file(c, name, MAX_JSON_BYTES, &data, &bytes);
    if (err) return err;
    err = rdg_json_parse(data, bytes, name, &rdg_json_small, out, c->e);
    rdg_free(data);
    return err;
}

/* Ids, flags --------------------------------------------------------------------------------------------- */

static rdg_err build_index(converter *c)
{
    rdg_vocab *v = &c->vocab;
    if (!rdg_strmap_reserve(&c->index, (size_t)v->n_tokens)) return rdg_vocab_no_memory(c);
    for (int pass = 0; pass < 2; pass++) /* special tokens last: they win */
        for (int32_t i = 0; i < v->n_tokens; i++) {
            bool special = v->types[i] != RDG_TOKEN_NORMAL;
            if (special == (pass == 1) && !rdg_strmap_put(&c->index, v->tokens[i].p, v->tokens[i].n, i))
                return rdg_vocab_no_memory(c);
        }
    return RDG_OK;
}

/* "bos_token": "<s>" or {"content": "<s>"} */
static int32_t named_token(converter *c, const char *field)
{
    json_t *j = json_object_get(c->tokenizer_config, field);
    if (json_is_object(j)) j = json_object_get(j, "content");
    if (!json_is_string(j)) return -1;
    int32_t id = rdg_strmap_get(&c->index, json_string_value(j), json_string_length(j));
    if (id < 0)
        rdg_vocab_warn(c, "tokenizer_config.json: %s %s is not a token", field,
                       rdg_quote(json_string_value(j), json_string_length(j)).text);
    return id;
}

static bool valid_id(converter *c, const json_t *j)
{
    return json_is_integer(j) && json_integer_value(j) >= 0 && json_integer_value(j) < c->vocab.n_tokens;
}

/* "bos_token_id" of a configuration: a number or a list, whose first member counts. */
static int32_t config_id(converter *c, const json_t *config, const char *field)
{
    json_t *j = json_object_get(config, field);
    if (!j) j = json_object_get(json_object_get(config, "text_config"), field);
    if (json_is_array(j)) j = json_array_get(j, 0);
    return valid_id(c, j) ? (int32_t)json_integer_value(j) : -1;
}

/* A second token that ends generation: only the list of generation_config.json names it. */
static void set_eot(converter *c)
{
    static const char *const files[] = {"generation_config.json", "config.json"};
    json_t *configs[] = {c->generation_config, c->config};
    for (int k = 0; k < RDG_COUNTOF(files); k++) {
        json_t *list = json_object_get(configs[k], "eos_token_id"), *j;
        size_t i;
        json_array_foreach(list, i, j)
        {
            if (!valid_id(c, j) || json_integer_value(j) == c->vocab.special[RDG_SPECIAL_EOS]) continue;
            if (c->vocab.special[RDG_SPECIAL_EOT] < 0)
                c->vocab.special[RDG_SPECIAL_EOT] = (int32_t)json_integer_value(j);
            else if (c->vocab.special[RDG_SPECIAL_EOM] < 0 &&
                     json_integer_value(j) != c->vocab.special[RDG_SPECIAL_EOT])
                c->vocab.special[RDG_SPECIAL_EOM] = (int32_t)json_integer_value(j);
        }
    }
}

static void set_specials(converter *c)
{
    static const struct {
        const char *token, *id;
        rdg_vocab_special special;
    } fields[] = {
        {"bos_token", "bos_token_id", RDG_SPECIAL_BOS},   {"eos_token", "eos_token_id", RDG_SPECIAL_EOS},
        {"unk_token", "unk_token_id", RDG_SPECIAL_UNK},   {"sep_token", "sep_token_id", RDG_SPECIAL_SEP},
        {"pad_token", "pad_token_id", RDG_SPECIAL_PAD},   {"cls_token", "cls_token_id", RDG_SPECIAL_CLS},
        {"mask_token", "mask_token_id", RDG_SPECIAL_MASK}};
    static const struct {
        const char *text;
        rdg_vocab_special special;
    } fim[] = {{"<|fim_prefix|>", RDG_SPECIAL_FIM_PRE}, {"<fim_prefix>", RDG_SPECIAL_FIM_PRE},
               {"<fim-prefix>", RDG_SPECIAL_FIM_PRE},   {"<|fim_suffix|>", RDG_SPECIAL_FIM_SUF},
               {"<fim_suffix>", RDG_SPECIAL_FIM_SUF},   {"<fim-suffix>", RDG_SPECIAL_FIM_SUF},
               {"<|fim_middle|>", RDG_SPECIAL_FIM_MID}, {"<fim_middle>", RDG_SPECIAL_FIM_MID},
               {"<fim-middle>", RDG_SPECIAL_FIM_MID},   {"<|fim_pad|>", RDG_SPECIAL_FIM_PAD},
               {"<fim_pad>", RDG_SPECIAL_FIM_PAD},      {"<|repo_name|>", RDG_SPECIAL_FIM_REP},
               {"<|file_sep|>", RDG_SPECIAL_FIM_SEP}};
    rdg_vocab *v = &c->vocab;
    for (int i = 0; i < RDG_COUNTOF(fields); i++) {
        int32_t id = named_token(c, fields[i].token);
        if (id < 0 && v->special[fields[i].special] < 0) {
            id = config_id(c, c->config, fields[i].id);
            if (id < 0) id = config_id(c, c->generation_config, fields[i].id);
        }
        if (id >= 0) v->special[fields[i].special] = id;
    }
    for (int i = 0; i < RDG_COUNTOF(fim); i++) {
        int32_t id = rdg_strmap_get(&c->index, fim[i].text, strlen(fim[i].text));
        if (id >= 0 && v->special[fim[i].special] < 0) v->special[fim[i].special] = id;
    }
    set_eot(c);
    if (v->kind == RDG_VOCAB_WORDPIECE)
        v->special[RDG_SPECIAL_BOS] = v->special[RDG_SPECIAL_EOS] = -1; /* cls and sep serve */
}

/* The flag of the configuration, if it is there, and no token that does not exist. */
static void set_flags(converter *c)
{
    rdg_vocab *v = &c->vocab;
    const struct {
        const char *field;
        bool *flag;
        int32_t id;
    } flags[] = {{"add_bos_token", &v->add_bos, v->special[RDG_SPECIAL_BOS]},
                 {"add_eos_token", &v->add_eos, v->special[RDG_SPECIAL_EOS]}};
    if (v->kind == RDG_VOCAB_WORDPIECE) return;
    for (int i = 0; i < RDG_COUNTOF(flags); i++) {
        json_t *j = json_object_get(c->tokenizer_config, flags[i].field);
        if (json_is_boolean(j)) *flags[i].flag = json_is_true(j);
        if (*flags[i].flag && flags[i].id < 0) {
            rdg_vocab_warn(c, "%s is set but there is no such token: it is not added", flags[i].field);
            *flags[i].flag = false;
        }
    }
}

/* Chat templates ----------------------------------------------------------------------------------------- */

static void set_template(converter *c, const json_t *text)
{
    rdg_gguf_set_strn(c->writer, "tokenizer.chat_template", json_string_value(text),
                      json_string_length(text));
}

/* [{"name": "default", "template": "…"}, …] */
static rdg_err set_named_templates(converter *c, json_t *list)
{
    rdg_str names[MAX_TEMPLATES];
    size_t n = 0, i;
    json_t *j;
    json_array_foreach(list, i, j)
    {
        json_t *name = json_object_get(j, "name"), *text = json_object_get(j, "template");
        if (!json_is_string(name) || !json_is_string(text) || json_string_length(name) == 0 ||
            json_string_length(name) > 64)
            return rdg_fail(c->e, RDG_E_MALFORMED,
                            "tokenizer_config.json: chat_template[%zu] has no name or no template", i);
        if (strcmp(json_string_value(name), "default") == 0) {
            set_template(c, text);
            continue;
        }
        if (n == MAX_TEMPLATES) {
            rdg_vocab_warn(c, "tokenizer_config.json: more than %d chat templates, the rest is left out",
                           MAX_TEMPLATES);
            break;
        }
        char key[128];
        snprintf(key, sizeof key, "tokenizer.chat_template.%s", json_string_value(name));
        rdg_gguf_set_strn(c->writer, key, json_string_value(text), json_string_length(text));
        names[n++] = (rdg_str){json_string_value(name), json_string_length(name)};
    }
    if (n) rdg_gguf_set_str_array(c->writer, "tokenizer.chat_templates", names, n);
    return RDG_OK;
}

static rdg_err set_templates(converter *c)
{
    char *data = NULL;
    size_t bytes = 0;
    json_t *file = NULL, *j = json_object_get(c->tokenizer_config, "chat_template");
    rdg_err err = RDG_OK;
    if (json_is_array(j) && (err = set_named_templates(c, j))) return err;
    bool found = false;
    if ((err = exists(c, "chat_template.jinja", &found))) return err;
    if (found) {
        if ((err = read_file(c, "chat_template.jinja", MAX_TEMPLATE_BYTES, &data, &bytes))) return err;
        rdg_gguf_set_strn(c->writer, "tokenizer.chat_template", data, bytes);
        rdg_free(data);
    } else if (json_is_string(j)) {
        set_template(c, j);
    } else if (!j) {
        if ((err = read_object(c, "chat_template.json", &file))) return err;
        j = json_object_get(file, "chat_template");
        if (json_is_string(j)) set_template(c, j);
        json_decref(file);
    }
    return err;
}

/* Whole -------------------------------------------------------------------------------------------------- */

/* What the tokenizer makes of a few texts, so that a reader can tell whether it agrees. */
static rdg_err add_selftests(converter *c)
{
    static const char *const texts[N_SELFTESTS] = {
        "Hello, world! It's 2026.",
        " leading, trailing ",
        "a\tb\n\n\n  c\r\n   d",
        "1234567890 3.14159 0x1F",
        "Ünïcödé façade naïve Ångström",
        "\xe4\xbd\xa0\xe5\xa5\xbd\xef\xbc\x8c\xe4\xb8\x96\xe7\x95\x8c "
        "\xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82",
        "\xf0\x9f\x99\x82\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80 \xc2\xa0x\xe2\x80\x83y",
        "for (int i = 0; i < n; i++) { x[i] += \"\\n\"; }",
    };
    struct rdg_vocab_selftest tests[N_SELFTESTS] = {0};
    int32_t *ids[N_SELFTESTS] = {0};
    rdg_tokenizer *t = NULL;
    rdg_err err = rdg_tokenizer_from_vocab(&c->vocab, c->log, &t, c->e);
    for (int i = 0; i < N_SELFTESTS && !err; i++) {
        tests[i].text = (rdg_str){texts[i], strlen(texts[i])};
        err = rdg_tokenize(t, texts[i], tests[i].text.n, (rdg_tokenize_params){0}, &ids[i], &tests[i].n_ids,
                           c->e);
        tests[i].ids = ids[i];
    }
    if (!err) err = rdg_vocab_write_selftests(tests, N_SELFTESTS, c->writer, c->e);
    for (int i = 0; i < N_SELFTESTS; i++) rdg_tokens_free(ids[i]);
    rdg_tokenizer_destroy(t);
    return err;
}

static rdg_err load_json(converter *c, const char *first, const char *second, rdg_tokenizer_json *t)
{
    char *a = NULL, *b = NULL;
    size_t a_bytes = 0, b_bytes = 0;
    rdg_err err = read_file(c, first, MAX_JSON_BYTES, &a, &a_bytes);
    if (!err && second) err = read_file(c, second, MAX_JSON_BYTES, &b, &b_bytes);
    if (!err)
        err = second ? rdg_tokenizer_json_parse_pair(a, a_bytes, b, b_bytes, t, c->e)
                     : rdg_tokenizer_json_parse(a, a_bytes, t, c->e);
    rdg_free(b);
    rdg_free(a);
    return err;
}

static rdg_err from_model_file(converter *c, const rdg_tokenizer_json *t)
{
    char *data = NULL;
    size_t bytes = 0;
    rdg_sentencepiece m;
    rdg_err err = read_file(c, "tokenizer.model", MAX_JSON_BYTES, &data, &bytes);
    if (err) return err;
    err = rdg_sentencepiece_parse(data, bytes, &m, c->e);
    rdg_free(data);
    if (err == RDG_E_MALFORMED && t) {
        rdg_vocab_warn(c, "%s: tokenizer.json is used alone", c->e->message);
        return rdg_vocab_from_json(c, t);
    }
    if (err) return err;
    err = rdg_vocab_from_sentencepiece(c, &m, t);
    rdg_sentencepiece_finish(&m);
    return err;
}

static rdg_err from_pair(converter *c)
{
    rdg_tokenizer_json t;
    const char *class_name = json_string_value(json_object_get(c->tokenizer_config, "tokenizer_class"));
    rdg_err err = load_json(c, "vocab.json", "merges.txt", &t);
    if (err) return err;
    rdg_str expressions[RDG_PRE_EXPRESSIONS];
    bool qwen = class_name && strncmp(class_name, "Qwen2", 5) == 0;
    t.n_expressions = rdg_pre_rule_expressions(rdg_pre_rule_find(qwen ? "qwen2" : "gpt-2"), expressions);
    t.expressions = expressions;
    if (!qwen && !(class_name && strncmp(class_name, "GPT2", 4) == 0))
        rdg_vocab_warn(c, "vocab.json: the pre-tokeniser of %s is not in the folder, GPT-2's is used",
                       class_name ? class_name : "the model");
    /* The tokens that other files add go behind these. */
    int64_t bound = RDG_MAX((int64_t)t.n_tokens, rdg_vocab_added_bound(c));
    if (c->n_vocab <= 0) c->n_vocab = bound;
    err = rdg_vocab_from_json(c, &t);
    if (!err) err = rdg_vocab_apply_added(c);
    rdg_tokenizer_json_finish(&t);
    return err;
}

static rdg_err load_tokens(converter *c)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt"};
    enum { JSON, MODEL, VOCAB, MERGES };
    bool found[RDG_COUNTOF(names)];
    rdg_tokenizer_json t;
    rdg_err err;
    for (int i = 0; i < RDG_COUNTOF(names); i++)
        if ((err = exists(c, names[i], &found[i]))) return err;
    if (found[JSON]) {
        if ((err = load_json(c, "tokenizer.json", NULL, &t))) return err;
        err = found[MODEL] && rdg_vocab_is_sentencepiece_like(&t) ? from_model_file(c, &t)
                                                                  : rdg_vocab_from_json(c, &t);
        rdg_tokenizer_json_finish(&t);
        return err;
    }
    if (found[MODEL]) return from_model_file(c, NULL);
    if (found[VOCAB] && found[MERGES]) return from_pair(c);
    return rdg_fail(c->e, RDG_E_NOT_FOUND,
                    "%s: no tokenizer.json, tokenizer.model or vocab.json with merges.txt: the result will "
                    "work with token ids only",
                    c->dir);
}

rdg_err rdg_vocab_convert(const char *dir, int64_t n_vocab, rdg_gguf_writer *w, rdg_vocab_report *r,
                          const rdg_log *log, rdg_error *e)
{
    rdg_error local;
    converter c = {.dir = dir, .n_vocab = n_vocab, .writer = w, .report = r, .log = log, .e = e ? e : &local};
    rdg_err err;
    *r = (rdg_vocab_report){0};
    rdg_arena_init(&r->arena);
    rdg_vocab_init(&c.vocab);
    rdg_strmap_init(&c.index);
    if ((err = read_object(&c, "tokenizer_config.json", &c.tokenizer_config))) goto done;
    if ((err = read_object(&c, "config.json", &c.config))) goto done;
    if ((err = read_object(&c, "generation_config.json", &c.generation_config))) goto done;
    if ((err = read_object(&c, "added_tokens.json", &c.added_json))) goto done;
    c.added_decoder = json_object_get(c.tokenizer_config, "added_tokens_decoder");
    if ((err = load_tokens(&c))) goto done;
    if ((err = rdg_vocab_fill_padding(&c))) goto done;
    if ((err = build_index(&c))) goto done;
    set_specials(&c);
    set_flags(&c);
    snprintf(r->model, sizeof r->model, "%s", c.vocab.model);
    snprintf(r->pre, sizeof r->pre, "%s", c.vocab.pre);
    r->n_tokens = c.vocab.n_tokens;
    if ((err = rdg_vocab_write(&c.vocab, w, c.e))) goto done;
    if ((err = set_templates(&c))) goto done;
    err = add_selftests(&c);
done:
    json_decref(c.added_json);
    json_decref(c.generation_config);
    json_decref(c.config);
    json_decref(c.tokenizer_config);
    rdg_strmap_finish(&c.index);
    rdg_vocab_finish(&c.vocab);
    return err;
}
