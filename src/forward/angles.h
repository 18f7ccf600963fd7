// The angles by which RoPE turns queries and keys: tables of one session.
#pragma once

#include "../../rope.h"
#include "kv_cache.h"
#include "session.h"
#include "team.h"

// How far a key is for a query, as the distance map tells: below `near`, or from there on.
typedef enum { NEAR, FAR, N_ZONES } Zone;

// What all keys of one block lack in a zone, on top of the angles with which they are cached. Key j of the block, from
// 0, lacks the sum of two angles for each pair. Of both there are first the cosines, then the sines.
typedef struct {
    int64_t pairs;       // 0: they lack nothing
    const float *block;  // (2, pairs)
    const float *steps;  // (2, pairs, KV_BLOCK), with the attention factor if keys lack it
} Lack;

typedef struct {
    const SessionConfig *config;
    bool follows_length;  // frequencies can change, so that keys are cached before they are turned
    int n_pairs;          // of a head that turn: its first 2 n_pairs elements
    RopeFreqs freqs;      // in force

    // Of the tokens of the read at hand, number `first` and those behind it; tables are (chunk, 2, n_pairs): of each
    // token the cosines, then the sines.
    int first;
    float *queries;  // of queries that meet near keys
    float *keys;     // of keys on their way to the cache; NULL: they are not turned
    float *far;      // by which such a query goes on to meet far keys; NULL: all are near

    // What keys lack: an angle for each block, (blocks, 2, n_pairs), and for each step in a block. Steps repeat from
    // block to block, but where the map's rule begins anew every `period` positions. There is a variant of them for
    // each place in a block where that can happen first: (variants, 2, n_pairs, KV_BLOCK). Where tokens are spread,
    // each block has steps of its own, and the period is 0. NULL: they lack nothing.
    int n_blocks;  // that are filled in
    struct {
        int period;
        float *blocks, *steps;
    } lacking[N_ZONES];
} Angles;

// Takes the tables' memory from an arena.
void angles_lay_out(Angles *angles, Arena *arena, const SessionConfig *config);

// Makes all tables for a read of the n tokens from `first` on, at a current length of `length` positions.
void angles_prepare_by_team(const Team *team, Angles *angles, int first, int n, int length);

// What the keys of a block lack in a zone; without angles, nothing.
Lack angles_lack(const Angles *angles, Zone zone, int64_t block);
