// Reads a prompt, and samples the text after it.
#define _POSIX_C_SOURCE 200809L
#include "writing.h"

#include <stdio.h>

bool read_prompt(Writing *t, const int32_t *ids, int n, Error *err) {
    double start = now_seconds();
    int length = t->session->position + n;
    bool ok = true;
    int done = 0;
    catch_interrupt(SA_RESTART);
    while (ok && done < n && !interrupted) {
        int count = n - done < PREFILL_CHUNK ? n - done : PREFILL_CHUNK;
        bool is_last = done + count == n;
        bool read = session_read(t->session, ids + done, count, length, is_last, err);
        if (read) done += count;
        ok = read || interrupted;
    }
    t->prefill_seconds += now_seconds() - start;
    t->prefill_tokens += done;
    return ok;
}

bool is_end(const Writing *t, int token) {
    const ModelConfig *c = &t->job->model->config;
    if (token == t->end_of_turn) return true;
    return tokenizer_ends_text(t->job->tokenizer, token, c->eos_ids, c->n_eos);
}

bool write_answer(Writing *t, TextOut *out, int32_t *last, Error *err) {
    while (!interrupted && !ferror(stdout)) {
        float *logits = session_logits(t->session, 0, 1, err);
        if (!logits) return false;
        *last = sampler_next(&t->sampler, logits);
        if (is_end(t, *last) && !t->o->ignore_eos) return true;
        bool is_chat = t->answer.tokenizer;
        if (!is_chat || chat_shows(&t->answer, *last)) text_out_token(out, *last);
        int position = t->session->position;
        if (position >= t->job->length) return true;
        double start = now_seconds();
        if (!session_read(t->session, last, 1, position + 1, 1, err)) return interrupted;
        t->decode_seconds += now_seconds() - start;
        t->decode_tokens++;
    }
    return true;
}
