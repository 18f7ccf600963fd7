// The effective length of a method.
#include "effective.h"

#include <math.h>
#include <stdio.h>

#include "../rope_settings.h"

// The share of right answers in short texts with which lengths can be compared, at least.
static const double FEWEST_RIGHT = 0.5;

// The squared standard error of a share, with one more answer of either kind (Laplace), so that
// nothing is sure after a few.
static double squared_error(int correct, int asked) {
    const double share = (correct + 1.0) / (asked + 2.0);
    return share * (1 - share) / asked;
}

// The longest length up to which all scores, moved by so many standard errors of their ratio to the
// short texts' score, are the share of that; 0: none.
static int longest_kept(const LengthScore *scores, int n, int n_tasks, const Effective *e,
                        double share, double errors) {
    int kept = 0;
    for (int i = 0; i < n; i++) {
        const LengthScore *s = &scores[i];
        if (s->tasks < n_tasks) continue;
        const double score = (double)s->correct / s->asked;
        const double error =
            sqrt(squared_error(s->correct, s->asked) + pow(share * e->error, 2)) / e->score;
        if (score / e->score + errors * error < share) break;
        kept = s->length;
    }
    return kept;
}

Effective effective_length(const LengthScore *scores, int n, int n_tasks, int trained,
                           double share) {
    const int most = trained > 0 && trained < SHORT_TO ? trained : SHORT_TO;
    Effective e = {.kind = SHORT_UNASKED, .most = most};
    int correct = 0;
    int asked = 0;
    for (int i = 0; i < n; i++) {
        const LengthScore *s = &scores[i];
        if (s->tasks < n_tasks) continue;
        e.longest = s->length;
        if (s->length > most) continue;
        if (!e.from) e.from = s->length;
        e.to = s->length;
        correct += s->correct;
        asked += s->asked;
    }
    if (!asked) return e;
    e.score = (double)correct / asked;
    e.error = sqrt(squared_error(correct, asked));
    e.kind = SHORT_MISSED;
    if (e.score < FEWEST_RIGHT) return e;
    e.length = longest_kept(scores, n, n_tasks, &e, share, 0);
    e.low = longest_kept(scores, n, n_tasks, &e, share, -1);
    e.high = longest_kept(scores, n, n_tasks, &e, share, 1);
    if (e.length && !e.low) e.low = e.from;  // the short texts are the reference of the others
    e.kind = e.length ? EFFECTIVE : BELOW_ALL;
    return e;
}

// "512 to 2048", "512 or more", "1024" where both are the same.
static void describe_range(const Effective *e, char *out, size_t size) {
    char high[24];
    snprintf(high, sizeof high, e->high == e->longest ? "%d or more" : "%d", e->high);
    if (e->low == e->high) snprintf(out, size, "%s", high);
    else snprintf(out, size, "%d to %s", e->low, high);
}

void describe_effective(const Effective *e, double share, char *out, size_t size) {
    char texts[40];
    char range[60];
    if (e->kind == SHORT_UNASKED) {
        snprintf(out, size, "unknown: no text of %d tokens or fewer has all tasks", e->most);
        return;
    }
    snprintf(texts, sizeof texts, e->from < e->to ? "%d to %d" : "%d", e->from, e->to);
    describe_range(e, range, sizeof range);
    if (e->kind == SHORT_MISSED)
        snprintf(out, size, "unknown: accuracy is %.2f +- %.2f in texts of %s (%g expected)",
                 e->score, e->error, texts, FEWEST_RIGHT);
    else if (e->kind == BELOW_ALL)
        snprintf(out, size, "below %d, keeps %g %% of %.2f +- %.2f in texts of %s", e->from,
                 100 * share, e->score, e->error, texts);
    else
        snprintf(out, size, "%d (%s), keeps %g %% of %.2f +- %.2f in texts of %s", e->length, range,
                 100 * share, e->score, e->error, texts);
}

// A length, or null where there is none.
static void put_length(JsonOut *out, const char *name, int length) {
    char number[16];
    snprintf(number, sizeof number, "%d", length);
    json_put_cell(out, name, number, length > 0 ? JSON_NUMBER : JSON_NULL);
}

void note_effective(Table *table, const char *method, const Effective *e, double share) {
    char key[MAX_METHOD_NAME + 20];
    char words[200];
    describe_effective(e, share, words, sizeof words);
    if (!table->json) {
        snprintf(key, sizeof key, "effective_length%s%s", method ? " " : "", method ? method : "");
        table_note(table, key, "%s", words);
        table_end(table);
        return;
    }
    if (method) json_put_cell(table->json, "method", method, JSON_STRING);
    put_length(table->json, "length", e->length);
    put_length(table->json, "low", e->low);
    put_length(table->json, "high", e->high);
    put_length(table->json, "longest", e->longest);
    json_put_cell(table->json, "words", words, JSON_STRING);
    json_end_row(table->json);
}
