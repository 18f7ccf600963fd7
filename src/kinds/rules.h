// What kinds share: where a field of a header goes, rules that two fields keep, and the rows of
// tensors that a kind adds or changes.
#pragma once

#include "../llama/kind.h"

// The place and the bytes of a member of a ModelExtra.
#define EXTRA(member)                                                                              \
    .place = offsetof(struct ModelExtra, member), .bytes = sizeof((struct ModelExtra *)0)->member

enum { MAX_SCALE = 1000000 };  // of a factor

// What a model's header has in a field of any kind, by its name; 0: nothing, or there is none.
double field_value(const Model *model, const char *name);

// Where one of the first fields is not 0, NEEDS: none of the others is 0; EXCLUDES: all of them are.
// Names stand with spaces between.
typedef struct {
    const char *fields;
    enum { NEEDS, EXCLUDES } bond;
    const char *others;
} Rule;

// False with the reason when the header breaks a rule.
bool check_rules(const Model *model, const Rule *rules, int n, Error *err);
#define CHECK_RULES(model, rules, err)                                                             \
    check_rules(model, rules, (int)(sizeof(rules) / sizeof *(rules)), err)

// Adds rows, each in its place.
void add_tensors(Tensors *tensors, const Tensor *rows, int n);
// The row of a tensor that is there, by its member.
Tensor *tensor_at(Tensors *tensors, const void *member);
