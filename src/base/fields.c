// Reads and writes headers according to tables of their fields, and takes the data after them.
#include "fields.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "model files are little-endian and used in place");

// The version of the format that a value of a field needs; 0: any.
static int needed_for(const Field *f, double x) {
    if (f->version_6 && x >= f->version_6) return 6;
    return f->version_5 && x >= f->version_5 ? 5 : 0;
}

bool fields_read(const FieldTable *tables, int n, const uint8_t *header, int version, Error *err) {
    for (const FieldTable *t = tables; t < tables + n; t++) {
        for (const Field *f = t->fields; f < t->fields + t->n; f++) {
            uint8_t *place = (uint8_t *)t->to + f->place;
            if (f->type == I32X8) {
                memcpy(place, header + f->offset, f->bytes);
                continue;
            }
            int32_t whole;
            double x;
            memcpy(&whole, header + f->offset, sizeof whole);
            const int64_t wide = whole;  // little-endian: it begins with the bytes of `whole`
            if (f->type == F64) memcpy(&x, header + f->offset, sizeof x);
            else x = whole;
            const bool is_within = x >= f->low && x <= f->high;
            if (!is_within && f->high == ANY)
                return fail(err, "%s is %g (expected a number, or 0 for none)", f->name, x);
            if (!is_within)
                return fail(err, "%s is %.10g (expected %.10g to %.10g)", f->name, x, f->low,
                            f->high);
            if (version < needed_for(f, x))
                return fail(err, "%s is %.0f in version %d (expected version %d)", f->name, x,
                            version, needed_for(f, x));
            memcpy(place, f->type == F64 ? (const void *)&x : &wide, f->bytes);
        }
    }
    return true;
}

// The value of a field in a struct.
static double value_in(const Field *f, const void *to) {
    const uint8_t *place = (const uint8_t *)to + f->place;
    int whole = 0;
    double x;
    if (f->type == F64) {
        memcpy(&x, place, sizeof x);
        return x;
    }
    memcpy(&whole, place, f->bytes < sizeof whole ? f->bytes : sizeof whole);
    return whole;
}

double fields_value(const FieldTable *tables, int n, const char *name) {
    for (const FieldTable *t = tables; t < tables + n; t++)
        for (const Field *f = t->fields; t->to && f < t->fields + t->n; f++)
            if (strcmp(f->name, name) == 0) return value_in(f, t->to);
    return 0;
}

int fields_write(const FieldTable *tables, int n, uint8_t *header) {
    int version = 3;
    for (const FieldTable *t = tables; t < tables + n; t++)
        for (const Field *f = t->fields; t->to && f < t->fields + t->n; f++) {
            const uint8_t *place = (const uint8_t *)t->to + f->place;
            int needed = needed_for(f, value_in(f, t->to));
            memcpy(header + f->offset, place, f->bytes < f->type ? f->bytes : f->type);
            if (needed > version) version = needed;
        }
    return version;
}

bool fields_cover(const FieldTable *tables, int n, const uint8_t *header, int bytes, int end,
                  Error *err) {
    for (int i = 0; i < bytes; i++) {
        bool covered = header[i] == 0;
        for (const FieldTable *t = tables; !covered && t < tables + n; t++)
            for (const Field *f = t->fields; !covered && f < t->fields + t->n; f++)
                covered = (int)f->offset < end && i >= (int)f->offset &&
                          i < (int)f->offset + (int)f->type;
        if (!covered) return fail(err, "reserved byte %d is not 0 (docs/header.tsv has the fields)", i);
    }
    return true;
}

const void *cursor_take(Cursor *at, uint64_t count, uint64_t item_bytes) {
    uint64_t filled = at->offset + at->alignment - 1;
    uint64_t here = filled / at->alignment * at->alignment;
    if (here <= INT64_MAX) at->offset = here + count * item_bytes;
    if (count == 0) return NULL;
    if (here > at->file->size) here = at->file->size;
    return at->file->data + here;
}

bool cursor_take_now(Cursor *at, uint64_t bytes, const uint8_t **taken, Error *err) {
    *taken = cursor_take(at, bytes, 1);
    return at->offset <= at->file->size ||
           fail(err, "truncated (%zu bytes found, the header has %zu)", at->file->size,
                (size_t)at->offset);
}
