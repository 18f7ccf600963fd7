// ./run without its start, for tests that ask thousands of times (common.py, run): one process runs one command line after
// the other, as its main function can. A request is a number of bytes in a line, then so many: strings that end with a zero,
// the seconds of a processor that it may take, the folder to run in, files for standard output and error, and the
// arguments, of which the first is the program's name. The answer is a line: the exit status, and microseconds of a processor.
#define main run_main
#include "run.c"
#undef main

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

enum { MAX_BYTES = 1 << 20, MAX_STRINGS = 4096 };

static void put_in_place(int file, const char *path, int flags) {
    int opened = open(path, flags, 0600);
    if (opened < 0 || dup2(opened, file) < 0) _exit(125);
    close(opened);
}

// All of this process so far, in microseconds.
static long spent(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return 1000000L * (used.ru_utime.tv_sec + used.ru_stime.tv_sec) + used.ru_utime.tv_usec +
           used.ru_stime.tv_usec;
}

static int answer_to(char **strings, int n) {
    struct rlimit limit;
    getrlimit(RLIMIT_CPU, &limit);
    rlim_t seconds = (rlim_t)(spent() / 1000000L + 1 + atoi(strings[0]));
    limit.rlim_cur = seconds < limit.rlim_max ? seconds : limit.rlim_max;
    setrlimit(RLIMIT_CPU, &limit);
    if (chdir(strings[1]) != 0) _exit(125);
    put_in_place(STDIN_FILENO, "/dev/null", O_RDONLY);
    put_in_place(STDOUT_FILENO, strings[2], O_WRONLY | O_CREAT | O_TRUNC);
    put_in_place(STDERR_FILENO, strings[3], O_WRONLY | O_CREAT | O_TRUNC);
    strings[n] = NULL;
    int status = run_main(n - 4, strings + 4);
    fflush(stdout), fflush(stderr);
    clearerr(stdin), clearerr(stdout), clearerr(stderr);
    return status;
}

static bool read_whole(int file, char *to, size_t n) {
    for (ssize_t got; n > 0; to += got, n -= (size_t)got)
        if ((got = read(file, to, n)) <= 0) return false;
    return true;
}

int main(void) {
    static char bytes[MAX_BYTES + 1], *strings[MAX_STRINGS + 1];
    const int requests = dup(STDIN_FILENO), answers = dup(STDOUT_FILENO), threads = thread_count();
    for (;;) {
        char line[48] = "";
        for (size_t i = 0; i + 1 < sizeof line && (i == 0 || line[i - 1] != '\n'); i++)
            if (!read_whole(requests, line + i, 1)) return 0;
        size_t size = (size_t)atol(line);
        int n = 0;
        if (size > MAX_BYTES || !read_whole(requests, bytes, size)) return 125;
        for (char *at = bytes; at < bytes + size && n < MAX_STRINGS; at += strlen(at) + 1)
            strings[n++] = at;
        if (n < 5) return 125;
        long before = spent();
        set_thread_count(threads);
        int status = answer_to(strings, n);
        int length = snprintf(line, sizeof line, "%d %ld\n", status, spent() - before);
        if (write(answers, line, (size_t)length) != length) return 125;
    }
}
