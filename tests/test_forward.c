// Sessions against sessions: the same text read in other pieces, on other threads, or afresh, must give the same logits.
// Driven by test_forward.py, which writes the models:  test_forward COMMAND MODEL KV WINDOW SINKS POSITIONS TOLERANCE LABEL
// [ROPE [SPREAD PIECE]]
// KV is that of the cache, or `plain` for sessions that run by the definition.
#include "tests/test_units.h"

#include "src/fast/kv_cache.h"
#include "src/fast/session.h"
#include "src/kinds/all.h"
#include "src/options/methods.h"

static Model model;
static RopePlan plan;
static KvType kv;
static bool plain;
static int n;  // tokens of the text
static Spread spread;
static int32_t *ids;
static double tolerance;
static const char *label;
static int n_threads;  // 0: as many as are fastest

static Session *open_session(int chunk, int context) {
    Error err;
    SessionConfig config = {.rope = &plan.rope,
                            .sliding = &plan.sliding,
                            .kv = kv,
                            .context = context,
                            .chunk = chunk,
                            .threads = n_threads,
                            .plain = plain};
    config.spread = spread;
    if (spread.length && context < n) config.context = n;
    Session *s = session_new(&model, &config, &err);
    need(s, "%s: %s", label, err.text);
    session_begin(s, n);
    return s;
}

static void read_ids(Session *s, const int32_t *from, int count, int length, int n_logits) {
    Error err;
    need(session_read(s, from, count, length, n_logits, &err), "%s: %s", label, err.text);
}

static size_t vocab(void) { return (size_t)model.config.vocab_size; }

// Logits of the last `rows` positions read, which its last chunk holds.
static void copy_logits(Session *s, int rows, float *out) {
    for (int row = 0; row < rows; row += LOGIT_ROWS) {
        Error err;
        int count = rows - row < LOGIT_ROWS ? rows - row : LOGIT_ROWS;
        const float *logits = session_logits(s, row, count, &err);
        need(logits, "%s: %s", label, err.text);
        memcpy(out + (size_t)row * vocab(), logits, (size_t)count * vocab() * sizeof *out);
    }
}

// Logits of every position, read in pieces of `piece`, at the length of the whole text.
static float *read_in_pieces(int piece, int context) {
    float *all = get((size_t)n * vocab() * sizeof *all);
    Session *s = open_session(piece, context);
    for (int at = 0; at < n; at += piece) {
        int count = n - at < piece ? n - at : piece;
        read_ids(s, ids + at, count, n, count);
        copy_logits(s, count, all + (size_t)at * vocab());
    }
    session_free(s);
    return all;
}

static double distance(const float *a, const float *b, int rows) {
    double worst = 0;
    for (size_t i = 0; i < (size_t)rows * vocab(); i++)
        worst =
            isfinite(a[i]) && isfinite(b[i]) ? fmax(worst, fabs((double)a[i] - b[i])) : INFINITY;
    return worst;
}

// Questions after a text: all rows of logits that fit in a chunk are there, wherever among them the
// reading goes on with another chunk.
static void test_rows_after_text(const float *whole) {
    static const int chunks[] = {1, 2, 4, 8, 512}, questions[] = {1, 2, 3, 5, 7, 9, 11, 17};
    int text = n - 17;
    float *rows = get(17 * vocab() * sizeof *rows);
    for (int c = 0; text > 0 && c < 5; c++) {
        Session *s = open_session(chunks[c], n);
        read_ids(s, ids, text, n, 0);
        session_keep(s);
        for (int q = 0; q < 8; q++) {
            int count = questions[q], wanted = count < chunks[c] ? count : chunks[c];
            session_rewind(s, text);
            read_ids(s, ids + text, count, n, wanted);
            copy_logits(s, wanted, rows);
            double off = distance(rows, whole + (size_t)(text + count - wanted) * vocab(), wanted);
            check(off <= tolerance && s->position == text + count,
                  "%s: after %d tokens, chunks of %d: the last %d of %d rows off by %g", label, text,
                  chunks[c], wanted, count, off);
        }
        session_free(s);
    }
    free(rows);
}

static void test_chunks(void) {
    static const int pieces[] = {1, 3, 64, 100, 511};
    float *whole = read_in_pieces(n, n), *last = get((size_t)n * vocab() * sizeof *last);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        int piece = pieces[i];
        if (piece > n) continue;
        float *parts = read_in_pieces(piece, n + 70);
        double off = distance(whole, parts, n);
        check(off <= tolerance, "%s: pieces of %d against one pass: off by %g", label, piece, off);
        free(parts);
        // All in one call, which cuts it up by itself, with the logits of some of the last chunk only.
        int in_last = (n - 1) % piece + 1, wanted[] = {1, in_last / 2 + 1, in_last};
        for (int k = 0; k < 3; k++) {
            Session *s = open_session(piece, n);
            read_ids(s, ids, n, n, wanted[k]);
            copy_logits(s, wanted[k], last);
            off = distance(last, whole + (size_t)(n - wanted[k]) * vocab(), wanted[k]);
            check(off <= tolerance && s->position == n,
                  "%s: one call in chunks of %d, the last %d logits: off by %g", label, piece,
                  wanted[k], off);
            session_free(s);
        }
    }
    test_rows_after_text(whole);
    // Forgetting a part and reading it again, behind a text of another length.
    Session *s = open_session(0, n);
    session_begin(s, n / 2);
    read_ids(s, ids, n / 2, n / 2, 0);
    session_begin(s, n);
    read_ids(s, ids, n, n, 0);
    // A state has no way back but to its copy, or to the beginning.
    bool has_states = s->n_states > 0;
    for (int keeps = 0; keeps < 2; keeps++) {
        int back = session_rewind(s, n / 3);
        check(back == (has_states && !keeps ? 0 : n / 3) && s->position == back,
              "%s: rewound to %d of %d", label, back, n / 3);
        read_ids(s, ids + back, n / 3 - back, n, 0);
        session_keep(s);
        read_ids(s, ids + n / 3, n - n / 3, n, 1);
        copy_logits(s, 1, last);
        double off = distance(last, whole + (size_t)(n - 1) * vocab(), 1);
        check(off <= tolerance, "%s: rewound to %d and read again: off by %g", label, n / 3, off);
    }
    Error err;
    check(!session_read(s, ids, 1, n + 1, 1, &err) && strstr(err.text, "fit"),
          "%s: a position past the context is refused", label);
    check(session_rewind(s, n / 3 - 1) == (has_states ? 0 : n / 3 - 1),
          "%s: before its copy there is no way back", label);
    session_begin(s, n / 2);
    check(session_read(s, ids, n, n, 0, &err) == !spread.length,
          "%s: a text that ends too late for its spread", label);
    session_rewind(s, 0);
    check(!session_read(s, &(int32_t){model.config.vocab_size}, 1, 1, 1, &err) &&
              !session_read(s, &(int32_t){-1}, 1, 1, 1, &err),
          "%s: tokens outside of the vocabulary are refused", label);
    session_free(s);
    free(whole), free(last);
}

// A one-layer model: after a prompt, every decoded token must see what a fresh pass over the same text sees.
static void decode_against_fresh(Session *s, const char *what, int prompt, int end) {
    float *found = get(vocab() * sizeof *found), *fresh = get(vocab() * sizeof *fresh);
    double worst = 0;
    int at = 0;
    for (int length = prompt; length <= end; length++) {
        int from = length == prompt ? 0 : length - 1;
        read_ids(s, ids + from, length - from, length, 1);
        copy_logits(s, 1, found);
        Session *other = open_session(0, length);
        read_ids(other, ids, length, length, 1);
        copy_logits(other, 1, fresh);
        session_free(other);
        double off = distance(found, fresh, 1);
        if (off > worst) worst = off, at = length;
    }
    check(worst <= tolerance, "%s: %s, prompt of %d: at length %d off by %g from a fresh pass",
          label, what, prompt, at, worst);
    free(found), free(fresh);
}

static void test_dynamic(void) {
    int L = plan.rope.train_ctx, prompts[] = {1, L - 3, L, L + 1, n - 5};
    for (int i = 0; i < 5; i++) {
        Session *s = open_session(i % 2 ? 7 : 0, n + 3);
        decode_against_fresh(s, "decoding", prompts[i], n);
        session_rewind(s, 0);  // a shorter text after a longer one: the scale falls back
        decode_against_fresh(s, "after a reset", L / 2, L + 5 < n ? L + 5 : n);
        session_rewind(s, 0);
        decode_against_fresh(s, "after a second reset", n - 2, n);
        session_free(s);
    }
}

// The logits of the whole text: `prompt` tokens at once, then each by itself.
static float *read_after_prompt(int prompt) {
    float *all = get((size_t)n * vocab() * sizeof *all);
    Session *s = open_session(n, n);
    for (int at = 0, count; at < n; at += count) {
        count = at == 0 ? prompt : 1;
        read_ids(s, ids + at, count, n, count);
        copy_logits(s, count, all + (size_t)at * vocab());
    }
    session_free(s);
    return all;
}

// The same bits for every number of threads, in prefill and in decoding.
static void test_threads(void) {
    static const int counts[] = {2, 3, 4, 7};
    int prompts[] = {n, n > 80 ? n - 80 : 1};
    for (int p = 0; p < 2; p++) {
        use_threads(n_threads = 1);
        float *one = read_after_prompt(prompts[p]);
        for (int i = 0; i < 4; i++) {
            use_threads(n_threads = counts[i]);
            float *all = read_after_prompt(prompts[p]);
            check(memcmp(one, all, (size_t)n * vocab() * sizeof *all) == 0,
                  "%s: %d threads give other bits than 1, after a prompt of %d", label, counts[i],
                  prompts[p]);
            free(all);
        }
        free(one);
    }
    n_threads = 0;
}

int main(int argc, char **argv) {
    if (argc < 9 || argc > 12 || argc == 11) return 2;
    Error err;
    label = argv[8];
    n = atoi(argv[6]);
    tolerance = atof(argv[7]);
    plain = strcmp(argv[3], "plain") == 0;
    while (!plain && kv < N_KV_TYPES && strcmp(kv_type_names[kv], argv[3]) != 0) kv++;
    if (kv == N_KV_TYPES) return 2;
    RopeSettings settings = {.given = 0};
    if (argc == 9)
        settings_say(&settings, SET_WINDOW, atoi(argv[4]));  // else ROPE says them, or nobody
    if (argc == 9) settings_say(&settings, SET_SINKS, atoi(argv[5]));
    int n_methods;
    if (argc == 12) spread = (Spread){.length = atoi(argv[10]), .piece = atoi(argv[11])};
    RopeSettings *methods = methods_parse(argc >= 10 ? argv[9] : NULL, &settings, &n_methods, &err);
    need(methods && n_methods == 1, "%s: one method, please", label);
    int length = argc == 12 ? spread.length : n;
    bool good = model_open(argv[2], &kinds, &model, &err) &&
                settings_resolve(methods, &model.rope, model_window(&model), length, &plan, &err);
    if (good && model.config.extra->layers.sliding_rope)
        good = settings_resolve_sliding(methods, &(RopeSettings){.given = 0},
                                        &model.config.extra->layers.sliding,
                                        model.config.extra->attention.window, length, &plan, &err);
    need(good, "%s: %s", label, err.text);
    ids = get((size_t)n * sizeof *ids);
    for (int i = 0; i < n; i++)
        ids[i] = (int32_t)(random_bits() % (uint32_t)model.config.vocab_size);
    use_threads(1);
    if (strcmp(argv[1], "chunks") == 0) test_chunks();
    if (strcmp(argv[1], "dynamic") == 0) test_dynamic();
    if (strcmp(argv[1], "threads") == 0) test_threads();
    free(ids);
    free(methods);
    model_close(&model);
    return finish();
}
