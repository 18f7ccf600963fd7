// The cache of models that were brought in, as folders of files. What they are named after,
// src/job/import.c says.
#pragma once

#include <limits.h>
#include <time.h>

#include "../base/util.h"

// The file in it that has the digests of sources (src/job/contents.c).
#define CACHE_MEMO "digests"
// What the first line of a model's notes.txt has before its source.
#define CACHE_SOURCE "source: "

// Finds the folder of the cache, $XDG_CACHE_HOME/rope.c or ~/.cache/rope.c, which need not be there.
// False with the reason, which begins with `whose`.
bool cache_find(char folder[PATH_MAX], const char *whose, Error *err);

// A model in the cache, or one that is on its way there.
typedef struct {
    char name[NAME_MAX + 1];
    char source[400];  // what it was made of; empty: not known
    int64_t bytes;
    time_t made;
    bool is_part;
} CacheEntry;

// The models in the cache by their names, which the caller frees: *n of them, or NULL with the reason.
// A cache that is not there is empty.
CacheEntry *cache_entries(const char *folder, int *n, Error *err);

// The name of the model with a key; false: there is none.
bool cache_has(const char *folder, const char *key, char name[NAME_MAX + 1]);

// Makes the folder `part` in the cache, NAME.PID.part with this process's PID, and those above it. The
// number that is returned tells others that it is in use, until it is closed. -1 with the reason.
int cache_make_part(const char *part, Error *err);

// Removes what processes that are gone did not finish.
void cache_remove_parts(const char *folder);

// Removes a folder of the cache with the files in it.
void cache_remove(const char *path);

// Removes all of the cache but what is being written, and what is not of the cache. False with the
// reason when something cannot be removed.
bool cache_empty(const char *folder, Error *err);
