// A config.json, a block of it, or what a model card shows of one, as an object of JSON.
#pragma once

#include "../base/util.h"

typedef struct {
    char *text;  // a copy with the same lines that json_check has passed; the caller frees it
    const char *object;  // in it
    bool is_config;      // a config or a part of one, rather than a block
    bool is_whole;    // a whole config: braces of its own, no dots, and it says what model it is of
    char mended[80];  // of a whole one: the line, and what there is no JSON; empty: all of it is
} Card;

// Reads a text as model cards have it: a fence of backticks around it, lines in front that begin
// with #, members without braces, dots for the rest, a comma behind the last member. False with the
// reason when it is no JSON for all that.
bool card_read(Card *card, const char *text, size_t length, Error *err);
