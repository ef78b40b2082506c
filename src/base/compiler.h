/* The only home of GNU extensions. */
#ifndef RDG_BASE_COMPILER_H
#define RDG_BASE_COMPILER_H

#define RDG_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define RDG_LIKELY(x)         __builtin_expect(!!(x), 1)
#define RDG_UNLIKELY(x)       __builtin_expect(!!(x), 0)
#define RDG_INLINE            static inline __attribute__((always_inline))
#define RDG_UNUSED            __attribute__((unused))
#define RDG_RESTRICT          __restrict__
#define RDG_ALIGNED(n)        __attribute__((aligned(n)))
#define RDG_COUNTOF(a)        ((int)(sizeof(a) / sizeof((a)[0])))
/* a + b and a * b into *out; true when the result overflowed. Any integer types. */
#define RDG_ADD_OVERFLOW(a, b, out) __builtin_add_overflow(a, b, out)
#define RDG_MUL_OVERFLOW(a, b, out) __builtin_mul_overflow(a, b, out)
#define RDG_MIN(a, b)               ((a) < (b) ? (a) : (b))
#define RDG_MAX(a, b)               ((a) > (b) ? (a) : (b))

#endif
