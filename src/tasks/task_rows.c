// The rows of the tasks. Most are after RULER (arXiv 2404.06654); the first is Mohtashami and
// Jaggi's (arXiv 2305.16300). `latent` is after NoLiMa (arXiv 2502.05167): the hidden text and the
// question share no word that would lead to it. `ordinal` asks for one of several things that differ
// by their order alone, as MRCR does. docs/measure.md tells which of these small models can do.
// `copy` comes last, since it needs a text.
#define _POSIX_C_SOURCE 200809L
#include "task_rows.h"

#include <stddef.h>
#include <strings.h>

#include "../base/names.h"
#include "../tables/table.h"

const Task all_tasks[N_TASKS] = {
    {"passkey", "There is an important info", "it", "the important information",
     " The pass key is #. Remember it. # is the pass key.", NULL,
     " What is the pass key? The pass key is", "#", 1, 1, NAMES_DIFFER},
    {"multikey", "There are some pass keys", "them", "one of the pass keys",
     " The pass key of the @ is #.", NULL,
     " What is the pass key of the @? Answer with one number. The pass key of the @ is", "#", 4, 1,
     NAMES_DIFFER},
    {"multivalue", "There are some pass keys", "them", "all the pass keys",
     " The pass key of the @ is #.", NULL,
     " What are all the pass keys of the @? Answer with four numbers. The pass keys of the @ are",
     "#", 4, 4, ONE_NAME},
    {"variables", "Assignments of variables are", "them", "the variables", " VAR @ = #.",
     " VAR @ = VAR <.",
     " Find all variables that have the value #. Answer with five names. The variables that have "
     "the value # are",
     "@", 5, 5, CHAIN},
    {"updates", "There is a pass key that changes", "it", "its latest value",
     " The pass key of the @ is now #.", NULL,
     " What is the pass key of the @ now? Answer with one number. The pass key of the @ is now",
     "#", 4, 1, UPDATES},
    {"hops", "There are some pass keys", "them", "one of the pass keys",
     " The @ has the pass key of the >.", " The pass key of the @ is #.",
     " Which pass key has the @? Answer with one number. The pass key of the @ is", "#", 4, 1,
     LINKS},
    {"multiquery", "There are some pass keys", "them", "two of the pass keys",
     " The pass key of the @ is #.", NULL,
     " What are the pass keys of the @ and the >? Answer with two numbers. The pass keys of the @ "
     "and the > are",
     "#", 4, 2, NAMES_DIFFER},
    {"ordinal", "There are some numbers", "them", "one of the numbers", " A number of the @ is #.",
     NULL, " What is the ^ number of the @? Answer with one number. The ^ number of the @ is", "#",
     3, 1, ORDINALS},
    {"latent", "There are some people", "where they live", "one of them",
     " The @ has a house next to the %.", NULL,
     " Which one of them lives in ~? Answer with one word. The one who lives in ~ is the", "@", 1,
     1, LANDMARKS},
    {"common", NULL, NULL, NULL, NULL, NULL,
     " The list has ended. Which word is repeated? Answer with one word. The word that is "
     "repeated is \"",
     "@", 1, 1, WORDS},
    {.name = "copy"},
};

unsigned tasks_asked(const char *list, Error *err) {
    unsigned asked = 0;
    char name[32];
    if (!list) list = all_tasks[0].name;
    while (next_cell(&list, ",", name, sizeof name)) {
        const char *nearest = "";
        unsigned found = 0;
        for (int k = 0; k < N_TASKS; k++) {
            nearest = nearer_name(name, all_tasks[k].name, nearest);
            if (!strcasecmp(name, all_tasks[k].name) || !strcasecmp(name, "all")) found |= 1u << k;
        }
        nearest = nearer_name(name, "all", nearest);
        asked |= found;
        if (!found)
            return fail_unknown(
                err, "--tasks: there is no task", name, nearest,
                "expected passkey, multikey, multivalue, variables, updates, hops, multiquery, "
                "ordinal, latent, common, copy, all");
    }
    return asked;
}

static const char *const owners[] = {"sailor", "doctor", "farmer",  "queen",  "baker", "hunter",
                                     "judge",  "poet",   "captain", "lawyer", "nurse"};
enum { N_OWNERS = sizeof owners / sizeof owners[0] };

const char *task_owner(int number) { return owners[number % N_OWNERS]; }

const Landmark landmarks[N_LANDMARKS] = {
    {"Eiffel Tower", "Paris"},
    {"Colosseum", "Rome"},
    {"Kremlin", "Moscow"},
    {"Brandenburg Gate", "Berlin"},
    {"White House", "Washington"},
    {"Big Ben", "London"},
    {"Statue of Liberty", "New York"},
    {"Golden Gate Bridge", "San Francisco"},
    {"Acropolis", "Athens"},
    {"Forbidden City", "Beijing"},
    {"Louvre", "Paris"},
    {"Tower Bridge", "London"},
};

const char *const repeated_words[N_REPEATED] = {"river",  "table",  "horse", "flower",
                                                "window", "garden", "ring",  "bread"};

static const char *const words[] = {
    "letter", "lamp",   "chair",  "door",    "dog",    "cat",    "coat",   "hat",      "knife",
    "coin",   "basket", "bottle", "candle",  "clock",  "cup",    "dress",  "drum",     "fire",
    "flag",   "glass",  "gun",    "hammer",  "key",    "map",    "mirror", "needle",   "paper",
    "pen",    "pipe",   "rope",   "sword",   "ticket", "tree",   "wheel",  "wall",     "bridge",
    "boat",   "bell",   "bed",    "box",     "apple",  "cake",   "fish",   "stone",    "stick",
    "star",   "song",   "story",  "secret",  "dream",  "answer", "plan",   "house",    "street",
    "church", "market", "field",  "kitchen", "forest", "town",   "school", "road",     "room",
    "hall",   "castle", "prison", "station", "tower",  "valley", "island", "mountain", "office",
};
enum { N_WORDS = sizeof words / sizeof words[0] };

const char *list_word(uint64_t number) { return words[number % N_WORDS]; }
