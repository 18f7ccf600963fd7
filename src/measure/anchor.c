// --anchor: what --check holds the model's file against later. docs/format.md has the note.
#define _POSIX_C_SOURCE 200809L
#include "anchor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prose.h"
#include "score.h"

enum { ANCHOR_WINDOW = 512 };  // tokens of a stretch, at most

// Magic, window, checksum, nothing, the mean as float64, nothing.
static const uint32_t ANCHOR_MAGIC = 0x52434e41;  // "ANCR"

static void anchor_to_bytes(const Anchor *anchor, uint8_t out[ANCHOR_BYTES]) {
    const uint32_t head[] = {ANCHOR_MAGIC, anchor->window, anchor->text, 0};
    memset(out, 0, ANCHOR_BYTES);
    memcpy(out, head, sizeof head);
    memcpy(out + sizeof head, &anchor->nll, sizeof anchor->nll);
}

Anchor anchor_of(const Model *m) {
    uint32_t head[4];
    Anchor found = {.is_noted = false};
    if (m->config.version < 3 || m->file.size < ANCHOR_BYTES) return found;
    const uint8_t *bytes = m->file.data + m->file.size - ANCHOR_BYTES;
    memcpy(head, bytes, sizeof head);
    found = (Anchor){.window = head[1], .text = head[2]};
    memcpy(&found.nll, bytes + sizeof head, sizeof found.nll);
    uint8_t again[ANCHOR_BYTES];
    anchor_to_bytes(&found, again);
    bool is_whole = memcmp(bytes, again, ANCHOR_BYTES) == 0 && found.nll > 0 && found.nll < 1e6;
    bool is_window = found.window > 0 && found.window <= ANCHOR_WINDOW && found.window % 2 == 0;
    found.is_noted = is_whole && is_window;
    return found;
}

// FNV-1a (Fowler, Noll and Vo, 1991) of the ids' low bytes first.
static uint32_t sum_of_ids(uint32_t sum, const int32_t *ids, int n) {
    for (int i = 0; i < n; i++)
        for (int shift = 0; shift < 32; shift += 8)
            sum = (sum ^ ((uint32_t)ids[i] >> shift & 255)) * 16777619u;
    return sum;
}

static bool read_stretches(Session *s, const int32_t *story, size_t n_ids, int32_t bos,
                           Anchor *found, Error *err) {
    const int n = (int)found->window;
    const int behind = bos >= 0;
    int32_t text[ANCHOR_WINDOW];
    double nll[ANCHOR_WINDOW];
    found->text = 2166136261u;
    found->nll = 0;
    for (int u = 0; u < ANCHOR_STRETCHES; u++) {
        const size_t last = n_ids - (size_t)(n - behind);
        text[0] = bos;
        memcpy(text + behind, story + last * (size_t)(u + 1) / (ANCHOR_STRETCHES + 1),
               (size_t)(n - behind) * sizeof *text);
        found->text = sum_of_ids(found->text, text, n);
        session_rewind(s, 0);
        if (!score_span(s, (Span){text, n / 2, n, n}, nll, err)) return false;
        for (int i = 0; i < n - n / 2; i++) found->nll += nll[i];
    }
    found->nll /= ANCHOR_STRETCHES * (double)(n - n / 2);
    return true;
}

bool anchor_measure(const Job *job, const SessionConfig *timed, Anchor *found, Error *err) {
    RopePlan plan;
    size_t n_ids;
    *found = (Anchor){.is_noted = true};
    if (!reference_plan(job, false, 1, &plan, err)) return false;
    const int most = job->model->config.seq_len;
    const int within =
        plan.rope.train_ctx > 0 && plan.rope.train_ctx < most ? plan.rope.train_ctx : most;
    found->window = (uint32_t)(within < ANCHOR_WINDOW ? within : ANCHOR_WINDOW) / 2 * 2;
    int32_t *story =
        tokenizer_encode(job->tokenizer, prose, (ptrdiff_t)strlen(prose), false, &n_ids, err);
    if (!story) return false;
    SessionConfig config = session_config(job, &plan, (int)found->window);
    if (timed) {
        config.go_on = timed->go_on;
        config.whose = timed->whose;
        config.chunk = timed->chunk;
    }
    config.kv = KV_F16;
    config.floats = true;
    config.sliding = &plan.sliding;
    bool ok = found->window >= 4 && n_ids >= found->window;
    if (!ok) fail(err, "--anchor: a text of %d tokens is too short to be read", (int)found->window);
    Session *s = ok ? session_new(job->model, &config, err) : NULL;
    ok = s && read_stretches(s, story, n_ids, tokenizer_bos(job->tokenizer), found, err);
    session_free(s);
    free(story);
    return ok;
}

bool anchor_write(const Job *job, Error *err) {
    const Model *model = job->model;
    uint8_t note[ANCHOR_BYTES];
    Anchor found;
    if (model->config.version < 3)
        return fail(err, "%s: a file of version %d has no room for an anchor (expected 3 to 6)",
                    job->model_path, model->config.version);
    if (!anchor_measure(job, NULL, &found, err)) return false;
    if (!isfinite(found.nll))
        return fail(err, "%s: the model reads no text (-ln p is %g)", job->model_path, found.nll);
    anchor_to_bytes(&found, note);
    size_t end = model->file.size - (anchor_of(model).is_noted ? ANCHOR_BYTES : 0);
    FILE *file = fopen(job->model_path, "r+b");
    bool ok =
        file && fseeko(file, (off_t)end, SEEK_SET) == 0 && fwrite(note, sizeof note, 1, file) == 1;
    ok = (file && fclose(file) == 0) && ok;
    if (!ok) return fail(err, "%s: cannot be written", job->model_path);
    fprintf(stderr, "run: noted in %s: it reads a short text with a perplexity of %.6g\n",
            job->model_path, exp(found.nll));
    return true;
}
