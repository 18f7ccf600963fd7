// The search for longrope's divisors that read a text best (LongRoPE, arXiv 2402.13753, section 3).
// The problem is the paper's: divisors that do not fall from pair to pair. The search begins with
// linear, NTK, YaRN and mutants. The paper's evolution redraws single divisors, which matter little
// alone, and reads every text for each of thousands of children. Here a move lifts or lowers a hill
// of neighboring pairs, or the attention factor. Its step grows while it helps and shrinks when it
// does not (Hooke and Jeeves' pattern search). When all steps are small the hills become narrower.
// Candidates are read window by window, and dropped once they are worse than the best by more than
// the standard error of the difference. What counts is the last half of each window, or with --keys
// the key tokens in it: perplexity of all tokens hardly changes with what is far back.
#define _POSIX_C_SOURCE 200809L
#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "key_tokens.h"

// SEARCH_SAMPLE: positions that make one sample of a difference, as neighbors are not independent.
// HILLS: at first. FIRST_LISTS: how many candidates the search begins with.
enum { SEARCH_SAMPLE = 64, HILLS = 7, MAX_MOVES = ROPE_MAX_PAIRS + 1, FIRST_LISTS = 8 };

// All doubles, so that two candidates are the same when their bytes are.
typedef struct {
    double log_divisors[ROPE_MAX_PAIRS], attention;
} DivisorList;

typedef struct {
    const Job *job;
    const SearchOptions *o;
    Table table;       // of `#` lines
    RopeConfig start;  // longrope, but for what a candidate says
    // Windows: their length, of which the last `counted` positions count, and how many search.
    int n, counted, windows;
    int32_t *ids;            // (n) of the one at hand
    double *best_nll, *nll;  // (windows, counted) of the best candidate, and of the one at hand
    // (2, windows, counted) of the windows that search, and of those that judge: whether a token counts
    uint8_t *counts;
    int keys[2];      // key tokens, where these alone count
    int read, tried;  // windows and candidates so far
    DivisorList best;
    const char *began_with;  // the best of the methods
    double mean, began;      // nll of the best, and of that method
    int pairs, hills;        // hills at the moment
    uint64_t random;
    // Of log divisors, then of the log attention factor; the sign is the direction.
    double steps[MAX_MOVES];
    double divisors[ROPE_MAX_PAIRS];  // of the candidate at hand
} Search;

// Uniform in [0, 1).
static double draw(Search *s) { return (double)(next_random(&s->random) >> 11) * 0x1p-53; }

static double share_done(const Search *s) {
    return interrupted ? 1 : fmin((double)s->read / s->o->reads, 1);
}

// Only Ctrl-C ends a search before its first candidate is read.
static bool is_over(const Search *s) { return s->tried > 0 ? share_done(s) == 1 : interrupted; }

// The plan that runs a candidate. It points to s->divisors.
static RopePlan plan_of_list(Search *s, const DivisorList *c) {
    RopePlan plan = s->job->plans[0];
    plan.rope = s->start;
    for (int i = 0; i < s->pairs; i++) s->divisors[i] = exp(c->log_divisors[i]);
    plan.rope.short_factors = plan.rope.long_factors = s->divisors;
    plan.rope.attention_factor = c->attention;
    return plan;
}

// Reads window number w of those that search, or that judge. They alternate, spread evenly over the
// text.
static bool read_window(Search *s, const RopePlan *plan, int w, bool judges, double *nll,
                        Error *err) {
    Session *session = open_session(s->job, plan, s->n, false, err);
    fill_window(s->job, 2 * w + judges, 2 * s->windows, s->ids);
    nll += (size_t)w * s->counted;
    bool ok =
        session && score_span(session, (Span){s->ids, s->n - s->counted, s->n, s->n}, nll, err);
    session_free(session);
    return ok;
}

static const uint8_t *counts_of(const Search *s, bool judges) {
    return s->counts + (judges ? (size_t)s->windows * s->counted : 0);
}

// The mean of s->nll - s->best_nll over `count` windows, from number `first` on and round, and its
// standard error.
static double difference(const Search *s, bool judges, int first, int count, double *error) {
    double samples = 0;
    double total = 0;
    double squares = 0;
    for (int i = 0; i < count; i++) {
        const size_t start = (size_t)((first + i) % s->windows) * s->counted;
        const uint8_t *counts = counts_of(s, judges) + start;
        for (int from = 0, to; from < s->counted; from = to) {
            double sum = 0;
            int n = 0;
            to = from + SEARCH_SAMPLE < s->counted ? from + SEARCH_SAMPLE : s->counted;
            for (int p = from; p < to; p++) {
                if (!counts[p]) continue;
                sum += s->nll[start + p] - s->best_nll[start + p];
                n++;
            }
            if (n == 0) continue;
            samples++;
            total += sum / n;
            squares += sum / n * sum / n;
        }
    }
    if (samples == 0) {  // these windows have no key token
        *error = INFINITY;
        return 0;
    }
    double mean = total / samples;
    *error =
        samples > 1 ? sqrt(fmax(squares / samples - mean * mean, 0) / (samples - 1)) : INFINITY;
    return mean;
}

static double mean_of(const Search *s, bool judges, const double *nll) {
    const size_t all = (size_t)s->windows * s->counted;
    const uint8_t *counts = counts_of(s, judges);
    double sum = 0;
    double n = 0;
    for (size_t i = 0; i < all; i++) {
        if (!counts[i]) continue;
        sum += nll[i];
        n++;
    }
    return sum / n;
}

// Reads a candidate, which replaces the best when it is better over all windows. When the search
// ends first, it does not. Each candidate begins with another window, so that none decides more
// than the others.
static bool try_candidate(Search *s, const DivisorList *c, bool *better, Error *err) {
    bool is_first = s->tried == 0;  // nothing else is as good yet
    int start = s->tried % s->windows;
    RopePlan plan = plan_of_list(s, c);
    double *beaten = s->best_nll;
    double error;
    bool dropped = false;
    char shown[60];
    *better = false;
    if (memcmp(c, &s->best, sizeof *c) == 0) return true;
    for (int i = 0; i < s->windows && !dropped; i++) {
        if (is_over(s)) return true;
        if (!read_window(s, &plan, (start + i) % s->windows, false, s->nll, err))
            return interrupted;
        s->read++;
        snprintf(shown, sizeof shown, "%.4f, began %.4f", s->mean, s->began);
        table_progress(&s->table, shown, share_done(s));
        dropped =
            !is_first && i < s->windows - 1 && difference(s, false, start, i + 1, &error) > error;
    }
    s->tried++;
    *better = is_first || (!dropped && mean_of(s, false, s->nll) < s->mean);
    if (!*better) return true;
    s->best_nll = s->nll;
    s->nll = beaten;
    s->best = *c;
    s->mean = mean_of(s, false, s->best_nll);
    return true;
}

// Adds a hill of height x around center number h. Pairs after it rise with it, and pairs before it
// sink with it, so that divisors never fall from pair to pair. They stay from 1 to twice the scale.
static void add_hill(const Search *s, DivisorList *c, int h, double x) {
    double *e = c->log_divisors;
    double distance = (double)(s->pairs - 1) / (s->hills - 1);
    double most = log(2 * s->start.factor);
    for (int i = 0; i < s->pairs; i++)
        e[i] = fmin(fmax(e[i] + x * fmax(0, 1 - fabs(i / distance - h)), 0), most);
    for (int i = 1; x > 0 && i < s->pairs; i++) e[i] = fmax(e[i], e[i - 1]);
    for (int i = s->pairs - 2; x < 0 && i >= 0; i--) e[i] = fmin(e[i], e[i + 1]);
}

// Makes a move by so many times its step. The last move is of the attention factor.
static void apply(const Search *s, DivisorList *c, int move, double times) {
    double x = times * s->steps[move];
    if (move < s->hills) add_hill(s, c, move, x);
    else c->attention *= exp(x);
}

static void set_steps(Search *s, double step) {
    for (int i = 0; i < s->hills; i++) s->steps[i] = step;
    s->steps[s->hills] = step / 4;
}

// Tries YaRN, ntk and linear as they are, and the method of --rope; then mutants of the best.
static bool begin(Search *s, Error *err) {
    static const int methods[] = {ROPE_YARN, ROPE_NTK, ROPE_LINEAR};
    enum { OWN = sizeof methods / sizeof *methods };  // after them comes the method of --rope
    for (int i = 0; i < FIRST_LISTS && !is_over(s); i++) {
        RopeConfig config = i < OWN ? s->start : s->job->plans[0].rope;
        RopeFreqs f;
        DivisorList c = s->best;
        bool better;
        if (i < OWN) config.method = methods[i];
        rope_frequencies(&config, s->n, &f);
        if (i <= OWN) c = (DivisorList){.attention = f.attention_factor};
        for (int k = 0; i <= OWN && k < s->pairs; k++)
            c.log_divisors[k] = log(rope_plain(&config, k) / f.inv_freq[k]);
        for (int move = 0; i > OWN && move <= s->hills; move++) apply(s, &c, move, 2 * draw(s) - 1);
        if (!try_candidate(s, &c, &better, err)) return false;
        if (!better || i > OWN) continue;
        s->began = s->mean;
        s->began_with = i < OWN ? rope_methods[methods[i]].name : s->job->plans[0].name;
    }
    return true;
}

static bool try_move(Search *s, int move, Error *err) {
    bool better = false;
    double *step = &s->steps[move];
    for (int way = 0; way < 2 && !better && !is_over(s); way++) {
        DivisorList c = s->best;
        if (way) *step = -*step;
        apply(s, &c, move, 1);
        if (!try_candidate(s, &c, &better, err)) return false;
    }
    *step *= better ? 1.6 : 0.45;
    return true;
}

// Makes rounds of all moves, each in another order, until the steps are small. Then hills are half
// as wide.
static bool improve(Search *s, Error *err) {
    int order[MAX_MOVES] = {0};
    for (; s->hills <= s->pairs && s->hills > 1 && !is_over(s); s->hills = 2 * s->hills - 1) {
        set_steps(s, s->hills > HILLS ? 0.15 : 0.3);
        for (double largest = 1; largest > 0.1 && !is_over(s);) {
            for (int i = 0; i <= s->hills; i++) {
                int other = (int)(draw(s) * (i + 1));
                order[i] = order[other];
                order[other] = i;
            }
            for (int i = 0; i <= s->hills; i++)
                if (!try_move(s, order[i], err)) return false;
            largest = 0;
            for (int i = 0; i < s->hills; i++) largest = fmax(largest, fabs(s->steps[i]));
        }
    }
    return true;
}

static void note_pair(Table *t, const char *who, const char *name, double before, double found) {
    char key[MAX_METHOD_NAME + 20];
    snprintf(key, sizeof key, "%s %s", who, name);
    table_note(t, key, "nll %.6f ppl %.4f", before, exp(before));
    snprintf(key, sizeof key, "%s found", who);
    table_note(t, key, "nll %.6f ppl %.4f (%+.2f %%)", found, exp(found),
               100 * (exp(found - before) - 1));
}

// Prints what was found, on the windows that searched and, beside YaRN, on those that judge.
static bool report(Search *s, Error *err) {
    RopePlan found = plan_of_list(s, &s->best);
    RopePlan yarn = found;
    yarn.rope = s->start;
    yarn.rope.method = ROPE_YARN;
    Table *t = &s->table;
    double error;
    table_end(t);
    print_heading(s->job, t, "search");
    table_note(t, "seed", "%llu", (unsigned long long)s->job->options->seed);
    table_note(t, "counted", "%d to %d", s->n - s->counted, s->n);
    if (s->job->options->keys.asked)
        table_note(t, "keys", "%d that search, %d that judge", s->keys[0], s->keys[1]);
    table_note(t, "read", "%d windows, for %d candidates", s->read, s->tried);
    table_note(t, "searched", "%d windows", s->windows);
    note_pair(t, "searched", s->began_with, s->began, s->mean);
    for (int w = 0; w < s->windows && !interrupted; w++)
        if (!read_window(s, &yarn, w, true, s->best_nll, err) ||
            !read_window(s, &found, w, true, s->nll, err))
            if (!interrupted) return false;
    if (!interrupted) {
        note_pair(t, "judged", "yarn", mean_of(s, true, s->best_nll), mean_of(s, true, s->nll));
        difference(s, true, 0, s->windows, &error);
        table_note(t, "judged", "%d other windows, se %.6f", s->windows, error);
    }
    const Publication publication = publication_of(s->job, &found);
    return publish_print(&publication, err);
}

// Has the judge of --keys choose the tokens of all windows that count. False with the reason, also where
// they are too few.
static bool choose_keys(Search *s, Error *err) {
    const KeyOptions *o = &s->job->options->keys;
    const size_t of_window = (size_t)s->counted;
    const int first = s->n - s->counted;
    double *scores = alloc_array((uint64_t)s->n, 2 * sizeof *scores, "scores", err);
    KeyJudge judge;
    bool ok = judge_open(&judge, s->job, s->n, err) && scores;
    for (int w = 0; ok && w < 2 * s->windows; w++) {
        const int judges = w % 2;
        uint8_t *counts = s->counts + ((size_t)judges * s->windows + w / 2) * of_window;
        table_progress(&s->table, "judge", 0.5 * w / s->windows);
        fill_window(s->job, w, 2 * s->windows, s->ids);
        ok = judge_read(&judge, s->ids, scores, scores + s->n, err);
        for (int p = first; ok && p < s->n; p++) {
            counts[p - first] = p >= o->trim && is_key_token(o, scores[p], scores[s->n + p]);
            s->keys[judges] += counts[p - first];
        }
    }
    judge_close(&judge);
    free(scores);
    if (!ok) return false;
    const int fewest = s->keys[0] < s->keys[1] ? s->keys[0] : s->keys[1];
    return fewest >= FEWEST_KEYS ||
           fail(err,
                "--search --keys: %d key tokens in %d windows of %d are too few (at least %d "
                "expected: more --search-windows, a smaller --keys, or a --judge that reads %d "
                "positions well)",
                fewest, s->windows, s->n, FEWEST_KEYS, s->n);
}

// Whether there is anything to search, and enough text for it. False with the reason.
static bool is_possible(const Search *s, Error *err) {
    const Job *job = s->job;
    const int trained = s->start.train_ctx;
    if (s->start.map)
        return fail(err,
                    "--search: its block of longrope's divisors has no place for a distance map "
                    "(rope %s); search "
                    "without one, then try --rope-config BLOCK --rope longrope+%s",
                    job->plans[0].name, s->start.map->name);
    if (trained < 2) return fail(err, "longrope needs a trained context of at least 2");
    if (s->n <= trained)
        return fail(err, "a search needs more positions (-n) than the trained context of %d",
                    trained);
    if (job->n_ids / window_ids(job) >= 2 * (size_t)s->windows) return true;
    int most = (int)(job->n_ids / (2 * (size_t)s->windows));  // positions of a window that fits
    char shorter[40] = "";
    if (most > trained) snprintf(shorter, sizeof shorter, ", or -n %d", most);
    return fail(err,
                "the text has %zu tokens, fewer than %d windows of %d that search and %d that "
                "judge (expected a longer text, fewer --search-windows%s)",
                job->n_ids, s->windows, s->n, s->windows, shorter);
}

bool search_divisors(Job *job, Error *err) {
    Search s = {.job = job, .o = &job->options->search, .n = job->length};
    s.start = job->plans[0].rope;
    s.windows = s.o->windows;
    if (!is_possible(&s, err)) return false;
    s.random = (2 * s.job->options->seed + 1) * 0x9E3779B97F4A7C15;
    s.start.method = ROPE_LONGROPE;
    s.start.dynamic = false;
    s.start.factor = (double)s.n / s.start.train_ctx;
    s.start.attention_factor = 0;
    s.pairs = s.start.rotary_dim / 2;
    s.hills = s.pairs < HILLS ? s.pairs : HILLS;
    s.counted = s.n - s.n / 2;
    s.table = table_open((TableForm){.tsv = true});
    s.ids = alloc_array(s.n, sizeof *s.ids, "a window", err);
    uint64_t n_scores = (uint64_t)s.windows * (uint64_t)s.counted;
    s.nll = s.ids ? alloc_array(n_scores, sizeof *s.nll, "scores", err) : NULL;
    s.best_nll = s.nll ? alloc_array(n_scores, sizeof *s.nll, "scores", err) : NULL;
    s.counts = s.best_nll ? alloc_array(n_scores, 2, "tokens that count", err) : NULL;
    set_steps(&s, 0.3);
    bool ok = s.counts;
    if (ok && !job->options->keys.asked) memset(s.counts, 1, 2 * n_scores);
    else if (ok) ok = choose_keys(&s, err);
    ok = ok && begin(&s, err);
    if (ok && s.tried == 0) ok = fail(err, "interrupted before the first candidate was read");
    ok = ok && improve(&s, err) && report(&s, err);
    free(s.counts);
    free(s.best_nll);
    free(s.nll);
    free(s.ids);
    return ok;
}
