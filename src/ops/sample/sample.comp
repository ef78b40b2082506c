#version 460
// sample: one token from a row of logits (sample.h), in up to five launches that each read the logits once. A launch ends in
// its workgroup that finishes last, which looks at what all have left in the scratch and decides what the next one does:
//
//   MAX     the largest logit; is any broken? Greedy ends here
//   BINS    numbers and weights of the logits by their distance from the largest, 16 bins an octave
//   TOP_K   the bin with the last of the top_k is listed; radix selection in the list finds that last one exactly
//   TOP_P   the same by weight
//   DRAW    weights of what is left, a sum a workgroup; the random number falls into one of them, and there to a token
//
// Weights are integers (sample_weight.h has the same arithmetic): sums do not depend on who comes first.
#extension GL_GOOGLE_include_directive : require
#include "ops/glsl/common.glsl"

layout(local_size_x = 256) in;
const uint CLEAR = 0, MAX = 1, BINS = 2, TOP_K = 3, TOP_P = 4, DRAW = 5;
layout(constant_id = 0) const uint PASS = MAX;
layout(constant_id = 1) const bool GREEDY = false;
layout(constant_id = 2) const bool HAS_TOP_K = false;
layout(constant_id = 3) const bool HAS_TOP_P = false;
layout(push_constant, scalar) uniform Push {
    uint64_t logits, draw, id, scratch;
    uint64_t position, ring; // of a decode loop, or 0: the position moves on, step k goes to ring[k mod ring_size], draw's step too
    uint n, chunk, ring_size; // chunk: logits a workgroup, in DRAW; a multiple of TILE
    float scale, reach; // log2(e) / temperature, -ln(min_p)
    uint top_k, top_p; // top_p in units of 2^-32
};
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Shared32 { uint v[]; };

const uint THREADS = 256, TILE = 1024, N_BINS = 1024, ALL = 0xffffffffu, KEY_NEG_INF = 0x007fffffu;
const float UNIT = 1.4426950408889634; // log2(e): the scale at temperature 1
// Words of the scratch. Between calls the first ones are zero.
const uint S_ARRIVED = 0, S_LISTED = 1, S_BAD = 2, S_MAX = 3, S_PROBLEM = 4, S_ACTIVE = 5, S_BIN = 6, S_NEED = 8, S_ABOVE = 10,
           S_CUT_KEY = 12, S_CUT_ID = 13, S_TOTAL = 14, S_PART = 16, S_BINS = S_PART + 2 * THREADS, S_LIST = S_BINS + 3 * N_BINS;
const uint BROKEN = 1, NOTHING = 2; // S_PROBLEM; the id is its negative

shared uint bin_count[N_BINS], bin_low[N_BINS], bin_high[N_BINS]; // weights in two words, with carry
shared uint64_t scan_value[THREADS];
shared uint scan_count[THREADS];
shared uint last_one, here, place, chosen, chosen_count;
shared uint64_t chosen_before, chosen_weight;

uint key_of(uint u)
{
    if (u == 0x80000000u) u = 0;
    return (u & 0x80000000u) != 0 ? ~u : u | 0x80000000u;
}

float logit_of(uint key)
{
    return uintBitsToFloat((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

uint high_product(uint a, uint b)
{
    uint high, low;
    umulExtended(a, b, high, low);
    return high;
}

// 2^(38 - y)
uint64_t weight_of(float y)
{
    uint u = floatBitsToUint(y), exponent = u >> 23, mantissa = (u & 0x7fffffu) | 0x800000u;
    if (exponent >= 133) return 0ul;
    uint64_t fixed_y = exponent >= 118 ? uint64_t(mantissa) << (exponent - 118)
                       : exponent >= 95 ? uint64_t(mantissa >> (118 - exponent)) : 0ul;
    uint f = uint(fixed_y), p = 0x00000002u;
    p = 0x0000001eu - high_product(p, f);
    p = 0x000001b5u - high_product(p, f);
    p = 0x0000162cu - high_product(p, f);
    p = 0x0000ffe6u - high_product(p, f);
    p = 0x000a1849u - high_product(p, f);
    p = 0x00576200u - high_product(p, f);
    p = 0x0276556eu - high_product(p, f);
    p = 0x0e35846cu - high_product(p, f);
    p = 0x3d7f7bffu - high_product(p, f);
    p = 0xb17217f8u - high_product(p, f);
    uint64_t power = 0x100000000ul - uint64_t(high_product(p, f));
    return (power << 6) >> uint(fixed_y >> 32);
}

float distance_of(uint key, float top)
{
    precise float d = top - logit_of(key);
    return d;
}

float scaled(float d, float by)
{
    precise float y = d * by;
    return y;
}

uint bin_of(uint key, float top)
{
    return uint(min(scaled(distance_of(key, top), UNIT) * 16.0, float(N_BINS - 1)));
}

uint64_t pair(uint low, uint high)
{
    return uint64_t(low) | uint64_t(high) << 32;
}

uint64_t high_word(uint64_t a, uint64_t b)
{
    uint64_t al = a & 0xfffffffful, ah = a >> 32, bl = b & 0xfffffffful, bh = b >> 32;
    uint64_t m = ah * bl + ((al * bl) >> 32), k = al * bh + (m & 0xfffffffful);
    return ah * bh + (m >> 32) + (k >> 32);
}

uint64_t part_of(uint64_t total)
{
    uint64_t part = (total >> 32) * uint64_t(top_p) + (((total & 0xfffffffful) * uint64_t(top_p) + 0xfffffffful) >> 32);
    return max(part, 1ul);
}

uint64_t random_number() // Philox 4 x 32, 10 rounds, key seed, counter step
{
    uint k0 = U32(draw).v[0], k1 = U32(draw).v[1];
    uvec4 c = uvec4(Shared32(draw).v[2], 0, 0, 0);
    for (int i = 0; i < 10; i++) {
        uint ah, al, bh, bl;
        umulExtended(0xd2511f53u, c.x, ah, al);
        umulExtended(0xcd9e8d57u, c.z, bh, bl);
        c = uvec4(bh ^ c.y ^ k0, bl, ah ^ c.w ^ k1, al);
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return pair(c.x, c.y);
}

void put64(uint at, uint64_t x)
{
    Shared32(scratch).v[at] = uint(x);
    Shared32(scratch).v[at + 1] = uint(x >> 32);
}

uint64_t get64(uint at)
{
    return pair(Shared32(scratch).v[at], Shared32(scratch).v[at + 1]);
}

// The end of the call, by one thread.
void finish(int token)
{
    Shared32 s = Shared32(scratch), d = Shared32(draw);
    uint step = d.v[2];
    I32(id).v[0] = token;
    if (position != 0) I32(position).v[0] += 1;
    if (ring != 0) {
        I32(ring).v[step % ring_size] = token;
        d.v[2] = step + 1;
    }
    s.v[S_BAD] = 0;
}

// True in the workgroup that comes last; all that the others wrote can be seen there then.
bool arrive()
{
    memoryBarrierBuffer();
    barrier();
    if (gl_LocalInvocationID.x == 0) {
        last_one = atomicAdd(Shared32(scratch).v[S_ARRIVED], 1u);
        if (last_one == gl_NumWorkGroups.x - 1) Shared32(scratch).v[S_ARRIVED] = 0;
    }
    barrier();
    memoryBarrierBuffer();
    return last_one == gl_NumWorkGroups.x - 1;
}

void clear_bins(uint n_bins)
{
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < n_bins; i += THREADS) bin_count[i] = bin_low[i] = bin_high[i] = 0;
    barrier();
}

void add_to_bin(uint b, uint64_t w)
{
    uint low = uint(w), old = atomicAdd(bin_low[b], low);
    atomicAdd(bin_high[b], uint(w >> 32) + (old + low < old ? 1u : 0u));
    atomicAdd(bin_count[b], 1u);
}

// Sums over the threads up to and including this one, of scan_count and scan_value. All threads call.
void scan()
{
    uint me = gl_LocalInvocationID.x;
    barrier();
    for (uint by = 1; by < THREADS; by *= 2) {
        uint c = me >= by ? scan_count[me - by] : 0;
        uint64_t v = me >= by ? scan_value[me - by] : 0ul;
        barrier();
        scan_count[me] += c;
        scan_value[me] += v;
        barrier();
    }
}

// Among the workgroup's bins, `each` of them in a row for a thread: the first one with which the count or the weight reaches
// `need`. Falling: thread 0 has the highest bins (radix digits: highest first). Sets chosen, chosen_count and chosen_weight
// (in front of it), chosen_before (of what `need` counts).
void choose(uint each, bool by_weight, bool falling, uint64_t need)
{
    uint me = gl_LocalInvocationID.x, count = 0, n_bins = each * THREADS;
    uint64_t weight = 0ul;
    barrier();
    for (uint k = 0; k < each; k++) {
        uint b = falling ? n_bins - 1 - (me * each + k) : me * each + k;
        count += bin_count[b];
        weight += pair(bin_low[b], bin_high[b]);
    }
    scan_count[me] = count;
    scan_value[me] = weight;
    scan();
    uint count_before = scan_count[me] - count;
    uint64_t weight_before = scan_value[me] - weight;
    uint64_t before = by_weight ? weight_before : uint64_t(count_before), own = by_weight ? weight : uint64_t(count);
    if (before < need && need <= before + own) {
        for (uint k = 0; k < each; k++) {
            uint b = falling ? n_bins - 1 - (me * each + k) : me * each + k, c = bin_count[b];
            uint64_t w = pair(bin_low[b], bin_high[b]), value = by_weight ? w : uint64_t(c);
            if (before + value >= need) {
                chosen = b;
                chosen_count = count_before;
                chosen_weight = weight_before;
                chosen_before = before;
                break;
            }
            before += value;
            count_before += c;
            weight_before += w;
        }
    }
    barrier();
}

// The bins of all workgroups, from the scratch.
void load_bins()
{
    Shared32 s = Shared32(scratch);
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < N_BINS; i += THREADS) {
        bin_count[i] = s.v[S_BINS + 3 * i];
        bin_low[i] = s.v[S_BINS + 3 * i + 1];
        bin_high[i] = s.v[S_BINS + 3 * i + 2];
    }
    barrier();
}

// What the next pass lists: the bin that was chosen, where `need` is reached.
void note_bin(uint64_t need)
{
    if (gl_LocalInvocationID.x != 0) return;
    Shared32 s = Shared32(scratch);
    s.v[S_BIN] = chosen;
    put64(S_NEED, need - chosen_before);
    put64(S_ABOVE, chosen_weight);
    s.v[S_ACTIVE] = 1;
}

// In the list, in falling order of keys and rising order of ids: the entry with which count or weight reaches S_NEED becomes the
// cut; S_TOTAL: the weight that stays. All threads of one workgroup call.
void resolve(bool by_weight)
{
    Shared32 s = Shared32(scratch);
    uint me = gl_LocalInvocationID.x, m = s.v[S_LISTED], key = 0, mask = 0, left = m;
    uint64_t need = get64(S_NEED), kept = get64(S_ABOVE);
    float top = logit_of(s.v[S_MAX]);
    for (int shift = 24; shift >= 0; shift -= 8) {
        clear_bins(THREADS);
        for (uint i = me; i < m; i += THREADS) {
            uint k = s.v[S_LIST + 2 * i];
            if ((k & mask) != key) continue;
            place = k; // any of them
            add_to_bin((k >> shift) & 255u, weight_of(scaled(distance_of(k, top), UNIT)));
        }
        barrier();
        uint digit = (place >> shift) & 255u;
        if (bin_count[digit] != left) { // they are not all alike in it
            choose(1, by_weight, true, need);
            digit = chosen;
            left = bin_count[digit];
            need -= chosen_before;
            kept += chosen_weight;
        }
        key |= digit << shift;
        mask |= 255u << shift;
    }
    uint64_t each = weight_of(scaled(distance_of(key, top), UNIT)), stay = by_weight ? (need + each - 1ul) / max(each, 1ul) : need;
    kept += stay * each;
    uint bound = ALL;
    if (stay < uint64_t(left)) { // of equal logits the lowest ids
        uint found = 0, id_mask = 0;
        for (int shift = 16; shift >= 0; shift -= 8) {
            clear_bins(THREADS);
            for (uint i = me; i < m; i += THREADS) {
                uint other = s.v[S_LIST + 2 * i + 1];
                if (s.v[S_LIST + 2 * i] == key && (other & id_mask) == found) add_to_bin((other >> shift) & 255u, 0ul);
            }
            choose(1, false, false, stay);
            found |= chosen << shift;
            id_mask |= 255u << shift;
            stay -= chosen_before;
        }
        bound = found;
    }
    barrier();
    if (me != 0) return;
    s.v[S_CUT_KEY] = key;
    s.v[S_CUT_ID] = bound;
    put64(S_TOTAL, kept);
}

void merge_max(uint me)
{
    barrier();
    for (uint half_size = THREADS / 2; half_size > 0; half_size /= 2) {
        if (me < half_size) {
            uint k = bin_count[me + half_size], i = bin_low[me + half_size];
            if (k > bin_count[me] || (k == bin_count[me] && i < bin_low[me])) bin_count[me] = k, bin_low[me] = i;
        }
        barrier();
    }
}

void pass_max()
{
    Shared32 s = Shared32(scratch);
    uint me = gl_LocalInvocationID.x, groups = gl_NumWorkGroups.x, best = 0, at = ALL;
    bool bad = false;
    for (uint i = gl_WorkGroupID.x * THREADS + me; i < n; i += groups * THREADS) {
        uint u = U32(logits).v[i], key = key_of(u);
        bad = bad || (u & 0x7fffffffu) > 0x7f800000u || u == 0x7f800000u;
        if (key > best) best = key, at = i;
    }
    if (bad) atomicOr(s.v[S_BAD], 1u);
    if (!GREEDY)
        for (uint i = gl_WorkGroupID.x * THREADS + me; i < 3 * N_BINS; i += groups * THREADS) s.v[S_BINS + i] = 0;
    bin_count[me] = best;
    bin_low[me] = at;
    merge_max(me);
    if (me == 0) {
        s.v[S_PART + 2 * gl_WorkGroupID.x] = bin_count[0];
        s.v[S_PART + 2 * gl_WorkGroupID.x + 1] = bin_low[0];
    }
    if (!arrive()) return;
    bin_count[me] = me < groups ? s.v[S_PART + 2 * me] : 0;
    bin_low[me] = me < groups ? s.v[S_PART + 2 * me + 1] : ALL;
    merge_max(me);
    if (me != 0) return;
    uint problem = atomicAdd(s.v[S_BAD], 0u) != 0 ? BROKEN : bin_count[0] <= KEY_NEG_INF ? NOTHING : 0;
    s.v[S_PROBLEM] = problem;
    s.v[S_MAX] = bin_count[0];
    s.v[S_ACTIVE] = s.v[S_LISTED] = s.v[S_CUT_KEY] = 0;
    s.v[S_CUT_ID] = ALL;
    if (GREEDY) finish(problem != 0 ? -int(problem) : int(bin_low[0]));
}

void pass_bins()
{
    Shared32 s = Shared32(scratch);
    uint me = gl_LocalInvocationID.x, groups = gl_NumWorkGroups.x;
    float top = logit_of(s.v[S_MAX]);
    clear_bins(N_BINS);
    for (uint i = gl_WorkGroupID.x * THREADS + me; i < n; i += groups * THREADS) {
        uint key = key_of(U32(logits).v[i]);
        if (key > KEY_NEG_INF) add_to_bin(bin_of(key, top), weight_of(scaled(distance_of(key, top), UNIT)));
    }
    barrier();
    for (uint i = me; i < N_BINS; i += THREADS) {
        if (bin_count[i] == 0) continue;
        uint low = bin_low[i], old = atomicAdd(s.v[S_BINS + 3 * i + 1], low);
        atomicAdd(s.v[S_BINS + 3 * i + 2], bin_high[i] + (old + low < old ? 1u : 0u));
        atomicAdd(s.v[S_BINS + 3 * i], bin_count[i]);
    }
    if (!arrive()) return;
    load_bins();
    choose(N_BINS / THREADS, false, false, HAS_TOP_K ? uint64_t(top_k) : 0ul); // of 0 nothing is chosen
    uint count = scan_count[THREADS - 1]; // the last thread's sums are the totals
    uint64_t total = scan_value[THREADS - 1];
    barrier();
    if (me == 0) put64(S_TOTAL, total);
    if (HAS_TOP_K) {
        if (top_k < count) note_bin(uint64_t(top_k));
    } else {
        choose(N_BINS / THREADS, true, false, part_of(total));
        note_bin(part_of(total));
    }
}

// Lists the logits of bin S_BIN.
void list_bin()
{
    Shared32 s = Shared32(scratch);
    uint me = gl_LocalInvocationID.x, groups = gl_NumWorkGroups.x, bin = s.v[S_BIN];
    float top = logit_of(s.v[S_MAX]);
    for (uint tile = gl_WorkGroupID.x * TILE; tile < n; tile += groups * TILE) {
        uint mine = 0, key[TILE / THREADS];
        if (me == 0) here = 0;
        barrier();
        for (uint k = 0; k < TILE / THREADS; k++) {
            uint i = tile + k * THREADS + me;
            key[k] = i < n ? key_of(U32(logits).v[i]) : 0;
            if (key[k] > KEY_NEG_INF && bin_of(key[k], top) == bin) mine++;
            else key[k] = 0;
        }
        uint at = mine != 0 ? atomicAdd(here, mine) : 0;
        barrier();
        if (me == 0) place = here != 0 ? atomicAdd(s.v[S_LISTED], here) : 0;
        barrier();
        for (uint k = 0; k < TILE / THREADS; k++) {
            if (key[k] == 0) continue;
            s.v[S_LIST + 2 * (place + at)] = key[k];
            s.v[S_LIST + 2 * (place + at) + 1] = tile + k * THREADS + me;
            at++;
        }
        barrier();
    }
}

void pass_cut()
{
    Shared32 s = Shared32(scratch);
    bool narrows = s.v[S_ACTIVE] != 0;
    if (narrows) list_bin();
    if (!arrive()) return;
    if (narrows) resolve(PASS == TOP_P);
    memoryBarrierBuffer();
    barrier();
    uint64_t total = get64(S_TOTAL);
    barrier();
    if (gl_LocalInvocationID.x == 0) s.v[S_LISTED] = 0;
    if (PASS == TOP_K && HAS_TOP_P) {
        load_bins();
        choose(N_BINS / THREADS, true, false, part_of(total));
        note_bin(part_of(total));
    }
}

uint64_t weight_at(uint i, float top, uint cut_key, uint cut_id)
{
    uint key = i < n ? key_of(U32(logits).v[i]) : 0;
    if (key <= KEY_NEG_INF || key < cut_key || (key == cut_key && i > cut_id)) return 0ul;
    float d = distance_of(key, top);
    return d <= reach ? weight_of(scaled(d, scale)) : 0ul;
}

void pass_draw()
{
    Shared32 s = Shared32(scratch);
    uint me = gl_LocalInvocationID.x, groups = gl_NumWorkGroups.x, cut_key = s.v[S_CUT_KEY], cut_id = s.v[S_CUT_ID];
    float top = logit_of(s.v[S_MAX]);
    uint64_t sum = 0ul;
    uint begin = gl_WorkGroupID.x * chunk, end = min(begin + chunk, n);
    for (uint i = begin + me; i < end; i += THREADS) sum += weight_at(i, top, cut_key, cut_id);
    scan_count[me] = 0;
    scan_value[me] = sum;
    scan();
    if (me == 0) put64(S_PART + 2 * gl_WorkGroupID.x, scan_value[THREADS - 1]);
    if (!arrive()) return;
    uint64_t own = me < groups ? get64(S_PART + 2 * me) : 0ul;
    scan_count[me] = 0;
    scan_value[me] = own;
    scan();
    uint64_t target = high_word(scan_value[THREADS - 1], random_number());
    if (scan_value[me] - own <= target && target < scan_value[me]) {
        chosen = me;
        chosen_before = scan_value[me] - own;
    }
    barrier();
    target -= chosen_before;
    begin = chosen * chunk;
    barrier();
    for (uint tile = begin; tile < begin + chunk; tile += TILE) {
        uint64_t w[TILE / THREADS], before = 0ul;
        own = 0ul;
        for (uint k = 0; k < TILE / THREADS; k++)
            own += w[k] = weight_at(tile + me * (TILE / THREADS) + k, top, cut_key, cut_id);
        scan_count[me] = 0;
        scan_value[me] = own;
        scan();
        before = scan_value[me] - own;
        uint64_t total = scan_value[THREADS - 1];
        if (before <= target && target < before + own) {
            uint k = 0;
            while (before + w[k] <= target) before += w[k++];
            finish(int(tile + me * (TILE / THREADS) + k));
        }
        barrier();
        if (target < total) return;
        target -= total;
    }
}

void main()
{
    Shared32 s = Shared32(scratch);
    if (PASS == CLEAR) {
        if (gl_LocalInvocationID.x < S_PART) s.v[gl_LocalInvocationID.x] = 0;
        return;
    }
    if (PASS == MAX) {
        pass_max();
        return;
    }
    uint problem = s.v[S_PROBLEM];
    if (problem != 0) {
        if (PASS == DRAW && gl_WorkGroupID.x == 0 && gl_LocalInvocationID.x == 0) finish(-int(problem));
        return;
    }
    if (PASS == BINS) pass_bins();
    if (PASS == TOP_K || PASS == TOP_P) pass_cut();
    if (PASS == DRAW) pass_draw();
}
