// Recognizes models of other programs by their first bytes, or by what lies in their folder.
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "header.h"

// The quote that a path needs on both sides in a command, if any.
static const char *quote(const char *path) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+=,:@%";
    return !path[strspn(path, plain)] ? "" : strchr(path, '\'') ? "\"" : "'";
}

// Fails with what the path is, and the command that makes NAME.bin of a source called NAME, a folder or a GGUF file.
static bool refuse(const char *path, const char *what, const char *source, Error *err) {
    char place[PATH_MAX];
    snprintf(place, sizeof place, "%s", source);
    for (char *end = place + strlen(place); end > place && strchr("/.", end[-1]); end--) end[-1] = '\0';
    char *slash = strrchr(place, '/'), *name = slash ? slash + 1 : place, *dot = strrchr(name, '.');
    if (dot && strcmp(dot, ".gguf") == 0) *dot = '\0';
    const char *q = quote(source);
    return fail(err, "%s: %s (to bring it in: python3 model_export.py %s%s%s %s%s.bin%s)", path, what, q, source, q, q,
                *name ? name : "model", q);
}

static bool refuse_folder(const char *path, DIR *folder, Error *err) {
    char gguf[NAME_MAX + 1] = "", first[PATH_MAX];
    bool has_config = false, has_weights = false;
    for (struct dirent *entry; (entry = readdir(folder));) {
        const char *name = entry->d_name, *dot = strrchr(name, '.'), *end = dot ? dot : "";
        has_config = has_config || strcmp(name, "config.json") == 0 || strcmp(name, "params.json") == 0;
        has_weights =
            has_weights || strcmp(end, ".safetensors") == 0 || strcmp(end, ".bin") == 0 || strcmp(end, ".pth") == 0;
        if (strcmp(end, ".gguf") == 0 && (!*gguf || strcmp(name, gguf) < 0)) snprintf(gguf, sizeof gguf, "%s", name);
    }
    snprintf(first, sizeof first, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", gguf);
    if (*gguf && !(has_config && has_weights)) return refuse(path, "a folder with a GGUF file in it", first, err);
    if (has_config) return refuse(path, "a checkpoint's folder", path, err);
    return fail(err, "%s: a folder without a checkpoint (expected config.json, params.json or a GGUF file in it)",
                path);
}

// What a file is by its first bytes; NULL: not foreign. llama2.c's version 0 begins with two numbers from 1 to 2^20.
static const char *kind_of(const uint8_t start[16]) {
    if (memcmp(start, "GGUF", 4) == 0) return "a GGUF file";
    if (memcmp(start, "PK\3\4", 4) == 0) return "a checkpoint's weights as PyTorch's zip";
    if (start[0] == 0x80 && start[1] < 6 && start[3]) return "a checkpoint's weights as PyTorch's pickle";
    if (memcmp(start + 4, "\0\0\0", 4) == 0 && start[8] == '{') return "a checkpoint's weights as safetensors";
    return memcmp(start, "version https://", 16) == 0 ? "a Git LFS pointer, not the file itself" : NULL;
}

bool check_native(const char *path, const MappedFile *file, Error *err) {
    DIR *folder = opendir(path);
    bool is_native = !folder || refuse_folder(path, folder, err);
    if (folder) closedir(folder);
    const char *kind = file->size >= 16 ? kind_of(file->data) : NULL, *slash = strrchr(path, '/');
    if (!kind) return is_native;
    char place[PATH_MAX] = ".";
    if (slash) snprintf(place, sizeof place, "%.*s", slash > path ? (int)(slash - path) : 1, path);
    if (memcmp(file->data, "GGUF", 4) == 0) return refuse(path, kind, path, err);
    if (memcmp(file->data, "version", 7) != 0) return refuse(path, kind, place, err);
    const char *q = quote(place);
    return fail(err, "%s: %s (to fetch that: git -C %s%s%s lfs pull)", path, kind, q, place, q);
}
