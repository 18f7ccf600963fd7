// The cache of imported models: a folder for each, with its files. src/job/import.c explains the
// names.
#pragma once

#include <limits.h>
#include <time.h>

#include "../base/util.h"

// The file in it that has the digests of sources (src/job/contents.c).
#define CACHE_MEMO "digests"
// The first line of a model's notes.txt begins with this, followed by its source.
#define CACHE_SOURCE "source: "

// Finds the folder of the cache, $XDG_CACHE_HOME/rope.c or ~/.cache/rope.c, which may not exist
// yet. False with the reason, which begins with `whose`.
bool cache_find(char folder[PATH_MAX], const char *whose, Error *err);

// A model in the cache, or one that is still being written.
typedef struct {
    char name[NAME_MAX + 1];
    char source[400];  // the file or folder it was made from; empty: not known
    int64_t bytes;
    time_t made;
    bool is_part;
} CacheEntry;

// The models in the cache, sorted by name: *n of them, which the caller frees. NULL with the
// reason. A missing cache counts as empty.
CacheEntry *cache_entries(const char *folder, int *n, Error *err);

// The name of the model with a key. False: there is none.
bool cache_has(const char *folder, const char *key, char name[NAME_MAX + 1]);

// Makes the folder `part` in the cache, NAME.PID.part with this process's PID, and its parents.
// Returns a file descriptor, which marks the folder as in use until it is closed. -1 with the
// reason.
int cache_make_part(const char *part, Error *err);

// Removes the unfinished folders of processes that are gone.
void cache_remove_parts(const char *folder);

// Removes a folder of the cache with the files in it.
void cache_remove(const char *path);

// Removes everything from the cache except folders that are being written and files that do not
// belong to the cache. False with the reason if something cannot be removed.
bool cache_empty(const char *folder, Error *err);
