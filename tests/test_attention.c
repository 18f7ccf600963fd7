// Attention of prompts in whole numbers of 8 bits beside its definition in float64: shapes of heads, kinds of caches,
// windows, large biases of keys, numbers that are not finite, and threads. Driven by test_attention.py.
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

typedef struct {
    Shape shape;
    KvCache cache;
    AttentionScratch *scratch;
    Arena arena;
    float *keys, *values, *q, *out;  // keys and values (kv_heads, PAST + N, their dim)
} Layer64;

static const RopeConfig rope = {.train_ctx = PAST + N};

static void fill(float *x, size_t n, float size) {
    for (size_t i = 0; i < n; i++) x[i] = size * (float)gauss();
}

static Layer64 layer_of(const Shape *s) {
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
            if (s->is_latent) memcpy(value, key + s->dim - width, width * sizeof *value);
            kv_cache_write(&l.cache, h, p, key, value);
        }
    return l;
}

static void attend_all(const Layer64 *l, bool in_int8, const Watch *watch, int threads, float *out) {
    TeamShared shared = {0};
    Attention a = {.cache = &l->cache,
                   .scratch = l->scratch,
                   .rope = &rope,
                   .spread = &in_place,
                   .n_heads = l->shape.heads,
                   .scale = 1 / sqrtf((float)l->shape.dim),
                   .window = l->shape.window,
                   .q = l->q,
                   .first = PAST,
                   .n = N,
                   .out = out};
    a.in_int8 = in_int8;
    a.watch = watch;
    (void)threads;
#pragma omp parallel num_threads(threads)
    {
        Team team = team_join(&shared);
        attention_by_team(&team, &a);
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
        const float *key = l->keys + ((size_t)kv_head * positions + p) * s->dim;
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

// The error of what was computed, in shares of the mix's own size, both as root mean squares.
static double error_of(const Layer64 *l, const float *out) {
    const Shape *s = &l->shape;
    int width = s->value_dim ? s->value_dim : s->dim;
    double wrong = 0, all = 0, expected[2 * ROPE_MAX_HEAD_DIM];
    for (int token = 0; token < N; token += 5)
        for (int head = 0; head < s->heads; head++) {
            define(l, token, head, expected);
            for (int i = 0; i < width; i++) {
                double x = out[((size_t)token * s->heads + head) * width + i];
                wrong += (x - expected[i]) * (x - expected[i]);
                all += expected[i] * expected[i];
            }
        }
    return sqrt(wrong / all);
}

// A cache of 8 or 4 bits rounds keys and values itself, which the same attention in float32 shows.
static void test_shape(const Shape *s) {
    Layer64 l = layer_of(s);
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

// A key or a value that is not finite is seen by all later rows, and by no earlier one.
static void test_not_finite(bool is_value, float strange) {
    Layer64 l = layer_of(&shapes[0]);
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
    Layer64 l = layer_of(&shapes[0]);
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
    test_watched();
    test_not_finite(false, NAN);
    test_not_finite(true, NAN);
    test_not_finite(true, INFINITY);
    return finish();
}
