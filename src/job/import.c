// Models of other programs are brought in where they are named: model_export.py, which lies beside the
// program, writes them into a folder of the cache, and there they are read from then on.
//
//     CACHE/rope.c/NAME-KEY/model.bin, tokenizer.bin, notes.txt
//
// CACHE is XDG_CACHE_HOME, or else ~/.cache. Two rules keep it right with several processes at once:
//
// 1. KEY is a hash of the names, sizes and times of all files that go into the model: its own and the
//    exporter's, and of the program's version. A file that changed leads to another folder.
// 2. A folder is written under another name, NAME-KEY.PID.part, and renamed when it is whole. Of two
//    that write the same one, the second finds it there. Nothing is ever written into it again.
#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job.h"

enum { NOT_STARTED = 127 };  // a shell's exit status for a program that is not there

typedef struct {
    char source[PATH_MAX];                                  // what the exporter is given
    char script[PATH_MAX];                                  // the exporter
    char cache[PATH_MAX], whole[PATH_MAX], part[PATH_MAX];  // folders
    char said[8192];                                        // by the exporter, line by line
} Import;

// Writes printf style into a path. False with the reason when it does not fit.
static bool put_path(char path[PATH_MAX], Error *err, const char *format, const char *a,
                     const char *b) {
    int n = snprintf(path, PATH_MAX, format, a, b);
    return (n >= 0 && n < PATH_MAX) || fail(err, "%s: a path that is too long", a);
}

// ---- the key ----

// FNV-1a of a string, from the hash of what was before it.
static uint64_t hash_text(uint64_t hash, const char *text) {
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return (hash ^ 0xFF) * 1099511628211u;
}

// The hash of a file's name, size and time; 0 for what is no file.
static uint64_t hash_file(const char *folder, const char *name) {
    char path[PATH_MAX], facts[80];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return 0;
    snprintf(facts, sizeof facts, "%jd %jd %ld", (intmax_t)info.st_size,
             (intmax_t)info.st_mtim.tv_sec, (long)info.st_mtim.tv_nsec);
    uint64_t hash = hash_text(hash_text(14695981039346656037u, name), facts);
    return next_random(&hash);  // scrambled, as these are added up
}

// Whether two names are those of parts of one GGUF file, NAME-00001-of-00003.gguf and on, or equal.
static bool is_part_of(const char *name, const char *other) {
    static const char form[] = "-00001-of-00003.gguf";
    const size_t n = strlen(name);
    const size_t end = sizeof form - 1;
    if (strcmp(name, other) == 0) return true;
    if (n != strlen(other) || n <= end || strncmp(name + n - 14, "-of-", 4) != 0) return false;
    return memcmp(name, other, n - 19) == 0 && strcmp(name + n - 14, other + n - 14) == 0;
}

// Names the first part of a GGUF file in place of another, so that all lead to one folder.
static void take_first_part(char *path) {
    static const char form[] = "00002-of-00003.gguf";
    char first[PATH_MAX];
    const size_t n = strlen(path);
    if (n < sizeof form) return;
    snprintf(first, sizeof first, "%s", path);
    memcpy(first + n - (sizeof form - 1), "00001", 5);
    if (is_part_of(path, first) && access(first, F_OK) == 0) snprintf(path, PATH_MAX, "%s", first);
}

// Whether files of a checkpoint, or of the exporter, end so.
static bool is_checkpoint_file(const char *name) {
    static const char *const endings[] = {".json", ".safetensors", ".bin",   ".pth",
                                          ".pt",   ".model",       ".jinja", ".py"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (strcmp(dot, endings[i]) == 0) return true;
    return false;
}

// The sum of the hashes of the files in a folder, which no order changes: of all that are read, or of
// `file` and the parts beside it.
static uint64_t hash_folder(const char *folder, const char *file) {
    uint64_t sum = 0;
    DIR *all = opendir(folder);
    for (struct dirent *entry; all && (entry = readdir(all));)
        if (file ? is_part_of(file, entry->d_name) : is_checkpoint_file(entry->d_name))
            sum += hash_file(folder, entry->d_name);
    if (all) closedir(all);
    return sum;
}

// The key of what is there now.
static uint64_t key_of(const Import *im, const char *version) {
    static const char *const rooms[] = {"export", "export/kinds"};
    char place[PATH_MAX], room[PATH_MAX + 16];
    uint64_t key = hash_text(14695981039346656037u, version);
    if (!realpath(im->source, place)) return key;  // it is gone, and the exporter will say so
    key = hash_text(key, place);
    struct stat info;
    char *slash = strrchr(place, '/');
    if (stat(place, &info) == 0 && S_ISDIR(info.st_mode)) {
        key += hash_folder(place, NULL);
    } else {
        *slash = '\0';
        key += hash_folder(slash > place ? place : "/", slash + 1);
    }
    if (!realpath(im->script, place)) return key;
    slash = strrchr(place, '/');
    *slash = '\0';
    key += hash_file(place, slash + 1);
    for (int i = 0; i < 2; i++) {
        snprintf(room, sizeof room, "%s/%s", place, rooms[i]);
        key += hash_folder(room, NULL) * (uint64_t)(2 * i + 3);
    }
    return key;
}

// ---- places ----

// Makes a folder and those above it. False with the reason.
static bool make_folders(const char *path, Error *err) {
    char up_to[PATH_MAX];
    snprintf(up_to, sizeof up_to, "%s", path);
    for (char *at = up_to + 1;; at++) {
        char here = *at;
        if (here && here != '/') continue;
        *at = '\0';
        if (mkdir(up_to, 0700) != 0 && errno != EEXIST)
            return fail(err,
                        "%s: cannot be made (%s; XDG_CACHE_HOME names another place, and "
                        "--no-import says how to do without)",
                        up_to, strerror(errno));
        *at = here;
        if (!here) return true;
    }
}

// Fills in the folders of the cache. False with the reason.
static bool find_places(Import *im, const char *version, Error *err) {
    const char *given = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    char name[64], process[64];
    bool is_given = given && given[0] == '/';  // relative ones do not count, by its specification
    if (!is_given && (!home || home[0] != '/'))
        return fail(err,
                    "%s: no place to bring it in to: neither XDG_CACHE_HOME nor HOME is set "
                    "(--no-import says how to do it by hand)",
                    im->source);
    if (!put_path(im->cache, err, "%s%s", is_given ? given : home,
                  is_given ? "/rope.c" : "/.cache/rope.c"))
        return false;
    size_t end = strlen(im->source);
    while (end > 1 && im->source[end - 1] == '/') end--;
    size_t start = end;
    while (start > 0 && im->source[start - 1] != '/') start--;
    if (end > start + 5 && strncmp(im->source + end - 5, ".gguf", 5) == 0) end -= 5;
    int n = (int)(end - start < 40 ? end - start : 40);
    snprintf(name, sizeof name, "/%.*s-%016" PRIx64, n, im->source + start, key_of(im, version));
    for (char *at = name + 1; *at; at++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *at))
            *at = '_';
    snprintf(process, sizeof process, ".%ld.part", (long)getpid());
    return put_path(im->whole, err, "%s%s", im->cache, name) &&
           put_path(im->part, err, "%s%s", im->whole, process);
}

// Removes a folder with the files in it.
static void remove_folder(const char *path) {
    char file[PATH_MAX + NAME_MAX + 2];
    DIR *all = opendir(path);
    for (struct dirent *entry; all && (entry = readdir(all));) {
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        unlink(file);
    }
    if (all) closedir(all);
    rmdir(path);
}

// ---- the exporter ----

// Reads what the exporter says until it ends. Ctrl-C ends it, too.
static void listen(Import *im, int from, pid_t exporter) {
    size_t used = 0;
    for (;;) {
        char more[512];
        ssize_t n = read(from, more, sizeof more);
        if (n < 0 && errno == EINTR && interrupted) kill(exporter, SIGINT);
        if (n == 0 || (n < 0 && errno != EINTR)) break;
        for (ssize_t i = 0; i < n && used + 1 < sizeof im->said; i++) im->said[used++] = more[i];
    }
    im->said[used] = '\0';
}

// The last line that the exporter said.
static const char *last_line(Import *im) {
    static const char name[] = "model_export: ";
    size_t n = strlen(im->said);
    while (n > 0 && im->said[n - 1] == '\n') im->said[--n] = '\0';
    const char *newline = strrchr(im->said, '\n');
    const char *line = newline ? newline + 1 : im->said;
    return strncmp(line, name, sizeof name - 1) == 0 ? line + sizeof name - 1 : line;
}

// Becomes the exporter, whose words go into the pipe. Exit status 127: python3 does not start.
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

// Has the exporter write the model into im->part. False with the reason.
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
                    "%s: bringing it in takes python3, which is not here (--no-import says how to "
                    "do it elsewhere)",
                    im->source);
    return fail(err, "%s", *why ? why : "the exporter ended without a word");
}

// Keeps what the exporter said beside the model.
static bool keep_notes(const Import *im, Error *err) {
    char path[PATH_MAX];
    if (!put_path(path, err, "%s%s", im->part, "/notes.txt")) return false;
    FILE *notes = fopen(path, "w");
    bool good = notes && fputs(im->said, notes) >= 0;
    good = notes && fclose(notes) == 0 && good;
    return good || fail(err, "%s: cannot be written (%s)", path, strerror(errno));
}

// Prints the exporter's warnings, each time that the model is used.
static void print_warnings(const Import *im) {
    static const char name[] = "model_export: warning: ";
    char path[PATH_MAX + 16], line[1024];
    snprintf(path, sizeof path, "%s/notes.txt", im->whole);
    FILE *notes = fopen(path, "r");
    while (notes && fgets(line, sizeof line, notes))
        if (strncmp(line, name, sizeof name - 1) == 0)
            fprintf(stderr, "run: %s", line + strlen("model_export: "));
    if (notes) fclose(notes);
}

// ---- all of it ----

// Writes im->whole. False with the reason, and then nothing of it is left.
static bool bring_in(Import *im, const char *version, Error *err) {
    double start = now_seconds();
    uint64_t key = key_of(im, version);
    if (!make_folders(im->part, err)) return false;
    bool good = run_exporter(im, err) && keep_notes(im, err);
    if (good && key_of(im, version) != key)
        good = fail(err, "%s: changed while it was brought in", im->source);
    if (good && rename(im->part, im->whole) != 0 && access(im->whole, F_OK) != 0)
        good = fail(err, "%s: cannot be written (%s)", im->whole, strerror(errno));
    remove_folder(im->part);
    if (good)
        fprintf(stderr, "run: brought in %s in %.1f s, to %s (rm -r %s empties this cache)\n",
                im->source, now_seconds() - start, im->whole, im->cache);
    return good;
}

bool import_model(const char *path, const char *version, char *place, size_t size, Error *err) {
    Import *im = alloc_array(1, sizeof *im, "a model that is brought in", err);
    if (!im) return false;
    snprintf(place, size, "%s", path);
    bool good = true;
    if (foreign_source(path, im->source, sizeof im->source) &&
        exporter_script(im->script, sizeof im->script)) {
        take_first_part(im->source);
        good = find_places(im, version, err) &&
               (access(im->whole, F_OK) == 0 || bring_in(im, version, err));
        if (good) print_warnings(im);
        snprintf(place, size, "%s/model.bin", im->whole);
    }
    free(im);
    return good;
}
