/* UTF-8: strict decoding (no surrogates, no overlong forms, at most U+10FFFF), encoding, white space. */
#ifndef RDG_TEXT_UTF8_H
#define RDG_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of the character at p (n > 0 bytes are there), or 0 if there is no valid one. */
static inline int rdg_utf8_decode(const char *s, size_t n, uint32_t *cp)
{
    const unsigned char *p = (const unsigned char *)s;
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t c = p[0];
    int len = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    if (len == 0 || (size_t)len > n) return 0;
    if (len > 1) c &= 0x7fu >> len;
    for (int i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (p[i] & 0x3fu);
    }
    if (c < smallest[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return 0;
    *cp = c;
    return len;
}

/* Writes 1 to 4 bytes; cp is valid. */
static inline int rdg_utf8_encode(uint32_t cp, char *out)
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    int len = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (int i = len - 1; i > 0; i--, cp >>= 6) out[i] = (char)(0x80 | (cp & 0x3f));
    out[0] = (char)(0xf00u >> len | cp);
    return len;
}

/* Bytes of the valid text at the start. */
static inline size_t rdg_utf8_valid_prefix(const char *s, size_t n)
{
    size_t i = 0;
    uint32_t cp;
    while (i < n) {
        int len = (unsigned char)s[i] < 0x80 ? 1 : rdg_utf8_decode(s + i, n - i, &cp);
        if (len == 0) break;
        i += (size_t)len;
    }
    return i;
}

/* Unicode White_Space */
static inline bool rdg_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
           c == 0x3000;
}

#endif
