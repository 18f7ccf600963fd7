// Shared by the files of the page's C: a Page.
#pragma once

#include <emscripten/emscripten.h>

#include "../src/fast/transformer.h"
#include "../src/job/job.h"

#define FOR_PAGE EMSCRIPTEN_KEEPALIVE

enum { N_FACTS = 8, HEAD = 3, MOST_PAIRS = ROPE_MAX_PAIRS };

typedef struct {
    Model model;            // closed: a config or a few numbers are in its place
    RopeFile rope_file;          // of its RoPE: by its file, by page_config or by page_describe
    Tokenizer *tokenizer;   // NULL: none
    RopeSettings *methods;  // the one that is planned
    Options options;        // of its jobs, with the method of the sliding layers
    RopePlan plan;          // of that method
    // Of a method that is no row of rope_methods: its frequencies are longrope's.
    double divisors[MOST_PAIRS];
    double numbers[HEAD + 2 * MOST_PAIRS];
    int32_t *ids;  // the last text's
    int n_ids;
    char text[2048];
    Error err;
} Page;

// The job for so many positions.
Job job_of_page(Page *page, int length);
