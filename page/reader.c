// The page's readers: each reads one text as its page has planned it.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../src/llama/sampler.h"
#include "../src/measure/measure.h"
#include "page.h"

typedef struct {
    Page *page;
    Session *session;
    RopePlan plan;                // the page may plan another one meanwhile
    double divisors[MOST_PAIRS];  // the plan points to this copy
    Sampler sampler;
    int context;
    float *scores;  // (context) of the head that is watched; NULL: none
    float query[2 * MOST_PAIRS];
    double terms[2 * MOST_PAIRS];
    bool is_lost;  // a layer with a state could not go back to where it should
} PageReader;

// Opens a text of at most `context` positions that is read as the page has planned it; NULL with
// the reason.
FOR_PAGE PageReader *page_reader_new(Page *page, int context) {
    PageReader *r = alloc_array(1, sizeof *r, "a reader", &page->err);
    if (!r) return NULL;
    r->page = page;
    r->context = context;
    r->plan = page->plan;
    memcpy(r->divisors, page->divisors, sizeof r->divisors);
    if (r->plan.rope.long_factors == page->divisors)
        r->plan.rope.short_factors = r->plan.rope.long_factors = r->divisors;
    const Job job = job_of_page(page, context);
    page->options.sessions.kv = KV_F32;
    SessionConfig config = session_config(&job, &r->plan, context);
    r->session = session_new(&page->model, &config, &page->err);
    if (r->session) return r;
    free(r);
    return NULL;
}

FOR_PAGE void page_reader_free(PageReader *r) {
    if (!r) return;
    session_free(r->session);
    sampler_free(&r->sampler);
    free(r->scores);
    free(r);
}

FOR_PAGE int page_reader_position(const PageReader *r) { return r->session->position; }
FOR_PAGE void page_reader_rewind(PageReader *r, int position) {
    r->is_lost = session_rewind(r->session, position) < position;
}

// See session_read.
FOR_PAGE bool page_reader_read(PageReader *r, const int32_t *ids, int n, int length, int n_logits) {
    if (r->is_lost)
        return fail(&r->page->err, "layers with a state cannot go back: process the text again");
    return session_read(r->session, ids, n, length, n_logits, &r->page->err);
}

// -ln p of the n - 1 ids after the first, which continue the session, in a text of `length` tokens.
FOR_PAGE bool page_reader_score(PageReader *r, const int32_t *ids, int n, int length, double *nll) {
    const Span all = {.ids = ids, .from = 1, .to = n, .length = length};
    return score_behind(r->session, all, nll, &r->page->err);
}

// From now on the scores of a head for the last position of each read are at page_reader_scores,
// one per position.
FOR_PAGE bool page_reader_watch(PageReader *r, int layer, int head) {
    const ModelConfig *m = &r->page->model.config;
    if (layer < 0 || head < 0 || layer >= m->n_layers || head >= m->n_heads)
        return fail(&r->page->err, "there is no head %d in a layer %d", head, layer);
    if (!r->scores)
        r->scores = alloc_array((size_t)r->context, sizeof *r->scores, "scores", &r->page->err);
    if (r->scores) {
        Watch *watch = &r->session->config.watch;
        *watch = (Watch){.layer = layer, .head = head, .scores = r->scores, .query = r->query};
    }
    return r->scores != NULL;
}

FOR_PAGE const float *page_reader_scores(const PageReader *r) { return r->scores; }

// Each pair's share of the watched head's score of token number `key` after a read, and after all
// of these each pair's share if its query were rotated back by 90 degrees: with query and key, as
// rotated, as complex numbers q and k, the real and the imaginary parts of scale q conj(k). The
// real parts add up to the score; a pair rotated by an angle more would have the share real
// cos(angle) - imaginary sin(angle). NULL: the shares cannot be separated, since keys are rotated
// when they are read, or there is no key.
FOR_PAGE const double *page_reader_terms(PageReader *r, int key) {
    const Session *s = r->session;
    const Model *m = &r->page->model;
    const Watch *watch = &s->config.watch;
    const Layer *layer = &m->layers[watch->layer];
    const RopeConfig *rope = &r->plan.rope;
    const KvCache *cache = &s->fast->caches[layer->extra->shape.kv_layer];
    bool is_turned = !rope->dynamic && !rope->map;
    bool has_keys = cache->n_kv_heads > 0 && !cache->values_in_keys;
    if (!watch->scores || !is_turned || !has_keys || key < 0 || key >= s->position) return NULL;
    const int kv_head =
        watch->head / (layer->extra->shape.n_heads / layer->extra->shape.n_kv_heads);
    const KvBlock block = kv_cache_block(cache, kv_head, key / KV_BLOCK);
    const float *keys = (const float *)block.keys + key % KV_BLOCK;
    const double scale = layer_score_scale(&m->config, layer);
    const int n_pairs = layer->extra->shape.head_dim / 2;
    for (int i = 0; i < n_pairs; i++) {
        const double q[] = {watch->query[2 * i], watch->query[2 * i + 1]};
        const double k[] = {keys[2 * i * KV_BLOCK], keys[(2 * i + 1) * KV_BLOCK]};
        r->terms[i] = scale * (q[0] * k[0] + q[1] * k[1]);
        r->terms[n_pairs + i] = scale * (q[1] * k[0] - q[0] * k[1]);
    }
    return r->terms;
}

FOR_PAGE bool page_reader_sampler(PageReader *r, double temperature, double top_p, uint32_t seed) {
    sampler_free(&r->sampler);
    const Sampling how = {.temperature = temperature, .top_p = top_p};
    return sampler_init(&r->sampler, &how, r->page->model.config.vocab_size, seed, &r->page->err);
}

// The next token, as write_answer of src/job/text.c would sample it, -1: it cannot be.
FOR_PAGE int page_reader_next(PageReader *r) {
    float *logits = session_logits(r->session, 0, 1, &r->page->err);
    return logits ? sampler_next(&r->sampler, logits) : -1;
}
