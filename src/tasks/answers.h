// AnswerFile that others heard, judged: lines of JSON with task, length, depth, answers and said,
// and with `messages` if the question was a chat's.
#pragma once

#include "../base/util.h"

enum {
    MOST_NAMES = 64,   // tasks in a file
    NAME_BYTES = 64,   // of a task's name, with its NUL
    MOST_WANTED = 64,  // right answers of a question
};

typedef struct {
    int task;  // its number in the order of the file
    int length;
    double depth;
    bool is_right;
} Answered;

typedef struct {
    const char *name;  // of the file, for messages
    int line;          // from 1
    char tasks[MOST_NAMES][NAME_BYTES];
    int n_tasks;
    Answered *all;  // (n), which the caller frees, also after an error
    size_t n, capacity;
} AnswerFile;

// Reads and judges all lines of a text (size, and a NUL) that are not empty, and there is one at
// least; the text is changed on the way. False with the reason, which names the line.
bool answers_read(AnswerFile *answers, char *text, size_t size, Error *err);
