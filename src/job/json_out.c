// A table as JSON.
#include "json_out.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tokens/unicode.h"

void print_json_text(const char *text, size_t n) {
    char character[4];
    size_t length;
    putchar('"');
    for (size_t at = 0; at < n; at += length) {
        uint32_t code = utf8_decode(text + at, n - at, &length);
        size_t width = utf8_encode(character, code);
        if (code < ' ' || code == '"' || code == '\\') printf("\\u%04x", (unsigned)code);
        else fwrite(character, 1, width, stdout);
    }
    putchar('"');
}

// Numbers that printf writes are also numbers in JSON, except NaN and infinities.
static void put_value(const char *text, JsonType type) {
    char *end;
    bool is_number = type == JSON_NUMBER && isfinite(strtod(text, &end)) && !*end;
    if (type == JSON_STRING) print_json_text(text, strlen(text));
    else printf("%s", is_number ? text : "null");
}

static void put_key(const char *key) {
    print_json_text(key, strlen(key));
    printf(": ");
}

// Begins the object, or continues it after its last member.
static void begin_member(JsonOut *out, const char *key) {
    if (out->in_rows) printf("%s]", out->n_rows > 0 ? "\n" : "");
    out->in_rows = false;
    if (out->n_members++ == 0) {
        printf("{\"version\": ");
        put_value(out->version, JSON_STRING);
    }
    printf(", ");
    put_key(key);
}

void json_put_member(JsonOut *out, const char *key, const char *text, JsonType type) {
    begin_member(out, key);
    put_value(text, type);
}

void json_begin_list(JsonOut *out, const char *key) {
    begin_member(out, key);
    printf("[");
    out->in_rows = true;
    out->n_rows = 0;
}

void json_begin_rows(JsonOut *out) {
    json_begin_list(out, "rows");
    out->has_rows = true;
}

void json_put_cell(JsonOut *out, const char *column, const char *text, JsonType type) {
    if (out->n_cells++ > 0) printf(", ");
    else printf("%s\n{", out->n_rows > 0 ? "," : "");
    put_key(column);
    put_value(text, type);
}

// Each row is flushed, for readers that wait for rows.
void json_end_row(JsonOut *out) {
    printf("}");
    fflush(stdout);
    out->n_rows++;
    out->n_cells = 0;
}

void json_reason(JsonOut *out, const char *code, const char *words) {
    snprintf(out->code, sizeof out->code, "%s", code);
    snprintf(out->words, sizeof out->words, "%s", words);
}

void json_end(JsonOut *out, int status) {
    char number[16];
    if (out->n_cells > 0) json_end_row(out);
    if (!out->has_rows) json_begin_rows(out);
    snprintf(number, sizeof number, "%d", status);
    json_put_member(out, "status", number, JSON_NUMBER);
    begin_member(out, "reason");
    printf("{\"code\": ");
    print_json_text(out->code, strlen(out->code));
    printf(", \"words\": ");
    print_json_text(out->words, strlen(out->words));
    printf("}}\n");
}
