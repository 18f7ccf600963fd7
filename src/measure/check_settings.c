// What settings alone tell of a model: they are held against one another, against the length that is asked for, and
// against what the model was made with. docs/check.md has the limits, and why they are so.
#include <math.h>
#include <stdio.h>

#include "check.h"

void begin_judgement(Judgement *j) {
    const Measurement *m = j->m;
    j->table = table_open(SHAPE_LIST, m->plans->rope.train_ctx, m->options->tsv);
    print_heading(m, &j->table, "check");
    table_note(&j->table, m->model->config.encoding ? "encoding" : "method", "%s", m->plans->name);
    table_note(&j->table, "text", "%.200s", m->options->check_path ? m->options->check_path : "made up");
}

static const char *const verdicts[] = {"fail", "ok", "unknown"};

void judge(Judgement *j, const char *check, int length, double value, double limit, Verdict verdict, double otherwise) {
    char found[32] = "any", allowed[32];
    snprintf(allowed, sizeof allowed, "%.*g", limit < 1e6 ? 6 : 10, limit);
    if (value < INFINITY) snprintf(found, sizeof found, "%.*g", value < 1e6 ? 6 : 10, value);
    table_row(&j->table, NULL, "%s\t%d\t%s\t%s\t%s", check, length, found, allowed, verdicts[verdict]);
    if (!j->table.eyes) fflush(stdout);
    if (verdict == FAIL && otherwise < j->holds) j->holds = (int)otherwise;
}

// How many positions settings are made for.
static double reach_of(const RopeConfig *r, int seq_len) {
    const unsigned flags = rope_methods[r->method].flags;
    double reach = flags & ROPE_USES_FACTOR ? r->factor * r->train_ctx : r->train_ctx;
    if (r->dynamic) return INFINITY;
    // Their factor is not how many times longer a text may be: Llama 3.1 has 8 of 8,192, and is made for 131,072.
    if (flags & (ROPE_USES_FREQ_FACTORS | ROPE_USES_LISTS)) reach = fmax(reach, seq_len);
    if (!r->map && !(r->all_slide && r->window > 0)) return reach;
    // Map and window decide how long a text may be before its last query sees its first key at that distance: no later
    // key is further away. lm-infinite's first keys stand at the limit.
    const unsigned map = r->map ? r->map->flags & (ROPE_MAP_WINDOW | ROPE_MAP_SINKS_INSIDE) : 0;
    double limit = map == ROPE_MAP_WINDOW && r->window <= reach ? reach + 1 : reach;
    int low = 0, high = MOST_LENGTH;
    while (high - low > 1) {
        const int n = low + (high - low) / 2, first = r->all_slide && !rope_sees(r, n - 1, 0) ? n - r->window : 0;
        *(rope_distance(r, n - 1, first) < limit ? &low : &high) = n;
    }
    return high == MOST_LENGTH ? INFINITY : low;
}

// What the file (or --rope-config) says is held against itself. What was asked for is held against the length, and
// against what the model was made with: another method, base or trained context is another model.
void judge_settings(Judgement *j, const RopePlan *plan) {
    const RopePlan *asked = &j->m->plans[0];
    const RopeConfig *said = &j->m->model->rope, *own = &plan->rope, *a = &asked->rope;
    RopeConfig given = *said;
    const RopeMethod *method = &rope_methods[said->method];
    const int n = j->m->length, seq_len = j->m->model->config.seq_len;
    settings_fill_defaults(&given, n);
    table_columns(&j->table, "check\tlength\tvalue\tlimit\tverdict");
    if (method->flags & ROPE_USES_FREQ_FACTORS) {
        int found = (said->factor > 0) + (said->low_freq_factor > 0) + (said->high_freq_factor > 0);
        judge(j, "llama3-factors", n, found, 3, found == 3, 0);
    }
    if (method->flags & ROPE_USES_LISTS) {
        double s = fmax(said->factor, (double)seq_len / said->train_ctx), expected = method->attention(&given, s);
        double usual = method->attention(&given, given.factor);
        double found = said->attention_factor != 0 ? said->attention_factor : usual;
        judge(j, "temperature", n, found, expected, fabs(found / expected - 1) < 0.1, 0);
    }
    int seen = a->window + a->sinks;
    if (a->window > 0) judge(j, "window", n, seen, n, seen >= n, seen);
    if (j->m->model->config.encoding != ENCODING_ROPE) return;  // how far it reaches, the text shall tell
    // A context that was left at the trained length is usual; one beyond what the factor gives is a slip.
    double reach = reach_of(&given, seq_len);
    if (method->flags & ROPE_USES_FACTOR && !said->dynamic && said->factor > 0)
        judge(j, "context", n, seq_len, reach, seq_len <= reach * 1.01 + 1, 0);
    reach = reach_of(a, seq_len);
    judge(j, "reach", n, reach, n, reach >= n - 0.5, reach);
    const bool same = settings_same_method(own, a);
    if (own->method != ROPE_NONE)
        table_row(&j->table, NULL, "method\t%d\t%s\t%s\t%s", n, asked->name, plan->name, verdicts[same]);
    if (!same) j->holds = 0;
    if (a->theta != own->theta) judge(j, "theta", n, a->theta, own->theta, FAIL, 0);
    if (a->train_ctx != own->train_ctx) judge(j, "train_ctx", n, a->train_ctx, own->train_ctx, FAIL, 0);
}

bool check_settings(const Measurement *m, Error *err) {
    Judgement j = {.m = m, .holds = m->length};
    RopePlan own;
    if (!reference_plan(m, false, 1, &own, err)) return false;
    begin_judgement(&j);
    judge_settings(&j, &own);
    table_end(&j.table);
    return true;
}
