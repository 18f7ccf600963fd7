// --cache: lists the imported models of other programs, or removes them.
#define _POSIX_C_SOURCE 200809L
#include "show.h"

#include <stdlib.h>
#include <time.h>

#include "../job/cache.h"

bool show_cache(Job *job, Error *err) {
    char folder[PATH_MAX], date[40];
    int n;
    if (!cache_find(folder, "--cache", err)) return false;
    if (job->options->cache == CACHE_EMPTY && !cache_empty(folder, err)) return false;
    CacheEntry *all = cache_entries(folder, &n, err);
    if (!all) return false;
    double bytes = 0;
    for (int i = 0; i < n; i++) bytes += (double)all[i].bytes;
    Table t = table_open(job->form);
    table_note(&t, "cache", "%s", folder);
    table_note_number(&t, "models", "%d", n);
    table_note_number(&t, "bytes", "%.0f", bytes);
    table_columns(&t, as_list, "bytes\tbrought_in\tmodel\tsource");
    for (int i = 0; i < n; i++) {
        struct tm at;
        localtime_r(&all[i].made, &at);
        strftime(date, sizeof date, "%Y-%m-%d %H:%M", &at);
        table_number(&t, "%.0f", (double)all[i].bytes);
        table_words(&t, all[i].is_part ? "not yet" : date);
        table_words(&t, all[i].name);
        if (all[i].source[0]) table_words(&t, all[i].source);
        else table_unknown(&t);
        table_end_row(&t);
    }
    table_end(&t);
    free(all);
    return true;
}
