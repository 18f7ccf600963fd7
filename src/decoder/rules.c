// Rules that fields of a header keep, and rows of tensors.
#define _POSIX_C_SOURCE 200809L
#include "rules.h"

#include <stdio.h>
#include <string.h>

enum { MAX_NAMES = 400 };

double field_value(const Model *m, const char *name) {
    FieldTable tables[MAX_TABLES];
    int n = model_fields(m, tables);
    return fields_value(tables, n, name);
}

static bool check_pair(const Model *m, const char *field, const Rule *rule, Error *err) {
    char others[MAX_NAMES], *rest;
    double value = field_value(m, field);
    if (value == 0) return true;
    snprintf(others, sizeof others, "%s", rule->others);
    for (char *name = strtok_r(others, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        double other = field_value(m, name);
        if ((rule->bond == NEEDS) == (other == 0))
            return fail(err, "%s is %g where %s is %g (expected 0)", field, value, name, other);
    }
    return true;
}

bool check_rules(const Model *m, const Rule *rules, int n, Error *err) {
    for (const Rule *rule = rules; rule < rules + n; rule++) {
        char names[MAX_NAMES], *rest;
        snprintf(names, sizeof names, "%s", rule->fields);
        for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
            if (!check_pair(m, name, rule, err)) return false;
    }
    return true;
}

void insert_tensors(Tensors *t, const Tensor *rows, int n) {
    for (int i = 0; i < n; i++) {
        int at = t->n++;
        for (; at > 0 && t->rows[at - 1].place > rows[i].place; at--) t->rows[at] = t->rows[at - 1];
        t->rows[at] = rows[i];
    }
}

Tensor *tensor_at(Tensors *t, const void *member) {
    Tensor *row = t->rows;
    while (row->member != member) row++;
    return row;
}
