// The rows of --check about settings. docs/check.md has the limits and the reasons for them.
#include <math.h>
#include <stdio.h>

#include "measure.h"

static const char *const verdicts[] = {"fail", "ok", "unknown"};

bool judge(Table *table, const char *check, int length, double value, double limit, Verdict verdict) {
    char found[32] = "any", allowed[32];
    snprintf(allowed, sizeof allowed, "%.*g", limit < 1e6 ? 6 : 10, limit);
    if (value < INFINITY) snprintf(found, sizeof found, "%.*g", value < 1e6 ? 6 : 10, value);
    table_row(table, "%s\t%d\t%s\t%s\t%s", check, length, found, allowed, verdicts[verdict]);
    if (!table->eyes) fflush(stdout);
    return verdict == OK;
}

// How many positions settings are made for.
static double reach_of(const RopeConfig *r, int seq_len) {
    unsigned flags = rope_methods[r->method].flags;
    double reach = flags & ROPE_USES_FACTOR ? r->factor * r->train_ctx : r->train_ctx;
    if (r->dynamic) return INFINITY;
    // Their factor is not how many times longer a text may be: Llama 3.1 has 8 of 8,192, and is made for 131,072.
    if (flags & (ROPE_USES_FREQ_FACTORS | ROPE_USES_LISTS)) reach = fmax(reach, seq_len);
    if (!r->map && !(r->all_slide && r->window > 0)) return reach;
    // The longest text whose last query sees its first key at a distance below `reach`. No later key is further away.
    // lm-infinite's first keys may stand at `reach` itself.
    unsigned map = r->map ? r->map->flags & (ROPE_MAP_WINDOW | ROPE_MAP_SINKS_INSIDE) : 0;
    double limit = map == ROPE_MAP_WINDOW && r->window <= reach ? reach + 1 : reach;
    int low = 0, high = MOST_LENGTH;
    while (high - low > 1) {
        int n = low + (high - low) / 2, first = r->all_slide && !rope_sees(r, n - 1, 0) ? n - r->window : 0;
        *(rope_distance(r, n - 1, first) < limit ? &low : &high) = n;
    }
    return high == MOST_LENGTH ? INFINITY : low;
}

// What the file (or --rope-config) says is compared with itself. What was asked for is compared with the length and
// with what the model was made with: another method, base or trained context is another model.
int judge_settings(const Measurement *m, const RopePlan *own, Table *table) {
    const RopeConfig *said = &m->model->rope, *made = &own->rope, *asked = &m->plans->rope;
    const RopeMethod *method = &rope_methods[said->method];
    int n = m->length, seq_len = m->model->config.seq_len, seen = asked->window + asked->sinks;
    double holds = n;
    RopeConfig given = *said;
    settings_fill_defaults(&given, n);
    table_columns(table, "check\tlength\tvalue\tlimit\tverdict");
    if (method->flags & ROPE_USES_FREQ_FACTORS) {
        int found = (said->factor > 0) + (said->low_freq_factor > 0) + (said->high_freq_factor > 0);
        if (!judge(table, "llama3-factors", n, found, 3, found == 3)) holds = 0;
    }
    if (method->flags & ROPE_USES_LISTS) {
        double expected = method->attention(&given, fmax(said->factor, (double)seq_len / said->train_ctx));
        double found = said->attention_factor != 0 ? said->attention_factor : method->attention(&given, given.factor);
        bool near = fabs(found / expected - 1) < 0.1;
        if (!judge(table, "temperature", n, found, expected, near)) holds = 0;
    }
    if (asked->window > 0 && !judge(table, "window", n, seen, n, seen >= n)) holds = fmin(holds, seen);
    if (m->model->config.encoding != ENCODING_ROPE) return (int)holds;  // the text shows how far it reaches
    double reach = reach_of(&given, seq_len);
    // A context left at the trained length is usual. One beyond what the factor gives is a mistake.
    if (method->flags & ROPE_USES_FACTOR && !said->dynamic && said->factor > 0 &&
        !judge(table, "context", n, seq_len, reach, seq_len <= reach * 1.01 + 1))
        holds = 0;
    reach = reach_of(asked, seq_len);
    if (!judge(table, "reach", n, reach, n, reach >= n - 0.5)) holds = fmin(holds, reach);
    bool same = settings_same_method(made, asked);
    if (made->method != ROPE_NONE)
        table_row(table, "method\t%d\t%s\t%s\t%s", n, m->plans->name, own->name, verdicts[same]);
    if (asked->theta != made->theta) judge(table, "theta", n, asked->theta, made->theta, FAIL);
    if (asked->train_ctx != made->train_ctx) judge(table, "train_ctx", n, asked->train_ctx, made->train_ctx, FAIL);
    return same && asked->theta == made->theta && asked->train_ctx == made->train_ctx ? (int)holds : 0;
}
