// How engines read a config: --engines.
#pragma once

#include "../job/as_read.h"
#include "table.h"

// Prints how the engines of a list (NULL: all) read it, for a text of job->length positions. hf5
// comes first and is the reference. *answer becomes NO when one differs, and UNDECIDED
// when none does but nobody has looked at one that the list names. False with the reason.
bool show_engines(const ReadByEngines *what, const char *list, Answer *answer, Error *err);

// The numbers of a kind's layers, as "0-4 6-10".
void list_layers(const ConfigLayers *layers, int kind, char *list, size_t capacity);

// Says which layers of a config are of which kind.
void note_layers(Table *t, const ConfigLayers *layers);
