// Attention in whole numbers, of prompts and of a token alone, beside its definition in float64: shapes of heads, kinds
// of caches, windows, large biases of keys, numbers that are not finite, and threads. Driven by test_attention.py.
#include "tests/test_units.h"

#include "src/fast/attention_task.h"
#include "src/fast/transformer.h"

enum { N = 72, PAST = 500, LATE = 32 };  // LATE is where a task begins

typedef struct {
    const char *name;
    int heads, kv_heads, dim, value_dim;  // value_dim 0: the same
    KvType kept;
    int window;
    float bias;      // of some elements of keys
    bool is_latent;  // values are the ends of keys
} Shape;

// Heads as families have them: Llama and Qwen, SmolLM2, Gemma, Phi-3, small ones, and those of latent attention.
static const Shape shapes[] = {
    {"64", 8, 2, 64, 0, KV_F32, 0, 0, false},
    {"64, a large bias", 8, 2, 64, 0, KV_F32, 0, 30, false},
    {"64, float16", 9, 3, 64, 0, KV_F16, 0, 0, false},
    {"128, a window", 4, 1, 128, 0, KV_F32, 200, 0, false},
    {"256", 4, 1, 256, 0, KV_F32, 0, 0, false},
    {"80", 4, 1, 80, 0, KV_F32, 0, 0, false},
    {"96, other values", 4, 1, 96, 72, KV_F32, 0, 0, false},
    {"12", 4, 1, 12, 0, KV_F32, 0, 0, false},
    {"6", 5, 1, 6, 0, KV_F32, 0, 0, false},
    {"64, 8 bits", 4, 1, 64, 0, KV_Q8, 0, 0, false},
    {"64, 4 bits", 4, 1, 64, 0, KV_Q4, 0, 0, false},
    {"latent", 16, 1, 72, 64, KV_F32, 0, 0, true},
};

// Those that meet a cache of 8 or 4 bits a token at a time: the lengths of keys and values of released models, and odd
// ones; up to 12 heads that share keys are few.
static const Shape few_shapes[] = {
    {"64", 14, 2, 64, 0, KV_Q8, 0, 0, false},           {"64", 14, 2, 64, 0, KV_Q4, 0, 0, false},
    {"64, three", 9, 3, 64, 0, KV_Q8, 0, 0, false},     {"64, three", 9, 3, 64, 0, KV_Q4, 0, 0, false},
    {"128, one", 2, 2, 128, 0, KV_Q8, 0, 0, false},     {"128, twelve", 12, 1, 128, 0, KV_Q4, 0, 0, false},
    {"256", 4, 1, 256, 0, KV_Q8, 0, 0, false},          {"256", 4, 1, 256, 0, KV_Q4, 0, 0, false},
    {"96, a window", 4, 2, 96, 0, KV_Q8, 40, 0, false}, {"96, a window", 4, 2, 96, 0, KV_Q4, 40, 0, false},
    {"80", 5, 1, 80, 0, KV_Q8, 0, 0, false},            {"80", 5, 1, 80, 0, KV_Q4, 0, 0, false},
    {"96 and 72", 8, 1, 96, 72, KV_Q8, 0, 0, false},    {"192 and 128", 4, 2, 192, 128, KV_Q4, 0, 0, false},
    {"6", 5, 1, 6, 0, KV_Q8, 0, 0, false},              {"12", 11, 1, 12, 0, KV_Q4, 0, 0, false},
    {"512", 2, 1, 512, 0, KV_Q8, 0, 0, false},          {"512", 2, 1, 512, 0, KV_Q4, 0, 0, false},
    {"64, a bias", 6, 1, 64, 0, KV_Q8, 0, 30, false},   {"64, a bias", 6, 1, 64, 0, KV_Q4, 0, 30, false},
};

typedef struct {
    Shape shape;
    KvCache cache;
    AttentionScratch *scratch;
    Arena arena;
    float *keys, *values, *q, *out;  // keys and values (kv_heads, PAST + N, their dim)
    Angles angles;  // of a layer whose keys are cached before they turn
} Layer64;

static RopeConfig rope = {.train_ctx = PAST + N};  // turns nothing, but in a test of keys that turn

static void fill(float *x, size_t n, float size) {
    for (size_t i = 0; i < n; i++) x[i] = size * (float)gauss();
}

// A layer for rows from `row` on. Values that the window leaves out for all of these are far larger.
static Layer64 layer_of(const Shape *s, int row) {
    Layer64 l = {.shape = *s};
    Error err;
    int positions = PAST + N, width = s->value_dim ? s->value_dim : s->dim;
    for (int pass = 0; pass < 2; pass++) {
        l.cache = (KvCache){.kept = s->kept,
                            .n_kv_heads = s->kv_heads,
                            .head_dim = s->dim,
                            .positions = positions,
                            .value_dim = s->value_dim,
                            .values_in_keys = s->is_latent};
        kv_cache_lay_out(&l.cache, &l.arena);
        AttentionNeeds needs = {.max_n = N};
        attention_need(&needs, &l.cache, s->heads, true);
        l.scratch = attention_lay_out(&l.arena, &needs, 3);
        SessionConfig config = {.kv = KV_Q4, .context = positions, .chunk = N, .rope = &rope};
        if (rope.rotary_dim)
            angles_lay_out(&l.angles, &l.arena, &config, &rope, &in_place, false);
        l.keys = arena_take(&l.arena, (size_t)s->kv_heads * positions * s->dim, sizeof(float));
        l.values = arena_take(&l.arena, (size_t)s->kv_heads * positions * width, sizeof(float));
        l.q = arena_take(&l.arena, (size_t)N * s->heads * s->dim, sizeof(float));
        l.out = arena_take(&l.arena, (size_t)N * s->heads * width, sizeof(float));
        need(pass || arena_open(&l.arena, "a layer", &err), "%s", err.text);
    }
    fill(l.q, (size_t)N * s->heads * s->dim, 1.5f);
    fill(l.keys, (size_t)s->kv_heads * positions * s->dim, 1);
    fill(l.values, (size_t)s->kv_heads * positions * width, 1);
    for (int h = 0; h < s->kv_heads; h++)
        for (int p = 0; p < positions; p++) {
            float *key = l.keys + ((size_t)h * positions + p) * s->dim;
            float *value = l.values + ((size_t)h * positions + p) * width;
            for (int i = 0; i < s->dim; i += 5) key[i] += s->bias;
            const bool is_left_out = s->window && p < PAST + row + 1 - s->window;
            for (int i = 0; is_left_out && i < width; i++) value[i] *= 1000;
            if (s->is_latent) memcpy(value, key + s->dim - width, width * sizeof *value);
            kv_cache_write(&l.cache, h, p, key, value);
        }
    return l;
}

static void attend_rows(Layer64 *l, int first, int n, bool in_int8, const Watch *watch, int threads, float *out) {
    TeamShared shared = {0};
    Attention a = {.cache = &l->cache,
                   .scratch = l->scratch,
                   .rope = &rope,
                   .spread = &in_place,
                   .n_heads = l->shape.heads,
                   .scale = 1 / sqrtf((float)l->shape.dim),
                   .window = l->shape.window,
                   .q = l->q + (size_t)(first - PAST) * l->shape.heads * l->shape.dim,
                   .first = first,
                   .n = n,
                   .out = out};
    if (rope.rotary_dim) a.angles = &l->angles;
    a.in_int8 = in_int8;
    a.watch = watch;
    (void)threads;
#pragma omp parallel num_threads(threads)
    {
        Team team = team_join(&shared);
        if (a.angles) angles_prepare_by_team(&team, &l->angles, first, n, PAST + N);
        attention_by_team(&team, &a);
    }
}

static void attend_all(Layer64 *l, bool in_int8, const Watch *watch, int threads, float *out) {
    attend_rows(l, PAST, N, in_int8, watch, threads, out);
}

// Key p as it is when it has turned.
static void turned_key(const float *key, int p, int dim, double *out) {
    for (int i = 0; i < dim; i++) out[i] = key[i];
    for (int i = 0; i < rope.rotary_dim; i += 2) {
        double angle = p * pow(rope.theta, -(double)i / rope.rotary_dim);
        out[i] = key[i] * cos(angle) - key[i + 1] * sin(angle);
        out[i + 1] = key[i] * sin(angle) + key[i + 1] * cos(angle);
    }
}

// Row `token` of a head by the definition, from keys and values as they were given.
static void define(const Layer64 *l, int token, int head, double *out) {
    const Shape *s = &l->shape;
    int positions = PAST + N, width = s->value_dim ? s->value_dim : s->dim;
    int kv_head = head / (s->heads / s->kv_heads), end = PAST + token + 1;
    int begin = s->window && end > s->window ? end - s->window : 0;
    const float *q = l->q + ((size_t)token * s->heads + head) * s->dim;
    double scores[PAST + N], max = -INFINITY, total = 0;
    for (int p = begin; p < end; p++) {
        double key[2 * ROPE_MAX_HEAD_DIM];
        turned_key(l->keys + ((size_t)kv_head * positions + p) * s->dim, p, s->dim, key);
        scores[p] = 0;
        for (int i = 0; i < s->dim; i++) scores[p] += (double)q[i] * key[i] / sqrt(s->dim);
        max = fmax(max, scores[p]);
    }
    for (int i = 0; i < width; i++) out[i] = 0;
    for (int p = begin; p < end; p++) {
        const float *value = l->values + ((size_t)kv_head * positions + p) * width;
        double weight = exp(scores[p] - max);
        total += weight;
        for (int i = 0; i < width; i++) out[i] += weight * value[i];
    }
    for (int i = 0; i < width; i++) out[i] /= total;
}

// The error of what was computed for the tokens from number `first` of the late ones on, in shares of the mix's own
// size, both as root mean squares.
static double error_from(const Layer64 *l, int first, const float *out) {
    const Shape *s = &l->shape;
    int width = s->value_dim ? s->value_dim : s->dim;
    double wrong = 0, all = 0, expected[2 * ROPE_MAX_HEAD_DIM];
    for (int token = first; token < N; token += 5)
        for (int head = 0; head < s->heads; head++) {
            define(l, token, head, expected);
            for (int i = 0; i < width; i++) {
                double x = out[((size_t)(token - first) * s->heads + head) * width + i];
                wrong += (x - expected[i]) * (x - expected[i]);
                all += expected[i] * expected[i];
            }
        }
    return sqrt(wrong / all);
}

static double error_of(const Layer64 *l, const float *out) { return error_from(l, 0, out); }

// A cache of 8 or 4 bits rounds keys and values itself, which the same attention in float32 shows.
static void test_shape(const Shape *s) {
    Layer64 l = layer_of(s, 0);
    size_t n = (size_t)N * s->heads * (s->value_dim ? s->value_dim : s->dim);
    float *floats = get(n * sizeof *floats), *threads = get(n * sizeof *threads);
    attend_all(&l, false, NULL, 1, floats);
    attend_all(&l, true, NULL, 1, l.out);
    attend_all(&l, true, NULL, 3, threads);
    double before = error_of(&l, floats), error = error_of(&l, l.out);
    double allowed = sqrt(before * before + 0.02 * 0.02);
    check(error < allowed, "heads of %s: an error of %g, %g in float32", s->name, error, before);
    check(memcmp(floats, l.out, n * sizeof *floats) != 0, "heads of %s: no whole numbers", s->name);
    check(memcmp(threads, l.out, n * sizeof *floats) == 0, "heads of %s: threads differ", s->name);
    free(floats), free(threads);
    arena_close(&l.arena);
}

// A token alone, over a cache of 8 or 4 bits: what it adds to the error of the cache is far less than that. Who watches a
// head gets float32, to which it is compared.
static void test_alone(const Shape *s, int rotary_dim) {
    rope = (RopeConfig){.train_ctx = PAST + N, .rotary_dim = rotary_dim, .theta = 10000};
    const int first = N - 1;
    Layer64 l = layer_of(s, first);
    size_t n = (size_t)s->heads * (s->value_dim ? s->value_dim : s->dim);
    float *floats = get(n * sizeof *floats), *threads = get(n * sizeof *threads);
    float *scores = get((PAST + N) * sizeof *scores);
    attend_rows(&l, PAST + first, 1, false, &(Watch){.scores = scores}, 1, floats);
    attend_rows(&l, PAST + first, 1, false, NULL, 1, l.out);
    attend_rows(&l, PAST + first, 1, false, NULL, 3, threads);
    double before = error_from(&l, first, floats), error = error_from(&l, first, l.out);
    double added = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        added += pow((double)l.out[i] - floats[i], 2);
        size += pow(floats[i], 2);
    }
    added = sqrt(added / size);
    bool is_8_bits = s->kept == KV_Q8;
    check(added < (is_8_bits ? 3e-4 : 0.04), "a token, %s heads of %s: %g beside float32, whose error is %g",
          is_8_bits ? "8 bits," : "4 bits,", s->name, added, before);
    check(error < before * 1.05 + 1e-4, "a token, heads of %s: an error of %g, %g in float32", s->name, error, before);
    KvBlock block = kv_cache_block(&l.cache, 0, 1);
    bool same = memcmp(floats, l.out, n * sizeof *floats) == 0;
    check(!same || !few_rows_take_values(&l.cache, &block), "a token, heads of %s: nothing is rounded", s->name);
    check(memcmp(threads, l.out, n * sizeof *floats) == 0, "a token, heads of %s: threads differ", s->name);
    free(floats), free(threads), free(scores);
    arena_close(&l.arena);
    rope = (RopeConfig){.train_ctx = PAST + N};
}

// A key or a value that is not finite is seen by all later rows, and by no earlier one.
static void test_not_finite(bool is_value, float strange) {
    Layer64 l = layer_of(&shapes[0], 0);
    const int at = PAST + LATE, dim = l.shape.dim;
    float *key = l.keys + (size_t)at * dim, *value = l.values + (size_t)at * dim;
    (is_value ? value : key)[3] = strange;
    for (int p = at; p < PAST + N; p++)
        kv_cache_write(&l.cache, 0, p, l.keys + (size_t)p * dim, l.values + (size_t)p * dim);
    attend_all(&l, true, NULL, 1, l.out);
    int early = 0, late = 0;
    for (int token = 0; token < N; token++) {
        int count = 0;
        for (int i = 0; i < dim; i++)
            count += !isfinite(l.out[(size_t)token * l.shape.heads * dim + i]);
        if (token < LATE) early += count > 0;
        else late += count > 0;
    }
    check(early == 0 && late == N - LATE, "a %s of %g: %d rows before it, %d from it on",
          is_value ? "value" : "key", (double)strange, early, late);
    arena_close(&l.arena);
}

// Who watches a head gets the score of each key, so float32 is multiplied there.
static void test_watched(void) {
    Layer64 l = layer_of(&shapes[0], 0);
    size_t n = (size_t)N * l.shape.heads * l.shape.dim;
    float *floats = get(n * sizeof *floats), *scores = get((PAST + N) * sizeof *scores);
    for (int i = 0; i < PAST + N; i++) scores[i] = NAN;
    attend_all(&l, false, NULL, 1, floats);
    attend_all(&l, true, &(Watch){.head = 1, .scores = scores}, 1, l.out);
    int missing = 0;
    for (int i = 0; i < PAST + N; i++) missing += isnan(scores[i]);
    check(missing == 0, "a watched head: %d keys have no score", missing);
    check(memcmp(floats, l.out, n * sizeof *floats) == 0, "a watched head: whole numbers");
    free(floats), free(scores);
    arena_close(&l.arena);
}

// Layers whose weights are quantized take whole numbers, unless the session or a cap of scores forbids it.
static void test_where(void) {
    static const struct {
        WeightType type;
        bool floats, float_attention, expected;
        float cap;
    } cases[] = {
        {WEIGHT_Q8_0, false, false, true, 0},  {WEIGHT_F32, false, false, false, 0},
        {WEIGHT_F16, false, false, false, 0},  {WEIGHT_BF16, false, false, false, 0},
        {WEIGHT_Q8_0, true, false, false, 0},  {WEIGHT_Q8_0, false, true, false, 0},
        {WEIGHT_Q8_0, false, false, false, 50},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ModelExtra extra = {.attention.score_cap = cases[i].cap};
        Model model = {.config.extra = &extra};
        SessionConfig config = {.floats = cases[i].floats,
                                .float_attention = cases[i].float_attention};
        Transformer t = {.model = &model, .config = &config};
        Layer layer = {.wo.type = cases[i].type};
        check(attends_in_int8(&t, &layer) == cases[i].expected, "where, case %zu", i);
    }
}

int main(void) {
    test_where();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) test_shape(&shapes[i]);
    for (size_t i = 0; i < sizeof few_shapes / sizeof *few_shapes; i++) {
        const Shape *s = &few_shapes[i];
        test_alone(s, 0);
        if (s->kept == KV_Q4) test_alone(s, s->dim);
        if (s->kept == KV_Q4 && s->dim > 12) test_alone(s, s->dim / 2);
    }
    test_watched();
    test_not_finite(false, NAN);
    test_not_finite(true, NAN);
    test_not_finite(true, INFINITY);
    return finish();
}
