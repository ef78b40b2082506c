/* Special tokens written in a text: cuts it into special tokens and the fragments between them. */
#ifndef RDG_TEXT_SPECIAL_H
#define RDG_TEXT_SPECIAL_H

#include "text/trie.h"

typedef struct rdg_special {
    rdg_trie trie;   /* text → number of a candidate */
    bool first[256]; /* some candidate begins with this byte */
    struct rdg_special_candidate {
        const char *text;
        size_t n;
        int32_t id;
        int32_t shorter; /* the longest other candidate that this one begins with, or -1 */
    } * candidates;
    size_t n, cap;
} rdg_special;

bool rdg_special_init(rdg_special *s);
void rdg_special_finish(rdg_special *s);
/* The text is borrowed. An empty one is ignored; of equal ones the first stays. False on exhaustion. */
bool rdg_special_add(rdg_special *s, const char *text, size_t n, int32_t id);
void rdg_special_seal(rdg_special *s); /* after the last add */

/* A special token (id >= 0) or a fragment of ordinary text (id < 0); together they cover the text, in order.
 */
typedef struct rdg_special_part {
    size_t start, end;
    int32_t id;
} rdg_special_part;
/* Says whether a token may be taken for what text[start, end) is. NULL: always. */
typedef struct rdg_special_filter {
    bool (*accepts)(const void *user, int32_t id, size_t start, size_t end);
    const void *user;
} rdg_special_filter;

/* Longer tokens are cut out first, wherever they are; among equals from left to right. *parts: rdg_free. */
rdg_err rdg_special_split(const rdg_special *s, const char *text, size_t n, const rdg_special_filter *filter,
                          rdg_special_part **parts, size_t *n_parts, rdg_error *e);

#endif
