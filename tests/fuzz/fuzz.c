// Hostile input for all that reads files, texts and options. Each target takes bytes, does with them what the program would, and stops
// at a broken promise; the sanitizers stop at bad memory. `make fuzz` builds the targets for libFuzzer (it defines LIBFUZZER; a program's
// name says which target it is), and tests/test_fuzz.py builds the same without it:
//
//   fuzz TARGET N CRASH FILE...   gives a target each file, then N damaged copies of them, always the same; what stops it is left in CRASH
//   fuzz open                     names of model files in, one line for each: the name, a tab, "ok" or the error
#define main run_main
#include "run.c"
#include "src/job/chat.h"
#include "src/tasks/answers.h"
#undef main

#include "src/configs/json.h"
#include "src/configs/write.h"
#include "src/engines/engines.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "src/fast/matmul.h"
#include "src/weights/matrix.h"

// A file is memory of exactly its size here, so that the address sanitizer sees every step past its end (linked with --wrap).
static const uint8_t *input;
static size_t input_size;
static const char *const input_path = "input";

bool __wrap_map_file(const char *path, MappedFile *file, Error *err);
bool __wrap_map_file(const char *path, MappedFile *file, Error *err) {
    void *copy;
    *file = (MappedFile){0};
    if (input_size == 0) return fail(err, "%s: the file is empty", path);
    if (posix_memalign(&copy, 64, input_size) != 0) abort();
    *file = (MappedFile){memcpy(copy, input, input_size), input_size};
    return true;
}

void __wrap_unmap_file(MappedFile *file);
void __wrap_unmap_file(MappedFile *file) {
    free((void *)file->data);
    *file = (MappedFile){0};
}

static void promise(bool kept, const char *what) {
    if (kept) return;
    fprintf(stderr, "fuzz: a broken promise: %s\n", what);
    abort();
}

// ---- targets ----

// A model file: when it opens, a prompt and a token are read with it. Its last byte chooses the cache, the window and a distance map. The
// reason why it does not open goes to *err.
static bool try_model(const char *path, Error *err) {
    Model model;
    RopePlan plan;
    Error why;
    if (!open_model(path, &model, err)) return false;
    int last = model.file.data[model.file.size - 1];
    RopeSettings settings = {.given = 0};
    if (last % (rope_n_maps + 1))
        settings_read_method(&settings, rope_maps[last % (rope_n_maps + 1) - 1].name);
    bool ok = settings_resolve(&settings, &model.rope, model_window(&model), 40, &plan, &why);
    if (ok && model.config.extra->layers.sliding_rope)
        ok = settings_resolve_sliding(&settings, &(RopeSettings){.given = 0},
                                      &model.config.extra->layers.sliding,
                                      model.config.extra->attention.window, 40, &plan, &why);
    if (!plan.rope.map) plan.rope.window = last / 4 % 8, plan.rope.sinks = last / 32;
    SessionConfig config = {.rope = &plan.rope,
                            .sliding = &plan.sliding,
                            .kv = (KvType)(last % 4 % N_KV_TYPES),
                            .context = 40,
                            .chunk = 13};
    Session *s = ok ? session_new(&model, &config, &why) : NULL;
    int32_t ids[40];
    for (int i = 0; i < 40; i++) ids[i] = i * 7 % model.config.vocab_size;
    const float *logits =
        s && session_read(s, ids, 38, 38, 1, &why) && session_read(s, ids, 2, 40, 1, &why)
            ? session_logits(s, 0, 1, &why)
            : NULL;
    for (int i = 0; logits && i < model.config.vocab_size; i++)
        promise(isfinite(logits[i]), "logits are numbers");
    session_free(s);
    model_close(&model);
    return true;
}

static void fuzz_model(const uint8_t *data, size_t size) {
    Error err;
    (void)data, (void)size;
    if (!try_model(input_path, &err))
        promise(strncmp(err.text, "input: ", 7) == 0 && !strchr(err.text, '\n'),
                "a reason names the file, in one line");
}

// The text of some ids, in memory that the caller frees.
static char *decode(const Tokenizer *t, const int32_t *ids, size_t n, size_t *length) {
    size_t room = 1, n_piece;
    for (size_t i = 0; i < n; i++)
        tokenizer_decode(t, i ? ids[i - 1] : -1, ids[i], &n_piece), room += n_piece;
    char *text = malloc(room);
    if (!text) abort();
    *length = 0;
    for (size_t i = 0; i < n; i++) {
        const char *piece = tokenizer_decode(t, i ? ids[i - 1] : -1, ids[i], &n_piece);
        memcpy(text + *length, piece, n_piece);
        *length += n_piece;
    }
    return text;
}

// A text goes there and back: what comes back is in *out, when it could be encoded.
static bool round_trip(const Tokenizer *t, int vocab_size, const char *text, size_t n, char **out,
                       size_t *n_out) {
    Error err;
    size_t n_ids;
    int32_t *ids = tokenizer_encode(t, text, n, false, &n_ids, &err);
    for (size_t i = 0; ids && i < n_ids; i++)
        promise(ids[i] >= 0 && ids[i] < vocab_size, "ids are in the vocabulary");
    if (ids) *out = decode(t, ids, n_ids, n_out);
    free(ids);
    return ids != NULL;
}

// A tokenizer file, whose first four bytes (the longest token, which nobody needs) are taken for the model's vocabulary.
static void fuzz_tokenizer(const uint8_t *data, size_t size) {
    static const char text[] = " a  b <s><0x41>\n\xE2\x96\x81 aaaa the\xFF\xF0\x9F\x98\x80 \0 end";
    Error err;
    int32_t vocab_size = 0;
    char *back;
    size_t n;
    if (size >= 4) memcpy(&vocab_size, data, 4);
    Tokenizer *t = tokenizer_open(input_path, vocab_size, &err);
    if (!t) {
        promise(strncmp(err.text, "input: ", 7) == 0 && !strchr(err.text, '\n'),
                "a reason names the file, in one line");
        return;
    }
    if (round_trip(t, vocab_size, text, sizeof text - 1, &back, &n)) free(back);
    for (int id = -2; id <= vocab_size; id++) {
        const char *piece = tokenizer_decode(t, tokenizer_bos(t), id, &n);
        if (round_trip(t, vocab_size, piece, n, &back, &n)) free(back);
    }
    tokenizer_free(t);
}

// A tokenizer file in the making.
typedef struct {
    uint8_t bytes[8192];
    size_t size;
} File;

static void put(File *f, const void *bytes, size_t n) {
    memcpy(f->bytes + f->size, bytes, n);
    f->size += n;
}

static void put_u32(File *f, uint32_t x) { put(f, &x, 4); }

static void put_token(File *f, float score, const char *spelling, size_t n) {
    put(f, &score, 4);
    put_u32(f, (uint32_t)n);
    put(f, spelling, n);
}

enum { N_CONTROL = 3, N_PIECES = 14, N_SPLITS = 6 };

// A tokenizer of either kind: three control tokens (or what stands for them), 256 bytes, and these pieces, the first merged first.
static Tokenizer *make_tokenizer(bool bytelevel, uint32_t flags, uint32_t split) {
    static const char *const controls[2][N_CONTROL] = {
        {"<unk>", "<s>", "</s>"}, {"<|start_header_id|>", "<|eot_id|>", "<s>"}};
    static const char *const pieces[N_PIECES] = {"aa",   "aaaa", "th",   "the",      " t",
                                                 " the", "11",   "\n\n", "\xC3\xA9", "  ",
                                                 " ",    "[u]",  "\xC3", "a["};
    static const uint8_t halves[][3] = {{'a', 'a', 0},   {0, 0, 1},       {'t', 'h', 2},
                                        {2, 'e', 3},     {' ', 't', 4},   {' ', 3, 5},
                                        {'\n', '\n', 7}, {0xC3, 0xA9, 8}, {' ', ' ', 9}};
    static const int32_t rules[][3] = {
        {0xE9, -1, 'e'},      {0xE9, -2, 0x301},    {0x301, -5, 230},  {0x323, -5, 220},
        {'e', 0x301, 0xE9},   {'a', 0x323, 0x1EA1}, {0x1EA1, -1, 'a'}, {0x1EA1, -2, 0x323},
        {0x1EA1, 0x301, 'a'},  // this one is no rule of Unicode's
        {0xC9, -6, 1},        {0xE9, -6, 2},        {0x301, -6, 3},    {0x323, -6, 3}};
    enum { N_MERGES = sizeof halves / sizeof *halves, N_RULES = sizeof rules / sizeof *rules };
    bool rules_follow = bytelevel && (flags & 64 || split >= 5);
    File file = {.size = 0}, *f = &file;
    put_u32(f, 0);
    for (int i = 0; i < N_CONTROL; i++)
        put_token(f, 0, controls[bytelevel][i], strlen(controls[bytelevel][i]));
    for (int b = 0; b < 256; b++) {
        char spelling[8], byte = (char)b;
        snprintf(spelling, sizeof spelling, "<0x%02X>", b);
        put_token(f, 0, bytelevel ? &byte : spelling, bytelevel ? 1 : 6);
    }
    for (int i = 0; i < N_PIECES; i++) put_token(f, -(float)i, pieces[i], strlen(pieces[i]));
    const uint32_t head[] = {
        0x31544b54, bytelevel, flags,   bytelevel ? UINT32_MAX : 1, bytelevel ? UINT32_MAX : 0,
        1,          split,     N_MERGES};
    put(f, head, bytelevel ? sizeof head : sizeof head - 8);
    if (rules_follow) put_u32(f, N_RULES);
    put_u32(f, bytelevel ? 1 : 2);
    for (int i = 0; i < N_CONTROL + 256 + N_PIECES; i++) {
        const char *piece = i < N_CONTROL + 256 ? "" : pieces[i - N_CONTROL - 256];
        bool unused = strcmp(piece, "aaaa") == 0 && !bytelevel;
        uint8_t type = i < N_CONTROL         ? (i == 0 && !bytelevel ? 2 : 3)
                       : i < N_CONTROL + 256 ? (bytelevel ? 1 : 6)
                       : *piece == '['       ? (flags & 32 ? 20 : 4)
                       : unused              ? 5
                                             : 1;
        put(f, &type, 1);
    }
    for (int i = 0; i < N_MERGES && bytelevel; i++)
        for (int k = 0; k < 3; k++)
            put_u32(f,
                    N_CONTROL + halves[i][k] + (k == 2 || halves[i][k] < N_PIECES - 4 ? 256u : 0));
    if (rules_follow) put(f, rules, sizeof rules);
    Error err;
    input = file.bytes, input_size = file.size;
    Tokenizer *t = tokenizer_open(input_path, N_CONTROL + 256 + N_PIECES, &err);
    promise(t != NULL, err.text);
    return t;
}

// A text behind two bytes that choose the tokenizer: through the encoder and back, through a chat, through the stream
// of characters, and as token ids.
static void fuzz_text(const uint8_t *data, size_t size) {
    if (size < 2) return;
    static Tokenizer *made[2][128][N_SPLITS];
    Error err;
    bool bytelevel = data[0] & 1;
    uint32_t flags = data[0] >> 1 & (bytelevel ? 105 : 55), split = data[1] % (N_SPLITS);
    Tokenizer **one = &made[bytelevel][flags][split],
              *t = *one ? *one : (*one = make_tokenizer(bytelevel, flags, 1 + split));
    const int n_tokens = N_CONTROL + 256 + N_PIECES;
    size_t n = size - 2, n_once, n_twice, n_ids, n_turn;
    char *text = malloc(n + 1), *once = NULL, *twice = NULL, *out = malloc(n + 4);
    if (!text || !out) abort();
    memcpy(text, data + 2, n);
    text[n] = '\0';
    promise(round_trip(t, n_tokens, text, n, &once, &n_once) &&
                round_trip(t, n_tokens, once, n_once, &twice, &n_twice),
            "a text has ids");
    // Flag 2 is byte fallback, with flag 4 a text loses a space each time, and with flag 32 a part may gain one. The rule
    // of flag 64 that is none of Unicode's may find more to do.
    if ((bytelevel && flags < 64) || (flags & 38) == 2)
        promise(n_once == n_twice && memcmp(once, twice, n_once) == 0,
                "what was decoded once comes back as it is");
    free(chat_turn(t, data[1] & 4, text, once[0] ? text : "x", data[1] & 8, -1, &n_turn, &err));
    free(text_ids(&(TextSource){.text = text, .vocab_size = 1 << 30}, NULL, &n_ids, &err));
    Utf8Stream stream = {0};
    size_t half = utf8_push(&stream, text, n / 2, out),
           rest = utf8_push(&stream, text + n / 2, n - n / 2, out);
    promise(half + rest + stream.n_pending <= n, "the stream adds no byte");
    free(text), free(once), free(twice), free(out);
}

// A command line, one argument in a line, up to where the model would be read.
static void fuzz_options(const uint8_t *data, size_t size) {
    static const double divisors[4] = {1, 1.5, 2, 3};
    char *text = malloc(size + 1), *argv[64] = {"run"};
    int argc = 1;
    if (!text) abort();
    memcpy(text, data, size);
    text[size] = '\0';
    for (char *at = text; at && argc < 63; argc++) {
        argv[argc] = at;
        if ((at = strchr(at, '\n'))) *at++ = '\0';
    }
    Error err;
    Program p = {.job = {.answer = YES,
                         .options = &p.options,
                         .model = &p.model,
                         .rope_file = &p.rope_file}};
    if (!model_unknown(&p.model, &err)) abort();
    rope_file_of_numbers(8, 1e4, 512, &p.rope_file);
    p.rope_file.rope.short_factors = divisors;
    p.rope_file.rope.long_factors = divisors;
    p.rope_file.max_positions = 1024;
    bool ok = options_parse(argc, argv, &p.options, &err) && options_check(&p.options, &err);
    p.options.reading = NULL;  // by methods, and not by engines
    p.job.length = ok ? length_of_job(&p.job) : 0;
    if (ok && plan_job(&p.job, &err)) {
        for (int i = 0; i < p.options.n_asked; i++)
            for (int k = 0; k < 3; k++) {
                RopeFreqs f;
                rope_frequencies(&p.job.plans[i].rope,
                                 k == 0   ? 1
                                 : k == 1 ? p.job.length
                                          : p.job.length / 2 + 1,
                                 &f);
                for (int j = 0; j < f.n_pairs; j++)
                    promise(isfinite(f.inv_freq[j]) && f.inv_freq[j] >= 0,
                            "frequencies are numbers");
                for (int64_t at = 1; at < p.job.length; at *= 3) {
                    int last = p.job.length - 1, key = last - (int)at;
                    double d = rope_distance(&p.job.plans[i].rope, last, key),
                           own = rope_parts(&p.job.plans[i].rope, last).near;
                    promise(isfinite(d) && (at >= own || d == (double)at),
                            "near distances are kept");
                }
                promise(isfinite(rope_logn(&p.job.plans[i].rope, p.job.length - 1)),
                        "logn is a number");
                promise(isfinite(f.scale) && isfinite(f.attention_factor) && f.attention_factor > 0,
                        "factors are numbers");
            }
    } else {
        promise(err.text[0] && !strchr(err.text, '\n'), "a reason is one line");
    }
    free(p.job.plans);
    free(p.options.asked);
    model_close(&p.model);
    free(text);
}

// Values of a table: each is in the text, after the one before, and begins as its kind.
static int walk_json(const Json *value, const char *text, size_t size, int depth) {
    int n = 0;
    for (const Json *v = value; v; v = v->next) {
        promise(v->text >= text && v->text + v->length <= text + size, "a value is in its text");
        promise(v->length > 0 && v->kind == *v->text && v->line >= 1, "it is of its kind");
        promise(depth > 0 || !v->first, "there is an end of lists in lists");
        promise(!v->next || v->next->text >= v->text + v->length, "the next one follows");
        promise((v->kind == '"') == (v->string != NULL), "a string is one");
        for (const char *c = v->string ? v->string : ""; *c; c++)
            promise(*c >= ' ' || *c < 0, "it is of one line");
        if (v->key)
            promise(json_member(&(Json){.kind = '{', .first = (Json *)v}, v->key) != NULL,
                    "a key is found");
        n += 1 + walk_json(v->first, text, size, depth - 1);
    }
    return n;
}

// Text as JSON: a table of all its values, or a reason of one line that names its line.
static void fuzz_json(const uint8_t *data, size_t size) {
    Error err;
    char *text = calloc(1, size + 1);
    if (!text) abort();
    memcpy(text, data, size);
    Json *root = json_parse(text, strlen(text), &err);
    if (root) promise(walk_json(root, text, size, JSON_DEPTH) >= 1, "there is a value");
    else
        promise(strncmp(err.text, "line ", 5) == 0 && !strchr(err.text, '\n'),
                "a reason names its line");
    free(root);
    free(text);
}

// The keys of RoPE that other programs get of what was read are JSON.
static void write_back(const RopeFile *file, const RopePlan *plan) {
    static const Model none = {.layers = NULL};
    RopeFile changed = *file;
    Error err;
    changed.model_type = "llama";
    const Publication publication = {
        .plan = *plan, .model = &none, .rope_file = &changed, .context = 4096};
    char *keys = publish_keys(&publication, &err);
    Json *root = keys ? json_parse(keys, strlen(keys), &err) : NULL;
    promise(!keys || json_member(root, "max_position_embeddings"), "what is written is JSON");
    promise(keys || !strchr(err.text, '\n'), "a reason is one line");
    free(root);
    free(keys);
}

// A block or a config of Hugging Face's, for a model of 16 elements a head, for none, and with numbers that stand in: what is
// taken has frequencies, or a reason why its settings make no sense.
static void fuzz_config(const uint8_t *data, size_t size) {
    for (int has_model = 0; has_model < 3; has_model++) {
        RopeFile *file = calloc(1, sizeof *file);  // on the heap, for the sanitizer to see its end
        if (!file) abort();
        file->rope = (RopeConfig){.theta = 1e4, .train_ctx = 512};
        if (has_model == 1) file->rope.rotary_dim = file->head_dim = 16;
        if (has_model == 1) file->max_positions = 1024;
        if (has_model == 2) file->rope = (RopeConfig){.truncate = true};
        if (has_model == 2) file->instead = (StandIns){128, 1e4, 4096};
        Error err;
        RopePlan plan;
        RopeFreqs f;
        bool ok = rope_config_parse(file, (const char *)data, size, &err);
        if (!ok)
            promise(strncmp(err.text, "line ", 5) == 0 && !strchr(err.text, '\n'),
                    "a reason names its line");
        ok = ok && settings_resolve(&(RopeSettings){.given = 0}, &file->rope, 0, 2048, &plan, &err);
        ok = ok && (!file->by_layer ||
                    settings_resolve_sliding(&(RopeSettings){.given = 0}, &(RopeSettings){.given = 0},
                                             &file->sliding, 0, 2048, &plan, &err));
        promise(file->layers.n >= 0 && file->layers.n <= MOST_LAYERS, "layers are counted");
        if (ok) write_back(file, &plan);
        for (int length = 1; ok && length < 4096; length *= 4) {
            if (file->by_layer) {
                rope_frequencies(&plan.sliding, length, &f);
                for (int i = 0; i < f.n_pairs; i++)
                    promise(isfinite(f.inv_freq[i]), "frequencies are numbers");
            }
            rope_frequencies(&plan.rope, length, &f);
            promise(isfinite(f.attention_factor) && f.attention_factor > 0, "factors are numbers");
            for (int i = 0; i < f.n_pairs; i++)
                promise(isfinite(f.inv_freq[i]), "frequencies are numbers");
        }
        free(file->whole);
        free(file);
    }
}

// A config.json through all readings: what an engine takes has frequencies, what it refuses a reason, and two readings compare.
static void fuzz_engines(const uint8_t *data, size_t size) {
    static const char list[] = "hf5,hf4,vllm,sglang,llama.cpp,ik_llama.cpp,mlx-lm,exllamav3,"
                               "exllamav2,hf5@5.0,hf4@4.54,vllm:transformers=4.57,"
                               "vllm@0.11:max_len=99,vllm:transformers=5.5.4,"
                               "llama.cpp@2025.2,exllamav3:max_len=64k";
    char *text = calloc(1, size + 1);
    Error err;
    int lengths[] = {1, 700, 1 << 20};
    if (!text) abort();
    memcpy(text, data, size);
    for (int k = 0; k < 3; k++) {
        Readings *readings = engines_read(list, text, lengths[k], NULL, &err);
        promise(readings || (err.text[0] && !strchr(err.text, '\n')), "a reason is one line");
        for (int i = 0; readings && i < readings->n; i++) {
            const Reading *one = &readings->of[i];
            RopeFreqs f;
            promise(one->verdict < N_VERDICTS, "a verdict is one");
            promise(one->verdict != VERDICT_REFUSED || one->note[0], "a refusal has a reason");
            if (one->verdict >= VERDICT_REFUSED || !one->has_rope) continue;
            rope_frequencies(&one->rope, lengths[k], &f);
            promise(isfinite(f.attention_factor) && f.attention_factor > 0 && one->worst_ratio >= 0,
                    "factors are numbers");
            for (int j = 0; j < f.n_pairs; j++)
                promise(isfinite(f.inv_freq[j]), "frequencies are numbers");
        }
        free(readings);
    }
    free(text);
}

// A row of ggml's blocks: the first byte says of which type, the second where a stretch of it begins. As float32 it is the same in whole
// and in part, and in place and in a panel it gives the product of these numbers with activations that rounding keeps.
static void fuzz_blocks(const uint8_t *data, size_t size) {
    enum { MOST = 4096, PANEL = 5 };
    static float weights[MOST], some[MOST], room[MOST], x[PANEL * MOST];
    if (size < 2) return;
    const WeightType type = (WeightType)(WEIGHT_Q4_0 + data[0] % (N_WEIGHT_TYPES - WEIGHT_Q4_0));
    const int columns = block_columns(type);
    if (columns == 0) return;  // a type that was removed
    const size_t block_bytes = (size_t)block_sizes[type].bytes;
    const int n = (int)((size - 2) / block_bytes) * columns, from = n ? data[1] % n : 0;
    if (n == 0 || n > MOST) return;
    const size_t row_bytes = (size_t)(n / columns) * block_bytes;
    uint8_t *row = malloc(row_bytes);  // not a byte longer
    if (!row) abort();
    memcpy(row, data + 2, row_bytes);
    const Matrix m = {.type = type, .rows = 1, .cols = n, .data = row};
    matrix_row(&m, 0, 0, n, weights);
    matrix_row(&m, 0, from, n - from, some);
    promise(memcmp(some, weights + from, (size_t)(n - from) * sizeof *some) == 0,
            "a stretch is as in the whole row");
    const float *plain = weights_row(&m, 0, room);
    for (int i = 0; i < n; i++)
        promise(isfinite(plain[i]) == isfinite(weights[i]),
                "the definition has a number where the fast engine has");
    double sum = 0, most = 0;
    for (int i = 0; i < PANEL * n; i++) x[i] = i % n % 32 ? (float)(i % n % 5 - 2) : 127;
    for (int i = 0; i < n; i++) {
        sum += (double)weights[i] * x[i];
        most = fmax(most, fabs(weights[i]));
    }
    for (int count = 1; count <= PANEL; count += PANEL - 1) {
        Error err;
        Arena arena = {0};
        TeamShared shared = {0};
        float out[PANEL];
        workspace_lay_out(&arena, count, n, 1, false);
        if (!arena_open(&arena, "a product", &err)) abort();
        Workspace *workspace = workspace_lay_out(&arena, count, n, 1, false);
        const Team alone = team_join(&shared);
        matmul_by_team(&alone, &(Product){.matrix = &m, .out = out, .stride = 1}, 1,
                       &(Input){.x = x, .n = count}, workspace);
        // A scale or an offset may be 64 times the largest weight where the others make up for it.
        for (int t = 0; t < count && isfinite(sum) && most < 1e30; t++)
            promise(fabs(out[t] - sum) <= 1e-5 * 64 * (most + 1e-30) * (127 + 3 * 32) * n / 32,
                    "the product is right");
        arena_close(&arena);
    }
    free(row);
}

// AnswerFile that others heard: each line is counted or its fault is named, in one line.
static void fuzz_answers(const uint8_t *data, size_t size) {
    Error err;
    AnswerFile answers = {.name = "input"};
    char *text = malloc(size + 1);
    if (!text) abort();
    memcpy(text, data, size);
    text[size] = '\0';
    const bool ok = answers_read(&answers, text, size, &err);
    promise(ok == (answers.n > 0) || !ok, "a file has an answer at least");
    promise(ok || (strncmp(err.text, "input: ", 7) == 0 && !strchr(err.text, '\n')),
            "a reason names the file, in one line");
    for (size_t i = 0; i < answers.n; i++)
        promise(answers.all[i].task < answers.n_tasks && answers.all[i].length > 0 &&
                    answers.all[i].depth >= 0 && answers.all[i].depth <= 1,
                "an answer has a place in the table");
    free(answers.all);
    free(text);
}

static const struct {
    const char *name;
    void (*run)(const uint8_t *data, size_t size);
} targets[] = {{"model", fuzz_model},     {"tokenizer", fuzz_tokenizer}, {"text", fuzz_text},
               {"options", fuzz_options}, {"config", fuzz_config},       {"json", fuzz_json},
               {"blocks", fuzz_blocks},   {"engines", fuzz_engines},
               {"answers", fuzz_answers}};

static void (*target)(const uint8_t *data, size_t size);

static bool find_target(const char *name) {
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (strcmp(name, targets[i].name) == 0) target = targets[i].run;
    return target != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input = data, input_size = size;
    target(data, size);
    return 0;
}

#ifdef LIBFUZZER

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
    const char *slash = strrchr((*argv)[0], '/');
    (void)argc;
    if (find_target(slash ? slash + 1 : (*argv)[0])) return 0;
    fprintf(stderr, "fuzz: the program's name is no target\n");
    exit(2);
}

#else

// ---- without libFuzzer ----

static const uint8_t *tried;
static size_t n_tried;
static const char *crash_path;

// What the sanitizers do before they end the program. They may not be there.
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void keep_input(void) {
    int file = tried ? open(crash_path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    if (file >= 0 && write(file, tried, n_tried) < 0)
        fputs("fuzz: the input could not be kept\n", stderr);
}

static void on_abort(int signal_number) {
    (void)signal_number;
    keep_input();
    _exit(1);
}

static uint32_t random_below(uint32_t n) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state >> 32) % n;
}

enum { MOST_FILES = 1024, MOST_BYTES = 1 << 16 };

// Damages `bytes` in one place: a bit, a byte, a number, a stretch that goes, comes twice or is another file's. The new size.
static size_t damage(uint8_t *bytes, size_t n, const uint8_t *other, size_t n_other) {
    static const uint32_t numbers[] = {
        0,   1,       2,       3,       7,          8,          63,         64,         65,
        255, 1 << 16, 1 << 20, 1 << 24, 0x7f800000, 0x7fc00000, 0x7fffffff, 0x80000000, 0xffffffff};
    static const char letters[] = "0129-+.,:=eE aus\n<\xff";
    uint32_t near = random_below(2) && n > 300 ? 300 : (uint32_t)n,
             at = near ? random_below(near) : 0;
    size_t length = 1 + random_below(random_below(4) ? 8 : 200);
    switch (n > 4 ? random_below(7) : 5) {
    case 0: bytes[at] ^= (uint8_t)(1 << random_below(8)); return n;
    case 1: bytes[at] = (uint8_t)random_below(256); return n;
    case 2: bytes[at] = (uint8_t)letters[random_below(sizeof letters - 1)]; return n;
    case 3:
        memcpy(bytes + (at < n - 4 ? at / 4 * 4 : 0),
               &numbers[random_below(sizeof numbers / sizeof *numbers)], 4);
        return n;
    case 4:  // a stretch goes
        if (at + length > n) length = n - at;
        memmove(bytes + at, bytes + at + length, n - at - length);
        return n - length;
    case 5:  // a stretch of another file comes in
        if (n_other == 0) return n;
        if (length > n_other) length = n_other;
        if (n + length > MOST_BYTES) return n;
        memmove(bytes + at + length, bytes + at, n - at);
        memcpy(bytes + at, other + random_below((uint32_t)(n_other - length + 1)), length);
        return n + length;
    default:  // a stretch stands there twice
        if (at + length > n) length = n - at;
        if (n + length > MOST_BYTES) return n;
        memmove(bytes + at + length, bytes + at, n - at);
        return n + length;
    }
}

// Memory of exactly the input's size, as libFuzzer gives it.
static void try_input(const uint8_t *bytes, size_t n) {
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy) abort();
    tried = memcpy(copy, bytes, n), n_tried = n;
    LLVMFuzzerTestOneInput(copy, n);
    tried = NULL;
    free(copy);
}

// Files of their own choice, so their real size matters and not what they hold: see tests/test_hostile.py.
static int open_files(void) {
    char path[4096];
    while (fgets(path, sizeof path, stdin)) {
        Error err;
        path[strcspn(path, "\n")] = '\0';
        char *bytes = read_file(path, SIZE_MAX, &input_size, &err);
        input = (const uint8_t *)bytes;
        printf("%s\t%s\n", path, bytes && try_model(path, &err) ? "ok" : err.text);
        fflush(stdout);
        free(bytes);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "open") == 0) return open_files();
    if (argc < 5 || argc - 4 > MOST_FILES || !find_target(argv[1]))
        return fprintf(stderr, "usage: fuzz TARGET N CRASH FILE..., or fuzz open\n"), 2;
    crash_path = argv[3];
    if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(keep_input);
    signal(SIGABRT, on_abort);
    static char *files[MOST_FILES];
    static size_t sizes[MOST_FILES];
    uint32_t n_files = (uint32_t)argc - 4;
    for (uint32_t i = 0; i < n_files; i++) {
        Error err;
        if (!(files[i] = read_file(argv[i + 4], SIZE_MAX, &sizes[i], &err)))
            return fprintf(stderr, "fuzz: %s\n", err.text), 2;
        try_input((const uint8_t *)files[i], sizes[i]);
    }
    static uint8_t bytes[MOST_BYTES];
    long tries = atol(argv[2]);
    for (long i = 0; i < tries; i++) {
        uint32_t one = (uint32_t)i % n_files, other = random_below(n_files),
                 times = 1 + random_below(3);
        size_t n = sizes[one] < MOST_BYTES ? sizes[one] : MOST_BYTES;
        memcpy(bytes, files[one], n);
        while (times-- > 0) n = damage(bytes, n, (const uint8_t *)files[other], sizes[other]);
        try_input(bytes, n);
    }
    for (uint32_t i = 0; i < n_files; i++) free(files[i]);
    printf("%ld inputs of %s\n", tries + (long)n_files, argv[1]);
    return 0;
}

#endif
