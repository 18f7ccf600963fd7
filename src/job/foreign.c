// Recognizes models of other programs by their first bytes, or by the files in their folder.
#define _POSIX_C_SOURCE 200809L
#include "job.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../tokens/unicode.h"
#include "contents.h"

const char *exporter_command(char *path, size_t size) {
    static const char ending[] = "-export";
    ssize_t length = readlink("/proc/self/exe", path, size - sizeof ending);
    if (length > 0) {
        memcpy(path + length, ending, sizeof ending);
        if (access(path, X_OK) == 0) return strrchr(path, '/') + 1;
    }
    return "python3 model_export.py";
}

bool exporter_script(char *path, size_t size) {
    static const char ending[] = "-export";
    static const char name[] = "model_export.py";
    ssize_t n = readlink("/proc/self/exe", path, size - sizeof name);
    if (n <= 0) n = snprintf(path, size, "./run");
    memcpy(path + n, ending, sizeof ending);
    if (access(path, X_OK) == 0) return true;
    path[n] = '\0';
    memcpy(strrchr(path, '/') + 1, name, sizeof name);
    return access(path, R_OK) == 0;
}

bool installed_file(const char *name, char *place, size_t size) {
    static const char *const names[] = {"model.bin", "tokenizer.bin", "book.txt"};
    static const char ending[] = "-export";
    char own[PATH_MAX], link[PATH_MAX];
    bool is_one = false;
    for (int i = 0; i < 3; i++) is_one = is_one || strcmp(name, names[i]) == 0;
    if (!is_one || access(name, F_OK) == 0) return false;
    // The installed exporter, beside the program, is a link into that folder.
    ssize_t n = readlink("/proc/self/exe", own, sizeof own - sizeof ending);
    if (n <= 0) return false;
    memcpy(own + n, ending, sizeof ending);
    ssize_t length = readlink(own, link, sizeof link - 1);
    if (length <= 0) return false;
    link[length] = '\0';
    *strrchr(own, '/') = '\0';
    char *slash = strrchr(link, '/');
    if (slash) *slash = '\0';
    const bool is_whole = link[0] == '/';
    int wanted = snprintf(place, size, "%s%s%s/%s", is_whole ? "" : own, is_whole ? "" : "/",
                          slash ? link : ".", name);
    if (wanted >= (int)size || access(place, R_OK) != 0) return false;
    fprintf(stderr, "run: %s: there is none here, so the installed one is read: %s\n", name, place);
    return true;
}

// The quote that a path needs around it in a command, or "".
static const char *quote(const char *path) {
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+=,:@%";
    return !path[strspn(path, plain)] ? "" : strchr(path, '\'') ? "\"" : "'";
}

// Where the source for the exporter is stored, NULL: nowhere.
typedef struct {
    char *path;
    size_t size;
} Source;

// Fails with the kind of file that the path is, and the command that makes NAME.bin from a source
// called NAME, a folder or a GGUF file, which is stored in `note`.
static bool refuse(const char *path, const char *what, const char *source, Source *note,
                   Error *err) {
    char place[PATH_MAX], program[PATH_MAX];
    if (note) snprintf(note->path, note->size, "%s", source);
    snprintf(place, sizeof place, "%s", source);
    for (char *end = place + strlen(place); end > place && strchr("/.", end[-1]); end--)
        end[-1] = '\0';
    char *slash = strrchr(place, '/');
    char *name = slash ? slash + 1 : place;
    char *dot = strrchr(name, '.');
    if (dot && strcmp(dot, ".gguf") == 0) *dot = '\0';
    if (!*name) name = "model";
    const char *q = quote(source);
    char out[PATH_MAX + 16];
    snprintf(out, sizeof out, "%s.bin", name);
    if (access(out, F_OK) == 0)
        snprintf(out, sizeof out, "%s-new.bin", name);  // the given file is not replaced
    return fail(err, "%s: %s (to import it: %s %s%s%s %s%s%s)", path, what,
                exporter_command(program, sizeof program), q, source, q, q, out, q);
}

// Whether a name is that of a later part, such as NAME-00002-of-00003.gguf.
static bool is_later_part(const char *name) {
    static const char after[] = "-of-00003.gguf";
    size_t n = strlen(name);
    const char *at = name + n - (sizeof after - 1);
    return n > sizeof after + 5 && strncmp(at, "-of-", 4) == 0 && strncmp(at - 5, "00001", 5) != 0;
}

static bool refuse_folder(const char *path, DIR *folder, Source *note, Error *err) {
    char gguf[NAME_MAX + 1] = "";
    char first[PATH_MAX];
    int n_gguf = 0;  // without later parts
    bool has_config = false;
    bool has_params = false;
    bool has_weights = false;
    bool has_adapter = false;
    for (struct dirent *entry; (entry = readdir(folder));) {
        const char *name = entry->d_name;
        const char *dot = strrchr(name, '.');
        const char *end = dot ? dot : "";
        has_adapter = has_adapter || strncmp(name, "adapter_", 8) == 0;
        has_config = has_config || strcmp(name, "config.json") == 0;
        has_params = has_params || strcmp(name, "params.json") == 0 ||
                     strncmp(name, "consolidated.", 13) == 0;
        has_weights = has_weights || strcmp(end, ".safetensors") == 0 || strcmp(end, ".bin") == 0 ||
                      strcmp(end, ".pth") == 0;
        if (strcmp(end, ".gguf") == 0 && !is_later_part(name)) n_gguf++;
        if (strcmp(end, ".gguf") == 0 && (!*gguf || strcmp(name, gguf) < 0))
            snprintf(gguf, sizeof gguf, "%s", name);
    }
    snprintf(first, sizeof first, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", gguf);
    if (n_gguf > 1 && !(has_config && has_weights))
        return fail(err, "%s: a folder with %d GGUF files in it (name one of them, such as %s)",
                    path, n_gguf, first);
    if (*gguf && !(has_config && has_weights))
        return refuse(path, "a folder with a GGUF file in it", first, note, err);
    if (has_config) return refuse(path, "a checkpoint's folder", path, note, err);
    if (has_adapter)
        return fail(err, "%s: a folder with an adapter (LoRA): merge it into its base model", path);
    return fail(err,
                has_params
                    ? "%s: a checkpoint in Meta's or Mistral's own form, which version 5.0 "
                      "dropped (expected Hugging Face's, with a config.json)"
                    : "%s: a folder without a checkpoint (expected config.json or a GGUF file "
                      "in it)",
                path);
}

// The kind of a file according to its first bytes; NULL: it is not foreign. llama2.c's version 0
// begins with two numbers from 1 to 2^20.
static const char *kind_of(const uint8_t start[16]) {
    if (memcmp(start, "GGUF", 4) == 0) return "a GGUF file";
    if (memcmp(start, "PK\3\4", 4) == 0) return "a checkpoint's weights as PyTorch's zip";
    if (start[0] == 0x80 && start[1] < 6 && start[3])
        return "a checkpoint's weights as PyTorch's pickle";
    if (memcmp(start + 4, "\0\0\0", 4) == 0 && start[8] == '{')
        return "a checkpoint's weights as safetensors";
    return memcmp(start, "version https://", 16) == 0 ? "a Git LFS pointer, not the file itself"
                                                      : NULL;
}

// Whether a file begins like a text. Model files do not: even version 0 has zeros in its first 16
// bytes.
static bool is_text(const char start[16]) {
    size_t width;
    for (size_t at = 0; at < 13; at += width) {
        uint32_t code = utf8_decode(start + at, 16 - at, &width);
        bool is_space = code < 128 && isspace((int)code);
        if ((code == REPLACEMENT && width == 1) || (code < ' ' && !is_space)) return false;
    }
    return true;
}

static bool refuse_text(const char *path, const char *text, const char *place, Error *err) {
    const char *q = quote(path);
    const char *in = quote(place);
    char program[PATH_MAX];
    if (text[strspn(text, " \t\r\n")] == '{')
        return fail(
            err,
            "%s: JSON, not a model file (to see its settings: --explain --rope-config %s%s%s; "
            "to import its checkpoint: %s %s%s%s NAME.bin)",
            path, q, path, q, exporter_command(program, sizeof program), in, place, in);
    return fail(err, "%s: a text, not a model file (to measure it: model.bin --ppl %s%s%s)", path,
                q, path, q);
}

// False with the reason if the path is a folder, a pipe or a device, rather than a file that can be
// mapped.
static bool check_is_file(const char *path, Source *note, Error *err) {
    struct stat info;
    if (stat(path, &info) != 0 || S_ISREG(info.st_mode)) return true;
    DIR *folder = opendir(path);
    if (folder) {
        refuse_folder(path, folder, note, err);
        closedir(folder);
        return false;
    }
    const char *what = S_ISFIFO(info.st_mode) ? "a pipe" : "a device";
    return S_ISDIR(info.st_mode) || fail(err, "%s: not a regular file (found %s)", path, what);
}

static bool has_config_json(const char *folder) {
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/config.json", folder);
    return access(path, F_OK) == 0;
}

// False if the path is a folder or another program's file; the reason names its kind and the
// command to type. Otherwise true, and *err is unchanged, even if there is no file.
static bool check_native(const char *path, Source *note, Error *err) {
    if (!check_is_file(path, note, err)) return false;
    Error none;
    MappedFile file;
    char start[17] = "";
    if (!map_file(path, &file, &none)) return true;
    bool is_whole = file.size >= 16;
    if (is_whole) memcpy(start, file.data, 16);
    unmap_file(&file);
    const char *kind = is_whole ? kind_of((const uint8_t *)start) : NULL;
    const char *slash = strrchr(path, '/');
    bool text = is_whole && !kind && is_text(start);
    if (!kind && !text) return true;
    char place[PATH_MAX] = ".";
    if (slash) snprintf(place, sizeof place, "%.*s", slash > path ? (int)(slash - path) : 1, path);
    if (text) return refuse_text(path, start, place, err);
    if (memcmp(start, "GGUF", 4) == 0) return refuse(path, kind, path, note, err);
    if (memcmp(start, "version", 7) != 0)
        return refuse(path, kind, place, has_config_json(place) ? note : NULL, err);
    const char *q = quote(place);
    return fail(err, "%s: %s (to fetch that: git -C %s%s%s lfs pull)", path, kind, q, place, q);
}

bool foreign_source(const char *path, char *source, size_t size) {
    Error none;
    Source note = {source, size};
    source[0] = '\0';
    return !check_native(path, &note, &none) && source[0];
}

bool gguf_source(const char *path, char *source, size_t size) {
    char magic[4] = "";
    if (!foreign_source(path, source, size)) return false;
    contents_take_first_part(source);
    FILE *in = fopen(source, "rb");
    const bool is_read = in && fread(magic, 1, sizeof magic, in) == sizeof magic;
    if (in) fclose(in);
    return is_read && memcmp(magic, "GGUF", 4) == 0;
}

bool open_model(const char *path, Model *model, Error *err) {
    return check_native(path, NULL, err) && model_open(path, &kinds, model, err);
}
