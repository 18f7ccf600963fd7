// Shared by all parts of a model beyond a Llama: the place of a field of the header, rules that two
// fields keep, and the rows of tensors that a part adds or changes.
#pragma once

#include "../llama/hooks.h"

// The place and the bytes of a member of a ModelExtra (decoder.h).
#define IN_DECODER(member)                                                                         \
    .place = offsetof(struct ModelExtra, member), .bytes = sizeof((struct ModelExtra *)0)->member

// The place and the bytes of a member of a kind's part of a model (ExpertsConfig and so on).
#define IN_PART(type, member) .place = offsetof(type, member), .bytes = sizeof((type *)0)->member

enum { MAX_SCALE = 1000000 };  // of a factor

// The value of a field of a model's header, by its name; 0: that, or there is no such field.
double field_value(const Model *model, const char *name);

// Where one of the first fields is not 0, NEEDS: none of the others is 0; EXCLUDES: all of them
// are. Names are separated by spaces.
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
void insert_tensors(Tensors *tensors, const Tensor *rows, int n);
// The row of a tensor that is there, by its member.
Tensor *tensor_at(Tensors *tensors, const void *member);
