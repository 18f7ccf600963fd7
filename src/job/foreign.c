// Recognizes models of other programs by their first bytes, or by what lies in their folder.
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

const char *exporter_command(char *path, size_t size) {
    static const char ending[] = "-export";
    ssize_t length = readlink("/proc/self/exe", path, size - sizeof ending);
    if (length > 0) {
        memcpy(path + length, ending, sizeof ending);
        if (access(path, X_OK) == 0) return strrchr(path, '/') + 1;
    }
    return "python3 model_export.py";
}

// The quote that a path needs on both sides in a command, if any.
static const char *quote(const char *path) {
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+=,:@%";
    return !path[strspn(path, plain)] ? "" : strchr(path, '\'') ? "\"" : "'";
}

// Fails with what the path is, and the command that makes NAME.bin of a source called NAME, a
// folder or a GGUF file.
static bool refuse(const char *path, const char *what, const char *source, Error *err) {
    char place[PATH_MAX], program[PATH_MAX];
    snprintf(place, sizeof place, "%s", source);
    for (char *end = place + strlen(place); end > place && strchr("/.", end[-1]); end--)
        end[-1] = '\0';
    char *slash = strrchr(place, '/');
    char *name = slash ? slash + 1 : place;
    char *dot = strrchr(name, '.');
    if (dot && strcmp(dot, ".gguf") == 0) *dot = '\0';
    const char *q = quote(source);
    return fail(err, "%s: %s (to bring it in: %s %s%s%s %s%s.bin%s)", path, what,
                exporter_command(program, sizeof program), q, source, q, q, *name ? name : "model",
                q);
}

static bool refuse_folder(const char *path, DIR *folder, Error *err) {
    char gguf[NAME_MAX + 1] = "";
    char first[PATH_MAX];
    bool has_config = false;
    bool has_weights = false;
    bool has_adapter = false;
    for (struct dirent *entry; (entry = readdir(folder));) {
        const char *name = entry->d_name;
        const char *dot = strrchr(name, '.');
        const char *end = dot ? dot : "";
        has_adapter = has_adapter || strncmp(name, "adapter_", 8) == 0;
        has_config =
            has_config || strcmp(name, "config.json") == 0 || strcmp(name, "params.json") == 0;
        has_weights = has_weights || strcmp(end, ".safetensors") == 0 || strcmp(end, ".bin") == 0 ||
                      strcmp(end, ".pth") == 0;
        if (strcmp(end, ".gguf") == 0 && (!*gguf || strcmp(name, gguf) < 0))
            snprintf(gguf, sizeof gguf, "%s", name);
    }
    snprintf(first, sizeof first, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", gguf);
    if (*gguf && !(has_config && has_weights))
        return refuse(path, "a folder with a GGUF file in it", first, err);
    if (has_config) return refuse(path, "a checkpoint's folder", path, err);
    if (has_adapter)
        return fail(err, "%s: a folder with an adapter (LoRA): merge it into its base model", path);
    return fail(err,
                "%s: a folder without a checkpoint (expected config.json, params.json or a GGUF "
                "file in it)",
                path);
}

// What a file is by its first bytes; NULL: not foreign. llama2.c's version 0 begins with two
// numbers from 1 to 2^20.
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

// Whether a file begins as a text does. No model file does so: version 0 has zeros in its first 16
// bytes, too.
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
            "to bring its checkpoint in: %s %s%s%s NAME.bin)",
            path, q, path, q, exporter_command(program, sizeof program), in, place, in);
    return fail(err, "%s: a text, not a model file (to measure it: model.bin --ppl %s%s%s)", path,
                q, path, q);
}

// False with the reason where there is a folder, a pipe or a device, and no file that can be mapped.
static bool check_is_file(const char *path, Error *err) {
    struct stat info;
    if (stat(path, &info) != 0 || S_ISREG(info.st_mode)) return true;
    DIR *folder = opendir(path);
    if (folder) {
        refuse_folder(path, folder, err);
        closedir(folder);
        return false;
    }
    const char *what = S_ISFIFO(info.st_mode) ? "a pipe" : "a device";
    return S_ISDIR(info.st_mode) || fail(err, "%s: not a regular file (found %s)", path, what);
}

// False when the path is a folder or another program's file. The reason says what it is and what to
// type. Else true, and *err is as it was, also where there is no file.
static bool check_native(const char *path, Error *err) {
    if (!check_is_file(path, err)) return false;
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
    if (memcmp(start, "GGUF", 4) == 0) return refuse(path, kind, path, err);
    if (memcmp(start, "version", 7) != 0) return refuse(path, kind, place, err);
    const char *q = quote(place);
    return fail(err, "%s: %s (to fetch that: git -C %s%s%s lfs pull)", path, kind, q, place, q);
}

bool open_model(const char *path, Model *model, Error *err) {
    return check_native(path, err) && model_open(path, &kinds, model, err);
}
