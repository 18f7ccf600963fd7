// What a task hides its sentences in: a text in pieces, of which any number can be taken.
#pragma once

#include <stddef.h>

#include "../base/util.h"

typedef struct {
    char *text;
    size_t *starts;  // (n_pieces + 1) of the pieces in the text; the last one is its end
    int n_pieces;
} Haystack;

// Takes the text at `path`, in pieces that end behind words, or (NULL) `length` sentences of
// filler. False with the reason; haystack_free may be called all the same.
bool haystack_make(Haystack *hay, const char *path, int length, Error *err);
void haystack_free(Haystack *hay);
