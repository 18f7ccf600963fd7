// Attention over the key-value cache, without a matrix of all scores.
#pragma once

#include "attention_task.h"

// out = softmax(scale q k) v over one layer of the cache. The number of threads does not change the
// result.
void attention_by_team(const Team *team, const Attention *attention);
