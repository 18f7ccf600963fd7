// A job's table as one object of JSON on standard output: its notes are members, its rows an array
// of objects, and the last members give its exit status and the reason.
//
//     {"check": "model.bin", "length": 4096, ..., "rows": [
//     {"check": "jumps", "length": 4096, "value": 1.128, ...},
//     ...
//     ], "status": 0, "reason": {"code": "jumps", "words": "holds to 4096 by jumps"}}
#pragma once

#include <stdbool.h>
#include <stddef.h>

// The state of the object written so far.
typedef struct {
    const char *version;  // of the program; it is the first member
    bool has_rows, in_rows;
    int n_members, n_rows, n_cells;  // members of the object, rows of the current array, cells of
                                     // its current row
    char code[40], words[1000];      // the reason; empty: none was given
} JsonOut;

// The form of a job's table. With neither of the two it is drawn at a terminal.
typedef struct {
    bool tsv;       // with tabs
    JsonOut *json;  // NULL: not as JSON
} TableForm;

// The type of a text in JSON: a number with the same digits (null if it is NaN or infinite), a
// string, or null.
typedef enum { JSON_NUMBER, JSON_STRING, JSON_NULL } JsonType;

// Prints n bytes as a string of JSON. Bytes that are not UTF-8 become the replacement character.
void print_json_text(const char *text, size_t n);

// Writes a member of the object, after ending the rows if they have begun.
void json_put_member(JsonOut *out, const char *key, const char *text, JsonType type);
// Begin an array of objects, which ends before the next member; and the array of the table's rows.
void json_begin_list(JsonOut *out, const char *key);
void json_begin_rows(JsonOut *out);
// Write a cell of the current row, and end the row.
void json_put_cell(JsonOut *out, const char *column, const char *text, JsonType type);
void json_end_row(JsonOut *out);

// Stores the reason for the exit status: a short name for programs, and words.
void json_reason(JsonOut *out, const char *code, const char *words);
// Ends the object with the exit status and its reason.
void json_end(JsonOut *out, int status);
