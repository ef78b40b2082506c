#!/usr/bin/env python3
"""Makes tests/data/quantise/vectors.json: inputs and the bytes that each quantiser must produce from them.

A transcription of the definitions in plain Python, with nothing in common with the C code. Every operation is done in
double precision and rounded to f32 at once, which gives the same result as f32 arithmetic for + - * / and sqrt; Python's
round() is to nearest, ties to even. Usage: quantise_vectors.py > tests/data/quantise/vectors.json
"""
import ctypes
import json
import math
import struct


def f(v):
    return ctypes.c_float(v).value


def div(a, b):
    if b == 0:
        return math.nan if a == 0 else math.copysign(math.inf, a) * math.copysign(1, b)
    return f(a / b)


def clip(v, lo, hi):
    return lo if not v > lo else hi if v > hi else v


def rne(v, lo, hi):
    return int(round(clip(v, lo, hi)))


def half(v):
    return struct.pack('<e', v)


def half_value(v):
    return struct.unpack('<e', half(v))[0]


def total(values):
    s = 0.0
    for v in values:
        s = f(s + v)
    return s


def square_sum(x):
    return total(f(v * v) for v in x)


def signed_max(x):
    c = 0.0
    for v in x:
        if abs(v) > abs(c):
            c = v
    return c


def importance_weights(x, h, s):
    return [f(hi * f(math.sqrt(f(s + f(v * v))))) for v, hi in zip(x, h)]


def revive(x, w, n):
    """Sub-blocks whose importance is 0 throughout are treated as if there were no importance."""
    out = []
    for a, b in zip(chunks(x, n), chunks(w, n)):
        out += b if any(b) else [f(v * v) for v in a]
    return out


# 4.2: x = s q - M
def affine(x, w, levels, r0, dr, steps, l1=False):
    lo, hi = min(0.0, min(x)), max(x)
    if hi <= lo:
        return 0.0, -lo, [0] * len(x)

    def error(s, m, q):
        e = 0.0
        for xi, wi, qi in zip(x, w, q):
            d = f(f(f(s * qi) + m) - xi)
            e = f(e + f(wi * (abs(d) if l1 else f(d * d))))
        return e

    def quanta(inv, m):
        return [rne(f(inv * f(xi - m)), 0, levels) for xi in x]

    inv0 = div(levels, f(hi - lo))
    s, m, q = div(1.0, inv0), lo, quanta(inv0, lo)
    best = error(s, m, q)
    sw, sx = total(w), total(f(a * b) for a, b in zip(w, x))
    for k in range(steps + 1):
        inv = div(f(f(f(r0) + f(f(dr) * k)) + levels), f(hi - m))
        t = quanta(inv, m)
        wt = [f(a * b) for a, b in zip(w, t)]
        sq, sqq, sxq = total(wt), total(f(a * b) for a, b in zip(wt, t)), total(f(a * b) for a, b in zip(wt, x))
        det = f(f(sw * sqq) - f(sq * sq))
        if det <= 0:
            continue
        s1 = div(f(f(sw * sxq) - f(sx * sq)), det)
        m1 = div(f(f(sqq * sx) - f(sq * sxq)), det)
        if m1 > 0:
            m1, s1 = 0.0, div(sxq, sqq)
        e = error(s1, m1, t)
        if e < best:
            best, s, m, q = e, s1, m1, t
    return s, -m, q


# 4.3
def scale_of_scales(v, w, levels):
    top = max(v)
    if top < 1e-15:
        return 0.0, [0] * len(v)
    best = None
    for k in [0, -4, -3, -2, -1, 1, 2, 3, 4]:
        inv = div(f(levels + f(f(0.1) * k)), top)
        unit, e = div(1.0, inv), 0.0
        for a, b in zip(v, w):
            d = f(a - f(unit * rne(f(inv * a), 0, levels)))
            e = f(e + f(f(b * d) * d))
        if best is None or e < best[0]:
            best = (e, inv)
    inv = best[1]
    level = [rne(f(inv * a), 0, levels) for a in v]
    A = total(f(f(b * a) * l) for a, b, l in zip(v, w, level))
    B = total(f(f(b * l) * l) for b, l in zip(w, level))
    for _ in range(5):
        changed = False
        for j, (a, b) in enumerate(zip(v, w)):
            l = level[j]
            a1, b1 = f(A - f(f(b * a) * l)), f(B - f(f(b * l) * l))
            if a1 > 0 and b1 > 0:
                l1 = rne(div(f(a * b1), a1), 0, levels)
                if l1 != l:
                    a2, b2 = f(a1 + f(f(b * a) * l1)), f(b1 + f(f(b * l1) * l1))
                    if f(f(a2 * a2) * B) > f(f(A * A) * b2):
                        level[j], A, B, changed = l1, a2, b2, True
        if not changed:
            break
    return (div(A, B) if B > 0 else div(1.0, inv)), level


# 4.5: x = s (q - N)
def symmetric(x, w, n):
    c = signed_max(x)
    if abs(c) < 1e-15:
        return 0.0, [0] * len(x)
    best = None
    for k in [0] + list(range(-9, 0)) + list(range(1, 10)):
        inv = div(-f(n + f(f(0.1) * k)), c)
        l = [rne(f(inv * v), -n, n - 1) for v in x]
        A = total(f(f(a * b) * q) for a, b, q in zip(w, x, l))
        B = total(f(f(a * q) * q) for a, q in zip(w, l))
        if best is None:
            s = div(A, B) if B > 0 else div(1.0, inv)
            best = (f(s * A) if B > 0 else 0.0, s, l)
        elif B > 0 and f(A * A) > f(best[0] * B):
            s = div(A, B)
            best = (f(s * A), s, l)
    return best[1], [n + q for q in best[2]]


# 4.5, Q3_K without importance
def descend(x):
    c = signed_max(x)
    if abs(c) < 1e-15:
        return 0.0, [0] * len(x)
    inv = div(-4.0, c)
    w = [f(v * v) for v in x]
    l = [rne(f(inv * v), -4, 3) for v in x]
    A = total(f(f(a * b) * q) for a, b, q in zip(w, x, l))
    B = total(f(f(a * q) * q) for a, q in zip(w, l))
    for _ in range(5):
        changed = False
        for i in range(len(x)):
            a1 = f(A - f(f(w[i] * x[i]) * l[i]))
            if a1 > 0:
                b1 = f(B - f(f(w[i] * l[i]) * l[i]))
                l1 = rne(div(f(x[i] * b1), a1), -4, 3)
                if l1 != l[i]:
                    a2, b2 = f(a1 + f(f(w[i] * x[i]) * l1)), f(b1 + f(f(w[i] * l1) * l1))
                    if b2 > 0 and f(f(a2 * a2) * B) > f(f(A * A) * b2):
                        l[i], A, B, changed = l1, a2, b2, True
        if not changed:
            break
    return div(A, B), [4 + q for q in l]


K = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]


def near(v):
    best = 0
    for i in range(16):
        if abs(K[i] - v) <= abs(K[best] - v):
            best = i
    return best


def iq4(x, w):
    c = signed_max(x)
    if abs(c) < 1e-15:
        return 0.0
    best = None
    for k in [None] + list(range(-7, 8)):
        inv = div(1.0, div(c, 127.0)) if k is None else div(k - 127.0, c)
        q = [K[near(f(inv * v))] for v in x]
        A = total(f(f(a * p) * b) for a, b, p in zip(w, x, q))
        B = total(f(f(a * p) * p) for a, p in zip(w, q))
        if best is None:
            s = div(A, B) if B > 0 else div(1.0, inv)
            best = (f(s * A) if B > 0 else 0.0, s)
        elif B > 0 and f(A * A) > f(best[0] * B):
            s = div(A, B)
            best = (f(s * A), s)
    return best[1]


def chunks(x, n):
    return [x[i:i + n] for i in range(0, len(x), n)]


def bits(fields):
    """Little-endian integer from (value, position) pairs, nothing overlapping."""
    out = 0
    for value, at in fields:
        assert out >> at & ((1 << value.bit_length()) - 1) == 0
        out |= value << at
    return out


def affine_k(x, h, n_sub, levels, top_scale, plain, l1, s_factor, rms):
    sub = chunks(x, 256 // n_sub)
    if h:
        s = f(f(s_factor * square_sum(x)) / 256)
        w = importance_weights(x, h, s)
        wj = [total(v) for v in chunks(w, 256 // n_sub)]
        w = chunks(revive(x, w, 256 // n_sub), 256 // n_sub)
        found = [affine(a, b, levels, -0.9, 0.05, 36) for a, b in zip(sub, w)]
        d, sc = scale_of_scales([r[0] for r in found], wj, top_scale)
        dmin, mn = scale_of_scales([r[1] for r in found], wj, top_scale)
    else:
        found = []
        for a in sub:
            base = f(math.sqrt(f(square_sum(a) / len(a)))) if rms else 0.0
            found.append(affine(a, [f(base + abs(v)) for v in a], levels, *plain, l1))
        out = []
        for column in (0, 1):
            v = [r[column] for r in found]
            top = max(0.0, *v)
            inv = div(top_scale, top) if top > 0 else 0.0
            out.append((f(top / top_scale), [rne(f(inv * a), 0, top_scale) for a in v]))
        (d, sc), (dmin, mn) = out
    q = []
    for j, a in enumerate(sub):
        dj, mj = f(half_value(d) * sc[j]), f(half_value(dmin) * mn[j])
        q += [rne(div(f(v + mj), dj), 0, levels) for v in a] if dj else found[j][2]
    return half(d) + half(dmin), sc, mn, q


def scale_min(sc, mn):
    s = [0] * 12
    for j in range(4):
        s[j] = (sc[j] & 63) + (sc[j + 4] >> 4) * 64
        s[j + 4] = (mn[j] & 63) + (mn[j + 4] >> 4) * 64
        s[j + 8] = sc[j + 4] % 16 + mn[j + 4] % 16 * 16
    return bytes(s)


def low_nibbles(q, group=64):
    out = []
    for g in chunks(q, group):
        out += [g[i] % 16 + g[i + group // 2] % 16 * 16 for i in range(group // 2)]
    return bytes(out)


def two_bits(q):
    return bytes(bits([(q[128 * n + 32 * g + l] & 3, 2 * g) for g in range(4)]) for n in range(2) for l in range(32))


def q4_k(x, h):
    d, sc, mn, q = affine_k(x, h, 8, 15, 63, (-1.0, 0.1, 20), False, 2.0, True)
    return d + scale_min(sc, mn) + low_nibbles(q)


def q5_k(x, h):
    d, sc, mn, q = affine_k(x, h, 8, 31, 63, (-0.5, 0.1, 15), False, 2.0, True)
    qh = bytes(bits([(q[32 * j + i] >> 4, j) for j in range(8)]) for i in range(32))
    return d + scale_min(sc, mn) + qh + low_nibbles(q)


def q2_k(x, h):
    d, sc, mn, q = affine_k(x, h, 16, 3, 15, (-0.5, 0.1, 15), True, 1.0, False)
    return bytes(a + 16 * b for a, b in zip(sc, mn)) + two_bits(q) + d


def q6_k(x, h):
    w = revive(x, h, 16) if h else [f(v * v) for v in x]
    found = [symmetric(a, b, 32) for a, b in zip(chunks(x, 16), chunks(w, 16))]
    z = signed_max([r[0] for r in found])
    if abs(z) < 1e-15:
        return bytes(210)
    inv = div(-128.0, z)
    d, sc, q = half(div(1.0, inv)), [], []
    for a, r in zip(chunks(x, 16), found):
        s = rne(f(inv * r[0]), -128, 127)
        dj = f(half_value(div(1.0, inv)) * s)
        sc.append(s)
        q += [32 + rne(div(v, dj), -32, 31) for v in a] if dj else r[1]
    ql = b''.join(low_nibbles(part, 128) for part in chunks(q, 128))
    qh = bytes(bits([(q[128 * n + 32 * g + l] >> 4, 2 * g) for g in range(4)]) for n in range(2) for l in range(32))
    return ql + qh + bytes(s & 255 for s in sc) + d


def q3_k(x, h):
    if h:
        s = f(f(2.0 * square_sum(x)) / 256)
        w = importance_weights(x, h, s)
        found = [symmetric(a, b, 4) for a, b in zip(chunks(x, 16), chunks(revive(x, w, 16), 16))]
        d, sc = symmetric([r[0] for r in found], [total(v) for v in chunks(w, 16)], 32)
    else:
        found = [descend(a) for a in chunks(x, 16)]
        z = signed_max([r[0] for r in found])
        d, sc = 0.0, [0] * 16
        if z:
            inv = div(-32.0, z)
            d, sc = div(1.0, inv), [32 + rne(f(inv * r[0]), -32, 31) for r in found]
    q = []
    for a, r, s in zip(chunks(x, 16), found, sc):
        dj = f(half_value(d) * (s - 32))
        q += [4 + rne(div(v, dj), -4, 3) for v in a] if dj else r[1]
    hmask = bytes(bits([(q[32 * g + l] >> 2, g) for g in range(8)]) for l in range(32))
    packed = [sc[j] % 16 + sc[j + 8] % 16 * 16 for j in range(8)]
    packed += [bits([(sc[j + 4 * g] >> 4, 2 * g) for g in range(4)]) for j in range(4)]
    return hmask + two_bits(q) + bytes(packed) + half(d)


def row_weights(x, h):
    return revive(x, importance_weights(x, h, f(square_sum(x) / len(x))), 32)


def fifth_bits(q):
    return struct.pack('<I', bits([(v >> 4, i) for i, v in enumerate(q)]))


def q45_0(x, h, n):
    out = b''
    w = chunks(row_weights(x, h), 32) if h else None
    for j, a in enumerate(chunks(x, 32)):
        if h:
            d, q = symmetric(a, w[j], n)
        else:
            d = f(signed_max(a) / -n)
            inv = div(1.0, d) if d else 0.0
            q = [min(2 * n - 1, int(f(f(v * inv) + (n + 0.5)))) for v in a]
        out += half(d) + (fifth_bits(q) if n == 16 else b'') + low_nibbles(q, 32)
    return out


def q45_1(x, h, levels):
    out = b''
    w = chunks(row_weights(x, h), 32) if h else None
    for j, a in enumerate(chunks(x, 32)):
        if h:
            d, m, q = affine(a, w[j], levels, -0.9, 0.05, 36)
        else:
            d, m = f(f(max(a) - min(a)) / levels), -min(a)
            inv = div(1.0, d) if d else 0.0
            q = [min(levels, int(f(f(f(v + m) * inv) + 0.5))) for v in a]
        out += half(d) + half(-m) + (fifth_bits(q) if levels == 31 else b'') + low_nibbles(q, 32)
    return out


def iq4_nl(x, h):
    out = b''
    for j, a in enumerate(chunks(x, 32)):
        w = [f(v * v) for v in a]
        if h:
            w = revive(a, importance_weights(a, h[32 * j:32 * j + 32], f(f(2.0 * square_sum(a)) / 32)), 32)
        s = iq4(a, w)
        inv = div(1.0, s) if s else 0.0
        out += half(s) + low_nibbles([near(f(inv * v)) for v in a], 32)
    return out


def iq4_xs(x, h):
    w = [f(v * v) for v in x]
    if h:
        w = revive(x, importance_weights(x, h, f(f(2.0 * square_sum(x)) / 256)), 32)
    s = [iq4(a, b) for a, b in zip(chunks(x, 32), chunks(w, 32))]
    d = f(-signed_max(s) / 32)
    inv = div(1.0, d) if d else 0.0
    ls, qs = [], b''
    for a, sj in zip(chunks(x, 32), s):
        l = rne(f(inv * sj), -32, 31)
        dj = f(d * l)
        inv_j = div(1.0, dj) if dj else 0.0
        ls.append(l + 32)
        qs += low_nibbles([near(f(inv_j * v)) for v in a], 32)
    high = struct.pack('<H', bits([(v >> 4, 2 * j) for j, v in enumerate(ls)]))
    return half(d) + high + bytes(ls[2 * j] % 16 + ls[2 * j + 1] % 16 * 16 for j in range(4)) + qs


def away(v):
    return int(math.copysign(math.floor(abs(v) + 0.5), v))


def q8(x, with_sum):
    out = b''
    for a in chunks(x, 32):
        d = f(max(abs(v) for v in a) / 127)
        inv = div(1.0, d) if d else 0.0
        q = [away(f(v * inv)) for v in a]
        out += half(d) + (half(f(d * sum(q))) if with_sum else b'') + bytes(v & 255 for v in q)
    return out


def q8_k(x, h):
    c = signed_max(x)
    if c == 0:
        return bytes(292)
    inv = div(-127.0, c)
    q = [min(127, int(round(f(inv * v)))) for v in x]
    return struct.pack('<f', div(1.0, inv)) + bytes(v & 255 for v in q) + struct.pack('<16h', *map(sum, chunks(q, 16)))


FP4 = [0, 1, 2, 3, 4, 6, 8, 12]


def fp4(v):
    best = min(range(8), key=lambda i: (abs(FP4[i] - abs(v)), i))
    return best + 8 if v < 0 and best else best


def mxfp4(x, h):
    out = b''
    for a in chunks(x, 32):
        top = max(abs(v) for v in a)
        e = max(0, math.floor(math.log2(top)) - 2 + 127) if top else 0
        out += bytes([e]) + low_nibbles([fp4(v / 2.0 ** (e - 128)) for v in a], 32)
    return out


TYPES = {
    'Q2_K': (q2_k, True), 'Q3_K': (q3_k, True), 'Q4_K': (q4_k, True), 'Q5_K': (q5_k, True), 'Q6_K': (q6_k, True),
    'IQ4_NL': (iq4_nl, True), 'IQ4_XS': (iq4_xs, True),
    'Q4_0': (lambda x, h: q45_0(x, h, 8), True), 'Q5_0': (lambda x, h: q45_0(x, h, 16), True),
    'Q4_1': (lambda x, h: q45_1(x, h, 15), True), 'Q5_1': (lambda x, h: q45_1(x, h, 31), True),
    'Q8_0': (lambda x, h: q8(x, False), False), 'Q8_1': (lambda x, h: q8(x, True), False), 'Q8_K': (q8_k, False),
    'MXFP4': (mxfp4, False),
}


def random_numbers(seed):
    state = seed
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2 ** 64
        yield (state >> 33) / 2 ** 31


def rows():
    u = random_numbers(20261130)

    def normal():
        return sum(next(u) for _ in range(12)) - 6

    def make(name, element):
        return name, [f(element(i)) for i in range(256)]

    yield make('normal', lambda i: 0.02 * normal())
    yield make('normal, second', lambda i: 1.3 * normal() + 0.1)
    yield make('heavy tails', lambda i: 0.01 * normal() / (0.05 + next(u)) ** 2)
    yield make('each sub-block its own size', lambda i: normal() * 10 ** (-(i // 16 % 7)))
    yield make('all positive', lambda i: 0.5 + next(u))
    yield make('all negative', lambda i: -0.5 - next(u))
    yield make('zero', lambda i: 0.0)
    yield make('constant', lambda i: 0.7)
    yield make('negative constant', lambda i: -0.3)
    yield make('single spike', lambda i: -3.0 if i == 77 else 0.0)
    yield make('half zero', lambda i: 0.0 if i < 128 else normal())
    yield make('tiny', lambda i: 1e-9 * normal())
    yield make('few values', lambda i: float(int(3 * next(u)) - 1))


def importances():
    u = random_numbers(77)
    yield 'uneven', [f(math.exp(4 * next(u) - 2)) for _ in range(256)]
    yield 'some columns never excited', [f(next(u)) if i % 5 and not 32 <= i < 64 else 0.0 for i in range(256)]


def main():
    doc = {'inputs': [], 'importances': [], 'cases': []}
    inputs, weights = list(rows()), list(importances())
    for name, x in inputs:
        doc['inputs'].append({'name': name, 'f32': struct.pack('<256f', *x).hex()})
    for name, h in weights:
        doc['importances'].append({'name': name, 'f32': struct.pack('<256f', *h).hex()})
    for type_name, (quantise, weighted) in TYPES.items():
        for i, (_, x) in enumerate(inputs):
            for k in range(-1, len(weights) if weighted else 0):
                out = quantise(x, weights[k][1] if k >= 0 else None)
                doc['cases'].append({'type': type_name, 'input': i, 'importance': k, 'bytes': out.hex()})
    print(json.dumps(doc, indent=0))


main()
