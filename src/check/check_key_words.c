// The row of --check about key words of the built-in story: names that come back after more than 1,024
// tokens, which models that read the story whole predict by what is far back, and by nothing nearer
// (LongPPL's rule, arXiv 2410.23771, see key_tokens.c). They were fixed beforehand. So a setting that
// sees a window only finds none of them, where by its own judgment it would have no key tokens to be
// asked for; its perplexity is hardly changed.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check_long.h"

enum { FEWEST_WORDS = 6 };  // of a length, which a row needs
// What a word's loss falls by where it is key, in nats.
static const double KEY_GAIN = 2;
// Of the words a model that reads the text well finds so many, and one that does not see them at most so many.
static const ShareTest words_seen = {.healthy = 0.6, .broken = 0.1, .wrong = 0.01};
// The share of facts that the model finds in short texts, without which it cannot be asked.
static const double ABLE_SHARE = 0.5;

static const struct {
    int at;  // of the story's bytes
    const char *text;
} key_words[] = {
#include "key_words.inc"
};
enum { N_KEY_WORDS = sizeof key_words / sizeof key_words[0] };

// The key word that a token at [at, at + n) of the story is a part of; -1: none.
static int key_word_at(int at, const char *piece, int n) {
    for (int w = 0; w < N_KEY_WORDS; w++) {
        const int from = key_words[w].at;
        const int to = from + (int)strlen(key_words[w].text);
        const int first = at > from ? at : from;
        const int end = at + n < to ? at + n : to;
        if (first >= end) continue;
        const char *there = key_words[w].text + (first - from);
        return memcmp(piece + (first - at), there, (size_t)(end - first)) == 0 ? w : -1;
    }
    return -1;
}

// The key word that each token of the length's last stretch is a part of (half), or -1. Where a FILE is
// read there are none.
static void find_words(const Check *c, int length, int words[MOST_HALF]) {
    const LongReading *r = c->long_reading;
    const int start = length - c->half;
    int at = 0;  // in the story
    size_t taken = 0;
    for (int i = 0; i < c->half; i++) words[i] = -1;
    if (c->job->ids) return;
    for (int p = has_bos(c); p < length; p++) {
        if (r->is_key[p]) continue;  // a fact
        size_t n;
        const int previous = taken > 0 ? c->ids[taken - 1] : tokenizer_bos(c->job->tokenizer);
        const char *piece = tokenizer_decode(c->job->tokenizer, previous, c->ids[taken++], &n);
        if (p >= start) words[p - start] = key_word_at(at, piece, (int)n);
        at += (int)n;
    }
}

static int count_words(const Check *c, int length) {
    int words[MOST_HALF];
    int n = 0;
    int last = -1;
    find_words(c, length, words);
    for (int i = 0; i < c->half; i++) {
        n += words[i] >= 0 && words[i] != last;
        if (words[i] >= 0) last = words[i];
    }
    return n;
}

static bool wants_key_words(const Check *c, int length) {
    return is_long(c, length) && count_words(c, length) >= FEWEST_WORDS;
}

// A word is found where its tokens, on average, are likelier after the whole text than after their own
// last tokens. Both were read for the perplexity.
static bool read_key_words(Check *c, Row *row, Error *err) {
    const LongReading *r = c->long_reading;
    const double *whole = r->nll[length_number(c, row->length)];
    const double *alone = r->short_nll[length_number(c, row->length)];
    int words[MOST_HALF];
    (void)err;
    if (!whole || !alone) row->lacks = "a whole text";
    if (row->lacks) return true;
    find_words(c, row->length, words);
    for (int w = 0; w < N_KEY_WORDS; w++) {
        double fell = 0;
        int n = 0;
        for (int i = 0; i < c->half; i++) {
            if (words[i] != w) continue;
            fell += alone[i] - whole[i];
            n++;
        }
        if (n > 0) add_sample(&row->samples, fell / n > KEY_GAIN);
    }
    return true;
}

// It fails only what finds the facts of short texts: others may be unable to copy a name at all.
static void judge_key_words(const Check *c, Row *row) {
    const Samples *s = &row->samples;
    const Row *keys = find_row(c, &keys_row, row->length);
    row->value = s->mean;
    row->error = INFINITY;
    row->limit = sqrt(words_seen.healthy * words_seen.broken);
    row->verdict = decide_share(s, &words_seen);
    const bool is_able = keys && facts_in_short(keys) >= ABLE_SHARE;
    if (row->verdict == FAIL && !is_able) row->verdict = UNABLE;
}

static void describe_key_words(const Check *c, const Row *row, char *out, size_t size) {
    (void)c;
    snprintf(out, size, "%.0f of %d words are found that only what is far back tells, read whole",
             n_right(&row->samples), row->samples.n);
}

const RowType key_words_row = {
    .name = "key-words",
    .how = ", read whole",
    .is_wanted = wants_key_words,
    .first = 1,
    .units = 1,
    .usual = 1,
    .read = read_key_words,
    .judge = judge_key_words,
    .ends_unknown = true,
    .describe = describe_key_words,
};
