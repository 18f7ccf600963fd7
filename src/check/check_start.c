// The beginning of a check: its text, and the lengths that are read.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../job/text_io.h"
#include "check_saved.h"
#include "check_rows.h"
#include "../tasks/trial.h"

// ---- text and lengths ----

// Adds ids to the text, which are freed; NULL: there are none.
static bool add_ids(Check *c, int32_t *ids, size_t n, Error *err) {
    if (!ids) return true;
    int32_t *all = alloc_array(c->n_ids + n, sizeof *all, "a text", err);
    if (all && c->n_ids) memcpy(all, c->ids, c->n_ids * sizeof *all);
    if (all) memcpy(all + c->n_ids, ids, n * sizeof *all);
    free(ids);
    if (!all) return false;
    free(c->ids);
    c->ids = all;
    c->n_ids += n;
    return true;
}

// The given text, before it the story, and before that plain English without a meaning, until there
// are as many tokens as in a text of -n that ends in the given one's middle.
static bool find_text(Check *c, Error *err) {
    const Job *job = c->job;
    const size_t needed = (size_t)(c->window - has_bos(c));
    size_t n_story = 0, n_english = 0;
    int32_t *story = NULL, *english = NULL, *given = NULL;
    bool ok = true;
    c->n_given = job->n_ids;
    if (job->ids) c->is_strange = is_in_parts(job->tokenizer, job->ids, job->n_ids);
    if (job->ids && job->n_ids < needed)
        return fail(err, "the text has %zu tokens, fewer than the %zu of a short text", job->n_ids,
                    needed);
    const size_t wanted = 2 * (size_t)job->length;
    if (c->n_given < wanted)
        ok = (story = story_ids(job->tokenizer, &n_story, err));
    const size_t found = c->n_given + n_story;
    if (ok && found < wanted)
        ok = (english = plain_english(job->tokenizer, wanted - found, 1, &n_english, err));
    if (ok && job->ids) {
        ok = (given = alloc_array(job->n_ids, sizeof *given, "a text", err));
        if (ok) memcpy(given, job->ids, job->n_ids * sizeof *given);
    } else {
        c->n_given = n_story;
    }
    if (ok) ok = add_ids(c, english, n_english, err);
    if (ok) ok = add_ids(c, story, n_story, err);
    if (ok) ok = add_ids(c, given, job->n_ids, err);
    if (!ok) return false;
    const size_t step = (size_t)(c->window / 2);
    const size_t places = (c->n_given - needed) / step + 1;
    c->n_stretches = places < MOST_STRETCHES ? (int)places : MOST_STRETCHES;
    return true;
}

// A short text is within the trained length, and its second half is scored.
static void choose_window(Check *c) {
    const int n = c->job->length;
    const int train_ctx = c->references[FILES_OWN].rope.train_ctx;
    const int within = train_ctx >= SHORTEST && train_ctx < n ? train_ctx : n;
    c->window = (within < MOST_WINDOW ? within : MOST_WINDOW) / 2 * 2;
}

bool check_prepare(Check *c, Error *err) {
    const int n = c->job->length;
    if (n < SHORTEST)
        return fail(err, "--check needs at least %d positions (found -n %d)", SHORTEST, n);
    choose_window(c);
    choose_rungs(c);
    if (!model_reaches(c->job->model, n, err)) return false;
    const char *like = c->like_path;
    bool ok = !like || is_saved(like) || (c->like = like_open(c->job, like, err));
    ok = ok && find_text(c, err) && ladder_prepare(c, err) && keys_prepare(c, err);
    return ok && (!is_saved(like) || (c->saved = saved_open(c, like, err)));
}
