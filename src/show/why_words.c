// Prints the results of --why in words and in a table.
#include "why_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/names.h"

static const char *const band_names[] = {"8 turns or more", "1 to 8 turns", "0.2 to 1 turn",
                                         "less than 0.2 turns"};
static const char *const band_speeds[] = {"fastest", "fast", "slow", "slowest"};
enum { WHOLE_TURNS = 2 };  // bands whose pairs make at least one turn
static const double TWO_PI = 6.28318530717958647693;
static const double LEAST_LOSS = 0.02;  // of -ln p; smaller losses are not explained

// ---- words ----

// Prints a sentence: on its own line at a terminal, else as a note.
static void tell(Why *w, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void tell(Why *w, const char *key, const char *format, ...) {
    char words[2000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    if (w->table.eyes) {
        table_end(&w->table);
        int used = 0;
        for (const char *at = words; *at; at += strspn(at, " ")) {
            const int n = (int)strcspn(at, " ");
            if (used && used + 1 + n > 96) used = 0 * printf("\n");
            used += printf("%s%.*s", used ? " " : "", n, at);
            at += n;
        }
        printf("\n\n");
    } else {
        table_note(&w->table, key, "%s", words);
    }
}

// Lists the shares of some heads in a setting: "18.7 (0.37 +- 0.09), 18.6 (...)".
static void list_heads(const Why *w, bool (*is_told)(const FarHead *), WhySetting setting,
                       char *list, size_t size) {
    char one[80];
    *list = '\0';
    for (int i = 0; i < w->n_heads; i++) {
        const FarHead *f = &w->heads[i];
        const Mean *share = &f->weight[setting];
        if (!is_told(f)) continue;
        snprintf(one, sizeof one, "%d.%d (%.2f +- %.2f)", f->layer, f->head, mean_of(share),
                 error_of(share));
        add_name(list, size, ", ", one);
    }
}

static bool any_head(const FarHead *f) { return f; }
static bool holds(const FarHead *f) { return f->holds && !f->hidden[NO_METHOD]; }
static bool holds_not(const FarHead *f) { return !f->holds && !f->hidden[NO_METHOD]; }
static bool is_hidden(const FarHead *f) { return f->hidden[NO_METHOD]; }
static bool loses(const FarHead *f) { return f->loses; }
static bool loses_in_window(const FarHead *f) { return f->loses && f->hidden[METHOD]; }
static bool finds_again(const FarHead *f) { return f->loses && f->finds; }
static bool falls(const FarHead *f) { return f->falls; }

static int count_heads(const Why *w, bool (*is_told)(const FarHead *)) {
    int n = 0;
    for (int i = 0; i < w->n_heads; i++) n += is_told(&w->heads[i]);
    return n;
}

// The pair whose contribution to the key's score drops most, compared with the control.
static int worst_pair(const Why *w, const FarHead *f) {
    const double *before = f->by_pair[AT_CONTROL], *after = f->by_pair[NO_METHOD];
    int worst = 0;
    for (int i = 1; i < pairs_of_head(w, f); i++)
        if (before[i] - after[i] > before[worst] - after[worst]) worst = i;
    return worst;
}

// The mean over heads of a number in a setting: of the score, or of a band. All heads read the same
// texts, so the mean of their errors is taken as its error.
static double mean_over_heads(const Why *w, bool (*is_told)(const FarHead *), WhySetting setting,
                              int band, double *error) {
    double sum = 0;
    const int n = count_heads(w, is_told);
    *error = 0;
    for (int i = 0; i < w->n_heads; i++) {
        const FarHead *f = &w->heads[i];
        const Mean *m = band < 0 ? &f->score[setting] : &f->by_band[setting][band];
        if (!is_told(f)) continue;
        sum += mean_of(m) / n;
        *error += error_of(m) / n;
    }
    return sum;
}

// The band whose contribution to the key's score drops most, compared with the control.
static int worst_band(const Why *w, bool (*is_told)(const FarHead *)) {
    double most_lost = -INFINITY, e;
    int most = 0;
    for (int b = 0; b < N_WHY_BANDS; b++) {
        const double lost = mean_over_heads(w, is_told, AT_CONTROL, b, &e) -
                            mean_over_heads(w, is_told, NO_METHOD, b, &e);
        if (lost > most_lost) {
            most_lost = lost;
            most = b;
        }
    }
    return most;
}

// Prints the change of the key's score from the control to N, and the band with the largest part in
// it. Returns that band.
static int tell_scores(Why *w, bool (*is_told)(const FarHead *)) {
    const int n = w->job->length, from = w->control ? w->control : w->length;
    const int heads = count_heads(w, is_told);
    double e[4];
    const int most = worst_band(w, is_told);
    const double score = mean_over_heads(w, is_told, AT_CONTROL, -1, &e[0]);
    const double then = mean_over_heads(w, is_told, NO_METHOD, -1, &e[1]);
    tell(w, "scores",
         "The score of the number's key, minus the score of the text's mean key, falls from %.1f "
         "+- %.1f at %d to %.1f +- %.1f at %d (%s%d of %d heads). A softmax takes e to the power "
         "of it.",
         score, e[0], from, then, e[1], n, heads > 1 ? "means of " : "", heads, w->n_heads);
    const double at_control = mean_over_heads(w, is_told, AT_CONTROL, most, &e[0]);
    const double plain = mean_over_heads(w, is_told, NO_METHOD, most, &e[1]);
    const double method = mean_over_heads(w, is_told, METHOD, most, &e[2]);
    char by_method[900] = "";
    if (!isnan(method))
        snprintf(by_method, sizeof by_method, ", and there %.1f +- %.1f with %s", method, e[2],
                 w->plans[METHOD].name);
    tell(w, "pairs",
         "The pairs that make %s within %d positions lose most. To the key's score they add %.1f "
         "+- %.1f at %d, %.1f +- %.1f at %d%s.",
         band_names[most], w->plans[NO_METHOD].rope.train_ctx, at_control, e[0], from, plain, e[1],
         n, by_method);
    return most;
}

// Prints, for heads that lose the number, the pair that loses most, and the share that the method's
// speed restores.
static void tell_hands(Why *w, int band) {
    char list[900] = "", back[400] = "", one[MAX_METHOD_NAME + 200];
    const char *name = w->plans[METHOD].name;
    for (int i = 0, told = 0; i < w->n_heads && told < 4; i++) {
        const FarHead *f = &w->heads[i];
        if (!f->loses || pairs_of_head(w, f) == 0) continue;
        const int worst = worst_pair(w, f);
        const double turned =
            mean_of(&f->distance) * rope_plain(rope_of_head(w, f), worst) / TWO_PI;
        snprintf(
            one, sizeof one,
            "pair %d of %d.%d from %.1f to %.1f (its hand is %.2f of a turn away; only this pair at "
            "%s's speed: a share of %.2f; only the others: %.2f)",
            worst, f->layer, f->head, f->by_pair[AT_CONTROL][worst], f->by_pair[NO_METHOD][worst],
            turned, name, mean_of(&f->alone[worst]), mean_of(&f->others[worst]));
        add_name(list, sizeof list, "; ", one);
        told++;
        snprintf(one, sizeof one, "%d.%d %.2f", f->layer, f->head, mean_of(&f->slow_band[band]));
        add_name(back, sizeof back, ", ", one);
    }
    if (!*list) return;
    tell(w, "hands", "The pair of each head that loses most: %s.", list);
    tell(w, "back",
         "With %s's speed in all pairs that make %s, and in no others, the shares are %s.", name,
         band_names[band], back);
}

// Prints whether the losses at N come from the length past the trained one, from the form of the
// question, or from windows.
static void tell_control(Why *w) {
    char list[600];
    const int n = w->job->length, trained = w->plans[NO_METHOD].rope.train_ctx;
    const int held = count_heads(w, holds), gone = count_heads(w, holds_not);
    const int hidden = count_heads(w, is_hidden);
    if (hidden) {
        list_heads(w, is_hidden, TRAINED, list, sizeof list);
        tell(w, "windows",
             "Windows of layers hide the number from %d of these at %d: %s. Angles are not the "
             "cause, and a method cannot change it.",
             hidden, n, list);
    }
    list_heads(w, gone ? holds_not : holds, AT_CONTROL, list, sizeof list);
    if (n <= trained)
        tell(w, "control",
             "Control: %d is within the trained length, %d. Losses there are not failures past it.",
             n, trained);
    else if (w->control && held > 0 && gone == 0)
        tell(w, "control",
             "Control: at %d, the trained length, %s still find it and keep half of that share or "
             "more: %s.",
             w->control, hidden ? "the others" : "all of them", list);
    else if (w->control && gone > 0)
        tell(w, "control",
             "Control: at %d, the trained length, %d of these %d keep less than half of that share"
             "%s: %s. They are left out of the sentences below.",
             w->control, gone, w->n_heads, w->whole ? "" : " when only angles change", list);
}

// Prints whether the heads that lose the number find it with the method.
static void tell_method(Why *w) {
    char list[600];
    const char *name = w->plans[METHOD].name;
    const int losers = count_heads(w, loses);
    if (count_heads(w, loses_in_window) == losers) {
        tell(w, "again", "The window of %s hides the number from all of them.", name);
        return;
    }
    list_heads(w, loses, METHOD, list, sizeof list);
    tell(w, "again", "With %s in all pairs %d of the %d find it again: %s.", name,
         count_heads(w, finds_again), losers, list);
}

static void tell_heads(Why *w) {
    char list[600];
    const int n = w->job->length, losers = count_heads(w, loses), held = count_heads(w, holds);
    list_heads(w, any_head, TRAINED, list, sizeof list);
    tell(w, "found",
         "In texts of %d tokens, within the trained length, %d of %d heads find the number: more "
         "than a tenth of their weight is on it. %s with its share of the weight on the text "
         "(without the first %d tokens and the question): %s.",
         w->length, w->n_found, w->n_all,
         w->n_found > MOST_FINDERS ? "These are the best,"
         : w->n_found > 1          ? "They are these,"
                                   : "It is this head,",
         FIRST_KEYS, list);
    tell_control(w);
    list_heads(w, losers ? loses : holds, NO_METHOD, list, sizeof list);
    if (losers)
        tell(w, "lost", "At %d without a method %d of %s%d lose%s it. The shares: %s.", n, losers,
             held < w->n_heads ? "the other " : "these ", held, losers > 1 ? "" : "s", list);
    else if (held)
        tell(w, "lost", "At %d without a method none of %s%d loses it. The shares: %s.", n,
             held < w->n_heads ? "the other " : "these ", held, list);
    if (losers > 0) {
        tell_hands(w, tell_scores(w, loses));
        tell_method(w);
    } else if (count_heads(w, falls) > 0) {
        tell_scores(w, falls);
    } else if (count_heads(w, is_hidden) < w->n_heads) {
        tell(w, "scores", "The key's score falls in none of these heads by more than its error.");
    }
}

// ---- prose ----

static Mean loss_more(const Why *w, int way, int than) {
    Mean m = {0};
    for (int b = 0; b < w->n_blocks; b++) mean_add(&m, w->losses[way][b] - w->losses[than][b]);
    return m;
}

// Whether a way of reading restores more than half of the loss past the control, by two standard
// errors.
static bool is_mostly_back(const Why *w, int way) {
    Mean m = {0};
    for (int b = 0; b < w->n_blocks; b++) {
        const double half = (w->losses[AT_N][b] + w->losses[AS_CONTROL][b]) / 2;
        mean_add(&m, half - w->losses[way][b]);
    }
    return mean_of(&m) > 2 * error_of(&m);
}

// "75 % of the loss goes", where `left` is the loss that remains; none goes if it is as large or
// larger.
static const char *share_gone(double left, double lost, char *words, size_t size) {
    if (left <= 0) snprintf(words, size, "all of the loss goes");
    else if (left < lost)
        snprintf(words, size, "%.0f %% of the loss goes", 100 * (1 - left / lost));
    else snprintf(words, size, "none of the loss goes");
    return words;
}

// Whether the loss on prose is higher at N than at the control: surely, and by enough to explain.
static bool prose_is_lost(const Why *w) {
    const Mean past = loss_more(w, AT_N, AS_CONTROL);
    return mean_of(&past) > 2 * error_of(&past) && mean_of(&past) > LEAST_LOSS;
}

static void tell_story(Why *w) {
    const Mean control = loss_more(w, AS_CONTROL, AS_TRAINED),
               past = loss_more(w, AT_N, AS_CONTROL);
    const Mean plain = loss_more(w, AT_N, AS_TRAINED),
               shorter = loss_more(w, OTHERS_SHORT, AS_TRAINED),
               near = loss_more(w, SINKS_NEAR, AS_TRAINED),
               method = loss_more(w, BY_METHOD, AS_TRAINED);
    const double lost = mean_of(&past), before = mean_of(&control);
    char at_control[80] = "", gone[40], gone_near[40];
    if (w->n_blocks == 0) {
        tell(w, "perplexity",
             "Perplexity: the story is shorter than the text that --whole asks for.");
        return;
    }
    if (w->control > w->length)
        snprintf(at_control, sizeof at_control, "%+.3f +- %.3f at %d (the control), by ", before,
                 error_of(&control), w->control);
    tell(w, "perplexity",
         "Prose: -ln p of a token changes by %s%+.3f +- %.3f at %d without a method, and by %+.3f "
         "+- %.3f with %s.",
         at_control, mean_of(&plain), error_of(&plain), w->job->length, mean_of(&method),
         error_of(&method), w->plans[METHOD].name);
    if (!any_layer_sees(w, w->plans[NO_METHOD].rope.train_ctx)) {
        tell(w, "so",
             "No layer with RoPE sees farther than the trained length, %d, so no text has angles "
             "that training never showed.%s",
             w->plans[NO_METHOD].rope.train_ctx,
             w->whole ? "" : " The jump causes the loss of prose here.");
        return;
    }
    if (!prose_is_lost(w)) return;
    tell(w, "elsewhere",
         "In which heads: if all kv heads but those that find the number see only the last %d "
         "positions and the first %d, it changes by %+.3f +- %.3f (%s). If all heads do, with the "
         "first %d next to the window, it changes by %+.3f +- %.3f (%s).",
         w->length / 4, FIRST_KEYS, mean_of(&shorter), error_of(&shorter),
         share_gone(mean_of(&shorter) - before, lost, gone, sizeof gone), FIRST_KEYS,
         mean_of(&near), error_of(&near),
         share_gone(mean_of(&near) - before, lost, gone_near, sizeof gone_near));
    if (is_mostly_back(w, OTHERS_SHORT))
        tell(w, "so", "So prose breaks in heads that do not need distant keys%s.",
             count_heads(w, loses) ? ", and numbers are lost in the few that do: two failures"
                                   : "");
    else if (is_mostly_back(w, SINKS_NEAR))
        tell(w, "so",
             "So prose breaks although it does not need distant keys: at angles that training never "
             "showed, heads attend to them, and to the first %d tokens too much or too little.",
             FIRST_KEYS);
}

// How many times slower the pairs of a band rotate in a head with the method, on average; 1 if the
// method changes distances.
static double times_slower(const Why *w, const FarHead *f, int band) {
    const RopePlan *plan = &w->plans[METHOD];
    const RopeConfig *plain = rope_of_head(w, f);
    const RopeConfig *c = layer_rope(&w->job->model->layers[f->layer], &plan->rope, &plan->sliding);
    RopeFreqs other;
    double sum = 0;
    int n = 0;
    if (c->map) return 1;
    rope_frequencies(c, w->job->length, &other);
    for (int i = 0; i < pairs_of_head(w, f); i++) {
        if (why_band(plain, i) != band) continue;
        sum += rope_plain(plain, i) / other.inv_freq[i];
        n++;
    }
    return n ? sum / n : 1;
}

// Prints the result in a sentence or two, for the heads that lose the number or, if there are none,
// for those whose score falls.
static void tell_short(Why *w) {
    const int n = w->job->length, trained = w->plans[NO_METHOD].rope.train_ctx;
    const char *name = w->plans[METHOD].name;
    const int losers = count_heads(w, loses);
    bool (*is_told)(const FarHead *) = losers ? loses : falls;
    const int told = count_heads(w, is_told);
    char prose[900] = "", by_method[1000] = "", lost[90] = "", again[60] = "";
    double e, times = 1;
    const int held = count_heads(w, holds), from = w->control ? w->control : w->length;
    if (n > trained && losers == 0 && held > 0 && w->n_blocks > 0 && !prose_is_lost(w)) {
        tell(w, "short",
             "In short: nothing measured here fails at %d. None of the heads that find the number "
             "at %d loses it (%d do), and prose is predicted no worse than there.",
             n, from, held);
        return;
    }
    if (n / 4 * 3 <= trained || told == 0) return;  // the number is as near as in training
    const int band = worst_band(w, is_told);
    const double method = mean_over_heads(w, is_told, METHOD, band, &e);
    for (int i = 0; i < w->n_heads; i++)
        if (is_told(&w->heads[i])) times = times_slower(w, &w->heads[i], band);
    if (losers)
        snprintf(lost, sizeof lost, ", and %d of the %d heads that find it at %d lose it", losers,
                 held, from);
    if (losers)
        snprintf(again, sizeof again, ", and %d of the %d find it again",
                 count_heads(w, finds_again), losers);
    if (!isnan(method) && times > 1.01)
        snprintf(by_method, sizeof by_method,
                 " %s rotates these pairs %.1f times slower: they add %.1f%s.", name, times,
                 method, again);
    else if (!isnan(method))
        snprintf(by_method, sizeof by_method, " With %s they add %.1f%s.", name, method, again);
    if (w->n_blocks > 0 && prose_is_lost(w) && any_layer_sees(w, trained)) {
        const Mean plain = loss_more(w, AT_N, AS_TRAINED), by = loss_more(w, BY_METHOD, AS_TRAINED);
        snprintf(prose, sizeof prose,
                 " The perplexity of prose is %.2f times as high, with %s %.2f times.",
                 exp(mean_of(&plain)), name, exp(mean_of(&by)));
    }
    tell(w, "short",
         "In short: at %d RoPE's %s pairs (those that make %s within %d) are %s. In the heads that "
         "find a number they add %.1f to the score of its key instead of %.1f%s.%s%s",
         n, band_speeds[band], band_names[band], trained,
         band < WHOLE_TURNS ? "the ones that lose most, though training showed all their angles"
                            : "at angles that training never showed",
         mean_over_heads(w, is_told, NO_METHOD, band, &e),
         mean_over_heads(w, is_told, AT_CONTROL, band, &e), lost, by_method, prose);
}

static void tell_all(Why *w) {
    const int n = w->job->length;
    if (w->whole)
        tell(w, "texts",
             "%d texts hide a number a quarter into them and ask for it at their end. They have "
             "%d tokens, and %d.",
             w->near.n, w->length, n);
    else
        tell(w, "texts",
             "%d texts of %d tokens hide a number a quarter into them and ask for it at their end. "
             "For another length the same text is moved so far before its question that the number "
             "is a quarter into that many positions: only the angles change. Prose has a jump in "
             "its middle. To see the effect of more keys, --whole processes texts of %d.",
             w->near.n, w->length, n);
    if (w->n_heads == 0)
        tell(w, "found",
             "Not found: none of %d heads has a tenth of its weight on the number in texts of %d "
             "tokens. The model has no heads for distant text, or cannot do this task.",
             w->n_all, w->length);
    else tell_heads(w);
    tell_story(w);
    tell_short(w);
}

// ---- the table ----

enum { N_WHY_NUMBERS = 2 * N_SETTINGS + 2 };  // the numbers, their errors, `alone` and `others`

// Prints the cells of a row up to the shares; unknown numbers are NAN.
static void print_why_row(Table *t, const FarHead *f, const char *part, int first, int last,
                          const double *numbers) {
    table_number(t, "%.0f", f->layer);
    table_number(t, "%.0f", f->head);
    table_words(t, part);
    table_number_if(t, first >= 0, "%.0f", first);
    table_number_if(t, first >= 0, "%.0f", last);
    for (int k = 0; k < N_WHY_NUMBERS; k++)
        table_number_if(t, !isnan(numbers[k]), "%.3f", numbers[k]);
    table_end_row(t);
}

// Prints the rows of a head: its share on the number, its key's score, and the terms of bands and
// pairs in the score.
static void print_far_head(Table *t, const Why *w, const FarHead *f) {
    const RopeConfig *c = rope_of_head(w, f);
    const int n = pairs_of_head(w, f);
    double shares[N_WHY_NUMBERS], scores[N_WHY_NUMBERS], given[N_WHY_NUMBERS];
    for (int k = 0; k < N_WHY_NUMBERS; k++) shares[k] = scores[k] = NAN;
    for (int k = 0; k < N_SETTINGS; k++) {
        shares[k] = mean_of(&f->weight[k]);
        shares[N_SETTINGS + k] = error_of(&f->weight[k]);
        scores[k] = mean_of(&f->score[k]);
        scores[N_SETTINGS + k] = error_of(&f->score[k]);
    }
    print_why_row(t, f, "share", -1, -1, shares);
    print_why_row(t, f, "score", -1, -1, scores);
    for (int b = 0, first = 0, end; b < N_WHY_BANDS; b++, first = end) {
        for (end = first; end < n && why_band(c, end) <= b;) end++;
        if (end == first) continue;
        for (int k = 0; k < N_SETTINGS; k++) {
            given[k] = mean_of(&f->by_band[k][b]);
            given[N_SETTINGS + k] = error_of(&f->by_band[k][b]);
        }
        given[2 * N_SETTINGS] = mean_of(&f->slow_band[b]);
        given[2 * N_SETTINGS + 1] = NAN;
        print_why_row(t, f, band_names[b], first, end - 1, given);
    }
    for (int i = 0; i < n; i++) {
        if (t->eyes && i != worst_pair(w, f)) continue;
        for (int k = 0; k < N_SETTINGS; k++) {
            given[k] = f->hidden[k] ? NAN : f->by_pair[k][i];
            given[N_SETTINGS + k] = NAN;
        }
        given[2 * N_SETTINGS] = mean_of(&f->alone[i]);
        given[2 * N_SETTINGS + 1] = mean_of(&f->others[i]);
        print_why_row(t, f, "pair", i, i, given);
    }
}

void tell_why(Why *w) {
    print_heading(w->job, &w->table, "why");
    table_note(&w->table, "method", "%s", w->plans[METHOD].name);
    tell_all(w);
    table_columns(&w->table, as_list,
                  "layer\thead\tpart\tfirst\tlast\ttrained\tcontrol\tplain\tmethod\t"
                  "trained_se\tcontrol_se\tplain_se\tmethod_se\talone\tothers");
    for (int i = 0; i < w->n_heads; i++) print_far_head(&w->table, w, &w->heads[i]);
    table_end(&w->table);
}
