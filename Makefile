# make          builds ./run for this machine
# make debug    with the address and undefined-behavior sanitizers
# make test     runs the tests
# make check-portable  does so with other compilers, for other processors, under valgrind and with clang's race detector
# make valgrind  the one of these under valgrind
# make figures  measures and draws docs/figures again (matplotlib; TEXT=FILE: on that text); interrupted, it goes on
# make class    runs each command of docs/class.md and compares what it prints
# make page     builds the browser page in build/page (emscripten, node); make page-open serves it on this machine
# make dist     writes dist/rope.html, the page in one file, and dist/rope.c.tar.gz, the sources as they are committed
# make test-page  drives it in headless Chromium; make page-picture takes docs/figures/page.png of it there
# make fuzz     builds fuzzers in build/fuzz (clang); FUZZ_SECONDS=60 runs each of them for that long
# make wasm-bench  builds for WebAssembly (emcc) and times model.bin on one thread of node
# make lint     holds house style and plain English, then what is there of gcc's analyzer, clang-tidy, cppcheck, and lint-page
# make lint-page  holds the page to ESLint and TypeScript's checker, where make page has got them
# make format   writes all C the way clang-format has it (.clang-format)
# make install  puts run and its man page below PREFIX (/usr/local), or below DESTDIR/PREFIX
# make clean    removes what was built

# As many jobs as there are processors, where nobody says -j, on the command line (most makes do not tell here) or in the
# environment. A make that is called by another one has the caller's, and `make clean` must not meet a build.
ifeq ($(MAKELEVEL)$(filter clean,$(MAKECMDGOALS)),0)
ifeq ($(shell { ps -o args= -p $$PPID; echo " $$MAKEFLAGS"; } 2>/dev/null | grep -E -- ' (-[a-zA-Z]*j|--jobs)'),)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
endif
endif

CC ?= cc
# This machine's instructions: -march=native, or -mcpu=native where the compiler wants it so. make ARCH= for any machine.
accepts = $(shell printf 'int main(void){return 0;}' | $(CC) $(1) -x c - -o /dev/null 2>/dev/null && echo $(1))
ARCH := $(or $(call accepts,-march=native),$(call accepts,-mcpu=native))
# Loops begin where a processor fetches: q4 decodes a fifth slower on AVX2 when its loop happens to lie elsewhere.
CFLAGS ?= -O3 -falign-loops=32 $(ARCH)
LDLIBS = -lm
PYTHON ?= python3

# The language and the warnings are not a matter of taste; optimization, architecture and compiler are.
# Products and sums may be fused (fma) on every compiler alike.
FLAGS = -std=c11 -Wall -Wextra -Werror -Wvla -Wno-unknown-pragmas -ffp-contract=fast

# OpenMP when the compiler has it. make OPENMP= builds without.
OPENMP := $(call accepts,-fopenmp)

SOURCES = run.c rope.c $(wildcard src/*.c src/*/*.c)
OBJECTS = $(SOURCES:%.c=build/%.o)

run: $(OBJECTS)
	$(CC) $(FLAGS) $(OPENMP) $(CFLAGS) $(LDFLAGS) $(OBJECTS) -o $@ $(LDLIBS)

build/%.o: %.c build/flags
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(OPENMP) $(CFLAGS) -MMD -MP -c $< -o $@

# Objects are made again when the compiler or its options change.
build/flags: FORCE
	@mkdir -p build
	@echo '$(CC) $(FLAGS) $(OPENMP) $(CFLAGS)' | cmp -s - $@ || echo '$(CC) $(FLAGS) $(OPENMP) $(CFLAGS)' > $@

debug:
	$(MAKE) run CFLAGS='-O1 -g $(ARCH) -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer'

check-portable: run
	$(PYTHON) tests/portable.py

valgrind: run
	$(PYTHON) tests/portable.py valgrind

# Tests that build something do so as if at a terminal: jobs and flags are this make's own.
test: run
	@MAKEFLAGS= CC='$(CC)' $(PYTHON) tests/run_tests.py

figures: run
	$(PYTHON) tools/figures.py

class: run
	$(PYTHON) tools/class.py

PREFIX ?= /usr/local

install: run build/run.1
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 755 run $(DESTDIR)$(PREFIX)/bin/run
	install -m 644 build/run.1 $(DESTDIR)$(PREFIX)/share/man/man1/run.1

build/run.1: run tools/manpage.py docs/manual.md
	$(PYTHON) tools/manpage.py ./run > $@

WASM_FLAGS = -O3 -msimd128 -sALLOW_MEMORY_GROWTH=1 -sNODERAWFS=1 -sEXIT_RUNTIME=1

wasm-bench:
	@mkdir -p build/wasm
	NODE_PATH=$${NODE_PATH:-/usr/share/nodejs} emcc $(FLAGS) $(WASM_FLAGS) $(SOURCES) $(LDLIBS) -o build/wasm/run.js
	node --no-experimental-fetch build/wasm/run.js model.bin --bench -n 512

clean:
	rm -rf build dist run

# The page. What is bundled is pinned in page/package-lock.json, and nothing but files comes out.
page: page-tools page/node_modules
	@node page/build.mjs

# What is not here is told at once, by Debian's packages. Their emscripten looks for acorn among node's modules.
page-tools:
	@have() { for name; do command -v "$$name" > /dev/null && return; done; false; }; \
	packages=; \
	have emcc || packages="$$packages emscripten"; \
	[ "$$(command -v emcc || echo /usr/bin/emcc)" != /usr/bin/emcc ] || [ -d /usr/share/nodejs/acorn ] || \
		packages="$$packages node-acorn"; \
	have node || packages="$$packages nodejs"; \
	have npm || packages="$$packages npm"; \
	[ -z '$(BROWSER)' ] || have $(BROWSER) || packages="$$packages chromium"; \
	[ -z "$$packages" ] || { echo "the page needs what is not here: apt-get install$$packages" >&2; exit 1; }

page/node_modules: page/package.json page/package-lock.json | page-tools
	@$(SAY) 'page: npm gets what is bundled and what tests it, into page/node_modules'
	@cd page && npm ci --no-audit --no-fund --loglevel=error && touch node_modules

# Silent under make -s.
SAY = $(if $(findstring s,$(firstword -$(MAKEFLAGS))),:,echo)

page-open: page
	$(PYTHON) page/serve.py

# What a release holds.
dist: page
	@git rev-parse --verify --quiet HEAD > /dev/null || \
		{ echo 'make dist: the sources are packed as git has them, and this folder is no git repository' >&2; exit 1; }
	@mkdir -p dist
	@cp build/page/rope.html dist/rope.html
	@git archive --prefix=rope.c/ HEAD | gzip -9n > dist/rope.c.tar.gz
	@$(SAY) "dist: dist/rope.html, and dist/rope.c.tar.gz of $$(git rev-parse --short HEAD)"

test-page: BROWSER = "$${CHROMIUM:-chromium}" chromium-browser google-chrome
test-page: run page
	@MAKEFLAGS= $(PYTHON) tests/run_tests.py test_page

page-picture: BROWSER = "$${CHROMIUM:-chromium}" chromium-browser google-chrome
page-picture: page
	node tools/page_picture.mjs

# tests/fuzz/fuzz.c holds all targets: which one a program is, its name says. No allocation may be larger than small
# files justify.
FUZZERS = model tokenizer text options config blocks engines
FUZZ_CC ?= clang
FUZZ_FLAGS = -O1 -g -march=native -DLIBFUZZER -fsanitize=fuzzer,address,undefined,float-cast-overflow -fno-sanitize-recover=all
FUZZ_RUN = -timeout=10 -malloc_limit_mb=256 -artifact_prefix=build/fuzz/

fuzz: build/fuzz/fuzz
	$(PYTHON) tests/fuzz/seeds.py build/fuzz/corpus
	@for target in $(FUZZERS); do \
		cp $< build/fuzz/$$target; \
		set -- build/fuzz/$$target $(FUZZ_RUN) build/fuzz/corpus/$$target; \
		if [ '$(FUZZ_SECONDS)' ]; then "$$@" -max_total_time=$(FUZZ_SECONDS) || exit 1; else echo "$$@"; fi; \
	done

build/fuzz/fuzz: tests/fuzz/fuzz.c $(SOURCES) $(wildcard *.h src/*.h src/*/*.h)
	@mkdir -p $(@D)
	$(FUZZ_CC) $(FLAGS) $(FUZZ_FLAGS) -I. tests/fuzz/fuzz.c $(filter-out run.c,$(SOURCES)) -Wl,--wrap=map_file,--wrap=unmap_file -o $@ $(LDLIBS)

# gcc's analyzer follows every path, but takes vectors for numbers. clang's own is left out: it loses sight of what one
# function has made sure of for another. Of clang-tidy's checks, these are matters of taste (parameters that could be
# swapped, names that the standard reserves and the C library wants defined, results of printf, which ferror tells at the
# end), or take bytes for strings, or 64-bit sizes for ones that an int cannot hold (header.c and test_hostile.py see to
# that), or miss objects behind addresses that are only asked for in advance. Others find what is meant: quotients that
# are cut to whole numbers, loops that add up to a limit, long strings in lists, structs of doubles alone that are compared
# by their bytes. cppcheck's take the address of a result for a use of it, and do not know vectors in braces. What calls
# itself here does so no deeper than a text may nest.
LINT_GCC ?= gcc
VECTORS = src/kernels/kernels.c src/forward/matmul.c src/forward/rows.c src/forward/panels.c src/kernels/matrix_units.c src/model/matrix.c
TIDY = bugprone-*,cert-*,misc-*,performance-*,portability-*,-bugprone-easily-swappable-parameters,-bugprone-reserved-identifier,-cert-dcl37-c,$\
-cert-dcl51-cpp,-cert-err33-c,-performance-no-int-to-ptr,-cert-err34-c,-bugprone-not-null-terminated-result,$\
-bugprone-implicit-widening-of-multiplication-result,-bugprone-narrowing-conversions,-misc-no-recursion,$\
-bugprone-integer-division,-cert-flp30-c,-bugprone-suspicious-missing-comma,-bugprone-suspicious-memory-comparison,$\
-cert-exp42-c,-cert-flp37-c

lint: run
	@found() { command -v $$1 > /dev/null && echo "$$1" || { echo "$$1 is not here"; false; }; }; status=0; \
	$(PYTHON) tools/house.py || status=1; \
	$(PYTHON) tools/words.py || status=1; \
	if found $(LINT_GCC); then for file in $(filter-out $(VECTORS),$(SOURCES)); do \
		$(LINT_GCC) $(FLAGS) -O1 -fanalyzer -c $$file -o /dev/null || status=1; done; fi; \
	if found clang-tidy; then clang-tidy --quiet --warnings-as-errors='*' --checks='-*,$(TIDY)' $(SOURCES) -- \
		-std=c11 -march=native 2> /dev/null || status=1; fi; \
	if found cppcheck; then cppcheck --quiet --std=c11 --enable=warning,performance,portability --error-exitcode=1 \
		--suppress=uninitvar --suppress=internalAstError --suppress=ctuuninitvar --suppress=toomanyconfigs $(SOURCES) || status=1; fi; \
	$(MAKE) -s lint-page || status=1; \
	exit $$status

# The page's modules and its tests: ESLint, then TypeScript's checker over what JSDoc says of types.
lint-page:
	@if [ -x page/node_modules/.bin/eslint ] && [ -x page/node_modules/.bin/tsc ]; then \
		page/node_modules/.bin/eslint --config page/eslint.config.js page/src page/*.mjs tests/page && \
		page/node_modules/.bin/tsc -p page/jsconfig.json; \
	else echo 'eslint and tsc are not here (make page gets them)'; fi

FORMATTED = *.c *.h src/*.c src/*.h src/*/*.c src/*/*.h tests/*.c tests/*.h tests/*/*.c tools/*.c

format:
	clang-format -i $(filter-out src/text/unicode_tables.h,$(wildcard $(FORMATTED)))

help:
	@sed -n 's/^# make/make/p' Makefile

.PHONY: install page page-tools page-open dist test-page page-picture debug check-portable valgrind wasm-bench test figures class
.PHONY: fuzz lint lint-page format clean help FORCE
FORCE:

-include $(OBJECTS:.o=.d)
