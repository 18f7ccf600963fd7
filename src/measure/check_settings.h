// The rows of --check about settings.
#pragma once

#include "../job/job.h"
#include "table.h"

enum { FAILED_BYTES = 400 };

// What settings say of a length, before anything is read.
typedef struct {
    char failed[FAILED_BYTES];  // what the first row that fails says; empty: none does
    const char *row;            // its name
    bool at_any_length;         // one fails that would fail at any length
    // The positions that the settings are made for, and whether the length is past them. That alone
    // fails nothing that reading shows to hold.
    double reach;
    bool is_beyond;
    char beyond[FAILED_BYTES];  // the same in words
} SettingsFound;

// Judges the settings for a text of `length` positions, and prints a row for each, but for a reach
// that is not far enough. `own` is the plan of the model's own settings. Without a table it prints
// nothing.
void judge_settings(const Job *job, const RopePlan *own, int length, Table *table,
                    SettingsFound *found);

// Prints the row of a reach that is not far enough, with what came out.
void print_reach(const SettingsFound *found, int length, const char *verdict, Table *table);
