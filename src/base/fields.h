// The header of a binary file as a table of its fields, and what follows it, one thing after
// another. Numbers are little-endian.
#pragma once

#include <float.h>

#include "util.h"

// The type of a field, by its bytes in the file. I32X8 is a list, whose numbers are not checked
// here.
typedef enum { U32 = 4, I32 = 4, F64 = 8, I32X8 = 32 } FieldType;

#define ANY DBL_MAX  // a value of `high`: no limit

typedef struct {
    const char *name;
    size_t offset;  // in the file
    FieldType type;
    double low, high;          // what it may be, both included
    size_t place, bytes;       // where it goes in a struct
    int version_5, version_6;  // values from which on only these versions have the field; 0: none
} Field;

// A table of fields, and the struct that they go to. NULL: the fields are 0.
typedef struct {
    const Field *fields;
    int n;
    void *to;
} FieldTable;

// Reads the fields of n tables from a header, whose file has that version, into their structs.
// False with the reason when a value is out of its range, or is of a later version.
bool fields_read(const FieldTable *tables, int n, const uint8_t *header, int version, Error *err);
// Writes them into a header. Returns the version that their values need, 3 at least.
int fields_write(const FieldTable *tables, int n, uint8_t *header);
// The value of a field by its name; 0: that, or there is no such field.
double fields_value(const FieldTable *tables, int n, const char *name);
// False with the reason when one of `bytes` bytes is not 0 and of no field, where fields that begin
// at `end` or later do not count.
bool fields_cover(const FieldTable *tables, int n, const uint8_t *header, int bytes, int end,
                  Error *err);

// ---- what follows it ----

// A place in a file. Only `offset` goes past its end, for an error to tell the expected size;
// pointers never do.
typedef struct {
    const MappedFile *file;
    uint64_t alignment;  // of what is taken
    uint64_t offset;     // once above INT64_MAX it stays there
} Cursor;

// The next count * item_bytes bytes, which is 2^54 at most. NULL for a count of 0. The caller
// checks the offset before it looks at them.
const void *cursor_take(Cursor *at, uint64_t count, uint64_t item_bytes);
// Takes the next bytes. False with the reason where the file ends before.
bool cursor_take_now(Cursor *at, uint64_t bytes, const uint8_t **taken, Error *err);
