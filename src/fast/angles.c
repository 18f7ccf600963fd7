// The angles of query i and key j must differ by D(i, j) times the frequency. rope.h gives D as a
// part of the query minus a part of the key: one pair of parts for near keys, one for far keys.
//
// The cache holds each key rotated by its far part. Most of a long past is far, and those blocks
// are multiplied without a further rotation. Near blocks are few: their keys lack the angle of j
// minus that part, for which there are tables by block and step. Without a map the two parts are
// equal, and no angle is missing. When the frequencies change with the length, keys are cached
// before their rotation, so that they are never stale. They then lack their whole angle in both
// zones. So do keys of 4 bits, which are rounded better before their rotation (kv_cache.h).
#include "angles.h"

#include <math.h>

#include "../decoder/rope_layers.h"

static float *take_turns(Arena *arena, int64_t rows, int64_t angles) {
    return arena_take(arena, rows * angles, 2 * sizeof(float));
}

static int64_t variant_of(int period, int64_t block) {
    if (period == 0) return block;
    int64_t to_border = (period - block * KV_BLOCK % period) % period;
    return to_border < KV_BLOCK ? to_border : KV_BLOCK;
}

static bool are_alike(double a, double b) { return fabs(a - b) <= 1e-7 * (1 + fabs(a) + fabs(b)); }

// The period is the first position where the step changes, if all further steps agree.
int angles_period(const RopeConfig *c, int n) {
    enum { MOST_LOOKED_AT = 1 << 22 };
    if (!c->map) return 1;
    if (n > MOST_LOOKED_AT) return 0;
    double even = rope_parts(c, 1).key - rope_parts(c, 0).key;
    double border = even;  // the step at each multiple of the period
    int period = 1;
    for (int p = 2; p < n; p++) {
        double step = rope_parts(c, p).key - rope_parts(c, p - 1).key;
        bool is_border = p % period == 0;
        if (are_alike(step, is_border ? border : even)) continue;
        if (period > 1) return 0;
        period = p;
        border = step;
    }
    return period;
}

static bool are_equal(const RopeFreqs *a, const RopeFreqs *b) {
    for (int i = 0; i < a->n_pairs; i++)
        if (a->inv_freq[i] != b->inv_freq[i]) return false;
    return a->attention_factor == b->attention_factor;
}

static void lay_out_zone(Angles *a, Arena *arena, Zone zone, int period, int64_t n_blocks) {
    int64_t most = period ? KV_BLOCK + 1 : n_blocks;
    int64_t variants = period && period < most ? period : most;
    a->missing[zone].period = period;
    a->missing[zone].blocks = take_turns(arena, n_blocks, a->n_pairs);
    a->missing[zone].steps = take_turns(arena, variants, (int64_t)a->n_pairs * KV_BLOCK);
}

void angles_lay_out(Angles *a, Arena *arena, const SessionConfig *c, const RopeConfig *rope,
                    const Spread *spread, bool is_cancelled) {
    RopeFreqs first, last;
    rope_frequencies(rope, 1, &first);
    rope_frequencies(rope, spread->length ? spread->length : c->context, &last);
    // Rotated later, the first positions of unscaled_positions would rotate as the others.
    bool later = c->kv == KV_Q4 && rope->unscaled_positions == 0;
    bool turns_later = !c->stale_keys && (later || !are_equal(&first, &last));
    int64_t n_blocks = ((int64_t)c->context + KV_BLOCK - 1) / KV_BLOCK;
    int one = spread->length ? 0 : 1;
    int period = one * angles_period(rope, c->context);
    *a = (Angles){
        .rope = rope,
        .spread = spread,
        .turns_later = turns_later,
        .n_pairs = rope->rotary_dim / 2,
        .is_cancelled = is_cancelled,
    };
    a->queries = take_turns(arena, c->chunk, a->n_pairs);
    a->keys = a->queries;
    if (rope->map) {
        a->far = take_turns(arena, c->chunk, a->n_pairs);
        a->keys = take_turns(arena, c->chunk, a->n_pairs);
    }
    if (turns_later) a->keys = NULL;
    if (turns_later || rope->map)
        lay_out_zone(a, arena, NEAR, turns_later ? one : period, n_blocks);
    if (turns_later && rope->map) lay_out_zone(a, arena, FAR, period, n_blocks);
}

// The angles of the pairs [from, to) of the n tokens of the read.
static void fill_rows(const Angles *a, int first, int n, int from, int to) {
    const RopeConfig *rope = a->rope;
    double factor = a->is_cancelled ? 1 : a->freqs.attention_factor;
    for (int t = 0; t < n; t++) {
        int p = spread_position(a->spread, first + t);
        RopeParts parts = rope_parts(rope, p);
        for (int pair = from; pair < to; pair++) {
            int64_t cosine = (int64_t)t * 2 * a->n_pairs + pair;
            int64_t sine = cosine + a->n_pairs;
            float *query = a->queries;
            float *far = a->far;
            float *key = a->keys;
            double speed = pair_speed(rope, &a->freqs, pair, p);
            rope_cos_sin(speed, p, factor, &query[cosine], &query[sine]);
            if (!rope->map) continue;
            rope_cos_sin(speed, parts.query - p, 1, &far[cosine], &far[sine]);
            if (key) rope_cos_sin(speed, parts.key, factor, &key[cosine], &key[sine]);
        }
    }
}

// The number of positions by which the cached key of token i must still rotate.
static double missing_positions(const Angles *a, Zone zone, int64_t i) {
    int p = spread_position(a->spread, (int)i);
    double far = rope_parts(a->rope, p).key;
    double wanted = zone == NEAR ? p : far;
    return a->turns_later ? wanted : wanted - far;
}

// Computes the missing angles of the keys of blocks [a->n_blocks, n_blocks), for the pairs [from,
// to), and the new variants of steps.
static void fill_blocks(const Angles *a, Zone zone, int n_blocks, int from, int to) {
    int period = a->missing[zone].period;
    float *blocks = a->missing[zone].blocks;
    float *all_steps = a->missing[zone].steps;
    double factor = a->turns_later && !a->is_cancelled ? a->freqs.attention_factor : 1;
    int64_t n_pairs = a->n_pairs;
    int64_t n_angles = n_pairs * KV_BLOCK;
    bool seen[KV_BLOCK + 1] = {false};
    if (!blocks || a->n_blocks >= n_blocks) return;
    for (int64_t b = 0; b < n_blocks; b++) {
        int64_t variant = variant_of(period, b);
        int n_steps = period && seen[variant] ? 0 : KV_BLOCK;
        double steps[KV_BLOCK];
        if (period) seen[variant] = true;
        if (b < a->n_blocks) continue;
        double start = missing_positions(a, zone, b * KV_BLOCK);
        for (int j = 0; j < n_steps; j++)
            steps[j] = missing_positions(a, zone, b * KV_BLOCK + j) - start;
        for (int pair = from; pair < to; pair++) {
            float *of_block = blocks + b * 2 * n_pairs + pair;
            float *of_step = all_steps + variant * 2 * n_angles + pair * KV_BLOCK;
            double speed = a->freqs.inv_freq[pair];
            rope_cos_sin(speed, start, 1, of_block, of_block + n_pairs);
            for (int j = 0; j < n_steps; j++) {
                rope_cos_sin(speed, steps[j], factor, of_step, of_step + n_angles);
                of_step++;
            }
        }
    }
}

void angles_prepare_by_team(const Team *team, Angles *a, int first, int n, int length) {
    int n_blocks = (first + n - 1) / KV_BLOCK + 1;
    int from = team_first(team, a->n_pairs);
    int to = team_end(team, a->n_pairs);
    if (team->number == 0) {
        RopeFreqs before = a->freqs;
        rope_frequencies(a->rope, length, &a->freqs);
        // The missing angles of other frequencies are void.
        if (!are_equal(&a->freqs, &before)) a->n_blocks = 0;
        a->first = first;
    }
    team_wait(team);
    fill_rows(a, first, n, from, to);
    fill_blocks(a, NEAR, n_blocks, from, to);
    fill_blocks(a, FAR, n_blocks, from, to);
    team_wait(team);
    if (team->number == 0 && a->n_blocks < n_blocks) a->n_blocks = n_blocks;
}

MissingAngles angles_missing(const Angles *a, Zone zone, int64_t block) {
    if (!a || !a->missing[zone].blocks) return (MissingAngles){0};
    int64_t n = 2 * a->n_pairs;
    int64_t variant = variant_of(a->missing[zone].period, block);
    return (MissingAngles){a->n_pairs, a->missing[zone].blocks + block * n,
                  a->missing[zone].steps + variant * n * KV_BLOCK};
}
