// Small products: a tile of 6 rows by TILE_VECS vectors of columns is kept in registers while k
// goes by, so that arithmetic is the limit and not loading. B is multiplied in place, and widened
// on the way to the registers.
#include "kernels.h"

#include <math.h>
#include <string.h>

#include "../decoder/curves.h"
#include "simd_int8.h"

// The number of n elements that are in whole vectors. gcc sees at once that none is left of a
// constant n. If a loop continues where another one ended, it does not, and warns of element 2^62.
static inline int64_t in_whole_vectors(int64_t n) { return n / LANES * LANES; }

// The first n of LANES elements, then zeros.
static inline vf load_some(const float *x, int64_t n) {
    float lanes[LANES] = {0};
    if (n >= LANES) return load(x);
    memcpy(lanes, x, n * sizeof *x);
    return load(lanes);
}

static inline void store_some(float *out, vf x, int64_t n) {
    if (n >= LANES) store(out, x);
    else memcpy(out, &x, n * sizeof *out);
}

ALWAYS_INLINE void widen_numbers(float *out, const uint8_t *x, Number type, int64_t n) {
    int size = number_bytes(type);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(out + i, load_number(type, x + i * size));
    if (i == n) return;
    uint8_t rest[LANES * sizeof *out] = {0};
    memcpy(rest, x + i * size, (n - i) * size);
    store_some(out + i, load_number(type, rest), n - i);
}

void numbers_to_f32(float *out, const void *x, Number type, int64_t n) {
    switch (type) {
    case NUMBER_F32: memcpy(out, x, n * sizeof *out); break;
    case NUMBER_F16: widen_numbers(out, x, NUMBER_F16, n); break;
    case NUMBER_BF16: widen_numbers(out, x, NUMBER_BF16, n); break;
    default: widen_numbers(out, x, NUMBER_I8, n);
    }
}

// The numbers in the halves of LANES bytes.
static inline vf low_numbers(vi bytes) { return number_of_4_bits(bytes); }
static inline vf high_numbers(vi bytes) { return number_of_4_bits(bytes >> 4); }

void columns_of_4_bits(float *out, const uint8_t *bytes, int64_t n, int64_t half,
                       const float *scales, const float *plus) {
    for (int64_t j = 0; j < half; j += LANES) {
        vf low_scales = load(scales + j);
        vf high_scales = load(scales + half + j);
        for (int64_t i = 0; i < n; i++) {
            vi both = load_u8(bytes + i * half + j);
            float *row = out + i * 2 * half + j;
            vf added = splat(plus ? plus[i] : 0);
            store(row, low_numbers(both) * low_scales + added);
            store(row + half, high_numbers(both) * high_scales + added);
        }
    }
}

void eights_of_4_bits(float *out, const uint8_t *bytes, int64_t n, int64_t width,
                      const float *scales) {
    for (int64_t row = 0; row < n; row += 8, out += 8 * width)
        for (int64_t e = 0; e < width; e += LANES, bytes += 4 * LANES) {
            vi eight = (vi)load_bytes(bytes);
            const float *own = scales + e / 32 * n + row;
            UNROLLED (i, 8) {
                vf number = number_of_4_bits(eight >> (i % 4 * 8 + i / 4 * 4));
                store(out + i * width + e, number * own[i]);
            }
        }
}

ALWAYS_INLINE float round_to_i8(int8_t *out, const float *x, int64_t n) {
    vf most = {0};
    vf strange = {0};
    for (int64_t i = 0; i < n; i += LANES) {
        vf v = load_some(x + i, n - i);
        vf a = (vf)((vu)v & 0x7fffffff);
        most = select_vf(a > most, a, most);
        strange += v * 0.0f;
    }
    float max = max_lanes(most);
    float scale = max / 127;
    float inverse = scale > 0 ? 127 / max : 0;
    for (int64_t i = 0; i < n; i += LANES) {
        // Adding 1.5 * 2^23 leaves the nearest whole number (ties to even) in the sum's low bits.
        vf shifted = multiply_add(load_some(x + i, n - i), splat(inverse), splat(0x1.8p23f));
        vi whole = (vi)shifted - 0x4b400000;
        int8_t bytes[LANES];
        store_i8(n - i >= LANES ? out + i : bytes, whole);
        if (n - i < LANES) memcpy(out + i, bytes, n - i);
    }
    return scale + sum_lanes(strange);
}

float numbers_from_f32(void *out, Number type, const float *x, int64_t n) {
    if (type == NUMBER_I8 && n == 64) return round_to_i8(out, x, 64);  // without loops
    if (type == NUMBER_I8 && n == 32) return round_to_i8(out, x, 32);
    if (type == NUMBER_I8) return round_to_i8(out, x, n);
    if (type == NUMBER_F32) memcpy(out, x, n * sizeof *x);
    if (type != NUMBER_F16) return 1;
    for (int64_t i = 0; i < n; i += LANES) {
        uint8_t *halves = (uint8_t *)out + 2 * i;
        uint8_t some[2 * LANES];
        store_f16(n - i >= LANES ? halves : some, load_some(x + i, n - i));
        if (n - i < LANES) memcpy(halves, some, 2 * (n - i));
    }
    return 1;
}

// Rows [row, row + m), `vecs` vectors of columns from `column` on. Inlined with constants, so that
// `sum` is registers.
ALWAYS_INLINE void tile(int m, int vecs, Number type, bool turns, const Gemm *g, int64_t row,
                        int64_t column) {
    int size = number_bytes(type);
    int step = turns ? 2 : 1;         // rows of B that are multiplied together
    bool prefetches = m < TILE_ROWS;  // so few rows are multiplied no slower than memory is read
    int64_t a_stride = g->a_stride;
    int64_t b_row = g->b_stride * size;
    int64_t c_stride = g->n;
    const float *a = g->a + row * g->a_stride;
    const char *b = (const char *)g->b + column * size;
    float *c = g->c + row * c_stride + column;
    vf sum[TILE_ROWS][TILE_VECS];
    UNROLLED (i, m)
        UNROLLED (j, vecs) sum[i][j] = load(c + i * c_stride + j * LANES);
    for (int64_t p = 0, k = g->k; p < k; p += step, b += step * b_row) {
        for (int j = 0; prefetches && j < step * vecs * LANES * size; j += 64)
            prefetch_ahead(b + j);
        vf w[2][TILE_VECS];
        // Else gcc loads float32 again for each row.
        UNROLLED (j, vecs) w[0][j] = (vf)in_register((vb)load_number(type, b + j * LANES * size));
        UNROLLED (j, vecs) {
            if (!turns) continue;
            const float *turn = g->turns + p / 2 * g->b_stride + column + j * LANES;
            vf x = w[0][j];
            vf y = load_number(type, b + b_row + j * LANES * size);
            vf cosine = load(turn);
            vf sine = load(turn + g->k / 2 * g->b_stride);
            w[0][j] = x * cosine - y * sine;
            w[1][j] = x * sine + y * cosine;
        }
        UNROLLED (i, m) {
            const float *x = a + i * a_stride + p;
            UNROLLED (j, vecs)
                sum[i][j] += turns ? x[0] * w[0][j] + x[1] * w[1][j] : x[0] * w[0][j];
        }
    }
    UNROLLED (i, m)
        UNROLLED (j, vecs) store(c + i * c_stride + j * LANES, sum[i][j]);
}

// Rows [row, row + m), columns [0, n).
ALWAYS_INLINE void row_of_tiles(int m, Number type, bool turns, const Gemm *g, int64_t row,
                                int64_t n) {
    for (int64_t column = 0; column < n; column += TILE_VECS * LANES)
        tile(m, TILE_VECS, type, turns, g, row, column);
}

ALWAYS_INLINE void gemm_of(Number type, bool turns, const Gemm *g) {
    int64_t n = g->n / (TILE_VECS * LANES) * (TILE_VECS * LANES);  // columns in whole tiles
    int most = turns ? 4 : TILE_ROWS;                              // rotation takes registers, too
    int64_t row = 0;
    for (; g->m - row >= 2 * most; row += most) row_of_tiles(most, type, turns, g, row, n);
    for (int64_t left, rows; (left = g->m - row) > 0; row += rows) {
        rows = left > most ? (left + 1) / 2 : left;  // 4 and 3 are faster than 6 and 1
        switch (rows) {
        case 1: row_of_tiles(1, type, turns, g, row, n); break;
        case 2: row_of_tiles(2, type, turns, g, row, n); break;
        case 3: row_of_tiles(3, type, turns, g, row, n); break;
        case 4: row_of_tiles(4, type, turns, g, row, n); break;
        case 5: row_of_tiles(5, type, turns, g, row, n); break;
        default: row_of_tiles(most, type, turns, g, row, n);
        }
    }
    for (int64_t column = n; column < g->n; column += LANES)
        for (row = 0; row < g->m; row++) tile(1, 1, type, turns, g, row, column);
}

ALWAYS_INLINE void gemm_of_type(Number type, const Gemm *g) {
    if (g->turns) gemm_of(type, true, g);
    else gemm_of(type, false, g);
}

void gemm_accumulate(const Gemm *g) {
    switch (g->b_type) {
    case NUMBER_F32: gemm_of_type(NUMBER_F32, g); break;
    case NUMBER_F16: gemm_of_type(NUMBER_F16, g); break;
    default: gemm_of_type(NUMBER_I8, g);
    }
}

float dot_fast(const float *a, const float *b, int64_t n) {
    vf sums = {0};
    float sum = 0;
    int64_t whole = in_whole_vectors(n);
    for (int64_t i = 0; i < whole; i += LANES) sums += load(a + i) * load(b + i);
    for (int64_t i = whole; i < n; i++) sum += a[i] * b[i];
    return sum + sum_lanes(sums);
}

// As rmsnorm in src/llama/arithmetic.c, by vectors. Change both together.
void rmsnorm_fast(float *out, const float *x, const float *weight, int64_t n, float eps) {
    vf squares = {0};
    float sum = 0;
    int64_t whole = in_whole_vectors(n);
    for (int64_t i = 0; i < whole; i += LANES) squares += load(x + i) * load(x + i);
    for (int64_t i = whole; i < n; i++) sum += x[i] * x[i];
    float scale = 1 / sqrtf((sum + sum_lanes(squares)) / (float)n + eps);
    for (int64_t i = 0; i < n; i++) out[i] = x[i] * scale * (weight ? weight[i] : 1);
}

void layernorm_fast(float *out, const float *x, const float *weight, int64_t n, float eps) {
    float sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    for (int64_t i = 0; i < n; i++) out[i] = x[i] - sum / (float)n;
    rmsnorm_fast(out, out, weight, n, eps);
}

// e^x for x up to 88, to 4 units in the last place: x = n ln 2 + r with |r| <= ln 2 / 2, a
// polynomial for e^r (least greatest relative error, e^0 exact), and n added to the exponent. 0 if
// e^x is not normal; NaN stays.
static inline vf exp_vf(vf x) {
    // The nearest whole number lies in the sum's low bits.
    vf shifted = x * 1.44269504f + 0x1.8p23f;
    vf n = shifted - 0x1.8p23f;
    // ln 2 is in two parts, and n times the first one is exact.
    vf r = x - n * 0.693359375f + n * 2.12194440e-4f;
    vf p = r * 0.008290315047f + 0.0418979302f;
    p = p * r + 0.1666763574f;
    p = p * r + 0.4999915063f;
    p = p * r + 0.999999702f;
    p = p * r + 1.0f;
    vf power = (vf)(((vu)shifted << 23) + 0x3f800000);  // 2^n
    return select_vf(x < -87.0f, (vf){0}, p * power);
}

float exp_and_sum(float *x, int64_t n, float max) {
    vf sums = {0};
    int64_t whole = in_whole_vectors(n);
    int64_t left = n - whole;
    for (int64_t i = 0; i < whole; i += LANES) {
        vf e = exp_vf(load(x + i) - max);
        store(x + i, e);
        sums += e;
    }
    float sum = sum_lanes(sums);
    if (left) {
        vf e = exp_vf(load_some(x + whole, left) - max);
        store_some(x + whole, e, left);
    }
    for (int64_t i = whole; i < n; i++) sum += x[i];
    return sum;
}

// x / (1 + exp(-y)). For y below -88 the result is x times e^-88, nearly 0.
static inline vf gate_vf(vf x, vf y) {
    return x / (1.0f + exp_vf(select_vf(y < -88.0f, splat(88.0f), -y)));
}

void swiglu(float *gate, const float *up, int64_t n) {
    for (int64_t i = 0; i < n; i += LANES) {
        vf x = load_some(gate + i, n - i);
        vf y = load_some(up + i, n - i);
        store_some(gate + i, gate_vf(x, x) * y, n - i);
    }
}

void silu_all(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += LANES) {
        vf y = load_some(x + i, n - i);
        store_some(x + i, gate_vf(y, y), n - i);
    }
}

// (1 + tanh(z)) / 2 is 1 / (1 + exp(-2 z)).
void geglu(float *gate, const float *up, int64_t n) {
    for (int64_t i = 0; i < n; i += LANES) {
        vf x = load_some(gate + i, n - i);
        vf cube = x * x * x;
        vf twice_z = 1.595769122f * (x + 0.044715f * cube);
        vf y = load_some(up + i, n - i);
        store_some(gate + i, gate_vf(x, twice_z) * y, n - i);
    }
}

// NaN stays: it is not above anything.
void clamped_glu(float *gate, const float *up, int64_t n) {
    const vf most = splat(7);
    const vf least = splat(-7);
    for (int64_t i = 0; i < n; i += LANES) {
        vf g = load_some(gate + i, n - i);
        vf u = load_some(up + i, n - i);
        g = select_vf(g > most, most, g);
        u = select_vf(u > most, most, u);
        u = select_vf(u < least, least, u);
        vf passed = gate_vf(g, 1.702f * g);
        store_some(gate + i, passed * (u + 1.0f), n - i);
    }
}

void relu2_all(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float z = x[i] < 0 ? 0 : x[i];  // NaN stays
        x[i] = z * z;
    }
}

void xielu_all(float *x, const float parameters[4], int64_t n) {
    float beta = parameters[2];
    const vf rising = splat(softplus(parameters[0]));
    const vf falling = splat(beta + softplus(parameters[1]));
    const vf eps = splat(parameters[3]);
    for (int64_t i = 0; i < n; i += LANES) {
        vf z = load_some(x + i, n - i);
        vf least = select_vf(z > eps, eps, z);
        // NaN is not above 0.
        vf below = (exp_vf(least) - 1.0f - z) * falling;
        vf curve = select_vf(z > 0.0f, rising * z * z, below);
        store_some(x + i, curve + beta * z, n - i);
    }
}

// tanh(z) is 1 - 2 / (1 + exp(2 z)).
void cap_all(float *x, float cap, int64_t n) {
    const vf most = splat(80);
    for (int64_t i = 0; i < n; i += LANES) {
        vf twice = load_some(x + i, n - i) * (2 / cap);
        vf power = exp_vf(select_vf(twice > most, most, twice));
        store_some(x + i, cap - 2 * cap / (1.0f + power), n - i);
    }
}

void gate_by_softplus(float *x, const float *gates, int64_t shared, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] *= softplus(gates[i / shared]);
}

void gate_by_sigmoid(float *x, const float *gates, int64_t n) {
    for (int64_t i = 0; i < n; i += LANES) {
        vf gated = gate_vf(load_some(x + i, n - i), load_some(gates + i, n - i));
        store_some(x + i, gated, n - i);
    }
}

void scale_by(float *x, float factor, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] *= factor;
}

void add_to(float *x, const float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] += y[i];
}

float max_of(const float *x, int64_t n) {
    vf most = splat(-INFINITY);
    int64_t whole = in_whole_vectors(n);
    for (int64_t i = 0; i < whole; i += LANES)
        most = select_vf(load(x + i) > most, load(x + i), most);
    float max = max_lanes(most);
    for (int64_t i = whole; i < n; i++) max = x[i] > max ? x[i] : max;
    return max;
}
