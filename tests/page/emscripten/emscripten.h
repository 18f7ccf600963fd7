// What page.c takes from emscripten, for a build of the page's C without it (test_page.c).
#define EMSCRIPTEN_KEEPALIVE
