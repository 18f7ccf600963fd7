// What measurements share: their length and text, the lines above their tables, and going through the methods.
#define _POSIX_C_SOURCE 200809L
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../text/text_io.h"

int measured_length(const Model *model, size_t most) {
    int train_ctx = model->rope.train_ctx, seq_len = model->config.seq_len;
    int four_times = train_ctx <= (1 << 28) ? 4 * train_ctx : train_ctx;
    int length = four_times > seq_len ? four_times : seq_len;
    return most < (size_t)length ? (int)most : length;
}

int32_t *measured_text(const char *path, const Model *model, const Tokenizer *tokenizer, size_t *n, Error *err) {
    size_t size;
    int vocab_size = model->config.vocab_size;
    char *text = read_file(path, &size, err);
    if (!text) return NULL;
    int32_t *ids = tokenizer ? tokenizer_encode(tokenizer, text, size, n, err) : parse_ids(path, text, size, n, err);
    free(text);
    for (size_t i = 0; ids && i < *n; i++) {
        if (ids[i] < vocab_size) continue;
        fail(err, "%s: token %d is not in the model's vocabulary of %d", path, (int)ids[i], vocab_size);
        free(ids);
        return NULL;
    }
    return ids;
}

Session *open_session(const Options *o, const Model *model, const RopePlan *plan, int context, bool say_memory,
                      Error *err) {
    SessionConfig config = {
        .rope = plan->rope, .window = plan->window, .sinks = plan->sinks, .all_slide = plan->all_slide, .kv = o->kv};
    config.context = context;
    config.threads = o->threads;
    Session *s = session_new(model, &config, err);
    size_t cache, bytes = s ? session_bytes(s, &cache) : 0;
    if (s && say_memory)
        fprintf(stderr, "run: %d positions, %.1f MB of memory (%s key-value cache %.1f MB)\n", context,
                (double)bytes / 1e6, kv_type_names[o->kv], (double)cache / 1e6);
    return s;
}

void print_heading(const Measurement *m, const char *what) {
    printf("# %s\t%.200s\n# length\t%d\n# train_ctx\t%d\n# kv\t%s\n", what, m->options->model_path, m->length,
           m->plans[0].rope.train_ctx, kv_type_names[m->options->kv]);
    if (m->options->text_path) printf("# text\t%.200s\n# samples\t%d\n", m->options->text_path, m->options->samples);
}

void show_progress(Method *method, double done) {
    double now = now_seconds(), share = (method->part + done) / method->m->n_plans;
    if (!isatty(STDERR_FILENO) || now - method->shown < 0.2) return;
    method->shown = now;
    char bar[31] = "";
    for (int i = 0; i < 30; i++) bar[i] = share * 30 > i ? '#' : '.';
    double left = share > 0 ? (now - method->start) * (1 - share) / share : 0;
    fprintf(stderr, "\r%-24.24s [%s] %3.0f%%  %4.0f s left ", method->plan->name, bar, 100 * share, left);
}

bool measure_methods(const Measurement *m, const char *what, const char *columns, Work *work, void *job, Error *err) {
    int n = m->n_plans;
    Method method = {.m = m, .start = now_seconds()};
    bool ok = true;
    for (int i = -n; ok && i < n; i++) {  // the first time round for the memory alone
        if (i == 0) {
            print_heading(m, what);
            printf("%s\n", columns);
        }
        method.part = i;
        method.plan = &m->plans[i < 0 ? i + n : i];
        method.session = open_session(m->options, m->model, method.plan, m->length, i == 0, err);
        ok = method.session && (i < 0 || work(job, &method, err));
        session_free(method.session);
    }
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%79s\r", "");
    return ok;
}
