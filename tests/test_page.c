// The page's C without a browser: scores of a text in two parts, in arrays that lie where nothing can lie before them.
// Driven by test_page.py, which writes the model:  test_page MODEL TOKENIZER
#define _DEFAULT_SOURCE  // MAP_ANONYMOUS
#include "tests/test_units.h"

#include <sys/mman.h>

#include "page/page.c"

// emscripten has it from JavaScript, and nothing here searches.
static void tell_page(double done, double nll, const double *divisors, double attention_factor) {
    check(0, "nobody searches (%g %g %p %g)", done, nll, (const void *)divisors, attention_factor);
}

// -ln p of ids[1], ids[2], ... in plain double arithmetic, from logits that are read one token at a time.
static void score_plainly(Reader *r, const int32_t *ids, int n, double *nll) {
    const int vocab_size = r->page->model.config.vocab_size;
    for (int i = 0; i < n - 1; i++) {
        double sum = 0;
        check(reader_read(r, ids + i, 1, n, 1), "reading token %d: %s", i, page_error(r->page));
        const float *logits = session_logits(r->session, 0, 1, &r->page->err);
        for (int t = 0; logits && t < vocab_size; t++) sum += exp((double)logits[t] - logits[ids[i + 1]]);
        nll[i] = log(sum);
    }
}

static double furthest(const double *a, const double *b, int n) {
    double worst = 0;
    for (int i = 0; i < n; i++) worst = isfinite(a[i]) ? fmax(worst, fabs(a[i] - b[i])) : INFINITY;
    return worst;
}

int main(int argc, char **argv) {
    enum { MOST = 100, LOWEST = 1 << 16 };  // no system gives memory out below a lower address
    Page *page = page_new();
    if (argc != 3 || !page || !page_open(page, argv[1], argv[2]) || !page_plan(page, "none:window=40", 1 << 14)) {
        printf("FAIL %s\n", page ? page_error(page) : "no memory");
        return 1;
    }
    void *low = mmap((void *)(uintptr_t)LOWEST, 1 << 16, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    double *nll = low != MAP_FAILED ? low : get(1 << 16), expected[MOST];
    int32_t *ids = (int32_t *)(nll + MOST), one = 5;
    for (int i = 0; i < MOST; i++) ids[i] = 3 + i * 7 % 200;

    Reader *whole = reader_new(page, MOST, false), *parts = reader_new(page, 1 << 14, false);
    score_plainly(whole, ids, MOST, expected);
    check(reader_score(parts, ids, 60, MOST, nll), "the first part: %s", page_error(page));
    check(reader_score(parts, ids + 59, MOST - 59, MOST, nll + 59), "the second: %s", page_error(page));
    check(furthest(nll, expected, MOST - 1) < 1e-4, "scores in two parts: off by %g",
          furthest(nll, expected, MOST - 1));

    // So far in that nll - position would be below address 0: the sanitizer sees such a pointer.
    while (reader_position(parts) <= LOWEST / 8) reader_read(parts, &one, 1, MOST, 0);
    check(reader_score(parts, ids, 5, MOST, nll) && isfinite(nll[3]), "scores at the lowest address");

    reader_free(whole);
    reader_free(parts);
    page_free(page);
    return finish();
}
