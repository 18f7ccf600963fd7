// --check --min-page: what is left of the gain when a page is read a second time, far behind the
// first. In a short text a model copies. A context that perplexity finds whole may copy a tenth of
// that.
#include "check_page.h"

#include <string.h>

#include "check_texts.h"
#include "score.h"

static const double WARMING_UP = 1 / 6.;  // of the page, before it is seen that it is read again

static double mean_difference(const double *first, const double *second, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += first[i] - second[i];
    return sum / n;
}

bool page_read(Check *c, Row *row, Session *s, Error *err) {
    const int n = c->window;
    const int piece = n / PAGE_PIECES;
    // It does not begin the text: what stands right behind BOS is copied badly.
    const int from = piece / 4;
    const int page = piece - from;
    const int skipped = (int)(page * WARMING_UP);
    double first[MOST_WINDOW], in_place[MOST_WINDOW], far[MOST_WINDOW];
    int32_t text[MOST_WINDOW];
    take_text(c, start_of(c, row->units, c->n_stretches, n), n, text);
    memcpy(text + n - page, text + from, (size_t)page * sizeof *text);
    const Span again = {text, n - page, n, n};
    session_rewind(c->reference, 0);
    session_rewind(s, 0);
    bool ok = score_span(c->reference, (Span){text, from, piece, n}, first, err) &&
              score_span(c->reference, again, in_place, err) && score_span(s, again, far, err);
    if (!ok) return false;
    const int scored = page - skipped;
    const double short_gain = mean_difference(first + skipped, in_place + skipped, scored);
    const double long_gain = mean_difference(first + skipped, far + skipped, scored);
    add_sample(&row->samples, long_gain);
    add_sample(&row->others[GAIN_LONG], long_gain);
    add_sample(&row->others[GAIN_SHORT], short_gain);
    add_sample(&row->others[GAIN_SUM], long_gain + short_gain);
    return true;
}
