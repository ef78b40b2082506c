/* Inside the template engine: syntax tree, values, the state of a rendering.
 * template_lex.c     text -> tokens (whitespace control happens here)
 * template_parse.c   tokens -> tree in an arena
 * template_eval.c    statements, expressions, scopes, macros
 * template_value.c   truth, equality, order, iteration
 * template_access.c  attributes, subscripts, arithmetic, arguments
 * template_print.c   str, repr, JSON, % formatting
 * template_string.c  UTF-8, building, searching;   template_string_method.c   the methods of strings
 * template_method.c  methods of other values, global functions, strftime
 * template_filter.c  filters on text and numbers;   template_sequence.c   on sequences;   template_test.c
 * tests
 *
 * All values are immutable, but for namespaces; all memory of a rendering is one arena, so nothing is ever
 * freed and slices of strings share their bytes. Functions that can fail return false and leave the reason in
 * run->error. */
#ifndef RDG_TEXT_TEMPLATE_INTERNAL_H
#define RDG_TEXT_TEMPLATE_INTERNAL_H

#include <ridge/template.h>
#include "base/compiler.h"
#include "base/mem.h"

#include <jansson.h>

/* Strings --------------------------------------------------------------------------------------------- */

/* Valid UTF-8. origin runs parallel to p, 1 for each byte that came from the input; NULL: none did. */
typedef struct tpl_str {
    const char *p;
    size_t n;
    const unsigned char *origin;
} tpl_str;
#define TPL_STR(literal) ((tpl_str){literal, sizeof(literal) - 1, NULL})

/* Tokens ---------------------------------------------------------------------------------------------- */

typedef enum tpl_token_kind {
    TOK_EOF,
    TOK_DATA,
    TOK_BLOCK_BEGIN,
    TOK_BLOCK_END,
    TOK_VAR_BEGIN,
    TOK_VAR_END,
    TOK_NAME,
    TOK_STRING,
    TOK_INT,
    TOK_FLOAT,
    TOK_ADD,
    TOK_SUB,
    TOK_MUL,
    TOK_DIV,
    TOK_FLOORDIV,
    TOK_MOD,
    TOK_POW,
    TOK_TILDE,
    TOK_LBRACKET,
    TOK_RBRACKET,
    TOK_LPAREN,
    TOK_RPAREN,
    TOK_LBRACE,
    TOK_RBRACE,
    TOK_EQ,
    TOK_NE,
    TOK_LT,
    TOK_LE,
    TOK_GT,
    TOK_GE,
    TOK_ASSIGN,
    TOK_DOT,
    TOK_COLON,
    TOK_PIPE,
    TOK_COMMA,
    TOK_SEMICOLON
} tpl_token_kind;

typedef struct tpl_token {
    tpl_token_kind kind;
    int line;
    tpl_str text; /* name, string (unescaped) or data */
    union {
        int64_t i;
        double f;
    } number;
} tpl_token;

/* Tree ------------------------------------------------------------------------------------------------ */

typedef enum tpl_node_kind {
    /* expressions */
    NODE_CONST,
    NODE_NAME,
    NODE_TUPLE,
    NODE_LIST,
    NODE_DICT,
    NODE_COND,
    NODE_OR,
    NODE_AND,
    NODE_NOT,
    NODE_NEG,
    NODE_POS,
    NODE_COMPARE,
    NODE_BINARY,
    NODE_CONCAT,
    NODE_ATTR,
    NODE_ITEM,
    NODE_SLICE,
    NODE_CALL,
    NODE_FILTER,
    NODE_TEST,
    NODE_NSREF,
    /* statements */
    NODE_DATA,
    NODE_PRINT,
    NODE_FOR,
    NODE_IF,
    NODE_SET,
    NODE_SET_BLOCK,
    NODE_MACRO,
    NODE_CALL_BLOCK,
    NODE_FILTER_BLOCK,
    NODE_WITH,
    NODE_SCOPE,
    NODE_BREAK,
    NODE_CONTINUE
} tpl_node_kind;

typedef struct tpl_value tpl_value;
typedef struct tpl_node tpl_node;

typedef struct tpl_nodes {
    tpl_node **at;
    int n;
} tpl_nodes;

typedef struct tpl_keyword {
    tpl_str name;
    tpl_node *value;
} tpl_keyword;

typedef struct tpl_call {
    tpl_nodes args;
    tpl_keyword *keywords;
    int n_keywords;
    tpl_node *star, *star_star; /* *args, **kwargs; NULL */
} tpl_call;

enum { TPL_USES_CALLER = 1, TPL_USES_KWARGS = 2, TPL_USES_VARARGS = 4 };

/* One shape for all kinds; the fields mean what the parser's constructor of that kind says. */
struct tpl_node {
    tpl_node_kind kind;
    int line;
    int op;       /* TOK_… of operators; flags */
    tpl_str text; /* name or data */
    tpl_node *a, *b, *c;
    tpl_nodes list, body, other;
    tpl_call *call;
    tpl_value *value;  /* NODE_CONST */
    const void *entry; /* the row of the filter's or test's table; NULL if there is none of that name */
    int *ops;          /* NODE_COMPARE: TOK_EQ …, or TPL_IN, TPL_NOT_IN */
};
enum { TPL_IN = 1000, TPL_NOT_IN };

struct rdg_template {
    rdg_arena arena;
    rdg_template_limits limits;
    tpl_nodes body;
};

/* Compile-time state, shared by lexer and parser. */
typedef struct tpl_compiler {
    rdg_arena *arena;
    const rdg_template_limits *limits;
    const char *source;
    size_t n;
    tpl_token *tokens;
    size_t n_tokens, tokens_cap;
    rdg_error *e;
    rdg_err err;
} tpl_compiler;

void *tpl_compile_alloc(tpl_compiler *c, size_t bytes); /* NULL: c->err is set */
bool tpl_compile_fail(tpl_compiler *c, rdg_err code, int line, const char *fmt, ...)
    RDG_PRINTF(4, 5); /* false */
bool tpl_lex(tpl_compiler *c);
bool tpl_parse(tpl_compiler *c, tpl_nodes *body);

/* Values ---------------------------------------------------------------------------------------------- */

typedef enum tpl_kind {
    TPL_UNDEFINED,
    TPL_NONE,
    TPL_BOOL,
    TPL_INT,
    TPL_FLOAT,
    TPL_STRING,
    TPL_LIST,
    TPL_TUPLE,
    TPL_DICT,
    TPL_VIEW,     /* dict.items(), .keys(), .values(): sized, not indexable */
    TPL_ITERATOR, /* what filters give lazily: yields its items once */
    TPL_RANGE,
    TPL_NAMESPACE,
    TPL_LOOP,
    TPL_MACRO,
    TPL_FUNCTION,
    TPL_METHOD,
    TPL_CYCLER,
    TPL_JOINER
} tpl_kind;

typedef struct tpl_list tpl_list;
typedef struct tpl_dict tpl_dict;

/* Why a value is undefined. */
typedef enum tpl_why {
    TPL_WHY_NAME,      /* 'name' is undefined */
    TPL_WHY_ATTRIBUTE, /* 'owner' has no attribute 'name' */
    TPL_WHY_ELEMENT,   /* owner has no element name */
    TPL_WHY_UNSAFE,    /* attribute 'name' of 'owner' may not be used */
    TPL_WHY_HINT,      /* name is the message */
} tpl_why;

struct tpl_value {
    tpl_kind kind;
    unsigned flag;     /* string: 1 = escaped already (Markup); tuple: 1 = of groupby; undefined: a tpl_why */
    const char *label; /* view: "dict_items", …; undefined: the type of the owner */
    union {
        bool b;
        int64_t i;
        double f;
        tpl_str s; /* string; undefined: the name */
        tpl_list *list;
        tpl_dict *dict;
        struct tpl_iterator *iterator;
        struct {
            int64_t start, stop, step;
        } range;
        struct tpl_scope *ns;
        struct tpl_loop *loop;
        struct tpl_macro *macro;
        const struct tpl_function *function;
        struct tpl_bound *method;
        struct tpl_cycler *cycler;
    } u;
};

struct tpl_list {
    tpl_value *at;
    int64_t n, cap;
};

struct tpl_dict { /* keys in order of insertion; searched linearly, the work is charged */
    tpl_value *keys, *values;
    int64_t n, cap;
};

typedef struct tpl_iterator {
    tpl_list *list;
    int64_t next;
    const char *label; /* "generator", "list_reverseiterator", … */
} tpl_iterator;

typedef struct tpl_cycler { /* also joiner: items[0] the separator, position 0 before the first use */
    tpl_list *items;
    int64_t position;
} tpl_cycler;

typedef struct tpl_binding {
    tpl_str name;
    tpl_value value;
    struct tpl_binding *next;
} tpl_binding;

typedef struct tpl_scope { /* newest binding first */
    tpl_binding *first;
    int64_t n;
    struct tpl_scope *parent;
} tpl_scope;

typedef struct tpl_loop {
    tpl_list *items;
    int64_t index0;
    int depth0;
    tpl_node *node;    /* of a recursive loop */
    tpl_scope *scope;  /* around it */
    tpl_list *changed; /* arguments of the last loop.changed() */
} tpl_loop;

typedef struct tpl_macro {
    tpl_node *node;
    tpl_scope *scope;
} tpl_macro;

/* Arguments of a call. */
typedef struct tpl_args {
    tpl_value *at;
    int n;
    tpl_str *names; /* of keywords */
    tpl_value *named;
    int n_named;
} tpl_args;

/* A rendering ----------------------------------------------------------------------------------------- */

typedef struct tpl_buffer { /* a string being built */
    char *p;
    unsigned char *origin; /* NULL until a byte from the input comes in */
    size_t n, cap;
} tpl_buffer;

typedef struct tpl_run {
    const rdg_template *template;
    const rdg_template_limits *limits;
    const rdg_template_input *input;
    rdg_arena arena;
    int64_t steps;
    int depth;
    int line; /* of the node that is being evaluated */
    tpl_buffer *out;
    tpl_scope *globals;
    tpl_buffer tail; /* the newest concatenation: a string that ends where it ends can be extended in place */
    const unsigned char *input_origin; /* ones, as many as the longest string of the input */
    rdg_error *e;
    rdg_err err;
} tpl_run;

typedef bool tpl_callable(tpl_run *r, const tpl_value *self, const tpl_args *args, tpl_value *out);
typedef struct tpl_function { /* a row of the tables of filters, global functions, methods */
    const char *name;
    tpl_callable *call; /* NULL: known by name, but not offered */
} tpl_function;
typedef struct tpl_test {
    const char *name;
    bool (*call)(tpl_run *r, const tpl_value *self, const tpl_args *args, bool *out);
} tpl_test;
typedef struct tpl_bound {
    tpl_value self;
    const tpl_function *function;
} tpl_bound;

bool tpl_fail(tpl_run *r, rdg_err code, const char *fmt, ...)
    RDG_PRINTF(3, 4);                      /* false; keeps the first error */
bool tpl_charge(tpl_run *r, size_t bytes); /* one step, and one more for each 64 bytes of work */
void *tpl_alloc(tpl_run *r, size_t n, size_t elem_bytes);
bool tpl_enter(tpl_run *r); /* one level deeper; every true needs a tpl_leave */
void tpl_leave(tpl_run *r);

/* template_value.c */
tpl_value tpl_string(tpl_str s);
tpl_value tpl_string_z(const char *literal);
tpl_value tpl_int(int64_t i);
tpl_value tpl_float(double f);
tpl_value tpl_bool(bool b);
tpl_value tpl_none(void);
tpl_value tpl_undefined_hint(const char *hint);
tpl_value tpl_undefined_name(tpl_str name);
tpl_value tpl_undefined_of(const tpl_value *owner, tpl_why why, tpl_str name);
bool tpl_undefined_error(tpl_run *r, const tpl_value *v); /* fails with its message */
bool tpl_is_number(const tpl_value *v);                   /* int, float, bool */
bool tpl_as_int(const tpl_value *v, int64_t *i);          /* int, bool */
double tpl_as_double(const tpl_value *v);
const char *tpl_type_name(const tpl_value *v);
tpl_list *tpl_list_new(tpl_run *r, int64_t cap);
bool tpl_list_add(tpl_run *r, tpl_list *l, tpl_value v);
tpl_value tpl_list_value(tpl_kind kind, tpl_list *l);
bool tpl_pair(tpl_run *r, tpl_value a, tpl_value b, tpl_value *out);
bool tpl_iterator_value(tpl_run *r, tpl_list *l, const char *label, tpl_value *out);
tpl_dict *tpl_dict_new(tpl_run *r, int64_t cap);
bool tpl_dict_set(tpl_run *r, tpl_dict *d, tpl_value key, tpl_value v);
bool tpl_dict_find(tpl_run *r, const tpl_dict *d, const tpl_value *key,
                   tpl_value **value); /* NULL: not there */
bool tpl_dict_find_str(tpl_run *r, const tpl_dict *d, tpl_str key, tpl_value **value);
bool tpl_hashable(tpl_run *r, const tpl_value *v); /* fails if not */
bool tpl_truth(const tpl_value *v);
int64_t tpl_range_length(const tpl_value *v);
bool tpl_length(tpl_run *r, const tpl_value *v, int64_t *n); /* fails for values without one */
bool tpl_has_length(const tpl_value *v);
bool tpl_iterable(const tpl_value *v);
bool tpl_items(tpl_run *r, const tpl_value *v, tpl_list **items); /* iterates; uses up an iterator */
bool tpl_equal(tpl_run *r, const tpl_value *a, const tpl_value *b, bool *out);
bool tpl_same(const tpl_value *a, const tpl_value *b);
bool tpl_less(tpl_run *r, const tpl_value *a, const tpl_value *b, const char *op, int *order);
bool tpl_contains(tpl_run *r, const tpl_value *haystack, const tpl_value *needle, bool *out);

/* template_access.c */
bool tpl_get_attr(tpl_run *r, const tpl_value *v, tpl_str name, tpl_value *out);         /* v.name */
bool tpl_get_item(tpl_run *r, const tpl_value *v, const tpl_value *key, tpl_value *out); /* v[key] */
bool tpl_get_slice(tpl_run *r, const tpl_value *v, const tpl_value *start, const tpl_value *stop,
                   const tpl_value *step, tpl_value *out);
bool tpl_binary(tpl_run *r, int op, const tpl_value *a, const tpl_value *b, tpl_value *out);
bool tpl_negate(tpl_run *r, const tpl_value *a, bool minus, tpl_value *out);
/* Values of parameters by position or name into v[], kind left as TPL_UNDEFINED with why HINT and name.p NULL
 * where absent (tpl_given tells). spec: "a,b,c"; a parameter with '!' behind it must be given. */
bool tpl_bind(tpl_run *r, const char *what, const tpl_args *args, const char *spec, tpl_value *v);
bool tpl_given(const tpl_value *v);
bool tpl_switched_on(const tpl_value *v); /* given and true */
bool tpl_no_args(tpl_run *r, const char *what, const tpl_args *args);
bool tpl_want_str(tpl_run *r, const char *what, const tpl_value *v, tpl_str *out);
bool tpl_want_int(tpl_run *r, const char *what, const tpl_value *v, int64_t *out);
bool tpl_give(tpl_str s, unsigned flag, tpl_value *out); /* s as a string value; true */

/* template_print.c */
bool tpl_str_of(tpl_run *r, const tpl_value *v, tpl_str *out); /* Python's str() */
bool tpl_repr(tpl_run *r, tpl_buffer *b, const tpl_value *v);
bool tpl_format_double(double f, char out[40]);
bool tpl_to_json(tpl_run *r, const tpl_value *v, const tpl_args *args, tpl_value *out);
bool tpl_percent(tpl_run *r, tpl_str format, const tpl_value *args, tpl_value *out);
bool tpl_format_method(tpl_run *r, const tpl_value *self, const tpl_args *args, tpl_value *out);

/* template_string.c */
bool tpl_put(tpl_run *r, tpl_buffer *b, tpl_str s);
bool tpl_put_z(tpl_run *r, tpl_buffer *b, const char *s);
bool tpl_put_char(tpl_run *r, tpl_buffer *b, uint32_t c, bool from_input);
bool tpl_put_fill(tpl_run *r, tpl_buffer *b, tpl_str unit, int64_t times);
tpl_str tpl_buffer_str(const tpl_buffer *b);
bool tpl_concat(tpl_run *r, tpl_str a, tpl_str b, tpl_str *out);
tpl_str tpl_sub(tpl_str s, size_t from, size_t to); /* bytes */
bool tpl_str_equal(tpl_str a, tpl_str b);
bool tpl_str_is(tpl_str a, const char *literal);
int tpl_str_compare(tpl_str a, tpl_str b);
bool tpl_find(tpl_run *r, tpl_str hay, tpl_str needle, size_t from,
              size_t *at); /* *at = SIZE_MAX: not there */
bool tpl_find_last(tpl_run *r, tpl_str hay, tpl_str needle, size_t *at);
bool tpl_starts(tpl_str s, tpl_str with);
bool tpl_ends(tpl_str s, tpl_str with);
size_t tpl_char_bytes(const char *p); /* of the character that starts here */
uint32_t tpl_char_at(const char *p);
bool tpl_is_space(uint32_t c);
bool tpl_is_cased(int32_t c);
bool tpl_is_letter(int32_t c);
bool tpl_is_numeric(int32_t c); /* superscripts and fractions too */
bool tpl_is_alnum(int32_t c);
bool tpl_is_word(uint32_t c); /* a letter, number or underscore */
int64_t tpl_chars(tpl_str s);
size_t tpl_char_offset(tpl_str s, int64_t index);
tpl_str tpl_strip(tpl_str s, const tpl_str *chars, bool left, bool right);
typedef enum tpl_letter_case {
    TPL_CASE_UPPER,
    TPL_CASE_LOWER,
    TPL_CASE_TITLE,
    TPL_CASE_SWAP
} tpl_letter_case;
bool tpl_put_cased(tpl_run *r, tpl_buffer *b, tpl_str s, size_t at, tpl_letter_case how);
/* The first character in one case, the others in another. */
bool tpl_change_case(tpl_run *r, tpl_str s, tpl_letter_case first, tpl_letter_case rest, tpl_str *out);
bool tpl_upper(tpl_run *r, tpl_str s, tpl_str *out);
bool tpl_lower(tpl_run *r, tpl_str s, tpl_str *out);
bool tpl_capitalize(tpl_run *r, tpl_str s, tpl_str *out);
bool tpl_replace(tpl_run *r, tpl_str s, tpl_str from, tpl_str to, int64_t count, tpl_str *out);
bool tpl_escape(tpl_run *r, const tpl_value *v, tpl_value *out); /* HTML */
bool tpl_add_str(tpl_run *r, tpl_list *l, tpl_str s);
bool tpl_split_lines(tpl_run *r, tpl_str s, bool keep_ends, tpl_list **out);
bool tpl_join(tpl_run *r, tpl_str separator, const tpl_list *items, tpl_str *out); /* str() of each */
bool tpl_is_case(tpl_str s, bool upper);
bool tpl_valid_utf8(const char *p, size_t n, size_t *bad_at);

/* template_string_method.c */
extern const tpl_function tpl_string_methods[]; /* ends with name NULL; likewise below */

/* template_method.c, template_filter.c, template_test.c */
extern const tpl_function tpl_list_methods[], tpl_tuple_methods[], tpl_dict_methods[], tpl_loop_methods[],
    tpl_cycler_methods[], tpl_int_methods[], tpl_float_methods[], tpl_view_methods[];
extern const tpl_function tpl_globals[];
extern const tpl_function tpl_filters[];
extern const tpl_test tpl_tests[];
const tpl_function *tpl_function_find(const tpl_function *table, tpl_str name);
const tpl_test *tpl_test_find(tpl_str name);
bool tpl_call_filter(tpl_run *r, const tpl_function *f, const tpl_value *self, const tpl_args *args,
                     tpl_value *out);

/* template_sequence.c: rows of tpl_filters */
tpl_callable tpl_f_sort;
tpl_callable tpl_f_dictsort;
tpl_callable tpl_f_unique;
tpl_callable tpl_f_min;
tpl_callable tpl_f_max;
tpl_callable tpl_f_sum;
tpl_callable tpl_f_groupby;
tpl_callable tpl_f_length;
tpl_callable tpl_f_first;
tpl_callable tpl_f_last;
tpl_callable tpl_f_list;
tpl_callable tpl_f_items;
tpl_callable tpl_f_reverse;
tpl_callable tpl_f_join;
tpl_callable tpl_f_default;
tpl_callable tpl_f_attr;
tpl_callable tpl_f_batch;
tpl_callable tpl_f_slice;
tpl_callable tpl_f_map;
tpl_callable tpl_f_select;
tpl_callable tpl_f_reject;
tpl_callable tpl_f_selectattr;
tpl_callable tpl_f_rejectattr;
bool tpl_parse_int(tpl_str s, int64_t base, int64_t *out,
                   bool *too_big); /* Python's int(); false: it is none */

/* template_eval.c */
bool tpl_execute(tpl_run *r, const tpl_nodes *body, tpl_scope *scope);
bool tpl_call_value(tpl_run *r, const tpl_value *callee, const tpl_args *args, tpl_value *out);
bool tpl_scope_set(tpl_run *r, tpl_scope *s, tpl_str name, tpl_value v);
tpl_value *tpl_scope_get(const tpl_scope *s, tpl_str name); /* this scope only */

/* template.c */
bool tpl_from_json(tpl_run *r, const json_t *j, tpl_value *out);
rdg_err rdg_template_render_json(const rdg_template *t, const json_t *root, const rdg_template_input *in,
                                 rdg_template_result *out, rdg_error *e);

#endif
