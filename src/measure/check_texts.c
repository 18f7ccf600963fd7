// The texts of --check, and sessions that give up when the budget ends.
#include "check_rows.h"

#include <math.h>
#include <string.h>

enum {
    PIECES = 8,      // of a stretch that jumps
    KEY_PIECES = 3,  // the key in the first one, the question in the last
};

// ---- sessions ----

// The plan that is checked, for n tokens that are spread over the row's positions. All keys but BOS
// count as a crowd.
static RopePlan jumping_plan(const Check *c, const Row *row, int n, int pieces) {
    RopePlan plan = c->job->plans[0];
    plan.spread = row->length;
    if (plan.piece == 0) plan.piece = (n + pieces - 1) / pieces;
    if (plan.piece > n / 2) plan.piece = n / 2;
    plan.crowd = 1;
    return plan;
}

RopePlan stretch_jumps(const Check *c, const Row *row) {
    return jumping_plan(c, row, c->window, PIECES);
}

// A stretch with jumps where the row is about more than one. There is no crowd, which would make
// rounding larger.
RopePlan may_jump(const Check *c, const Row *row) {
    const bool is_far = row->length > c->window;
    RopePlan plan = is_far ? stretch_jumps(c, row) : c->job->plans[0];
    plan.crowd = 0;
    return plan;
}

// What is to be found, in the first piece, is there once.
RopePlan page_jumps(const Check *c, const Row *row) {
    RopePlan plan = jumping_plan(c, row, c->window, PAGE_PIECES);
    plan.piece = c->window / PAGE_PIECES;
    plan.crowd = plan.piece;
    return plan;
}

RopePlan key_jumps(const Check *c, const Row *row) {
    RopePlan plan = jumping_plan(c, row, key_tokens(c), KEY_PIECES);
    plan.crowd = plan.piece;
    return plan;
}

RopePlan plan_of_row(const Check *c, const Row *row) {
    const RowType *type = &row_types[row->kind];
    return type->plan ? type->plan(c, row) : c->job->plans[0];
}

// A session asks this before each chunk. The end of the budget ends the reading, and so does Ctrl-C.
static bool go_on(void *whose) {
    Check *c = whose;
    table_progress(&c->table, c->doing, fmin(spent(c) / c->budget, 1));
    if (interrupted || spent(c) + c->chunk * c->per_token > c->budget) c->late = true;
    return !c->late;
}

SessionConfig timed_config(Check *c, const RopePlan *plan, int context) {
    SessionConfig config = session_config(c->job, plan, context);
    config.chunk = c->chunk;
    config.go_on = go_on;
    config.whose = c;
    return config;
}

Session *open_timed(Check *c, const RopePlan *plan, int context, Error *err) {
    SessionConfig config = timed_config(c, plan, context);
    return session_new(c->job->model, &config, err);
}

double whole_bytes(const Check *c, int length) {
    SessionConfig config = session_config(c->job, c->job->plans, length);
    return (double)session_needs(c->job->model, &config);
}

// ---- texts ----

bool has_bos(const Check *c) { return tokenizer_bos(c->job->tokenizer) >= 0; }

void take_text(const Check *c, size_t start, int n, int32_t *text) {
    text[0] = tokenizer_bos(c->job->tokenizer);
    memcpy(text + has_bos(c), c->ids + start, (size_t)(n - has_bos(c)) * sizeof *text);
}

int spread_order(int i, int n) {
    int size = 1;
    while (size < n) size *= 2;
    for (int number = 0;; number++) {
        int place = 0;
        int from = size / 2;
        for (int bit = 1; bit < size; bit *= 2) {
            if (number & bit) place += from;
            from /= 2;
        }
        if (place >= n) continue;
        if (i == 0) return place;
        i--;
    }
}

size_t start_of(const Check *c, int u, int n, int length) {
    size_t last = c->n_ids - (size_t)(length - has_bos(c));
    return n > 1 ? (size_t)((double)last * spread_order(u, n) / (n - 1)) : 0;
}
