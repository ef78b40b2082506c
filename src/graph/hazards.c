#include "graph/hazards.h"
#include "base/compiler.h"

static bool overlap(const rdg_range *a, const rdg_range *b)
{
    return a->begin < b->end && b->begin < a->end;
}

void rdg_hazards_use(rdg_hazards *h, uint64_t begin, uint64_t bytes, bool written)
{
    if (!begin || !bytes) return;
    if (h->n_now == RDG_HAZARDS_NOW) {
        h->overflow = true;
        return;
    }
    h->now[h->n_now++] = (rdg_range){begin, begin + bytes, written};
}

static void join(rdg_hazards *h)
{
    for (int i = 0; i < h->n_now; i++) {
        h->pending[h->n++] = h->now[i];
        if (h->now[i].written && overlap(&h->now[i], &h->prepared)) h->prepared = (rdg_range){0, 0, false};
    }
    if (h->overflow) { /* conflicts with whatever comes next */
        h->n = 1;
        h->pending[0] = (rdg_range){0, UINT64_MAX, true};
        h->prepared = (rdg_range){0, 0, false};
    }
    h->n_now = 0;
    h->overflow = false;
}

bool rdg_hazards_order(rdg_hazards *h)
{
    bool conflict = h->n + h->n_now > RDG_HAZARDS_PENDING || h->overflow;
    for (int i = 0; i < h->n_now && !conflict; i++)
        for (int k = 0; k < h->n && !conflict; k++)
            conflict = (h->now[i].written || h->pending[k].written) && overlap(&h->now[i], &h->pending[k]);
    if (conflict) h->n = 0;
    join(h);
    return conflict;
}

void rdg_hazards_restart(rdg_hazards *h)
{
    h->n = 0;
    join(h);
}

bool rdg_hazards_is_prepared(const rdg_hazards *h, const void *by, uint64_t begin, uint64_t end,
                             int64_t row_elems)
{
    return by && h->prepared_by == by && h->prepared.begin == begin && h->prepared.end == end &&
           h->prepared_row == row_elems && begin < end;
}

void rdg_hazards_set_prepared(rdg_hazards *h, const void *by, uint64_t begin, uint64_t end, int64_t row_elems)
{
    h->prepared = (rdg_range){begin, end, false};
    h->prepared_row = row_elems;
    h->prepared_by = by;
}
