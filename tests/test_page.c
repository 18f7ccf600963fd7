// The page's C without a browser: scores of a text in two parts, in arrays that lie where nothing can lie before them.
// Driven by test_page.py, which writes the model:  test_page MODEL TOKENIZER
#define _DEFAULT_SOURCE  // MAP_ANONYMOUS
#include "tests/test_units.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "page/page.c"
#include "page/reader.c"

// -ln p of ids[1], ids[2], ... in plain double arithmetic, from logits that are read one token at a time.
static void score_plainly(PageReader *r, const int32_t *ids, int n, double *nll) {
    const int vocab_size = r->page->model.config.vocab_size;
    for (int i = 0; i < n - 1; i++) {
        double sum = 0;
        check(page_reader_read(r, ids + i, 1, n, 1), "reading token %d: %s", i,
              page_error(r->page));
        const float *logits = session_logits(r->session, 0, 1, &r->page->err);
        for (int t = 0; logits && t < vocab_size; t++)
            sum += exp((double)logits[t] - logits[ids[i + 1]]);
        nll[i] = log(sum);
    }
}

static double furthest(const double *a, const double *b, int n) {
    double worst = 0;
    for (int i = 0; i < n; i++) worst = isfinite(a[i]) ? fmax(worst, fabs(a[i] - b[i])) : INFINITY;
    return worst;
}

// The numbers beside a config fill what it leaves out, and nothing else.
static void fill_gaps(void) {
    static const char whole[] =
        "{\"model_type\": \"llama\", \"head_dim\": 64, \"hidden_size\": 2048, "
        "\"num_attention_heads\": 32, \"max_position_embeddings\": 8192, \"rope_theta\": 5e5}";
    static const char bare[] = "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, "
                               "\"original_max_position_embeddings\": 2048}";
    static const char alone[] = "{\"rope_type\": \"linear\", \"factor\": 4, \"rope_theta\": 20000}";
    static const char bad[] = "{\"rope_type\": \"linear\", \"factor\": \"four\"}";
    const struct {
        const char *text;
        int filled, head_dim, train_ctx;
        double theta;
    } cases[] = {{whole, 0, 64, 8192, 5e5},
                 {bare, FILLED_HEAD_DIM | FILLED_THETA, 128, 2048, 1e4},
                 {alone, FILLED_HEAD_DIM | FILLED_TRAIN_CTX, 128, 4096, 2e4},
                 {bad, -1, 0, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[400];
        Page *page = page_new();
        const int length = snprintf(text, sizeof text, "%s", cases[i].text);
        const bool good = page && page_config(page, text, length, 128, 1e4, 4096);
        check(good == (cases[i].filled >= 0), "%s: %s", text,
              page ? page_error(page) : "no memory");
        if (good) {
            check((int)page->rope_file.filled == cases[i].filled, "%s: %d were filled", text,
                  (int)page->rope_file.filled);
            check(page->rope_file.rope.rotary_dim == cases[i].head_dim &&
                      page->rope_file.rope.train_ctx == cases[i].train_ctx &&
                      page->rope_file.rope.theta == cases[i].theta,
                  "%s: head_dim %d, trained %d, theta %g", text, page->rope_file.rope.rotary_dim,
                  page->rope_file.rope.train_ctx, page->rope_file.rope.theta);
        }
        if (page) page_free(page);
    }
}

// All that the page's tool asks of a config that no model is behind. Under the sanitizers: nothing is read of a model
// that is not there.
static void ask_all_of_a_config(void) {
    static const char *const configs[] = {
        "{\"model_type\": \"llama\", \"hidden_size\": 2048, \"num_attention_heads\": 32, "
        "\"rope_theta\": 5e5, "
        "\"max_position_embeddings\": 131072, \"rope_scaling\": {\"rope_type\": \"llama3\", "
        "\"factor\": 8, "
        "\"low_freq_factor\": 1, \"high_freq_factor\": 4, \"original_max_position_embeddings\": "
        "8192}}",
        "{\"model_type\": \"gemma3_text\", \"hidden_size\": 2560, \"num_attention_heads\": 8, "
        "\"head_dim\": 256, "
        "\"num_hidden_layers\": 34, \"max_position_embeddings\": 131072, \"rope_scaling\": "
        "{\"rope_type\": "
        "\"linear\", \"factor\": 8}}",
        "{\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 2048}"};
    const int printed = dup(STDOUT_FILENO);
    const int nowhere = open("/dev/null", O_WRONLY);
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        char text[600];
        Page *page = page_new();
        const int length = snprintf(text, sizeof text, "%s", configs[i]);
        bool good = page && page_config(page, text, length, 128, 1e4, 4096);
        dup2(nowhere, STDOUT_FILENO);
        good = good && page_plan(page, "", "", 16384) && page_explain(page, 16384) &&
               page_json(page) && page_engines(page, 16384) && page_check(page, 16384) &&
               page_frequencies(page, 16384)[0] > 0;
        dup2(printed, STDOUT_FILENO);
        check(good, "%s: %s", configs[i], page ? page_error(page) : "no memory");
        if (page) page_free(page);
    }
    close(nowhere);
    close(printed);
}

// What the page hears of a pasted text: lines worth a warning, or the reason of a refusal.
static void hear_of_pasted(void) {
    static const char start[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_attention_heads\": 8, "
        "\"rope_theta\": 7, ";
    static const char bare[] =
        "{\"hidden_size\": 64, \"num_attention_heads\": 8, \"rope_theta\": 7, ";
    const struct {
        const char *start, *rest;
        bool good;
        const char *words;
    } cases[] = {
        {start, "\"rope_parameters\": {\"rope_theta\": 9}}", true,
         "rope_theta is 7 beside rope_parameters and 9 in it: 9"},
        {start, "\"head_dim\": 8,\n}", true, "line 1: a comma after the last value is not JSON"},
        {bare, "\"max_position_embeddings\": 64}", true,
         "model_type is missing, so it is interpreted as a Llama"},
        {bare, "\"rope_local_base_freq\": 10000}", false,
         "rope_local_base_freq cannot be used (found 10000, expected none"},
        {"```json\n", "{\"rope_type\": \"linear\", \"factor\": 2}\n```", true, "linear"},
        {"{\"model_type\": \"gemma3_text\", ",
         "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 8}}", true,
         "linear\t256\t131072\t8\t1\t"},
        {start, "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 8}}", true,
         "linear\t8\t2048\t8\t0\t"},
        {"{",
         "\xE2\x80\x9C"
         "factor\": 2}",
         false, "a curly quote"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[400];
        Page *page = page_new();
        const int length = snprintf(text, sizeof text, "%s%s", cases[i].start, cases[i].rest);
        const bool good = page && page_config(page, text, length, 128, 1e4, 4096);
        const char *heard = !page ? "no memory" : good ? page_told(page) : page_error(page);
        check(good == cases[i].good && strstr(heard, cases[i].words), "%s: %s", text, heard);
        if (page) page_free(page);
    }
}

// A model without sliding layers has no method of theirs, and says so; the next plan is not spoiled.
static void plan_by_layer(Page *page) {
    check(!page_plan(page, "none", "yarn:factor=2", 64) &&
              strstr(page_error(page), "sliding layers"),
          "sliding layers that there are not: %s", page_error(page));
    check(!page_plan(page, "none", "yam", 64) && strstr(page_error(page), "--rope-sliding"),
          "no such method of sliding layers: %s", page_error(page));
    check(page_plan(page, "none", "", 64), "plain again: %s", page_error(page));
    check(page_layer_window(page, 0) == 0 && page_layer_theta(page, 0) == page_facts(page)[3],
          "a full layer sees all positions, and turns by theta");
}

// The score of a key after all pairs of a head turned by angles more, from what page_reader_terms tells.
static double turned_by(const double *terms, int n_pairs, const double *angles) {
    double sum = 0;
    for (int i = 0; i < n_pairs; i++)
        sum += terms[i] * cos(angles[i]) - terms[n_pairs + i] * sin(angles[i]);
    return sum;
}

// In the first layer queries and keys know no positions: the terms of a plain plan, turned by what another plan turns
// more, are the score that the other plan's reader finds.
static void turn_terms(Page *page) {
    enum { N = 90, KEY = 11 };
    const int n_pairs = page->model.config.head_dim / 2;
    const double distance = N - 1 - KEY;
    int32_t ids[N];
    double terms[2 * MOST_PAIRS], angles[MOST_PAIRS];
    for (int i = 0; i < N; i++) ids[i] = 3 + i * 7 % 200;
    for (int linear = 0; linear < 2; linear++) {
        check(page_plan(page, linear ? "linear:factor=3" : "none", "", N), "a plan: %s",
              page_error(page));
        const double *numbers = page_frequencies(page, N);
        for (int i = 0; i < n_pairs; i++)
            angles[i] = distance * (numbers[HEAD + i] - numbers[HEAD + n_pairs + i]);
        PageReader *r = page_reader_new(page, N);
        check(page_reader_watch(r, 0, 1) && page_reader_read(r, ids, N, N, 1), "reading: %s",
              page_error(page));
        if (!linear) memcpy(terms, page_reader_terms(r, KEY), 2 * (size_t)n_pairs * sizeof *terms);
        const double score = page_reader_scores(r)[KEY];
        check(fabs(turned_by(terms, n_pairs, angles) - score) < 1e-4 * (1 + fabs(score)),
              "turned terms add up to %g, the score is %g", turned_by(terms, n_pairs, angles),
              score);
        page_reader_free(r);
    }
}

// What pairs give to a score adds up to the score, of every head and of keys in both blocks.
static void add_up_terms(Page *page) {
    const ModelConfig *m = &page->model.config;
    enum { N = 90 };
    int32_t ids[N];
    for (int i = 0; i < N; i++) ids[i] = 3 + i * 7 % 200;
    check(page_plan(page, "yarn:factor=4", "", N), "a plan: %s", page_error(page));
    PageReader *r = page_reader_new(page, N);
    check(page_reader_read(r, ids, N - 1, N, 0), "reading: %s", page_error(page));
    for (int head = 0; head < m->n_layers * m->n_heads; head++) {
        page_reader_rewind(r, N - 1);
        check(page_reader_watch(r, head / m->n_heads, head % m->n_heads) &&
                  page_reader_read(r, ids + N - 1, 1, N, 1),
              "watching head %d: %s", head, page_error(page));
        for (int key = 0; key < N; key += 13) {
            const double *terms = page_reader_terms(r, key);
            const double score = page_reader_scores(r)[key];
            double sum = 0, size = 0;
            for (int i = 0; terms && i < m->head_dim / 2; i++) {
                sum += terms[i];
                size += fabs(terms[i]);
            }
            check(terms && fabs(sum - score) < 1e-4 * (1 + size),
                  "head %d, key %d: terms are %g, the score %g", head, key, sum, score);
        }
    }
    check(!page_reader_terms(r, N) && !page_reader_terms(r, -1), "no key, no terms");
    page_reader_free(r);
    check(page_plan(page, "dynamic-ntk", "", N), "a plan: %s", page_error(page));
    r = page_reader_new(page, N);
    check(page_reader_watch(r, 0, 0) && page_reader_read(r, ids, N, N, 1) &&
              !page_reader_terms(r, 3),
          "keys that are turned when they are read have none");
    page_reader_free(r);
}

int main(int argc, char **argv) {
    enum { MOST = 100, LOWEST = 1 << 16 };  // no system gives memory out below a lower address
    Page *page = page_new();
    need(page && argc == 3, "no memory, or other arguments than a model and a tokenizer");
    need(page_open(page, argv[1], argv[2]) && page_plan(page, "none:window=40", "", 1 << 14), "%s",
         page_error(page));
    void *low = mmap((void *)(uintptr_t)LOWEST, 1 << 16, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    double *nll = low != MAP_FAILED ? low : get(1 << 16), expected[MOST];
    int32_t *ids = (int32_t *)(nll + MOST), one = 5;
    for (int i = 0; i < MOST; i++) ids[i] = 3 + i * 7 % 200;

    PageReader *whole = page_reader_new(page, MOST);
    PageReader *parts = page_reader_new(page, 1 << 14);
    score_plainly(whole, ids, MOST, expected);
    check(page_reader_score(parts, ids, 60, MOST, nll), "the first part: %s", page_error(page));
    check(page_reader_score(parts, ids + 59, MOST - 59, MOST, nll + 59), "the second: %s",
          page_error(page));
    check(furthest(nll, expected, MOST - 1) < 1e-4, "scores in two parts: off by %g",
          furthest(nll, expected, MOST - 1));

    // So far in that nll - position would be below address 0: the sanitizer sees such a pointer.
    while (page_reader_position(parts) <= LOWEST / 8) page_reader_read(parts, &one, 1, MOST, 0);
    check(page_reader_score(parts, ids, 5, MOST, nll) && isfinite(nll[3]),
          "scores at the lowest address");

    page_reader_free(whole);
    page_reader_free(parts);
    add_up_terms(page);
    turn_terms(page);
    plan_by_layer(page);
    page_free(page);
    fill_gaps();
    hear_of_pasted();
    ask_all_of_a_config();
    return finish();
}
