// The header of a binary file as a table of its fields, and the data that follows it in the file.
// Numbers are little-endian.
#pragma once

#include <float.h>

#include "util.h"

// The type of a field; its value is the number of bytes in the file. I32X8 is a list, whose numbers
// are not checked here.
typedef enum { U32 = 4, I32 = 4, F64 = 8, I32X8 = 32 } FieldType;

#define ANY DBL_MAX  // a value of `high`: no limit

typedef struct {
    const char *name;
    size_t offset;  // in the file
    FieldType type;
    double low, high;          // the range of its values, both ends included
    size_t place, bytes;       // its place in a struct
    int version_5, version_6;  // the smallest values that need this version of the format; 0: none
} Field;

// A table of fields, and the struct that has their values. NULL: all fields are 0.
typedef struct {
    const Field *fields;
    int n;
    void *to;
} FieldTable;

// Reads the fields of n tables from the header of a file of that version into their structs. False
// with the reason if a value is out of range, or needs a later version.
bool fields_read(const FieldTable *tables, int n, const uint8_t *header, int version, Error *err);
// Writes the fields into a header. Returns the version that their values need, at least 3.
int fields_write(const FieldTable *tables, int n, uint8_t *header);
// The value of the field of that name; 0 if there is no such field.
double fields_value(const FieldTable *tables, int n, const char *name);
// Checks that all bytes of the header that belong to no field are 0. Fields that begin at `end` or
// later do not count as fields. False with the reason.
bool fields_cover(const FieldTable *tables, int n, const uint8_t *header, int bytes, int end,
                  Error *err);

// ---- the data after the header ----

// A position in a file. Only `offset` can go past its end, so that the error can name the expected
// size; pointers never do.
typedef struct {
    const MappedFile *file;
    uint64_t alignment;  // of each piece that is taken
    uint64_t offset;     // once above INT64_MAX it stays there
} Cursor;

// Takes the next count * item_bytes bytes, which are at most 2^54. Returns their address; NULL for
// a count of 0. The caller checks the offset before it uses them.
const void *cursor_take(Cursor *at, uint64_t count, uint64_t item_bytes);
// Takes the next bytes at once. False with the reason if the file is too short.
bool cursor_take_now(Cursor *at, uint64_t bytes, const uint8_t **taken, Error *err);
