// Positions made into angles. A query and a key must differ by D(i, j) times the frequency, for every j; rope.h has D
// as a part of the query minus a part of the key, one pair of parts for near keys and one for far ones.
//
// The cache holds each key rotated by its part for far queries, as most of a long past is far: those blocks are
// multiplied as they lie. To meet near queries a key lacks an angle, j minus that part, for which there are tables by
// block and step, as there are not many near blocks. Without a map all is near, the two parts are the same, and keys
// lack nothing. But when the frequencies change with the length, keys are cached un-rotated, never to be stale, and
// lack their whole angle in both zones.
#include "positions.h"

// The distance that the angle lacks with which key j is cached.
static double lacking(const Positions *p, Zone zone, int64_t j) {
    double far = rope_meet(p->rope, (int)j, (int)j).key, wanted = zone == NEAR ? (double)j : far;
    return p->follows_length ? wanted : wanted - far;
}

static void lay_out_angles(KeyAngles *a, Arena *arena, int n_pairs, int period, int64_t n_blocks) {
    int64_t steps = (int64_t)step_variants(period) * n_pairs * KV_BLOCK;
    a->period = period;
    a->block_cosines = arena_take(arena, n_blocks * n_pairs, sizeof(float));
    a->block_sines = arena_take(arena, n_blocks * n_pairs, sizeof(float));
    a->step_cosines = arena_take(arena, steps, sizeof(float));
    a->step_sines = arena_take(arena, steps, sizeof(float));
}

void positions_lay_out(Positions *p, Arena *arena, const RopeConfig *rope, bool follows_length, int max_n,
                       int64_t n_blocks) {
    int pairs = rope->head_dim / 2, period = rope_key_period(rope);
    int64_t table = (int64_t)max_n * pairs;
    *p = (Positions){.rope = rope, .follows_length = follows_length, .view.n_pairs = pairs};
    p->cosines = p->key_cosines = arena_take(arena, table, sizeof(float));
    p->sines = p->key_sines = arena_take(arena, table, sizeof(float));
    if (rope->map) {
        p->view.near_from = arena_take(arena, max_n, sizeof(int));
        p->view.far_cosines = arena_take(arena, table, sizeof(float));
        p->view.far_sines = arena_take(arena, table, sizeof(float));
        p->key_cosines = arena_take(arena, table, sizeof(float));
        p->key_sines = arena_take(arena, table, sizeof(float));
    }
    if (rope->logn) p->view.factors = arena_take(arena, max_n, sizeof(float));
    if (p->follows_length) p->key_cosines = p->key_sines = NULL;
    if (p->follows_length || rope->map)
        lay_out_angles(&p->view.angles[NEAR], arena, pairs, p->follows_length ? 1 : period, n_blocks);
    if (p->follows_length && rope->map) lay_out_angles(&p->view.angles[FAR], arena, pairs, period, n_blocks);
}

// The frequencies of a text of `length` positions. Tables for the past that were made with others are void.
static void set_frequencies(Positions *p, int length) {
    RopeFreqs freqs;
    rope_frequencies(p->rope, length, &freqs);
    bool same = freqs.attention_factor == p->freqs.attention_factor;
    for (int i = 0; i < freqs.n_pairs; i++) same = same && freqs.inv_freq[i] == p->freqs.inv_freq[i];
    if (same) return;
    p->freqs = freqs;
    p->n_blocks = 0;
}

// One pair's angles of blocks [p->n_blocks, n_blocks), and the variants of steps that show up in them first.
static void fill_angles(const Positions *p, Zone zone, int pair, int n_blocks) {
    const KeyAngles *a = &p->view.angles[zone];
    const int n_pairs = p->view.n_pairs;
    const double factor = p->follows_length ? p->freqs.attention_factor : 1;
    bool filled[KV_BLOCK + 1] = {false};
    for (int64_t b = 0; b < p->n_blocks && b < a->period; b++) filled[steps_of(a->period, b)] = true;
    for (int64_t b = p->n_blocks; a->block_cosines && b < n_blocks; b++) {
        const double start = lacking(p, zone, b * KV_BLOCK);
        int64_t at = b * n_pairs + pair, variant = steps_of(a->period, b);
        rope_turn(&p->freqs, pair, start, 1, a->block_cosines + at, a->block_sines + at);
        at = (variant * n_pairs + pair) * KV_BLOCK;
        for (int j = 0; j < KV_BLOCK && !filled[variant]; j++) {
            double step = lacking(p, zone, b * KV_BLOCK + j) - start;
            rope_turn(&p->freqs, pair, step, factor, a->step_cosines + at + j, a->step_sines + at + j);
        }
        filled[variant] = true;
    }
}

// One pair's angles of the positions of the read.
static void fill_rows(const Positions *p, int pair, int first, int n) {
    const RopeFreqs *f = &p->freqs;
    const int pairs = f->n_pairs;
    rope_table(f, pair, first, n, p->cosines + pair, p->sines + pair, (size_t)pairs);
    for (int t = 0; p->rope->map && t < n; t++) {
        const int i = first + t, at = t * pairs + pair;
        const RopeDistance d = rope_meet(p->rope, i, i);
        rope_turn(f, pair, d.query - i, 1, p->view.far_cosines + at, p->view.far_sines + at);
        if (p->key_cosines) rope_turn(f, pair, d.key, f->attention_factor, p->key_cosines + at, p->key_sines + at);
    }
}

void positions_prepare_by_team(const Team *team, Positions *p, int first, int n, int length) {
    const int n_blocks = (first + n - 1) / KV_BLOCK + 1;
    int begin, end;
    if (team->number == 0) set_frequencies(p, length);
    team_wait(team);
    team_share(team, p->freqs.n_pairs, &begin, &end);
    for (int i = begin; i < end; i++) {
        fill_rows(p, i, first, n);
        fill_angles(p, NEAR, i, n_blocks);
        fill_angles(p, FAR, i, n_blocks);
    }
    for (int t = 0; team->number == 0 && t < n; t++) {
        const int i = first + t;
        if (p->view.near_from) p->view.near_from[t] = i + 1 - rope_meet(p->rope, i, i).near;
        if (p->view.factors) p->view.factors[t] = (float)rope_logn(p->rope, i);
    }
    if (team->number == 0) p->view.first = first;
    team_wait(team);
    if (team->number == 0 && p->n_blocks < n_blocks) p->n_blocks = n_blocks;
}
