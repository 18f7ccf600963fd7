// Positions made into angles: the tables by which queries and keys are rotated, and what attention has to know of them.
#pragma once

#include "attention.h"

// Of one session. Arrays have a row for each position of the read at hand, the first at view.first.
typedef struct {
    const RopeConfig *rope;
    bool follows_length;             // frequencies can change, so that keys are cached un-rotated
    RopeFreqs freqs;                 // in force
    int n_blocks;                    // blocks of the view's tables that are filled in
    float *cosines, *sines;          // (chunk, n_pairs) of queries that meet near keys
    float *key_cosines, *key_sines;  // (chunk, n_pairs) of keys on their way to the cache; NULL: they are not rotated
    AttentionView view;
} Positions;

// Takes the tables' memory from an arena, for reads of up to max_n positions and a cache of n_blocks. The view's
// n_heads, window and sinks are the caller's to set.
void positions_lay_out(Positions *positions, Arena *arena, const RopeConfig *rope, bool follows_length, int max_n,
                       int64_t n_blocks);

// Makes all tables for a read of the n positions from `first` on, at a current length of `length`. The threads of a
// team call it together.
void positions_prepare_by_team(const Team *team, Positions *positions, int first, int n, int length);
