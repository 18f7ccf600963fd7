// The facts that --check hides in its long text, for check_keys.c to ask for: "The pass key is 50492."
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_facts.h"

enum {
    FACTS_APART = 96,  // tokens from one hidden fact to the next, at least
    BEFORE_END = 48,   // tokens between the last fact and the end of a length
};

static const char *const facts[] = {
    "The pass key is",
    "The number on the door of the lighthouse is",
    "The telephone number of the dentist is",
    "The combination of the safe is",
    "The serial number of the bicycle is",
    "The winning ticket of the lottery is",
    "The weight of the church bell in pounds is",
    "The price of the white horse is",
    "The code of the alarm is",
    "The number of books in the library is",
    "The height of the mountain in inches is",
    "The engine of the train has the number",
    "The membership card of the club says",
    "The population of the island is",
    "The license plate of the truck is",
    "The distance to the mine in feet is",
    "The account at the bank is",
    "The number of bricks in the tower is",
    "The parcel has the label",
    "The prisoner wears the number",
    "The spy is known as agent",
    "The frequency of the radio is",
    "The bones of the whale were sold for",
    "The room key of the hotel opens",
    "The invoice of the carpenter is number",
    "The catalogue lists the violin as",
    "The locker of the swimmer is",
    "The balance of the widow is",
    "The patent of the pump is",
    "The grave of the soldier has the number",
    "The anchor of the ship weighs in grams",
    "The receipt of the tailor is number",
};
enum { N_FACT_WORDS = sizeof facts / sizeof facts[0] };

const char *fact_words(int fact) { return facts[fact % N_FACT_WORDS]; }

// Five digits, by splitmix64's mixing (Steele et al., 2014).
int fact_value(int fact) {
    uint64_t bits = (uint64_t)(fact + 1) * 0x9e3779b97f4a7c15u;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
    return (int)(10000 + (bits ^ bits >> 27) % 90000);
}

int32_t *encode_words(const Check *c, const char *text, size_t *n, Error *err) {
    return tokenizer_encode(c->job->tokenizer, text, strlen(text), false, n, err);
}

// Puts the fact into the text at *n, if it fits below `end`.
static bool hide(Check *c, int fact, int *n, int end, Error *err) {
    Keys *r = c->keys;
    const char *words = fact_words(fact);
    char sentence[256];
    size_t count;
    snprintf(sentence, sizeof sentence, " %s %d. Remember that. %s %d.", words, fact_value(fact),
             words, fact_value(fact));
    int32_t *ids = encode_words(c, sentence, &count, err);
    if (!ids) return false;
    if (*n + (int)count <= end) {
        r->hidden[r->n_hidden++] = (Hidden){fact, *n, *n + (int)count};
        memcpy(r->text + *n, ids, count * sizeof *ids);
        *n += (int)count;
    }
    free(ids);
    return true;
}

static bool ends_sentence(const Check *c, int32_t id) {
    size_t length;
    const char *piece = tokenizer_decode(c->job->tokenizer, -1, id, &length);
    return length > 0 && strchr(".!?\n", piece[length - 1]);
}

// Hides facts between two lengths: FACTS_A_DOUBLING, or fewer where there is no room for these.
bool hide_between(Check *c, int low, int high, int *n, size_t *taken, Error *err) {
    enum { MOST_AFTER = 48 };  // tokens up to the end of a sentence
    Keys *r = c->keys;
    const int room = (high - low) / FACTS_APART;
    const int count = room < FACTS_A_DOUBLING ? room : FACTS_A_DOUBLING;
    for (int k = 0; k < count && r->n_hidden < MOST_HIDDEN; k++) {
        const int place = low + (int)((k + 0.3) * (high - low) / count);
        const int end = high - BEFORE_END;
        while (*n < place) r->text[(*n)++] = c->ids[(*taken)++];
        for (int i = 0; i < MOST_AFTER && *n < end && !ends_sentence(c, r->text[*n - 1]); i++)
            r->text[(*n)++] = c->ids[(*taken)++];
        if (!hide(c, r->n_hidden, n, end, err)) return false;
    }
    while (*n < high) r->text[(*n)++] = c->ids[(*taken)++];
    return true;
}
