// Checks the rows of rope.c against their formulas: settings are changed one at a time, and the row
// must name the ones that matter.
#include "methods.h"

#include <math.h>
#include <string.h>

enum {
    TRIED = 2048,           // positions at which a formula is tried
    MOST_CHECKED = 131072,  // positions of a text that are checked
};
// In radians: at larger angles doubles are too far apart for a cosine, and engines that add angles
// in another order get other numbers.
static const double most_angle = 1e11;

// ---- names ----

// The names by their numbers in model files.
static const char *const numbered[] = {
    [ROPE_NONE] = "none",         [ROPE_LINEAR] = "linear",
    [ROPE_NTK] = "ntk",           [ROPE_BY_PARTS] = "ntk-by-parts",
    [ROPE_YARN] = "yarn",         [ROPE_LLAMA3] = "llama3",
    [ROPE_LONGROPE] = "longrope", [ROPE_PROPORTIONAL] = "proportional",
};
enum { N_NUMBERED = sizeof numbered / sizeof *numbered };

static const char *name_of_row(int i) {
    return i < rope_n_methods ? rope_methods[i].name : rope_maps[i - rope_n_methods].name;
}

static bool can_be_typed(const char *name) {
    static const char *const taken[] = {"all", "dynamic", "window"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, taken[i]) == 0) return false;
    size_t length = strlen(name);
    return length > 0 && length <= 40 && name[0] > '9' && strncmp(name, "dynamic-", 8) != 0 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

bool rows_are_named(Error *err) {
    for (int i = 0; i < N_NUMBERED; i++) {
        const char *found = i < rope_n_methods ? rope_methods[i].name : "missing";
        if (strcmp(found, numbered[i]) != 0)
            return fail(err,
                        "rope.c: row %d of rope_methods is '%s' (expected '%s': model files store "
                        "this number, so new rows go at the end)",
                        i, found, numbered[i]);
    }
    for (int i = 0; i < rope_n_methods + rope_n_maps; i++) {
        const char *name = name_of_row(i);
        if (!can_be_typed(name))
            return fail(err,
                        "rope.c: there is a row '%s' (expected small letters, digits and -, a "
                        "letter first; all, window, dynamic and dynamic-... are taken)",
                        name);
        for (int k = 0; k < i; k++)
            if (strcmp(name, name_of_row(k)) == 0)
                return fail(err, "rope.c: two rows are called '%s'", name);
    }
    return true;
}

// ---- the settings that a row names ----

static const struct {
    const char *name;
    unsigned flag;
    bool of_map;
} flags[] = {
    {"ROPE_USES_FACTOR", ROPE_USES_FACTOR, false},
    {"ROPE_USES_BETAS", ROPE_USES_BETAS, false},
    {"ROPE_USES_FREQ_FACTORS", ROPE_USES_FREQ_FACTORS, false},
    {"ROPE_USES_LISTS", ROPE_USES_LISTS, false},
    {"ROPE_USES_ROTATED_PAIRS", ROPE_USES_ROTATED_PAIRS, false},
    {"ROPE_USES_CLIP", ROPE_USES_CLIP, false},
    {"ROPE_USES_X", ROPE_USES_X, false},
    {"ROPE_MAP_NEAR", ROPE_MAP_NEAR, true},
    {"ROPE_MAP_GROUP", ROPE_MAP_GROUP, true},
    {"ROPE_MAP_CHUNK", ROPE_MAP_CHUNK, true},
    {"ROPE_MAP_K", ROPE_MAP_K, true},
    {"ROPE_MAP_WINDOW", ROPE_MAP_WINDOW, true},
    {"ROPE_MAP_LOCAL", ROPE_MAP_LOCAL, true},
    {"ROPE_MAP_X", ROPE_MAP_X, true},
};

// Lists of divisors to try a formula with.
typedef struct {
    double ones[ROPE_MAX_PAIRS], twos[ROPE_MAX_PAIRS];
} Lists;

// Formulas that return NaN are left to rows_keep_promises.
static bool differs(double a, double b) { return a != b && !(isnan(a) && isnan(b)); }

// Whether a map's D, or the frequencies and the attention factor, differ between two
// configurations.
static bool distances_differ(const RopeConfig *a, const RopeConfig *b) {
    for (int p = 0; p < TRIED; p++) {
        RopeParts x = rope_parts(a, p), y = rope_parts(b, p);
        if (x.near != y.near || differs(x.query, y.query) || differs(x.key, y.key)) return true;
        if (differs(rope_distance(a, TRIED, p), rope_distance(b, TRIED, p))) return true;
    }
    return false;
}

static bool speeds_differ(const RopeConfig *a, const RopeConfig *b) {
    RopeFreqs x, y;
    rope_frequencies(a, TRIED, &x);
    rope_frequencies(b, TRIED, &y);
    for (int i = 0; i < x.n_pairs; i++)
        if (differs(x.inv_freq[i], y.inv_freq[i])) return true;
    return differs(x.attention_factor, y.attention_factor);
}

// Whether the setting of a flag changes the result of the formula. *which becomes its option, if it
// has one.
static bool flag_matters(const RopeConfig *c, int number, const Lists *lists, const char **which) {
    const unsigned flag = flags[number].flag;
    const bool of_map = flags[number].of_map;
    RopeConfig other = *c;
    *which = of_map ? "--window and --sinks" : "the model's lists";
    other.window += 100;
    other.sinks += 3;
    if (of_map && flag == ROPE_MAP_WINDOW) return distances_differ(c, &other);
    other.long_factors = lists->twos;
    if (!of_map && flag == ROPE_USES_LISTS) return speeds_differ(c, &other);
    for (int i = 0; i < N_ROPE_SETTINGS; i++) {
        const Setting *s = &rope_settings[i];
        if ((of_map ? s->maps : s->methods) != flag || !s->option) continue;
        other = *c;
        setting_put(&other, s, s->type == WORD ? 1 : setting_value(c, s) * 1.5 + 1);
        *which = s->option;
        if ((of_map ? distances_differ : speeds_differ)(c, &other)) return true;
    }
    return false;
}

bool rows_name_settings(const RopeConfig *config, Error *err) {
    Lists lists;
    for (int i = 0; i < ROPE_MAX_PAIRS; i++) {
        lists.ones[i] = 1;
        lists.twos[i] = 2;
    }
    // A head, a base and lengths with which every published formula responds to its settings.
    const RopeConfig c = {
        .method = config->method,
        .map = config->map,
        .rotary_dim = 64,
        .theta = 1e4,
        .factor = 4,
        .train_ctx = 512,
        .truncate = true,
        .beta_fast = 32,
        .beta_slow = 1,
        .low_freq_factor = 1,
        .high_freq_factor = 4,
        .rotated_pairs = 8,
        .clip = 12,
        .near = 100,
        .local = 40,
        .group = 5,
        .chunk = 160,
        .k = 3,
        .x = 0.5,
        .window = 200,
        .sinks = 4,
        .short_factors = lists.ones,
        .long_factors = lists.ones,
    };
    if (!rope_methods[c.method].frequency) return fail(err, "its row in rope.c has no formula");
    if (speeds_differ(&c, &c) || (c.map && distances_differ(&c, &c)))
        return fail(err, "its formula gives other numbers when it is asked again (expected that "
                         "it depends only on its arguments)");
    for (int i = 0; i < (int)(sizeof flags / sizeof *flags); i++) {
        const char *which;
        const bool of_map = flags[i].of_map;
        if (of_map && !c.map) continue;
        bool is_named = (of_map ? c.map->flags : rope_methods[c.method].flags) & flags[i].flag;
        bool matters = flag_matters(&c, i, &lists, &which);
        if (matters && !is_named)
            return fail(err, "its formula goes by %s, and its row in rope.c lacks %s", which,
                        flags[i].name);
        if (is_named && !matters)
            return fail(err, "its row in rope.c has %s, and its formula does not go by it",
                        flags[i].name);
    }
    if (rope_methods[c.method].flags & ROPE_CAN_BE_DYNAMIC &&
        !(rope_methods[c.method].flags & ROPE_USES_FACTOR))
        return fail(err, "its row in rope.c has ROPE_CAN_BE_DYNAMIC without ROPE_USES_FACTOR");
    return true;
}

// ---- promises ----

static bool parts_keep(const RopeConfig *c, int length, Error *err) {
    RopeParts before = {0};
    for (int p = 0; p < length && p < MOST_CHECKED; p++) {
        RopeParts own = rope_parts(c, p);
        if (!(fabs(own.query) <= most_angle && fabs(own.key) <= most_angle))
            return fail(err,
                        "query and key of position %d are %g and %g (expected numbers, at most %g)",
                        p, own.query, own.key, most_angle);
        if (own.near < 0) return fail(err, "near(%d) is %d (expected at least 0)", p, own.near);
        if (p > 0 && p - own.near < p - 1 - before.near)
            return fail(err,
                        "p - near(p) falls from %d to %d at position %d (expected that it never "
                        "falls)",
                        p - 1 - before.near, p - own.near, p);
        before = own;
    }
    return true;
}

static bool distances_keep(const RopeConfig *c, int length, Error *err) {
    int i = length - 1;
    for (int j = i; j >= 0 && i - j < MOST_CHECKED; j--) {
        double d = rope_distance(c, i, j);
        if (!(fabs(d) <= most_angle))
            return fail(err, "D(%d, %d) is %g (expected a number, at most %g)", i, j, d,
                        most_angle);
    }
    return true;
}

static bool map_keeps(const RopeConfig *c, int length, Error *err) {
    const RopeMap *map = c->map;
    if (!map->formula == !map->distance)
        return fail(err, "its row in rope.c has %s (expected one of formula and distance)",
                    map->formula ? "both" : "neither");
    return (!map->formula || parts_keep(c, length, err)) && distances_keep(c, length, err);
}

bool rows_keep_promises(const RopeConfig *c, int length, Error *err) {
    RopeFreqs f;
    rope_frequencies(c, length, &f);
    for (int i = 0; i < f.n_pairs; i++)
        if (!(fabs(f.inv_freq[i]) * length <= most_angle))
            return fail(err,
                        "pair %d turns by %g radians a position (expected a number, at most %g)", i,
                        f.inv_freq[i], most_angle / length);
    if (!isfinite(f.attention_factor) || f.attention_factor <= 0)
        return fail(err, "the attention factor is %g (expected a number above 0)",
                    f.attention_factor);
    return !c->map || map_keeps(c, length, err);
}
