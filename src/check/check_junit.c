// The verdicts of --check as JUnit's XML, which build servers show: a case for each length.
#include <stdio.h>

#include "check_rows.h"

static void put_escaped(FILE *file, const char *text) {
    for (; *text; text++) {
        const unsigned char ch = (unsigned char)*text;
        if (ch == '&') fputs("&amp;", file);
        else if (ch == '<') fputs("&lt;", file);
        else if (ch == '>') fputs("&gt;", file);
        else if (ch == '"') fputs("&quot;", file);
        else fputc(ch < ' ' ? '?' : ch, file);
    }
}

static void put_case(FILE *file, const char *model, int length, const Conclusion *conclusion) {
    static const char *const elements[] = {[NO] = "failure", [UNDECIDED] = "skipped"};
    fputs("  <testcase classname=\"", file);
    put_escaped(file, model);
    fprintf(file, "\" name=\"--check -n %d\">", length);
    if (conclusion->answer == YES) {
        fputs("<system-out>", file);
        put_escaped(file, conclusion->words);
        fputs("</system-out>", file);
    } else {
        fprintf(file, "<%s type=\"%s\" message=\"", elements[conclusion->answer], conclusion->code);
        put_escaped(file, conclusion->words);
        fputs("\"/>", file);
    }
    fputs("</testcase>\n", file);
}

bool write_junit(const char *path, const char *model, const Check *c,
                 const Conclusion *conclusions, const int *lengths, int n, Error *err) {
    int n_no = 0;
    int n_open = 0;
    FILE *file = fopen(path, "w");
    if (!file) return fail(err, "%s: cannot write", path);
    for (int i = 0; i < n; i++) {
        n_no += conclusions[i].answer == NO;
        n_open += conclusions[i].answer == UNDECIDED;
    }
    fprintf(file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<testsuite name=\"rope.c --check\" tests=\"%d\" failures=\"%d\" skipped=\"%d\" "
            "time=\"%.1f\">\n",
            n, n_no, n_open, spent(c));
    if (!model) model = "settings";
    for (int i = 0; i < n; i++) put_case(file, model, lengths[i], &conclusions[i]);
    fputs("</testsuite>\n", file);
    const bool ok = !ferror(file);
    return (!fclose(file) && ok) || fail(err, "%s: cannot write", path);
}
