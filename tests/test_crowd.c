// ./run whose texts with jumps count keys as a crowd, which --check's alone do otherwise. Driven by test_spread.py.
#define main run_main
#include "run.c"
#undef main

Session *__real_session_new(const Model *from, const SessionConfig *config, Error *err);
Session *__wrap_session_new(const Model *from, const SessionConfig *config, Error *err);
Session *__wrap_session_new(const Model *from, const SessionConfig *config, Error *err) {
    SessionConfig crowded = *config;
    crowded.spread.crowd = crowded.spread.length > 0;  // from token 1 on: all but BOS
    return __real_session_new(from, &crowded, err);
}

int main(int argc, char **argv) { return run_main(argc, argv); }
