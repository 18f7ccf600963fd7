// The facts that --check hides in a long text: "The pass key is 50492."
#include "facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FACTS_APART = 96,  // tokens from one hidden fact to the next, at least
    MOST_AFTER = 48,   // tokens up to the end of a sentence, after which a fact is hidden
    BEFORE_END = 48,   // tokens between the last fact and the end of its part of the text
};

static const char *const facts[] = {
    " The pass key is",
    " The number on the door of the lighthouse is",
    " The telephone number of the dentist is",
    " The combination of the safe is",
    " The serial number of the bicycle is",
    " The winning ticket of the lottery is",
    " The weight of the church bell in pounds is",
    " The price of the white horse is",
    " The code of the alarm is",
    " The number of books in the library is",
    " The height of the mountain in inches is",
    " The engine of the train has the number",
    " The membership card of the club says",
    " The population of the island is",
    " The license plate of the truck is",
    " The distance to the mine in feet is",
    " The account at the bank is",
    " The number of bricks in the tower is",
    " The parcel has the label",
    " The prisoner wears the number",
    " The spy is known as agent",
    " The frequency of the radio is",
    " The bones of the whale were sold for",
    " The room key of the hotel opens",
    " The invoice of the carpenter is number",
    " The catalogue lists the violin as",
    " The locker of the swimmer is",
    " The balance of the widow is",
    " The patent of the pump is",
    " The grave of the soldier has the number",
    " The anchor of the ship weighs in grams",
    " The receipt of the tailor is number",
};
enum { N_FACT_WORDS = sizeof facts / sizeof facts[0] };

// Five digits, by splitmix64's mixing (Steele et al., 2014).
static int fact_value(int fact) {
    uint64_t bits = (uint64_t)(fact + 1) * 0x9e3779b97f4a7c15u;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
    return (int)(10000 + (bits ^ bits >> 27) % 90000);
}

// The next id of the filler; where it has ended, any.
static int32_t next_of_filler(FactText *t) {
    const size_t at = t->n_used++;
    return t->filler[at < t->n_filler ? at : 0];
}

bool hide_facts(FactText *t, int from, int to, int wanted, Error *err) {
    const int room = (to - from) / FACTS_APART;
    const int count = room < wanted ? room : wanted;
    const int end = to - BEFORE_END;
    int n = from;
    for (int k = 0; k < count; k++) {
        const int number = t->n_hidden;
        char sentence[256];
        size_t n_fact;
        Hidden h = {.asked = facts[number % N_FACT_WORDS]};
        snprintf(h.answer, sizeof h.answer, "%d", fact_value(number));
        snprintf(sentence, sizeof sentence, "%s %s. Remember that.%s %s.", h.asked, h.answer,
                 h.asked, h.answer);
        int32_t *ids =
            tokenizer_encode(t->tokenizer, sentence, strlen(sentence), false, &n_fact, err);
        if (!ids) return false;
        // Filler up to the fact's place, and on to the end of a sentence while the fact fits.
        const int place = from + (int)((k + 0.3) * (to - from) / count);
        while (n < place) t->ids[n++] = next_of_filler(t);
        const int most = end - (int)n_fact;
        const int latest = n + MOST_AFTER < most ? n + MOST_AFTER : most;
        for (; n < latest; t->ids[n++] = next_of_filler(t)) {
            size_t length;
            const char *piece = tokenizer_decode(t->tokenizer, -1, t->ids[n - 1], &length);
            if (length > 0 && strchr(".!?\n", piece[length - 1])) break;
        }
        if (n <= most && number < MOST_HIDDEN) {
            h.from = n;
            h.to = n + (int)n_fact;
            memcpy(t->ids + n, ids, n_fact * sizeof *ids);
            t->hidden[t->n_hidden++] = h;
            n = h.to;
        }
        free(ids);
    }
    while (n < to) t->ids[n++] = next_of_filler(t);
    return true;
}

bool ask_fact(Asker *a, const FactText *t, int length, const Hidden *fact, bool *is_found,
              Error *err) {
    size_t n;
    int32_t *question =
        tokenizer_encode(t->tokenizer, fact->asked, strlen(fact->asked), false, &n, err);
    if (!question || n > FACT_TOKENS - MAX_ANSWER) {
        free(question);
        return question && fail(err, "a question of %zu tokens is too long", n);
    }
    memcpy(t->ids + length, question, n * sizeof *question);
    free(question);
    const char *wanted = fact->answer;
    const TextQuestion q = {
        .ids = t->ids,
        .n = length + (int)n,
        .n_text = length,
        .asked = fact->asked,
        .wanted = &wanted,
        .n_wanted = 1,
        .most = MAX_ANSWER,
    };
    return ask(a, &q, length + FACT_TOKENS, is_found, err);
}
