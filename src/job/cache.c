// Lists and removes the folders in the cache of imported models.
#define _DEFAULT_SOURCE  // flock
#define _DARWIN_C_SOURCE
#define _XOPEN_SOURCE 700
#include "cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "contents.h"

bool cache_find(char folder[PATH_MAX], const char *whose, Error *err) {
    const char *given = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    const bool is_given =
        given && given[0] == '/';  // relative paths do not count, according to its specification
    if (!is_given && (!home || home[0] != '/'))
        return fail(err,
                    "%s: no place to import it to: neither XDG_CACHE_HOME nor HOME is set "
                    "(--no-import says how to do it by hand)",
                    whose);
    int n = snprintf(folder, PATH_MAX, "%s%s", is_given ? given : home,
                     is_given ? "/rope.c" : "/.cache/rope.c");
    return n < PATH_MAX || fail(err, "%s: a path that is too long", folder);
}

// ---- names ----

// Whether a name is NAME-KEY, with a key of this version or the shorter key of version 5.0.0,
// optionally followed by .PID.part. *pid becomes 0 if it is not.
static bool is_entry(const char *name, long *pid) {
    static const char ending[] = ".part";
    const size_t n = strlen(name);
    size_t end = n;
    *pid = 0;
    if (n > sizeof ending && strcmp(name + n - (sizeof ending - 1), ending) == 0) {
        end = n - (sizeof ending - 1);
        while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9') end--;
        *pid = strtol(name + end, NULL, 10);
        if (*pid <= 0 || *pid > INT_MAX || end == 0 || name[--end] != '.') return false;
    }
    size_t start = end;
    while (start > 0 && strchr("0123456789abcdef", name[start - 1])) start--;
    const size_t letters = end - start;
    return start > 0 && name[start - 1] == '-' && (letters == KEY_LETTERS || letters == 16);
}

static int is_of_cache(const struct dirent *entry) {
    long pid;
    return is_entry(entry->d_name, &pid);
}

// Lists the folders in the cache, sorted by name. The caller frees each of them, and the list.
// Returns their number.
static int list_names(const char *folder, struct dirent ***names) {
    const int n = scandir(folder, names, is_of_cache, alphasort);
    if (n >= 0) return n;
    *names = NULL;
    return 0;
}

static void free_names(struct dirent **names, int n) {
    for (int i = 0; i < n; i++) free(names[i]);
    free(names);
}

bool cache_has(const char *folder, const char *key, char name[NAME_MAX + 1]) {
    struct dirent **names;
    const int n = list_names(folder, &names);
    const char *found = NULL;
    for (int i = 0; i < n && !found; i++) {
        const char *dash = strrchr(names[i]->d_name, '-');
        if (strcmp(dash + 1, key) == 0) found = names[i]->d_name;
    }
    if (found) snprintf(name, NAME_MAX + 1, "%s", found);
    free_names(names, n);
    return found;
}

// ---- contents ----

// Adds up the sizes of the files in a folder, and reads the source from its notes.
static void measure_entry(const char *path, CacheEntry *entry) {
    char file[PATH_MAX + 2 * NAME_MAX + 4], line[sizeof entry->source] = "";
    struct stat info;
    DIR *all = opendir(path);
    if (stat(path, &info) == 0) entry->made = info.st_mtime;
    for (struct dirent *one; all && (one = readdir(all));) {
        snprintf(file, sizeof file, "%s/%s", path, one->d_name);
        if (stat(file, &info) == 0 && S_ISREG(info.st_mode)) entry->bytes += info.st_size;
    }
    if (all) closedir(all);
    snprintf(file, sizeof file, "%s/notes.txt", path);
    FILE *notes = fopen(file, "r");
    const bool is_given = notes && fgets(line, sizeof line, notes) &&
                         strncmp(line, CACHE_SOURCE, sizeof CACHE_SOURCE - 1) == 0;
    line[strcspn(line, "\n")] = '\0';
    if (is_given)
        snprintf(entry->source, sizeof entry->source, "%s", line + sizeof CACHE_SOURCE - 1);
    if (notes) fclose(notes);
}

CacheEntry *cache_entries(const char *folder, int *n, Error *err) {
    struct dirent **names;
    char path[PATH_MAX + NAME_MAX + 2];
    long pid;
    *n = list_names(folder, &names);
    CacheEntry *all = alloc_array((uint64_t)*n + 1, sizeof *all, "the list of the cache", err);
    for (int i = 0; all && i < *n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        snprintf(all[i].name, sizeof all[i].name, "%s", names[i]->d_name);
        all[i].is_part = is_entry(names[i]->d_name, &pid) && pid > 0;
        measure_entry(path, &all[i]);
    }
    free_names(names, *n);
    return all;
}

// ---- folders that are being written ----

// Makes a folder and its parents. False with the reason.
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

// Opens a folder and locks it, at most until the process ends. -1: it is in use, or gone.
static int lock_folder(const char *path) {
    struct stat here, there;
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return -1;
    const bool is_locked = flock(folder, LOCK_EX | LOCK_NB) == 0;
    // It may have been removed before the lock.
    const bool is_there = stat(path, &here) == 0 && fstat(folder, &there) == 0 &&
                          here.st_ino == there.st_ino && here.st_dev == there.st_dev;
    if (is_locked && is_there) return folder;
    close(folder);
    return -1;
}

int cache_make_part(const char *part, Error *err) {
    if (!make_folders(part, err)) return -1;
    const int lock = lock_folder(part);
    if (lock < 0) fail(err, "%s: cannot be locked (%s)", part, strerror(errno));
    return lock;
}

// Whether the process that writes a folder is gone, and its lock with it: containers that share the
// cache have their own process numbers. Returns the lock, or -1.
static int lock_of_gone(const char *path, long pid) {
    const bool is_gone = pid == (long)getpid() || (kill((pid_t)pid, 0) != 0 && errno == ESRCH);
    return is_gone ? lock_folder(path) : -1;
}

// Removes the folders of models, or (of_parts) only the unfinished folders whose processes are
// gone.
static void remove_entries(const char *folder, bool of_parts) {
    struct dirent **names;
    char path[PATH_MAX + NAME_MAX + 2];
    long pid;
    const int n = list_names(folder, &names);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        is_entry(names[i]->d_name, &pid);
        const int lock = pid ? lock_of_gone(path, pid) : -1;
        if (lock >= 0 || (!pid && !of_parts)) cache_remove(path);
        if (lock >= 0) close(lock);
    }
    free_names(names, n);
}

void cache_remove_parts(const char *folder) { remove_entries(folder, true); }

// ---- removing ----

void cache_remove(const char *path) {
    char file[PATH_MAX + 2 * NAME_MAX + 4];
    DIR *all = opendir(path);
    for (struct dirent *entry; all && (entry = readdir(all));) {
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        unlink(file);
    }
    if (all) closedir(all);
    rmdir(path);
}

bool cache_empty(const char *folder, Error *err) {
    char path[PATH_MAX + NAME_MAX + 2];
    int n;
    remove_entries(folder, false);
    CacheEntry *left = cache_entries(folder, &n, err);
    bool good = left;
    for (int i = 0; good && i < n; i++)
        if (!left[i].is_part)
            good =
                fail(err, "%s/%s: cannot be removed (%s)", folder, left[i].name, strerror(errno));
    free(left);
    snprintf(path, sizeof path, "%s/%s", folder, CACHE_MEMO);
    unlink(path);
    rmdir(folder);
    return good;
}
