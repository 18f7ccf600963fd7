// RoPE where the position changes the frequency: stale keys, and longrope's unscaled positions. And
// where norms of heads come behind it, or cancel its attention factor.
#include "turns.h"

#include "../llama/arithmetic.h"
#include "scores.h"

// The angles where f depends on the position. Longrope may leave the first positions unscaled. A
// stale key turned at the scale of the step that read it, at `then`. A distance is a part of the
// query less a part of the key (see rope.h). So the angle D(m, n) f of fill_turns grows by the
// query's part times what f is more at m, and shrinks by the key's part times what f is more at n.
void fill_uneven_turns(Plain *p, Turns *t, int length) {
    const RopeConfig *c = t->rope;
    int m = place_of(p, p->i);
    RopeFreqs now, then;
    rope_frequencies(c, length, &now);
    t->cancelled = now.attention_factor;
    then = now;
    p->lengths[p->i] = length;
    for (int j = 0; j <= p->i; j++) {
        int n = place_of(p, j);
        if (p->config->stale_keys) rope_frequencies(c, p->lengths[j], &then);
        double factor = now.attention_factor * then.attention_factor;
        if (norms_cancel_factor(&p->model->config)) factor = 1;
        double distance = rope_distance(c, m, n);
        double key = rope_parts(c, n).key;
        for (int pair = 0; pair < now.n_pairs; pair++) {
            double f = now.inv_freq[pair];
            double query_more = rope_speed(c, &now, pair, m) - f;
            double key_more = rope_speed(c, &then, pair, n) - f;
            double angle = distance * f + m * query_more - key * key_more;
            int64_t place = (int64_t)j * now.n_pairs + pair;
            rope_cos_sin(1, angle, factor, &t->cosines[place], &t->sines[place]);
        }
    }
}

void fill_own_turns(Plain *p, Turns *t, int length) {
    RopeFreqs now;
    rope_frequencies(t->rope, length, &now);
    int position = place_of(p, p->i);
    for (int pair = 0; pair < now.n_pairs; pair++) {
        rope_cos_sin(now.inv_freq[pair], position, now.attention_factor, &t->own_cosines[pair],
                     &t->own_sines[pair]);
    }
}

void take_factor_first(const Plain *p, float *x, int n) {
    int64_t d = p->w->shape.head_dim;
    for (int h = 0; h < n; h++)
        scale_all(x + h * d, (float)p->turns->cancelled, 2 * turning_pairs(p));
}

void turn_heads(const Plain *p, float *x, int n) {
    int64_t d = p->w->shape.head_dim;
    for (int h = 0; h < n; h++) {
        rope_rotate(x + h * d, turning_pairs(p), p->turns->own_cosines, p->turns->own_sines);
    }
}
