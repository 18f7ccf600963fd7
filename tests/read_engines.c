// Reads many configs as lists of engines do, in one process.  read_engines FILE  of texts with a NUL
// behind each: a list of engines, a length, and a config, between newlines. Prints a line for each
// reading, with tabs: the engine, the kind of its layers, the verdict, the longest text, the note, the
// attention factor, and the frequencies; and a line `end`, or the reason.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/engines/engines.h"
#include "src/job/text_io.h"

static void put_reading(const Reading *r, int length) {
    const bool is_read = r->verdict < VERDICT_REFUSED && !r->is_odd;
    printf("%s\t%s\t%s\t%d\t%s", r->engine, r->by_layer && r->kind ? "sliding" : "full",
           verdict_names[r->verdict], r->max_len, r->note);
    if (is_read) {
        RopeFreqs f;
        rope_frequencies(&r->rope, length, &f);
        printf("\t%.9g", f.attention_factor);
        for (int i = 0; i < f.n_pairs; i++) printf("%c%.9g", i ? ' ' : '\t', f.inv_freq[i]);
    }
    putchar('\n');
}

int main(int argc, char **argv) {
    size_t size;
    Error err;
    char *texts = argc == 2 ? read_file(argv[1], 1 << 28, &size, &err) : NULL;
    if (!texts) return 2;
    for (char *list = texts; list < texts + size;) {
        char *number = strchr(list, '\n'), *config = number ? strchr(number + 1, '\n') : NULL;
        if (!config) return 2;
        *number = *config = '\0';
        const int length = (int)strtol(number + 1, NULL, 10);
        Readings *readings = engines_read(list, config + 1, length, NULL, &err);
        for (int i = 0; readings && i < readings->n; i++)
            if (readings->of[i].has_rope || readings->of[i].verdict >= VERDICT_REFUSED)
                put_reading(&readings->of[i], length);
        puts(readings ? "end" : err.text);
        free(readings);
        list = config + 1 + strlen(config + 1) + 1;
    }
    free(texts);
    return 0;
}
