// The parts of matmul.c that other files use: prepared vectors, and pieces of a product.
#pragma once

#include "matmul.h"
#include "product.h"

struct Workspace {
    int64_t max_n;
    bool floats;  // activations are not rounded
    // (n_threads), VECTORS_IN_PLACE of them: each thread prepares its own, cheaper than a wait
    Vectors *of_threads;
    Vectors of_team;  // max_n of them
    float *sums;      // (n_threads, 2, max_n, PANEL_ROWS)
    uint8_t *panels;  // (n_threads, PANEL_BYTES)
};

// The other factor of n products of one input: activations rounded to int8 in groups of so many
// columns, or (0) float32.
int common_group(const Product *products, int n);
// Memory for n vectors, of which n_in_place may be multiplied in place.
Vectors lay_out_vectors(Arena *arena, int64_t n, int64_t cols, int64_t n_in_place);
// Prepares vector t of an input for products: normed, multiplied, rounded.
void prepare_vector(const Input *input, int group, Vectors *vectors, int64_t t);
// One piece of work: `width` rows of a product from `row` on, as far as they exist, whose sums (n,
// width) come from `multiply`. sums has room for two of them.
void multiply_piece(const Product *product, int64_t row, MultiplyRows *multiply, int width,
                    const Vectors *vectors, float *sums);
