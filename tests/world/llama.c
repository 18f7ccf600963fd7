// llama.cpp's library as others publish it, asked by lines on standard input:
//
//   set NAME VALUE       a setting of the next context: see set()
//   load PATH CONTEXT    a GGUF file, with a cache of float32 and without flash attention
//   score ID ID ...      the log-probability of each token but the first, given those before it
//   tokenize HEX         the ids of a text, whose bytes are in hexadecimal, without BOS; special tokens are text
//   next TOP ID ID ...   the TOP likeliest tokens behind these, as ID LOG-PROBABILITY pairs
//
// A line answers each; "error" and a reason if it cannot be done. The one argument is the folder with
// the library's parts for processors.
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ggml-backend.h"
#include "llama.h"

enum { MAX_IDS = 1 << 16, LINE = 1 << 20 };

typedef struct {
    struct llama_model *model;
    struct llama_context *context;
    int n_ids;
    llama_token ids[MAX_IDS];
    struct llama_context_params settings;  // of the next context
} State;

static void be_quiet(enum ggml_log_level level, const char *text, void *unused) {
    (void)unused;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static void unload(State *s) {
    if (s->context) llama_free(s->context);
    if (s->model) llama_model_free(s->model);
    s->context = NULL;
    s->model = NULL;
}

static void load(State *s, const char *path, int n) {
    unload(s);
    s->model = llama_model_load_from_file(path, llama_model_default_params());
    if (!s->model) {
        puts("error the file cannot be loaded");
        return;
    }
    struct llama_context_params p = s->settings;
    s->settings = llama_context_default_params();
    p.n_ctx = p.n_batch = p.n_ubatch = (uint32_t)n;
    p.n_threads = p.n_threads_batch = 1;
    p.type_k = p.type_v = GGML_TYPE_F32;
    p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    s->context = llama_init_from_model(s->model, p);
    puts(s->context ? "ok" : "error no context of this length");
}

// What a server's options set: --rope-scaling (its number in llama.h), --rope-freq-base and the others
// of RoPE.
static bool set(struct llama_context_params *p, const char *name, double value) {
    if (strcmp(name, "rope-scaling") == 0) p->rope_scaling_type = (int)value;
    else if (strcmp(name, "rope-freq-base") == 0) p->rope_freq_base = (float)value;
    else if (strcmp(name, "rope-freq-scale") == 0) p->rope_freq_scale = (float)value;
    else if (strcmp(name, "yarn-orig-ctx") == 0) p->yarn_orig_ctx = (uint32_t)value;
    else if (strcmp(name, "yarn-ext-factor") == 0) p->yarn_ext_factor = (float)value;
    else if (strcmp(name, "yarn-attn-factor") == 0) p->yarn_attn_factor = (float)value;
    else if (strcmp(name, "yarn-beta-fast") == 0) p->yarn_beta_fast = (float)value;
    else if (strcmp(name, "yarn-beta-slow") == 0) p->yarn_beta_slow = (float)value;
    else return false;
    return true;
}

static bool read_ids(State *s, char *text) {
    s->n_ids = 0;
    for (char *end; s->n_ids < MAX_IDS; text = end) {
        long id = strtol(text, &end, 10);
        if (end == text) break;
        s->ids[s->n_ids++] = (llama_token)id;
    }
    return s->n_ids > 0 && s->context;
}

// Reads the tokens from nothing. With `all`, logits are kept behind each, else behind the last.
static bool decode(State *s, bool all) {
    llama_memory_clear(llama_get_memory(s->context), true);
    struct llama_batch batch = llama_batch_init(s->n_ids, 0, 1);
    batch.n_tokens = s->n_ids;
    for (int i = 0; i < s->n_ids; i++) {
        batch.token[i] = s->ids[i];
        batch.pos[i] = i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = all || i == s->n_ids - 1;
    }
    int status = llama_decode(s->context, batch);
    llama_batch_free(batch);
    return status == 0;
}

static int n_vocab(const State *s) { return llama_vocab_n_tokens(llama_model_get_vocab(s->model)); }

static double log_of_sum(const float *logits, int n) {
    float best = logits[0];
    for (int i = 1; i < n; i++) best = fmaxf(best, logits[i]);
    double sum = 0;
    for (int i = 0; i < n; i++) sum += exp((double)logits[i] - best);
    return best + log(sum);
}

static void score(State *s) {
    int n = n_vocab(s);
    if (!decode(s, true)) {
        puts("error it cannot be decoded");
        return;
    }
    for (int i = 0; i + 1 < s->n_ids; i++) {
        const float *logits = llama_get_logits_ith(s->context, i);
        printf("%.9g ", logits[s->ids[i + 1]] - log_of_sum(logits, n));
    }
    putchar('\n');
}

static void tokenize(State *s, char *hex) {
    int n = 0;
    for (unsigned byte; sscanf(hex + 2 * n, "%2x", &byte) == 1; n++) hex[n] = (char)byte;
    const struct llama_vocab *vocab = llama_model_get_vocab(s->model);
    int n_ids = llama_tokenize(vocab, hex, n, s->ids, MAX_IDS, false, false);
    if (n_ids < 0) {
        puts("error too many ids");
        return;
    }
    for (int i = 0; i < n_ids; i++) printf("%d ", s->ids[i]);
    putchar('\n');
}

static void next(State *s, int top) {
    int n = n_vocab(s);
    if (!decode(s, false)) {
        puts("error it cannot be decoded");
        return;
    }
    float *logits = llama_get_logits_ith(s->context, -1);
    double sum = log_of_sum(logits, n);
    for (int i = 0; i < top && i < n; i++) {
        int best = 0;
        for (int id = 1; id < n; id++)
            if (logits[id] > logits[best]) best = id;
        printf("%d %.9g ", best, logits[best] - sum);
        logits[best] = -INFINITY;
    }
    putchar('\n');
}

int main(int argc, char **argv) {
    static char line[LINE];
    static State s;
    llama_log_set(be_quiet, NULL);
    if (argc == 2) ggml_backend_load_all_from_path(argv[1]);
    llama_backend_init();
    s.settings = llama_context_default_params();
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        char *space = strrchr(line, ' ');
        char *rest = line + strcspn(line, " ");
        if (strncmp(line, "load ", 5) == 0 && space > line + 4) {
            *space = '\0';
            load(&s, line + 5, atoi(space + 1));
        } else if (strncmp(line, "set ", 4) == 0 && space > line + 4) {
            *space = '\0';
            puts(set(&s.settings, line + 4, atof(space + 1)) ? "ok" : "error no such setting");
        } else if (strncmp(line, "score ", 6) == 0 && read_ids(&s, rest)) {
            score(&s);
        } else if (strncmp(line, "tokenize ", 9) == 0 && s.model) {
            tokenize(&s, line + 9);
        } else if (strncmp(line, "next ", 5) == 0) {
            int top = (int)strtol(rest, &rest, 10);
            if (read_ids(&s, rest)) next(&s, top);
            else puts("error no ids, or no model");
        } else {
            puts("error no such line, or no model");
        }
        fflush(stdout);
    }
    unload(&s);
    return 0;
}
