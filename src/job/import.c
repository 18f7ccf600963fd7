// Imports a model of another program when it is first named: model_export.py, which lies beside the
// program, writes it into a folder of the cache, from where it is read from then on.
//
//     CACHE/rope.c/NAME-KEY/model.bin, tokenizer.bin, notes.txt
//
// CACHE is XDG_CACHE_HOME, or else ~/.cache. Two rules keep it right with several processes at
// once:
//
// 1. KEY is a digest of the contents of all files that go into the model, which are its own and the
//    exporter's, and of the version of the program's own reading of configs. NAME is for people: a
//    copy elsewhere leads to the same folder, and a changed file to another one.
// 2. A folder is written under another name, NAME-KEY.PID.part, and renamed when it is complete. If
//    two processes write the same one, the second finds it already there. A complete folder is
//    never written again. The next import removes unfinished folders of processes that were killed.
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache.h"
#include "contents.h"
#include "job.h"

#ifndef READER  // defined by make: a checksum of the sources that read configs
#define READER ""
#endif

enum { NOT_STARTED = 127 };  // a shell's exit status for a missing program

typedef struct {
    char source[PATH_MAX];  // the source for the exporter
    char script[PATH_MAX];  // the exporter
    char key[KEY_LETTERS + 1];
    char cache[PATH_MAX], whole[PATH_MAX], part[PATH_MAX];  // folders
    char output[8192];                                        // the exporter's output, line by line
} Import;

// Writes a path, printf style. False with the reason if it is too long.
static bool put_path(char path[PATH_MAX], Error *err, const char *format, const char *a,
                     const char *b) {
    int n = snprintf(path, PATH_MAX, format, a, b);
    return (n >= 0 && n < PATH_MAX) || fail(err, "%s: a path that is too long", a);
}

// ---- places ----

// Computes the key of the present files. False on Ctrl-C.
static bool find_key(const Import *im, const char *version, char key[KEY_LETTERS + 1], Error *err) {
    char memo[PATH_MAX], reader[80];
    snprintf(reader, sizeof reader, "%s %s", version, READER);
    return put_path(memo, err, "%s%s", im->cache, "/" CACHE_MEMO) &&
           (contents_key(im->source, im->script, reader, memo, key) || fail(err, "interrupted"));
}

// The name of the source's folder or file, for use in the cache.
static void name_source(const char *source, char name[41]) {
    char place[PATH_MAX];
    size_t end = strlen(source);
    while (end > 1 && source[end - 1] == '/') end--;
    size_t start = end;
    while (start > 0 && source[start - 1] != '/') start--;
    if (source[start] == '.' && realpath(source, place)) {  // . and ..
        source = place;
        end = strlen(place);
        start = (size_t)(strrchr(place, '/') + 1 - place);
    }
    if (end > start + 5 && strncmp(source + end - 5, ".gguf", 5) == 0) end -= 5;
    snprintf(name, 41, "%.*s", (int)(end - start), source + start);
    for (char *at = name; *at; at++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *at))
            *at = '_';
}

// Fills in the key and the folders of the cache. False with the reason.
static bool find_places(Import *im, const char *version, Error *err) {
    char own[41], name[NAME_MAX + 1], process[64];
    if (!cache_find(im->cache, im->source, err) || !find_key(im, version, im->key, err))
        return false;
    name_source(im->source, own);
    if (!cache_has(im->cache, im->key, name)) snprintf(name, sizeof name, "%s-%s", own, im->key);
    snprintf(process, sizeof process, ".%ld.part", (long)getpid());
    return put_path(im->whole, err, "%s/%s", im->cache, name) &&
           put_path(im->part, err, "%s%s", im->whole, process);
}

// ---- running the exporter ----

// Reads the exporter's output until it ends. Ctrl-C also ends it.
static void listen(Import *im, int from, pid_t exporter) {
    size_t used = 0;
    for (;;) {
        char more[512];
        ssize_t n = read(from, more, sizeof more);
        if (n < 0 && errno == EINTR && interrupted) kill(exporter, SIGINT);
        if (n == 0 || (n < 0 && errno != EINTR)) break;
        for (ssize_t i = 0; i < n && used + 1 < sizeof im->output; i++)
            im->output[used++] = more[i];
    }
    im->output[used] = '\0';
}

// The last line of the exporter's output.
static const char *last_line(Import *im) {
    static const char name[] = "model_export: ";
    size_t n = strlen(im->output);
    while (n > 0 && im->output[n - 1] == '\n') im->output[--n] = '\0';
    const char *newline = strrchr(im->output, '\n');
    const char *line = newline ? newline + 1 : im->output;
    return strncmp(line, name, sizeof name - 1) == 0 ? line + sizeof name - 1 : line;
}

// Becomes the exporter, with its output in the pipe. Exit status 127: python3 does not start.
static void become_exporter(Import *im, char *out, const int ends[2]) {
    char *const command[] = {"python3", im->script, im->source, out, NULL};
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    execvp(command[0], command);
    _exit(NOT_STARTED);
}

// Runs the exporter, which writes the model into im->part. False with the reason.
static bool run_exporter(Import *im, Error *err) {
    char out[PATH_MAX];
    int ends[2], status;
    if (!put_path(out, err, "%s%s", im->part, "/model.bin")) return false;
    if (pipe(ends) != 0) return fail(err, "%s: no pipe (%s)", im->source, strerror(errno));
    pid_t exporter = fork();
    if (exporter == 0) become_exporter(im, out, ends);
    close(ends[1]);
    if (exporter > 0) listen(im, ends[0], exporter);
    close(ends[0]);
    if (exporter < 0) return fail(err, "%s: no process (%s)", im->source, strerror(errno));
    while (waitpid(exporter, &status, 0) < 0 && errno == EINTR) {
    }
    if (interrupted) return fail(err, "interrupted");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    const char *why = last_line(im);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_STARTED && !*why)
        return fail(err,
                    "%s: importing it needs python3, which is not here (--no-import says how to "
                    "do it elsewhere)",
                    im->source);
    return fail(err, "%s", *why ? why : "the exporter ended without a word");
}

// ---- its output ----

static const char source_mark[] = "{source}";  // for its path, since copies have others

// Prints a line, with each path `from` replaced by `to`.
static void print_with(FILE *out, const char *line, const char *from, const char *to) {
    const size_t n = strlen(from);
    for (const char *at = line; *at;) {
        const bool begins = at == line || strchr(" '\"(", at[-1]);
        const bool is_path =
            begins && strncmp(at, from, n) == 0 && at[n] && strchr("/:, '\")", at[n]);
        fputs(is_path ? to : (char[]){*at, '\0'}, out);
        at += is_path ? n : 1;
    }
}

// The source's path without slashes at its end, in the form that the exporter joins file names to.
static void bare_source(const Import *im, char path[PATH_MAX]) {
    snprintf(path, PATH_MAX, "%s", im->source);
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--) path[n - 1] = '\0';
}

// Stores the exporter's output next to the model, below a line with the source.
static bool keep_notes(const Import *im, Error *err) {
    char path[PATH_MAX], place[PATH_MAX], source[PATH_MAX];
    if (!put_path(path, err, "%s%s", im->part, "/notes.txt")) return false;
    bare_source(im, source);
    FILE *notes = fopen(path, "w");
    if (notes) fprintf(notes, CACHE_SOURCE "%s\n", realpath(im->source, place) ? place : source);
    if (notes) print_with(notes, im->output, source, source_mark);
    bool good = notes && !ferror(notes);
    good = notes && fclose(notes) == 0 && good;
    return good || fail(err, "%s: cannot be written (%s)", path, strerror(errno));
}

// Prints the exporter's warnings, each time that the model is used.
static void print_warnings(const Import *im) {
    static const char name[] = "model_export: warning: ";
    char path[PATH_MAX + 16], line[1024], source[PATH_MAX];
    snprintf(path, sizeof path, "%s/notes.txt", im->whole);
    bare_source(im, source);
    FILE *notes = fopen(path, "r");
    while (notes && fgets(line, sizeof line, notes)) {
        if (strncmp(line, name, sizeof name - 1) != 0) continue;
        fputs("run: ", stderr);
        print_with(stderr, line + strlen("model_export: "), source_mark, source);
    }
    if (notes) fclose(notes);
}

// ---- an import ----

// Writes im->whole. False with the reason, and no part of it is left.
static bool bring_in(Import *im, const char *version, Error *err) {
    double start = now_seconds();
    char key[KEY_LETTERS + 1];
    cache_remove_parts(im->cache);
    const int lock = cache_make_part(im->part, err);
    if (lock < 0) return false;
    bool good = run_exporter(im, err) && keep_notes(im, err) && find_key(im, version, key, err);
    if (good && strcmp(key, im->key) != 0)
        good = fail(err, "%s: changed while it was imported", im->source);
    if (good && rename(im->part, im->whole) != 0 && access(im->whole, F_OK) != 0)
        good = fail(err, "%s: cannot be written (%s)", im->whole, strerror(errno));
    cache_remove(im->part);
    close(lock);
    if (good)
        fprintf(stderr, "run: imported %s in %.1f s, to %s (--cache=empty empties this cache)\n",
                im->source, now_seconds() - start, im->whole);
    return good;
}

bool import_model(const char *path, const char *version, char *place, size_t size, Error *err) {
    Import *im = alloc_array(1, sizeof *im, "a model that is imported", err);
    if (!im) return false;
    snprintf(place, size, "%s", path);
    bool good = true;
    if (foreign_source(path, im->source, sizeof im->source) &&
        exporter_script(im->script, sizeof im->script)) {
        contents_take_first_part(im->source);
        good = find_places(im, version, err) &&
               (access(im->whole, F_OK) == 0 || bring_in(im, version, err));
        if (good) print_warnings(im);
        snprintf(place, size, "%s/model.bin", im->whole);
    }
    free(im);
    return good;
}
