// --attn with --key: the score of one key by pairs.
#pragma once

#include "../measure/measure.h"

// Prints the terms that the score of one key is the sum of, by pairs, for a head of the last query
// of the prompt, which the session has read. False with the reason.
bool show_pairs(Job *job, Session *session, int layer, int head, Error *err);
