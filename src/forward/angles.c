// The angles of a query and a key must differ by D(i, j) times the frequency, for every j. rope.h has D as a part of
// the query minus a part of the key, one pair of parts for near keys and one for far ones.
//
// The cache holds each key turned by its part for far queries, as most of a long past is far: those blocks are
// multiplied as they lie. To meet near queries a key lacks an angle, j minus that part, for which there are tables by
// block and step, as there are not many near blocks. Without a map all is near, the two parts are the same, and keys
// lack nothing. But when the frequencies change with the length, keys are cached before they are turned, never to be
// stale, and lack their whole angle in both zones.
#include "angles.h"

static Turns take_turns(Arena *arena, int64_t rows, int64_t columns) {
    return (Turns){arena_take(arena, rows * columns, sizeof(float)), arena_take(arena, rows * columns, sizeof(float))};
}

// How many variants of steps there are, and which is a block's.
static int step_variants(int period) { return period <= KV_BLOCK ? period : KV_BLOCK + 1; }
static int variant_of(int period, int64_t block) {
    int64_t to_border = (period - block * KV_BLOCK % period) % period;
    return to_border < KV_BLOCK ? (int)to_border : period > KV_BLOCK ? KV_BLOCK : 0;
}

bool angles_follow_length(const RopeConfig *c, int context) {
    RopeFreqs first, last;
    rope_frequencies(c, 1, &first);
    rope_frequencies(c, context, &last);
    bool same = first.scale == last.scale && first.attention_factor == last.attention_factor;
    for (int i = 0; i < first.n_pairs; i++) same = same && first.inv_freq[i] == last.inv_freq[i];
    return !same;
}

static void lay_out_zone(Angles *a, Arena *arena, Zone zone, int period, int64_t n_blocks) {
    a->lacking[zone].period = period;
    a->lacking[zone].blocks = take_turns(arena, n_blocks, a->n_pairs);
    a->lacking[zone].steps = take_turns(arena, step_variants(period), (int64_t)a->n_pairs * KV_BLOCK);
}

void angles_lay_out(Angles *a, Arena *arena, const RopeConfig *rope, bool may_follow, int context, int max_n) {
    const bool follows = may_follow && angles_follow_length(rope, context);
    const int64_t n_blocks = ((int64_t)context + KV_BLOCK - 1) / KV_BLOCK;
    const int pairs = rope->rotary_dim / 2, period = rope_key_period(rope);
    *a = (Angles){.rope = rope, .follows_length = follows, .n_pairs = pairs};
    if (rope_methods[rope->method].flags & ROPE_USES_LISTS) a->n_unscaled = rope->unscaled_positions;
    a->queries = a->keys = take_turns(arena, max_n, pairs);
    if (rope->map) {
        a->near_from = arena_take(arena, max_n, sizeof *a->near_from);
        a->far = take_turns(arena, max_n, pairs);
        a->keys = take_turns(arena, max_n, pairs);
    }
    if (rope->logn) a->factors = arena_take(arena, max_n, sizeof *a->factors);
    if (follows) a->keys = (Turns){NULL, NULL};
    if (follows || rope->map) lay_out_zone(a, arena, NEAR, follows ? 1 : period, n_blocks);
    if (follows && rope->map) lay_out_zone(a, arena, FAR, period, n_blocks);
}

// The frequencies of a text of `length` positions. What keys lack with others is void.
static void set_frequencies(Angles *a, int length) {
    RopeFreqs freqs;
    rope_frequencies(a->rope, length, &freqs);
    bool same = freqs.attention_factor == a->freqs.attention_factor;
    for (int i = 0; i < freqs.n_pairs; i++) same = same && freqs.inv_freq[i] == a->freqs.inv_freq[i];
    if (same) return;
    a->freqs = a->unscaled = freqs;
    for (int i = 0; i < freqs.n_pairs; i++) a->unscaled.inv_freq[i] = rope_plain(a->rope, i);
    a->n_blocks = 0;
}

static void turn(const Turns *table, int64_t at, const RopeFreqs *f, int pair, double distance, double factor) {
    rope_turn(f, pair, distance, factor, &table->cosines[at], &table->sines[at]);
}

// The angles of the pairs [from, to) at the n positions of the read.
static void fill_rows(const Angles *a, int first, int n, int from, int to) {
    const double factor = a->freqs.attention_factor;
    for (int t = 0; t < n; t++) {
        const int p = first + t;
        const RopeFreqs *f = p < a->n_unscaled ? &a->unscaled : &a->freqs;
        const RopeParts parts = rope_parts(a->rope, p);
        for (int pair = from; pair < to; pair++) {
            const int64_t at = (int64_t)t * a->n_pairs + pair;
            turn(&a->queries, at, f, pair, p, factor);
            if (!a->rope->map) continue;
            turn(&a->far, at, f, pair, parts.query - p, 1);
            if (a->keys.cosines) turn(&a->keys, at, f, pair, parts.key, factor);
        }
    }
}

// The distance that the angle lacks with which the key at p is cached.
static double lacking(const Angles *a, Zone zone, int64_t p) {
    double far = rope_parts(a->rope, (int)p).key, wanted = zone == NEAR ? (double)p : far;
    return a->follows_length ? wanted : wanted - far;
}

// What the keys of blocks [a->n_blocks, n_blocks) lack, for the pairs [from, to), and the variants of steps that show
// up in them first.
static void fill_blocks(const Angles *a, Zone zone, int n_blocks, int from, int to) {
    const int period = a->lacking[zone].period;
    const double factor = a->follows_length ? a->freqs.attention_factor : 1;
    bool seen[KV_BLOCK + 1] = {false};
    if (!a->lacking[zone].blocks.cosines || a->n_blocks >= n_blocks) return;
    for (int64_t b = 0; b < n_blocks; b++) {
        const int variant = variant_of(period, b), n_steps = seen[variant] ? 0 : KV_BLOCK;
        double steps[KV_BLOCK];
        seen[variant] = true;
        if (b < a->n_blocks) continue;
        const double start = lacking(a, zone, b * KV_BLOCK);
        for (int j = 0; j < n_steps; j++) steps[j] = lacking(a, zone, b * KV_BLOCK + j) - start;
        for (int pair = from; pair < to; pair++) {
            const int64_t at = ((int64_t)variant * a->n_pairs + pair) * KV_BLOCK;
            turn(&a->lacking[zone].blocks, b * a->n_pairs + pair, &a->freqs, pair, start, 1);
            for (int j = 0; j < n_steps; j++) turn(&a->lacking[zone].steps, at + j, &a->freqs, pair, steps[j], factor);
        }
    }
}

void angles_prepare_by_team(const Team *team, Angles *a, int first, int n, int length) {
    const int n_blocks = (first + n - 1) / KV_BLOCK + 1;
    int from, to;
    if (team->number == 0) set_frequencies(a, length);
    team_wait(team);
    team_share(team, a->n_pairs, &from, &to);
    fill_rows(a, first, n, from, to);
    fill_blocks(a, NEAR, n_blocks, from, to);
    fill_blocks(a, FAR, n_blocks, from, to);
    for (int t = 0; team->number == 0 && t < n; t++) {
        if (a->near_from) a->near_from[t] = first + t + 1 - rope_parts(a->rope, first + t).near;
        if (a->factors) a->factors[t] = (float)rope_logn(a->rope, first + t);
    }
    if (team->number == 0) a->first = first;
    team_wait(team);
    if (team->number == 0 && a->n_blocks < n_blocks) a->n_blocks = n_blocks;
}

bool angles_lack(const Angles *a, Zone zone, int64_t block, Lack *lack) {
    const Turns *blocks = &a->lacking[zone].blocks, *steps = &a->lacking[zone].steps;
    if (!blocks->cosines) return false;
    const int64_t at = block * a->n_pairs, in_steps = (int64_t)variant_of(a->lacking[zone].period, block) * a->n_pairs;
    lack->block = (Turns){blocks->cosines + at, blocks->sines + at};
    lack->steps = (Turns){steps->cosines + in_steps * KV_BLOCK, steps->sines + in_steps * KV_BLOCK};
    return true;
}
