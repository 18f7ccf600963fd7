// The angles by which RoPE turns queries and keys: tables of one session. A model has one RoPE, or
// one for its full layers and one for its sliding layers, with tables for each.
#pragma once

#include "../../rope.h"
#include "../decoder/session_config.h"
#include "kv_cache.h"
#include "team.h"

// Zones of a distance map: distances below `near` (see RopeParts), and those from there on.
typedef enum { NEAR, FAR, N_ZONES } Zone;

// The missing angles of the keys of a block in a zone. Key j of the block, from 0, lacks the sum of
// two angles for each pair, the block's and step j's. Each table has first the cosines, then the
// sines.
typedef struct {
    int64_t pairs;       // 0: no angle is missing
    const float *block;  // (2, pairs)
    const float *steps;  // (2, pairs, KV_BLOCK), with the attention factor if the keys lack it
} MissingAngles;

// The tables of one RoPE.
//
// 1. All pointers, turns_later, n_pairs and the periods are final once angles_lay_out has
//    returned. Only angles_prepare_by_team changes the rest and the contents of the tables.
// 2. freqs belong to the length of the last read. Thread 0 sets them before a team_wait; the others
//    read them after it.
// 3. Until the next read, queries, keys and far hold the n tokens from number `first` on. The rows
//    after these are left over from other reads.
// 4. `missing` agrees with freqs for the blocks [0, n_blocks) and all their variants. n_blocks grows
//    with each read that goes further. It falls to 0 when freqs change, or when session_begin puts
//    tokens elsewhere. A rewound session keeps it: the tables depend on positions, not on the
//    tokens there.
// 5. Near keys lack an angle if keys rotate later or there is a map, far keys if both hold. Else
//    their tables are NULL.
// 6. Each thread writes the pairs of its share in all tables, and no one reads a table before all
//    have written (team_wait). n_blocks is set after that, and only the next read uses it.
typedef struct {
    const RopeConfig *rope;  // of the config, for the layers that these angles are of
    const Spread *spread;    // the positions of tokens in these layers
    bool turns_later;        // keys are cached before their rotation
    int n_pairs;             // of a head that rotate: its first 2 n_pairs elements
    bool is_cancelled;       // norms cancel the attention factor, so that the tables lack it
    RopeFreqs freqs;         // in force

    // For the tokens from number `first` on. The tables are (chunk, 2, n_pairs): cosines, then
    // sines.
    int first;
    float *queries;  // of queries that meet near keys
    float *keys;     // of keys on their way to the cache; NULL: not rotated
    float *far;      // the further rotation of such a query for far keys; NULL: all are near

    // The missing angles of keys, NULL if there are none: an angle for each block, (blocks, 2,
    // n_pairs), and for each step in a block. All blocks have the same steps, except those where
    // the map's rule begins anew, every `period` positions. There is a variant for each place where
    // that can happen first in a block: (variants, 2, n_pairs, KV_BLOCK). If tokens are spread, or
    // steps do not repeat (see angles_period), each block is its own variant, and the period is 0.
    int n_blocks;  // filled in
    struct {
        int period;
        float *blocks, *steps;
    } missing[N_ZONES];
} Angles;

// Returns the number of positions after which the steps from one key to the next, key(p) - key(p -
// 1), begin anew within n positions: they are equal at all multiples of the period, and equal
// everywhere else. 1: keys are evenly spaced, as without a map. 0: no such number exists, or n is
// too large to check every key, so that each block of keys needs its own tables.
int angles_period(const RopeConfig *rope, int n);

// Takes the tables' memory from an arena. `rope` is the config's, or its settings of sliding
// layers, and `spread` gives the positions of tokens in these layers.
void angles_lay_out(Angles *angles, Arena *arena, const SessionConfig *config,
                    const RopeConfig *rope, const Spread *spread, bool is_cancelled);

// Makes all tables for a read of the n tokens from `first` on, at a current length of `length`
// positions.
void angles_prepare_by_team(const Team *team, Angles *angles, int first, int n, int length);

// Rotates a key (2 n_pairs) of row `row` of the chunk on its way to the cache, and a query that
// meets near keys. Does nothing without angles (NULL), or if keys are cached before their rotation.
static inline void angles_turn_key(const Angles *a, int64_t row, float *key) {
    if (!a || !a->keys) return;
    const float *turns = a->keys + row * 2 * a->n_pairs;
    rope_rotate(key, a->n_pairs, turns, turns + a->n_pairs);
}
static inline void angles_turn_query(const Angles *a, int64_t row, float *query) {
    if (!a) return;
    const float *turns = a->queries + row * 2 * a->n_pairs;
    rope_rotate(query, a->n_pairs, turns, turns + a->n_pairs);
}

// The missing angles of the keys of a block in a zone; none without angles (NULL).
MissingAngles angles_missing(const Angles *angles, Zone zone, int64_t block);
