// The rope table and the kernels against plain double (or long double) arithmetic. Driven by test_units.py.
#include "tests/test_units.h"

#include "src/fast/angles.h"
#include "src/fast/kernels.h"
#include "src/fast/kv_cache.h"
#include "src/fast/matmul.h"
#include "src/job/job.h"
#include "src/options/methods.h"
#include "src/weights/matrix.h"

static Error err;

// ---- rope ----

// Every pair at every position, cos and sin with the factor.
static void check_turns(double theta, int d, int position, int count, double attention) {
    RopeConfig config = {.rotary_dim = d,
                         .theta = theta,
                         .factor = 1,
                         .train_ctx = 512,
                         .attention_factor = attention == 1 ? 0 : attention};
    RopeFreqs freqs;
    long double worst = 0;
    rope_frequencies(&config, 1, &freqs);
    for (int p = 0; p < count; p++)
        for (int i = 0; i < d / 2; i++) {
            long double angle = (position + (long double)p) * powl(theta, -2.0L * i / d);
            float cosine, sine;
            rope_cos_sin(freqs.inv_freq[i], (double)position + p, freqs.attention_factor, &cosine,
                         &sine);
            worst = fmaxl(worst, fmaxl(fabsl(cosine - (long double)attention * cosl(angle)),
                                       fabsl(sine - (long double)attention * sinl(angle))));
        }
    check(worst <= 1e-6L * attention && freqs.attention_factor == attention,
          "rope_cos_sin theta %g d %d position %d count %d: off by %Lg", theta, d, position, count,
          worst);
}

// Without a method, the frequencies are the plain ones.
static void check_plain(double theta, int d) {
    RopeConfig config = {.rotary_dim = d, .theta = theta, .factor = 1, .train_ctx = 512};
    RopeFreqs freqs;
    int wrong = 0;
    rope_frequencies(&config, 1, &freqs);
    for (int i = 0; i < d / 2; i++) wrong += rope_plain(&config, i) != freqs.inv_freq[i];
    check(wrong == 0 && freqs.n_pairs == d / 2, "rope_plain theta %g d %d: %d of %d wrong", theta,
          d, wrong, freqs.n_pairs);
}

static void test_positions(int quick) {
    const int positions[] = {0,
                             1,
                             63,
                             64,
                             65,
                             511,
                             4095,
                             131071,
                             131072,
                             999983,
                             (1 << 20) - 77,
                             1 << 20,
                             (1 << 24) + 1,
                             (1 << 28) + 3};
    const int counts[] = {1, 2, 63, 64, 65, 129, 200};
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++)
        for (size_t j = 0; j < sizeof counts / sizeof *counts; j += quick ? 3 : 1) {
            check_turns(1e4, 64, positions[i], counts[j], 1);
            check_turns(5e5, 128, positions[i], counts[j], 1.4);
        }
    check_plain(1e4, 64);
    check_plain(5e5, 128);
    check_plain(1e4, 2);
    check_plain(5e6, 1024);
    check_turns(1e4, 2, 12345, 77, 1);
    check_turns(5e6, 1024, 1 << 20, 65, 1);
}

// D(i, j) as published, from a map's complete settings. NAN for a map that is not published: nothing is known of it but
// what its row promises.
static double published(const RopeConfig *c, int i, int j) {
    int d = i - j, w = c->near, g = c->group, m = c->chunk, last = c->train_ctx - 1,
        kept = c->window + c->sinks - 1;
    int chunks = i / m - j / m, next = i % m + m < last ? i % m + m : last;
    if (strcmp(c->map->name, "rerope") == 0) return d < w ? d : w;
    if (strcmp(c->map->name, "leaky-rerope") == 0) return d < w ? d : w + (d - w) / c->k;
    if (strcmp(c->map->name, "self-extend") == 0) return d < w ? d : i / g - j / g + w - w / g;
    if (strcmp(c->map->name, "dca") == 0)
        return chunks == 0 ? d : (chunks == 1 ? next : last) - j % m;
    if (strcmp(c->map->name, "streaming") == 0)
        return d < c->window ? d : (i < kept ? i : kept) - j;
    if (strcmp(c->map->name, "lm-infinite") == 0) return d < c->window ? d : c->window;
    if (strcmp(c->map->name, "string") == 0) return d < w ? d : d - (w - c->local);
    return NAN;
}

// All pairs below n of one map: D is what was published, what is seen stays below L (or, for lm-infinite, at L; string's does as far as it reaches), and
// the formula keeps its promises to attention.
static void check_map(const RopeConfig *c, int n, bool defaults) {
    if (isnan(published(c, 0, 0))) return;
    bool windowed = c->map->flags & ROPE_MAP_WINDOW, kept = true, repeats = true;
    double worst = 0, furthest = 0;
    int period = angles_period(c, n);
    for (int i = 0; i < n; i++) {
        RopeParts own = rope_parts(c, i), before = rope_parts(c, i > 0 ? i - 1 : 0);
        kept = kept && own.near >= 1 && (i == 0 || i - own.near >= i - 1 - before.near);
        double step = rope_parts(c, i + period).key - own.key - rope_parts(c, period).key +
                      rope_parts(c, 0).key;
        repeats = repeats && fabs(step) < 1e-9;
        for (int j = 0; j <= i; j++) {
            double d = rope_distance(c, i, j);
            worst = fmax(worst, fabs(d - published(c, i, j)));
            bool seen = i - j < c->window || j < c->sinks;
            kept = kept && rope_sees(c, i, j) == (!windowed || seen);
            if (!windowed || seen) furthest = fmax(furthest, d);
        }
    }
    const char *name = c->map->name;
    bool at_most =
        furthest < c->train_ctx || (furthest == c->train_ctx && strcmp(name, "lm-infinite") == 0);
    // It is not for any length.
    if (strcmp(name, "string") == 0) at_most = at_most == (n <= c->train_ctx + c->near - c->local);
    check(worst < 1e-9, "%s, L %d, n %d: D is off by %g", name, c->train_ctx, n, worst);
    check(kept && repeats, "%s, L %d, n %d: what attention relies on", name, c->train_ctx, n);
    check(!defaults || at_most, "%s, L %d, n %d: a distance of %g", name, c->train_ctx, n,
          furthest);
}

static void test_maps(int longest) {
    for (int i = 0; i < rope_n_maps; i++) {
        const RopeConfig c = {.map = &rope_maps[i], .group = 1, .chunk = 1, .k = 1};
        if (isnan(published(&c, 0, 0)))
            printf("no published formula for the map %s; add one here (published, "
                   "tests/test_units.c)\n",
                   rope_maps[i].name);
    }
    static const int contexts[] = {5, 16, 48, 64, 511, 512},
                     lengths[] = {1, 2, 15, 64, 65, 200, 1000, 4000};
    static const char *const given[] = {"rerope:near=7",
                                       "leaky-rerope:near=7:k=2.5",
                                       "self-extend:near=7:group=5",
                                       "self-extend:near=9",
                                       "dca:chunk=7",
                                       "dca:chunk=11",
                                       "dca:chunk=1",
                                       "streaming:sinks=3:window=9",
                                       "streaming:sinks=0",
                                       "lm-infinite:window=6:sinks=9",
                                       "string:near=7:local=3",
                                       "string:near=4:local=4"};
    enum { N_GIVEN = sizeof given / sizeof *given };
    for (size_t l = 0; l < sizeof contexts / sizeof *contexts; l++)
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
            for (int i = 0; i < rope_n_maps + N_GIVEN; i++) {
                const RopeConfig start = {
                    .rotary_dim = 8, .theta = 1e4, .train_ctx = contexts[l], .truncate = true};
                bool defaults = i < rope_n_maps;
                RopePlan plan;
                int n;
                if (lengths[k] > longest || lengths[k] > 8 * contexts[l] + 200) continue;
                if (!defaults && (contexts[l] < 16 || lengths[k] > 200)) continue;
                RopeSettings *list =
                    methods_parse(defaults ? rope_maps[i].name : given[i - rope_n_maps],
                                  &(RopeSettings){.given = 0}, &n, &err);
                check(list && settings_resolve(list, &start, 0, lengths[k], &plan, &err),
                      "a map: %s", err.text);
                check_map(&plan.rope, lengths[k], defaults);
                free(list);
            }
}

static void test_rotate(void) {
    for (int pairs = 1; pairs <= 40; pairs++) {
        float x[80], y[80], c[40], s[40];
        double worst = 0;
        for (int i = 0; i < 2 * pairs; i++) y[i] = x[i] = (float)gauss();
        for (int i = 0; i < pairs; i++) c[i] = (float)cos(i + 0.3), s[i] = (float)sin(i + 0.3);
        rope_rotate(y, pairs, c, s);
        for (int i = 0; i < pairs; i++) {
            double a = x[2 * i] * (double)c[i] - x[2 * i + 1] * (double)s[i],
                   b = x[2 * i] * (double)s[i] + x[2 * i + 1] * (double)c[i];
            worst = fmax(worst, fmax(fabs(a - y[2 * i]), fabs(b - y[2 * i + 1])));
        }
        check(worst < 1e-6, "rope_rotate of %d pairs: off by %g", pairs, worst);
    }
}

// ---- number formats ----

static double half_value(uint16_t h) {
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double x = exponent == 0    ? ldexp(fraction, -24)
               : exponent == 31 ? (fraction ? NAN : INFINITY)
                                : ldexp(1024 + fraction, exponent - 25);
    return h & 0x8000 ? -x : x;
}

static uint16_t to_half(float x, int many) {  // through the wide loop or through the remainder
    float in[32];
    uint16_t out[32];
    for (int i = 0; i < 32; i++) in[i] = x;
    numbers_from_f32(out, NUMBER_F16, in, many ? 32 : 1);
    return out[many ? 17 : 0];
}

static void test_f16(void) {
    static uint16_t all[65536];
    static float wide[65536];
    int bad[2] = {0}, back[2] = {0}, ties[2] = {0};
    for (int h = 0; h < 65536; h++) all[h] = (uint16_t)h;
    numbers_to_f32(wide, all, NUMBER_F16, 65536);
    for (int h = 0; h < 65536; h++)
        for (int many = 0; many < 2; many++) {
            double x = half_value((uint16_t)h), next = half_value((uint16_t)(h + 1));
            float one;
            numbers_to_f32(&one, &all[h], NUMBER_F16, 1);
            float found = many ? wide[h] : one;
            bad[many] += isnan(x) ? !isnan(found) : found != x || !signbit(found) != !signbit(x);
            uint16_t round_trip = to_half(found, many);
            back[many] += isnan(x) ? !isnan(half_value(round_trip)) : round_trip != h;
            if (isnan(x) || isinf(x) || (h & 0x7fff) == 0x7bff) continue;
            // Between this and the next: below the middle it is this, above it the next, in the middle the even one.
            float middle = (float)((x + next) / 2),
                  away = x < 0 || signbit(x) ? -INFINITY : INFINITY;
            float below = nextafterf(middle, 0), above = nextafterf(middle, away);
            ties[many] += to_half(middle, many) != (h & 1 ? h + 1 : h) ||
                          to_half(below, many) != h || to_half(above, many) != h + 1;
        }
    for (int many = 0; many < 2; many++) {
        check(bad[many] == 0, "f16 to f32 (%s): %d of 65536 wrong", many ? "wide" : "single",
              bad[many]);
        check(back[many] == 0, "f16 to f32 and back (%s): %d of 65536 wrong",
              many ? "wide" : "single", back[many]);
        check(ties[many] == 0, "f32 to f16 rounds to nearest even (%s): %d wrong",
              many ? "wide" : "single", ties[many]);
        check(to_half(65519.996f, many) == 0x7bff && to_half(65520, many) == 0x7c00,
              "f32 to f16 at the largest");
        check(to_half(-1e30f, many) == 0xfc00 && to_half(1e-9f, many) == 0,
              "f32 to f16 beyond the ends");
    }
}

static void test_i8(void) {
    for (int n = 1; n <= 130; n++) {
        float x[130], back[130], most = 0;
        int8_t q[130];
        double worst = 0;
        for (int i = 0; i < n; i++) x[i] = (float)(gauss() * 3), most = fmaxf(most, fabsf(x[i]));
        float scale = numbers_from_f32(q, NUMBER_I8, x, (size_t)n);
        numbers_to_f32(back, q, NUMBER_I8, (size_t)n);
        for (int i = 0; i < n; i++) worst = fmax(worst, fabs((double)back[i] * scale - x[i]));
        check(fabs(scale - most / 127.0) <= 1e-7 * most && worst <= scale * 0.50001,
              "int8 of %d: off by %g with scale %g", n, worst, (double)scale);
    }
    float zeros[70] = {0}, tiny[70];
    int8_t q[70];
    memset(q, 1, sizeof q);
    check(numbers_from_f32(q, NUMBER_I8, zeros, 70) == 0 && q[0] == 0 && q[69] == 0,
          "int8 of zeros");
    for (int i = 0; i < 70; i++) tiny[i] = (float)(i - 30) * 1e-40f;
    float scale = numbers_from_f32(q, NUMBER_I8, tiny, 70);
    double worst = 0;
    for (int i = 0; i < 70; i++) worst = fmax(worst, fabs((double)q[i] * scale - tiny[i]));
    check(worst <= 1e-37, "int8 of tiny numbers: off by %g", worst);
    for (int n = 1; n <= 40; n += 3)  // what is no number is not lost
        for (int at = 0; at < n; at++) {
            float x[40] = {0};
            x[at] = at % 2 ? NAN : -INFINITY;
            check(!isfinite(numbers_from_f32(q, NUMBER_I8, x, (size_t)n)),
                  "int8 of %d with %g at %d", n, (double)x[at], at);
        }
}

// ---- loops over vectors ----

// GELU in its tanh form, in double.
static double gelu_of(double x) {
    double z = sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
    return x * (1 + tanh(z)) / 2;
}

static void test_vectors(void) {
    enum { MOST = 100 };
    for (int n = 1; n <= MOST; n++) {
        float x[MOST], y[MOST], w[MOST], out[MOST];
        double squares = 0, sum = 0, worst = 0, largest = -INFINITY;
        for (int i = 0; i < n; i++) {
            x[i] = (float)(gauss() * 20), y[i] = (float)gauss(), w[i] = (float)gauss();
            squares += (double)x[i] * x[i];
            largest = fmax(largest, x[i]);
        }
        float eps = n % 2 ? 1e-5f : 50;
        rmsnorm_fast(out, x, w, n, eps);
        for (int i = 0; i < n; i++)
            worst = fmax(worst, fabs(out[i] - x[i] / sqrt(squares / n + eps) * w[i]));
        check(worst < 3e-6, "rmsnorm of %d: off by %g", n, worst);

        memcpy(out, x, sizeof x);
        swiglu(out, y, (size_t)n);
        for (int i = worst = 0; i < n; i++)
            worst = fmax(worst, fabs(out[i] - x[i] / (1 + exp(-(double)x[i])) * y[i]));
        check(worst < 2e-5, "swiglu of %d: off by %g", n, worst);

        memcpy(out, x, sizeof x);
        geglu(out, y, n);
        for (int i = worst = 0; i < n; i++)
            worst = fmax(worst, fabs(out[i] - gelu_of(x[i]) * y[i]));
        check(worst < 2e-5, "geglu of %d: off by %g", n, worst);

        check(max_of(x, n) == (float)largest, "max_of %d", n);
        memcpy(out, x, sizeof x);
        out[n / 2] = n > 1 ? -INFINITY : out[0];
        float total = exp_and_sum(out, n, (float)largest);
        for (int i = worst = 0; i < n; i++) {
            double e = i == n / 2 && n > 1 ? 0 : exp((double)(x[i] - (float)largest));
            worst = fmax(worst, e > 1e-37                  ? fabs(out[i] / e - 1)
                                : fabs(out[i] - e) > 2e-38 ? 1
                                                           : 0);
            sum += e;
        }
        check(worst < 4e-7 && fabs(total / sum - 1) < 1e-6 && (n == 1 || out[n / 2] == 0),
              "exp_and_sum of %d: off by %g, the sum by %g", n, worst, total / sum - 1);

        memcpy(out, x, sizeof x);
        scale_by(out, 0.37f, (size_t)n);
        for (int i = worst = 0; i < n; i++)
            worst = fmax(worst, fabs(out[i] - (double)x[i] * 0.37f));
        check(worst < 1e-5, "scale_by of %d: off by %g", n, worst);
    }
    check(max_of(NULL, 0) == -INFINITY, "max_of nothing");
    double worst = 0;
    for (float x = 0; x > -87; x -= 0.0137f) {
        float e = x;
        exp_and_sum(&e, 1, 0);
        worst = fmax(worst, fabs(e / exp(x) - 1));
    }
    check(worst < 3e-7, "exp from 0 to -87: off by %g", worst);
    for (float x = -100; x <= 100; x += 0.25f) {  // the ends of silu
        float found = x, one = 1;
        swiglu(&found, &one, 1);
        check(fabs(found - x / (1 + exp(-(double)x))) <= 3e-7 * fabs(x) + 1e-30, "silu of %g is %g",
              (double)x, (double)found);
    }
    const float far[] = {1e10f,  3e38f, -1e10f,
                         -3e38f, 0,     1e-38f};  // their cubes are no numbers any more
    for (int i = -1000; i < 1006; i++) {
        float x = i < 1000 ? 0.011f * (float)i : far[i - 1000], found = x, one = 1;
        geglu(&found, &one, 1);
        check(fabs(found - gelu_of(x)) <= 4e-7 * fabs(x) + 1e-30, "gelu of %g is %g", (double)x,
              (double)found);
    }
    float nan = NAN, one = 1;
    geglu(&nan, &one, 1);
    check(isnan(nan), "gelu of NaN is %g", (double)nan);
}

// Puts a random number of a type at a place, an int8 without a scale. Returns what it is there.
static float put_number(uint8_t *at, Number type) {
    float x = (float)uniform();
    int8_t byte = (int8_t)(x * 127);
    if (type == NUMBER_I8) {
        memcpy(at, &byte, 1);
        return byte;
    }
    numbers_from_f32(at, type, &x, 1);
    uint16_t half;
    memcpy(&half, at, sizeof half);
    return type == NUMBER_F16 ? (float)half_value(half) : x;
}

static void test_gemm(void) {
    static const char *const names[] = {
        [NUMBER_F16] = "float16", [NUMBER_F32] = "float32", [NUMBER_I8] = "int8"};
    for (int m = 1; m <= 14; m++)
        for (int n = 16; n <= 80; n += 16)
            for (int k = 1; k <= 70; k += 23)
                for (int type = 0; type <= NUMBER_I8; type++) {
                    size_t lda = (size_t)k + 3, ldb = (size_t)n + 5,
                           size = (size_t)number_bytes((Number)type);
                    float *a = get((size_t)m * lda * 4), *c = get((size_t)m * (size_t)n * 4),
                          *wide = get((size_t)k * ldb * 4);
                    uint8_t *b = get((size_t)k * ldb * size);
                    double worst = 0;
                    for (size_t i = 0; i < (size_t)m * lda; i++) a[i] = (float)uniform();
                    for (size_t i = 0; i < (size_t)k * ldb; i++)
                        wide[i] = put_number(b + i * size, (Number)type);
                    for (size_t i = 0; i < (size_t)m * (size_t)n; i++) c[i] = 7;
                    gemm_accumulate(
                        &(Gemm){m, n, k, a, (int64_t)lda, b, (Number)type, (int64_t)ldb, c, NULL});
                    for (int i = 0; i < m; i++)
                        for (int j = 0; j < n; j++) {
                            double sum = 7, most = 7;
                            for (int p = 0; p < k; p++) {
                                double product = (double)a[(size_t)i * lda + (size_t)p] *
                                                 wide[(size_t)p * ldb + (size_t)j];
                                sum += product, most += fabs(product);
                            }
                            worst = fmax(worst, fabs(sum - c[i * n + j]) / most);
                        }
                    check(worst < 1e-6,
                          "gemm_accumulate %s %d x %d x %d: off by %g of the sum of magnitudes",
                          names[type], m, n, k, worst);
                    free(a), free(b), free(c), free(wide);
                }
}

// Keys turned on the way: against turning each in double first.
static void test_rotated(void) {
    for (int m = 1; m <= 13; m++)
        for (int pairs = 1; pairs <= 33; pairs += 8)
            for (int type = 0; type <= NUMBER_I8; type++) {
                size_t k = 2 * (size_t)pairs, size = (size_t)number_bytes((Number)type);
                float *a = get((size_t)m * k * 4), *c = get((size_t)m * 64 * 4),
                      *cosines = get(k * 64 * 4), *sines = cosines + k * 32;
                double *keys = get(k * 64 * 8), worst = 0;
                uint8_t *b = get(k * 64 * size);
                for (size_t i = 0; i < k * 64; i++)
                    keys[i] = put_number(b + i * size, (Number)type);
                for (size_t i = 0; i < (size_t)m * k; i++) a[i] = (float)uniform();
                for (int i = 0; i < m * 64; i++) c[i] = 2;
                for (int i = 0; i < pairs * 64; i++) {
                    double angle = uniform() * 7, x = keys[i / 64 * 128 + i % 64],
                           y = keys[i / 64 * 128 + 64 + i % 64];
                    cosines[i] = (float)cos(angle), sines[i] = (float)sin(angle);
                    keys[i / 64 * 128 + i % 64] = x * (double)cosines[i] - y * (double)sines[i];
                    keys[i / 64 * 128 + 64 + i % 64] =
                        x * (double)sines[i] + y * (double)cosines[i];
                }
                gemm_accumulate(
                    &(Gemm){m, 64, 2 * pairs, a, (int64_t)k, b, (Number)type, 64, c, cosines});
                for (int i = 0; i < m; i++)
                    for (int j = 0; j < 64; j++) {
                        double sum = 2, most = 2;
                        for (size_t p = 0; p < k; p++)
                            sum += a[(size_t)i * k + p] * keys[p * 64 + (size_t)j],
                                most += fabs(a[(size_t)i * k + p] * keys[p * 64 + (size_t)j]);
                        worst = fmax(worst, fabs(sum - c[i * 64 + j]) / most);
                    }
                check(worst < 1e-6,
                      "gemm_accumulate, rotated, type %d, %d rows, %d pairs: off by %g of the sum "
                      "of magnitudes",
                      type, m, pairs, worst);
                free(a), free(b), free(c), free(cosines), free(keys);
            }
}

// ---- products ----

static bool floats;  // all products multiply float32, and not activations that are rounded to int8

enum { FLAT = 100 };  // beside the weight types: q8 whose groups cross rows

// Packs of 64 columns in 32 bytes: column j in the low half of byte j, column j + 32 in its high half; two float16 scales for each.
static Matrix random_q4(int rows, int cols, double *weights, uint8_t **memory) {
    size_t per_row = ((size_t)cols + 63) / 64, packs = (size_t)rows * per_row;
    uint8_t *data = (*memory = get(packs * 36 + 8)) + 1, *scales = data + packs * 32 + 2;
    for (size_t i = 0; i < packs * 2; i++) {
        float scale = (float)(0.01 + 0.1 * fabs(uniform())) * (i % 5 ? 1.f : -1.f);
        uint16_t half;
        numbers_from_f32(&half, NUMBER_F16, &scale, 1);
        memcpy(scales + 2 * i, &half, 2);
    }
    memset(data, 0x88, packs * 32);  // what fills up a row's last pack
    for (size_t r = 0; r < (size_t)rows; r++)
        for (size_t c = 0; c < (size_t)cols; c++) {
            size_t pack = r * per_row + c / 64, j = c % 64;
            uint8_t *byte = data + pack * 32 + j % 32, q = random_bits() % 16;
            uint16_t half;
            *byte = (uint8_t)(j < 32 ? (*byte & 0xf0) | q : (*byte & 0x0f) | q << 4);
            memcpy(&half, scales + 4 * pack + 2 * (j / 32), 2);
            weights[r * (size_t)cols + c] = (q - 8) * half_value(half);
        }
    return (Matrix){.type = WEIGHT_Q4,
                    .rows = rows,
                    .cols = cols,
                    .data = data,
                    .scales = scales,
                    .group_size = 32};
}

// Random blocks, drawn again until their values are neither large nor all small, at an odd address.
static Matrix random_blocks(WeightType type, int rows, int cols, double *weights,
                            uint8_t **memory) {
    const int columns = block_columns(type);
    const size_t n = (size_t)rows * (size_t)cols / (size_t)columns;
    const size_t bytes = (size_t)matrix_row_bytes(&(Matrix){.type = type, .cols = columns});
    uint8_t *data = (*memory = get(n * bytes)) + 1;
    float *values = get((size_t)columns * 4);
    for (size_t b = 0; b < n; b++) {
        float most;
        do {
            for (size_t i = 0; i < bytes; i++) data[b * bytes + i] = (uint8_t)random_bits();
            const Matrix block = {
                .type = type, .rows = 1, .cols = columns, .data = data + b * bytes};
            matrix_row(&block, 0, 0, columns, values);
            most = 0;
            for (int i = 0; i < columns; i++)
                most = fabsf(values[i]) <= most ? most : fabsf(values[i]);
        } while (!(most > 0.01f && most < 10));
        for (int i = 0; i < columns; i++) weights[b * (size_t)columns + (size_t)i] = values[i];
    }
    free(values);
    return (Matrix){.type = type, .rows = rows, .cols = cols, .data = data};
}

// A random matrix at an odd address, and the weights that it stands for.
static Matrix random_matrix(int type, int group, int rows, int cols, double *weights,
                            uint8_t **memory) {
    size_t n = (size_t)rows * (size_t)cols,
           per_row = ((size_t)cols + (size_t)(group ? group : 1) - 1) / (size_t)(group ? group : 1);
    size_t n_groups =
        type == FLAT ? (n + (size_t)group - 1) / (size_t)group : (size_t)rows * per_row;
    size_t odd = type == WEIGHT_F32 ? 4 : 1;
    if (type == WEIGHT_Q4) return random_q4(rows, cols, weights, memory);
    if (type > WEIGHT_Q4 && type < N_WEIGHT_TYPES)
        return random_blocks((WeightType)type, rows, cols, weights, memory);
    uint8_t *data = *memory = get(n * 4 + n_groups * 4 + 64), *scales = data + odd + n + 2;
    Matrix m = {.type = type == FLAT ? WEIGHT_Q8 : (WeightType)type,
                .rows = rows,
                .cols = cols,
                .data = data + odd,
                .group_size = group,
                .groups_cross_rows = type == FLAT};
    if (group) m.scales = scales;
    for (size_t g = 0; group && g < n_groups; g++) {
        float scale = (float)(0.001 + 0.01 * fabs(uniform()));
        memcpy(scales + 4 * g, &scale, 4);
    }
    for (size_t i = 0; i < n; i++) {
        float x = (float)gauss(), scale;
        uint32_t bits;
        uint16_t half;
        int8_t q = (int8_t)(uniform() * 127.5);
        switch (type) {
        case WEIGHT_F32: memcpy(data + odd + 4 * i, &x, 4), weights[i] = x; break;
        case WEIGHT_F16:
            numbers_from_f32(&half, NUMBER_F16, &x, 1), memcpy(data + odd + 2 * i, &half, 2),
                weights[i] = half_value(half);
            break;
        case WEIGHT_BF16:
            memcpy(&bits, &x, 4), half = (uint16_t)(bits >> 16), bits &= 0xffff0000;
            memcpy(data + odd + 2 * i, &half, 2), memcpy(&x, &bits, 4), weights[i] = x;
            break;
        default:
            memcpy(&scale,
                   scales + 4 * (type == FLAT ? i / (size_t)group
                                              : i / (size_t)cols * per_row +
                                                    i % (size_t)cols / (size_t)group),
                   4);
            data[odd + i] = (uint8_t)q, weights[i] = (double)q * scale;
        }
    }
    return m;
}

// Columns of activations that are rounded to int8 with a scale of their own: 64 for q4 and for q8 groups of 64, 32 for
// ggml's blocks, 0 where they stay float32.
static int rounded_group(int type, int group) {
    if (floats || type == FLAT || type < WEIGHT_Q8) return 0;
    return type == WEIGHT_Q8 && group != 64 ? 0 : type > WEIGHT_Q4 ? 32 : 64;
}

// What the activations are to the product when they are rounded. slack is how far a number may be from there because it
// lies between two whole numbers.
static void round_activations(const float *x, int n, int cols, int group, double *rounded,
                              double *slack) {
    for (int t = 0; t < n; t++)
        for (int first = 0; first < cols; first += group) {
            int count = cols - first < group ? cols - first : group;
            const float *from = x + (size_t)t * (size_t)cols + first;
            double most = 0;
            for (int i = 0; i < count; i++) most = fmax(most, fabs(from[i]));
            for (int i = 0; i < count; i++) {
                double steps = most > 0 ? from[i] / most * 127 : 0;
                size_t at = (size_t)t * (size_t)cols + (size_t)(first + i);
                rounded[at] = rint(steps) * most / 127;
                slack[at] = fabs(steps - floor(steps) - 0.5) < 1e-4 ? most / 127 : 0;
            }
        }
}

enum { MOST_N = 65, STRIDE = 200, N_PRODUCTS = 3 };

static Workspace *open_workspace(Arena *arena, int n, int cols, int threads) {
    *arena = (Arena){0};
    workspace_lay_out(arena, n, cols, threads, floats);
    if (!arena_open(arena, "the products", &err)) exit(2);
    return workspace_lay_out(arena, n, cols, threads, floats);
}

static void by_team(const Product *products, int n_products, const Input *input, Workspace *ws,
                    int threads) {
    TeamShared shared = {0};
#pragma omp parallel num_threads(threads)
    {
        Team team = team_join(&shared);
        matmul_by_team(&team, products, n_products, input, ws);
    }
}

// Products by a team of so many threads.
static void multiply(const Product *products, int n_products, const float *x, int n, int cols,
                     int threads) {
    use_threads(threads);
    Arena arena;
    Workspace *ws = open_workspace(&arena, n, cols, threads);
    by_team(products, n_products, &(Input){.x = x, .n = n}, ws, threads);
    arena_close(&arena);
}

// What a product may do beside: a norm of the input, a gate, adding to what is there. Against the same things done one by one.
static void check_fused(const char *name, int type, int group, int rows, int cols, int n) {
    double *weights = get((size_t)rows * (size_t)cols * 8);
    uint8_t *memory[2];
    Matrix up = random_matrix(type, group, rows, cols, weights, &memory[0]),
           gate = random_matrix(type, group, rows, cols, weights, &memory[1]);
    float *x = get((size_t)n * (size_t)cols * 4), *normed = get((size_t)n * (size_t)cols * 4),
          *norm = get((size_t)cols * 4);
    float *out = get((size_t)n * STRIDE * 4), *a = get((size_t)n * STRIDE * 4),
          *b = get((size_t)n * STRIDE * 4);
    for (int i = 0; i < n * cols; i++) x[i] = (float)gauss();
    for (int i = 0; i < cols; i++) norm[i] = (float)(1 + 0.3 * gauss());
    for (int t = 0; t < n; t++) rmsnorm_fast(normed + t * cols, x + t * cols, norm, cols, 1e-5f);
    multiply(&(Product){.matrix = &up, .out = a, .stride = STRIDE}, 1, normed, n, cols, 1);
    multiply(&(Product){.matrix = &gate, .out = b, .stride = STRIDE}, 1, normed, n, cols, 1);
    for (int threads = 1; threads <= 3; threads += 2) {
        use_threads(threads);
        Arena arena;
        Workspace *ws = open_workspace(&arena, n, cols, threads);
        const Input input = {x, n, norm, 1e-5f};
        const Product plain = {.matrix = &up, .out = out, .stride = STRIDE},
                      added = {.matrix = &up, .out = out, .stride = STRIDE, .add = true};
        const Product gated = {.matrix = &up, .gate = &gate, .out = out, .stride = STRIDE};
        int wrong = 0;
        for (int i = 0; i < n * STRIDE; i++) out[i] = 3;
        by_team(&plain, 1, &input, ws, threads);
        for (int t = 0; t < n; t++)
            for (int r = 0; r < STRIDE; r++)
                wrong += out[t * STRIDE + r] != (r < rows ? a[t * STRIDE + r] : 3);
        check(wrong == 0, "matmul %s %d x %d with %d vectors and a norm, %d threads: %d wrong",
              name, rows, cols, n, threads, wrong);
        by_team(&added, 1, &input, ws, threads);
        for (int t = wrong = 0; t < n; t++)
            for (int r = 0; r < STRIDE; r++)
                wrong +=
                    out[t * STRIDE + r] != (r < rows ? a[t * STRIDE + r] + a[t * STRIDE + r] : 3);
        check(wrong == 0, "matmul %s %d x %d with %d vectors, added, %d threads: %d wrong", name,
              rows, cols, n, threads, wrong);
        by_team(&gated, 1, &input, ws, threads);
        for (int t = wrong = 0; t < n; t++)
            for (int r = 0; r < STRIDE; r++) {
                double g = b[t * STRIDE + r],
                       expected = r < rows ? g / (1 + exp(-g)) * a[t * STRIDE + r] : 3;
                wrong += !(fabs(out[t * STRIDE + r] - expected) <= 1e-6 * fabs(expected) + 1e-7);
            }
        check(wrong == 0, "matmul %s %d x %d with %d vectors and a gate, %d threads: %d wrong",
              name, rows, cols, n, threads, wrong);
        arena_close(&arena);
    }
    free(weights), free(memory[0]), free(memory[1]), free(x), free(normed), free(norm), free(out),
        free(a), free(b);
}

static void check_products(const char *name, int type, int group, int rows, int cols) {
    static const int counts[] = {1, 2, 3, 4, 5, 6, 7, 17, 63, 64, 65};
    const int n_rows[N_PRODUCTS] = {rows, 1 + rows / 2, 70};
    Matrix matrices[N_PRODUCTS];
    Product products[N_PRODUCTS];
    uint8_t *memory[N_PRODUCTS];
    size_t n_x = (size_t)MOST_N * (size_t)cols, stride = STRIDE,
           size = MOST_N * stride;  // of one product's numbers
    double *weights[N_PRODUCTS], *expected = get(N_PRODUCTS * size * 8),
                                 *tolerance = get(N_PRODUCTS * size * 8);
    double *seen = get(n_x * 8), *slack = get(n_x * 8);
    float *x = get(n_x * 4), *out = get(N_PRODUCTS * size * 4), *again = get(size * 4),
          *row = get((size_t)cols * 4);
    for (size_t i = 0; i < n_x; i++) seen[i] = x[i] = (float)gauss();
    if (cols > 64) memset(x, 0, 64 * 4), memset(seen, 0, 64 * 8);  // a group of zeros
    int together = rounded_group(type, group);
    if (together) round_activations(x, MOST_N, cols, together, seen, slack);
    for (int p = 0; p < N_PRODUCTS; p++) {
        weights[p] = get((size_t)n_rows[p] * (size_t)cols * 8);
        matrices[p] = random_matrix(type, group, n_rows[p], cols, weights[p], &memory[p]);
    }
    int wrong = 0;
    for (int r = 0; r < rows; r++) {
        int from = (int)(random_bits() % (uint32_t)cols), count = cols - from;
        matrix_row(&matrices[0], r, from, count, row);
        for (int i = 0; i < count; i++)
            wrong += fabs(row[i] - weights[0][(size_t)r * (size_t)cols + (size_t)(from + i)]) >
                     1e-7 * fabs(row[i]);
    }
    check(wrong == 0, "matrix_row %s %d x %d: %d wrong", name, rows, cols, wrong);
    float *room = get((size_t)(cols + Q4_PACK) * 4);
    for (int r = wrong = 0; r < rows; r++) {
        const float *plain = weights_row(&matrices[0], r, room);
        for (int i = 0; i < cols; i++)
            wrong += !(fabs(plain[i] - weights[0][(size_t)r * (size_t)cols + (size_t)i]) <=
                       1e-7 * fabs(plain[i]));
    }
    check(wrong == 0, "weights_row %s %d x %d: %d wrong", name, rows, cols, wrong);
    free(room);
    for (int p = 0; p < N_PRODUCTS; p++) {
        for (int t = 0; t < MOST_N; t++)
            for (int r = 0; r < n_rows[p]; r++) {
                const double *w = weights[p] + (size_t)r * (size_t)cols,
                             *v = seen + (size_t)t * (size_t)cols,
                             *s = slack + (size_t)t * (size_t)cols;
                double sum = 0, most = 0, unsure = 0;
                for (int i = 0; i < cols; i++)
                    sum += w[i] * v[i], most += fabs(w[i] * v[i]), unsure += fabs(w[i]) * s[i];
                size_t of = (size_t)p * size + (size_t)t * stride + (size_t)r;
                expected[of] = sum;
                tolerance[of] = 1e-6 * most + unsure + 1e-12;
            }
    }
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        int n = counts[c], threads = c % 3 == 0 ? 3 : 1;
        for (size_t i = 0; i < N_PRODUCTS * size; i++) out[i] = -77;
        for (int p = 0; p < N_PRODUCTS; p++)
            products[p] =
                (Product){.matrix = &matrices[p], .out = out + (size_t)p * size, .stride = stride};
        multiply(products, N_PRODUCTS, x, n, cols, threads);
        for (int p = 0; p < N_PRODUCTS; p++) {
            const float *found = out + (size_t)p * size;
            double worst = 0;
            int touched = 0;
            for (int t = 0; t < n; t++)
                for (int r = 0; r < (int)stride; r++) {
                    size_t at = (size_t)t * stride + (size_t)r, of = (size_t)p * size + at;
                    if (r < n_rows[p]) {
                        double off = fabs(found[at] - expected[of]) / tolerance[of];
                        worst = fmax(worst, isfinite(found[at]) ? off : INFINITY);
                    } else touched += found[at] != -77;
                }
            check(worst <= 1 && !touched,
                  "matmul %s %d x %d with %d vectors, product %d: %g times the tolerance, %d "
                  "written outside",
                  name, n_rows[p], cols, n, p, worst, touched);
            // The same bits for every number of threads, alone or with others. Teams take turns: most of their time is waiting.
            const int other = 1 + 2 * (int)((c + (size_t)p) % 3);
            for (size_t i = 0; i < size; i++) again[i] = -77;
            multiply(&(Product){.matrix = &matrices[p], .out = again, .stride = stride}, 1, x, n,
                     cols, other);
            check(memcmp(found, again, size * 4) == 0,
                  "matmul %s %d x %d with %d vectors: %d threads give other bits than %d", name,
                  n_rows[p], cols, n, other, threads);
        }
    }
    for (int p = 0; p < N_PRODUCTS; p++) free(weights[p]), free(memory[p]);
    free(expected), free(tolerance), free(seen), free(slack), free(x), free(out), free(again),
        free(row);
}

// Activations that rounding to int8 keeps: whole numbers, one of each 32 the largest.
static void whole_activations(float *x, int n, int cols) {
    for (int i = 0; i < n * cols; i++)
        x[i] = (float)(i % cols % 32 == 5 ? 127 : (int)(random_bits() % 7) - 3);
}

// Matrices of several types in one call, and a gate of another type than what it gates.
static void check_mixed(int n) {
    enum { ROWS = 70, COLS = 96, KINDS = 5 };
    static const int types[KINDS] = {WEIGHT_Q4_0, WEIGHT_Q4, WEIGHT_Q8, WEIGHT_F16, WEIGHT_Q5_1};
    double *weights[KINDS], worst = 0;
    uint8_t *memory[KINDS];
    Matrix m[KINDS];
    float *x = get(MOST_N * COLS * 4), *out = get((size_t)KINDS * MOST_N * STRIDE * 4);
    whole_activations(x, n, COLS);
    for (int k = 0; k < KINDS; k++) {
        weights[k] = get(ROWS * COLS * 8);
        m[k] = random_matrix(types[k], types[k] == WEIGHT_Q8 ? 64 : 0, ROWS, COLS, weights[k],
                             &memory[k]);
    }
    for (int first = 0; first < KINDS; first++) {  // a product, and one with a gate
        int second = (first + 1) % KINDS, gate = (first + 2) % KINDS;
        const Product both[] = {{.matrix = &m[first], .out = out, .stride = STRIDE},
                                {.matrix = &m[second],
                                 .gate = &m[gate],
                                 .out = out + MOST_N * STRIDE,
                                 .stride = STRIDE}};
        multiply(both, 2, x, n, COLS, 1 + first % 2);
        for (int t = 0; t < n; t++)
            for (int r = 0; r < ROWS; r++) {
                double sums[KINDS] = {0};
                for (int k = 0; k < KINDS; k++)
                    for (int c = 0; c < COLS; c++)
                        sums[k] += weights[k][r * COLS + c] * x[t * COLS + c];
                double gated = sums[second] * sums[gate] / (1 + exp(-sums[gate]));
                worst =
                    fmax(worst, fabs(out[t * STRIDE + r] - sums[first]) / (1 + fabs(sums[first])));
                worst =
                    fmax(worst, fabs(out[(MOST_N + t) * STRIDE + r] - gated) / (1 + fabs(gated)));
            }
    }
    check(worst < 1e-3, "a set of matrices of several types with %d vectors: off by %g", n, worst);
    for (int k = 0; k < KINDS; k++) free(weights[k]), free(memory[k]);
    free(x), free(out);
}

// The scale of block b becomes 1 or -2; and the offset's, where there is one.
static void set_scale(int type, uint8_t *block, size_t b) {
    static const int places[N_WEIGHT_TYPES][2] = {
        [WEIGHT_Q4_1] = {0, 2},     [WEIGHT_Q5_1] = {0, 2},    [WEIGHT_Q2_K] = {80, 82},
        [WEIGHT_Q3_K] = {108, 108}, [WEIGHT_Q4_K] = {0, 2},    [WEIGHT_Q5_K] = {0, 2},
        [WEIGHT_Q6_K] = {208, 208}, [WEIGHT_MXFP4] = {-1, -1}, [WEIGHT_NVFP4] = {-1, -1}};
    const uint16_t one = 0x3c00, minus_two = 0xc000;
    for (int i = 0; i < 2; i++)
        if (places[type][i] >= 0) memcpy(block + places[type][i], b % 3 ? &one : &minus_two, 2);
    if (type == WEIGHT_MXFP4) block[0] = 128;
    for (int k = 0; k < 4 && type == WEIGHT_NVFP4; k++) block[k] = 64;
}

// Weights that are whole numbers or eighths, and activations that stay so: every sum is one that float32 has, whatever the order,
// so that in place and in panels, on every processor, the product is the exact one to the last bit.
static void check_whole(int type, int cols) {
    enum { ROWS = 67, N = 9 };
    double *weights = get(ROWS * (size_t)cols * 8);
    uint8_t *memory;
    Matrix m = random_matrix(type, type == WEIGHT_Q8 ? 64 : 32, ROWS, cols, weights, &memory);
    uint8_t *data = (uint8_t *)(uintptr_t)m.data, *scales = (uint8_t *)(uintptr_t)m.scales;
    const size_t groups = ROWS * (((size_t)cols + 63) / 64),
                 blocks = type >= WEIGHT_Q4_0
                              ? ROWS * (size_t)(cols / block_columns((WeightType)type))
                              : 0;
    const uint16_t one = 0x3c00, minus_two = 0xc000;
    const float two = 2;
    for (size_t i = 0; type == WEIGHT_Q8 && i < groups; i++) memcpy(scales + 4 * i, &two, 4);
    for (size_t i = 0; type == WEIGHT_Q4 && i < 2 * groups; i++)
        memcpy(scales + 2 * i, i % 2 ? &one : &minus_two, 2);
    for (size_t r = 0; r < ROWS && blocks; r++) {
        uint8_t *start = data + r * (size_t)matrix_row_bytes(&m);
        for (size_t b = 0; b < blocks / ROWS; b++)
            set_scale(type, start + b * (size_t)block_sizes[type].bytes, r + b);
    }
    float *x = get(N * (size_t)cols * 4), *out = get(N * STRIDE * 4), *row = get((size_t)cols * 4);
    whole_activations(x, N, cols);
    for (int n = 1; n <= N; n += 2) {
        int wrong = 0;
        multiply(&(Product){.matrix = &m, .out = out, .stride = STRIDE}, 1, x, n, cols, 1);
        for (int r = 0; r < ROWS; r++) {
            matrix_row(&m, r, 0, cols, row);
            for (int t = 0; t < n; t++) {
                double sum = 0;
                for (int c = 0; c < cols; c++) sum += (double)row[c] * x[t * cols + c];
                wrong += out[t * STRIDE + r] != (float)sum || fabs(sum) > 1 << 24;
            }
        }
        check(wrong == 0, "whole numbers of %s, %d columns, %d vectors: %d of %d are not exact",
              block_types[type].name, cols, n, wrong, n * ROWS);
    }
    free(weights), free(memory), free(x), free(out), free(row);
}

static void test_products(int quick) {
    for (int i = 0; i < 2; i++) {
        floats = i == 0;
        for (int n = 1; n <= 4; n++) check_mixed(n * n);
    }
    for (int type = WEIGHT_Q8; type < N_WEIGHT_TYPES; type++) {
        const int values = block_columns((WeightType)type);
        if (values == 0) continue;  // a type that was removed
        check_whole(type, 256);
        check_whole(type, values > 32 ? 256 + values : values > 1 ? 416 : 330);
    }
    static const int sizes[] = {1, 3, 17, 63, 64, 65, 100, 172},
                     widths[] = {1, 3, 17, 63, 64, 65, 100, 128, 129, 172, 320};
    static const struct {
        const char *name;
        int type, group;
    } kinds[] = {{"float32", WEIGHT_F32, 0},      {"float16", WEIGHT_F16, 0},
                 {"bfloat16", WEIGHT_BF16, 0},    {"q8 by 64", WEIGHT_Q8, 64},
                 {"q8 by 32", WEIGHT_Q8, 32},     {"q4", WEIGHT_Q4, 32},
                 {"q8 by 4", WEIGHT_Q8, 4},       {"q8 by 64 across rows", FLAT, 64},
                 {"q8 by 7 across rows", FLAT, 7}};
    for (int type = WEIGHT_Q4_0; type < N_WEIGHT_TYPES; type++) {
        int values = block_columns((WeightType)type), blocks = values ? 256 / values : 0;
        if (values == 0) continue;
        check_products(block_types[type].name, type, 0, 70, values * (1 + blocks));
        check_fused(block_types[type].name, type, 0, 17, values * blocks, 1 + type % 9);
        floats = true;
        check_products(block_types[type].name, type, 0, 66, values * (1 + type % 2));
        floats = false;
        if (!quick) check_products(block_types[type].name, type, 0, 3, values);
    }
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t r = 0; r < sizeof sizes / sizeof *sizes; r++)
            for (size_t c = 0; c < sizeof widths / sizeof *widths; c++)
                if ((r + c + k) % (quick ? 7 : 2) == 0) {
                    check_products(kinds[k].name, kinds[k].type, kinds[k].group, sizes[r],
                                   widths[c]);
                    int few = 1 + (int)(r + c) % 9;
                    check_fused(kinds[k].name, kinds[k].type, kinds[k].group, sizes[r], widths[c],
                                few);
                    check_fused(kinds[k].name, kinds[k].type, kinds[k].group, sizes[r], widths[c],
                                12 + 5 * few);
                }
}

// ---- sampling ----

static int draws = 8000;

// Tokens come as often as the nucleus says, and no others: logits fall by `slope` from token to token, in a stirred order.
// Of the tokens those among the top_k likeliest are left, of these the fewest whose share of them exceeds top_p, of these
// those at least min_p times as likely as the first. 0 (or a top_p of 1) leaves all.
static void check_nucleus(int n, double slope, double top_p, int top_k, double min_p) {
    int *drawn = get((size_t)n * sizeof *drawn), size = 0;
    float *logits = get((size_t)n * 4);
    double total = 0, kept = 0, worst = 0;
    Sampler sampler;
    int most = top_k > 0 && top_k < n ? top_k : n;
    for (int i = 0; i < most; i++) total += exp(-slope * i);
    while (size < most && (top_p == 0 || top_p == 1 || kept <= top_p * total))
        kept += exp(-slope * size++);
    while (size > 1 && exp(-slope * (size - 1)) < min_p) kept -= exp(-slope * --size);
    const Sampling how = {.temperature = 1, .top_k = top_k, .top_p = top_p, .min_p = min_p};
    check(sampler_init(&sampler, &how, n, 12345, &err), "a sampler of %d", n);
    for (int d = 0; d < draws; d++) {
        for (int i = 0; i < n; i++) logits[i * 7 % n] = (float)(-slope * i);
        drawn[sampler_next(&sampler, logits)]++;
    }
    for (int i = 0; i < n; i++) {
        double share = i < size ? exp(-slope * i) / kept : 0, count = drawn[i * 7 % n];
        worst = fmax(worst, share == 0 && count > 0
                                ? INFINITY
                                : fabs(count - share * draws) / sqrt(share * draws + 1));
    }
    check(worst < 5,
          "top-p %g, top-k %d, min-p %g of %d tokens with slope %g: %g standard deviations off",
          top_p, top_k, min_p, n, slope, worst);
    sampler_free(&sampler), free(drawn), free(logits);
}

static void test_nucleus(int quick) {
    if (quick) draws = 1000;
    const double shares[] = {0.05, 0.3, 0.9, 0.99};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        check_nucleus(100, 1e-5, shares[i], 0,
                      0);  // all about equally likely, though none is likely
        check_nucleus(200, 0.05, shares[i], 0, 0);
        check_nucleus(30, 1, shares[i], 0, 0);
        check_nucleus(200, 0.05, shares[i], 20, 0);
        check_nucleus(200, 0.05, shares[i], 0, 0.101);
        check_nucleus(200, 0.05, shares[i], 30, 0.301);
    }
    const int numbers[] = {1, 2, 40, 199, 200, 1 << 30};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        check_nucleus(200, 0.05, i % 2, numbers[i], 0);
        check_nucleus(200, 3, i % 2, numbers[i],
                      0);  // most have next to no probability, or none that a float holds
        check_nucleus(200, 1e-5, i % 2, numbers[i], 0.9);
    }
    check_nucleus(50, 0.5, 0, 0, 1);
    check_nucleus(50, 0.5, 0, 0, 1e-6);
}

// ---- spreads ----

// The formula in exact arithmetic, what follows from it, and spread_token by trying one token after the other.
static void check_spread(int n, int piece, int length) {
    const Spread s = {length, piece, n};
    const int64_t pieces = ((int64_t)n + piece - 1) / piece;
    int wrong = 0, missed = 0;
    for (int i = 0; i < n; i++) {
        const int64_t jump = pieces > 1 ? i / piece * (int64_t)(length - n) / (pieces - 1) : 0;
        wrong += spread_position(&s, i) != i + jump;
        const int at = spread_position(&s, i), before = i ? spread_position(&s, i - 1) : -1;
        wrong += at <= before || (i % piece && at != before + 1);
        for (int p = before + 1; p <= at; p += at - p < 9 ? 1 : (at - p) / 2)
            missed += spread_token(&s, p) != i;
    }
    check(wrong == 0, "position(i) of %d tokens over %d in pieces of %d: %d wrong", n, length,
          piece, wrong);
    check(missed == 0, "the first token at a position, %d over %d by %d: %d wrong", n, length,
          piece, missed);
    check(spread_position(&s, 0) == 0 &&
              spread_position(&s, n - 1) == (pieces > 1 ? length : n) - 1,
          "%d tokens over %d in pieces of %d end at %d", n, length, piece,
          spread_position(&s, n - 1));
    check(spread_token(&s, -5) == 0, "no token before the first");
    const int behind = spread_position(&s, n + KV_BLOCK) - spread_position(&s, n - 1);
    check(behind == KV_BLOCK + 1, "%d over %d by %d: what is behind the text does not jump", n,
          length, piece);
}

static void test_spreads(void) {
    const int most = 1 << 30;
    for (int i = 0; i < 300; i++) {
        const int n = 1 + (int)(random_bits() % 300), piece = 1 + (int)(random_bits() % 80);
        check_spread(n, piece,
                     n + (int)(random_bits() % (i % 3 ? 5000 : (unsigned)(most - n + 1))));
    }
    for (int n = 1; n < 200; n += 66)
        check_spread(n, 1, n), check_spread(n, 64, most), check_spread(n, most, most);
    const Spread none = {0, 0, 0};
    for (int i = 0; i < 300; i += 7)
        check(spread_position(&none, i) == i && spread_token(&none, i) == i &&
                  spread_token(&none, -i) == 0,
              "without a spread, token %d", i);
}

int main(int argc, char **argv) {
    int quick = argc > 1 && strcmp(argv[1], "quick") == 0;
    test_positions(quick);
    test_maps(quick ? 200 : 4000);
    test_rotate();
    test_f16();
    test_i8();
    test_vectors();
    test_gemm();
    test_rotated();
    test_nucleus(quick);
    test_spreads();
    test_products(quick);
    return finish();
}
