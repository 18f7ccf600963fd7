// What a position is to a model: the angles by which queries and keys are rotated, or, without RoPE, what is added to
// embeddings and to attention's scores.
#pragma once

#include "../model/model.h"
#include "attention.h"

// Of one session. Arrays have a row for each position of the read at hand, the first at view.first.
typedef struct {
    const Model *model;
    const RopeConfig *rope;
    bool follows_length;             // frequencies can change, so that keys are cached un-rotated
    RopeFreqs freqs;                 // in force
    int n_blocks;                    // blocks of the view's tables that are filled in
    float *cosines, *sines;          // (chunk, n_pairs) of queries that meet near keys
    float *key_cosines, *key_sines;  // (chunk, n_pairs) of keys on their way to the cache; NULL: they are not rotated
    AttentionView view;
    DistanceTerms *terms;  // (n_layers) of encodings that have some, filled up to distance n_blocks * KV_BLOCK
    float *sinusoids;      // (dim, KV_BLOCK) R_d of a block of distances
    float *weights;        // (n_threads, dim)
} Positions;

// Takes the tables' memory from an arena, for reads of up to max_n positions and a cache of n_blocks. The view's
// n_heads, window and sinks are the caller's to set.
void positions_lay_out(Positions *positions, Arena *arena, const Model *model, const RopeConfig *rope,
                       bool follows_length, int max_n, int64_t n_blocks);

// Makes all tables for a read of the n positions from `first` on, at a current length of `length`. The threads of a
// team call it together.
void positions_prepare_by_team(const Team *team, Positions *positions, int first, int n, int length);

// Adds what the encoding adds to embeddings to x (n, dim), of the positions from `first` on. By a team, too.
void positions_add_by_team(const Team *team, const Positions *positions, float *x, int first, int n);

// What is added to the embedding at one position: x (dim) += it. NULL: nothing is.
typedef void PositionsAdd(const Model *model, int64_t position, float *x);
PositionsAdd *positions_added(int encoding);

// x (dim) = PE(position), or R_d: sin and cos of position * theta^(-2i/dim) at 2i and 2i + 1.
void positions_sinusoids(const Model *model, int64_t position, float *x);

// ALiBi's slope of head number `head`, from 0: 2^(-8h/H) with h from 1 on.
float positions_slope(int head, int n_heads);
