// Haystacks of tasks: the filler of Mohtashami and Jaggi (arXiv 2305.16300), or a text of the
// user's.
#define _POSIX_C_SOURCE 200809L
#include "haystack.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../job/text_io.h"

enum {
    FILLER_BYTES = 24,  // a sentence of the filler takes less
    UNIT_BYTES = 40,    // a piece of the user's text ends behind the first word past so many
};
static const char *const filler[] = {" The grass is green.", " The sky is blue.",
                                     " The sun is yellow.", " Here we go.",
                                     " There and back again."};
enum { N_FILLER = sizeof filler / sizeof filler[0] };

static bool make_filler(Haystack *hay, int length, Error *err) {
    hay->text = alloc_array((size_t)length, FILLER_BYTES, "filler", err);
    hay->starts =
        hay->text ? alloc_array((size_t)length + 1, sizeof *hay->starts, "a haystack", err) : NULL;
    char *end = hay->text;
    while (hay->starts && hay->n_pieces < length) {
        end = stpcpy(end, filler[hay->n_pieces % N_FILLER]);
        hay->starts[++hay->n_pieces] = (size_t)(end - hay->text);
    }
    return hay->starts;
}

bool haystack_make(Haystack *hay, const char *path, int length, Error *err) {
    size_t size;
    size_t at = 0;
    *hay = (Haystack){.text = NULL};
    if (!path) return make_filler(hay, length, err);
    hay->text = read_text(path, &size, err);
    if (!hay->text || !check_text(path, hay->text, size, err)) return false;
    hay->starts = alloc_array(size / UNIT_BYTES + 2, sizeof *hay->starts, "a haystack", err);
    while (hay->starts && at < size) {
        at = at + UNIT_BYTES < size ? at + UNIT_BYTES : size;
        while (at < size && !isspace((unsigned char)hay->text[at])) at++;
        hay->starts[++hay->n_pieces] = at;
    }
    return hay->starts;
}

void haystack_free(Haystack *hay) {
    free(hay->text);
    free(hay->starts);
}
