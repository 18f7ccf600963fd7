# make          builds ./run for this machine, or with the CC, CPPFLAGS, CFLAGS, LDFLAGS, ARCH and OPENMP that are given
# make core     builds ./core, the tiny program: a Llama (rope.c and src/llama) and other kinds of models, on one thread
# make debug    builds with the address and undefined-behavior sanitizers
# make test     runs the tests; make test-long runs those that take long
# make test-planted  plants errors, one at a time, in a copy of the program, and names the test that catches each
# make test-sanitized  runs every job on every checkpoint, at lengths from 1 to 600, under both sanitizers
# make check-portable  tests other compilers and processors, and runs valgrind and clang's thread sanitizer
# make valgrind  runs the valgrind part of it alone
# make test-served  asks a real llama-server (LLAMA_SERVER=path) which reading it uses
# make test-world  tests against the npm packages that tests/world.json pins, in build/world (WORLD=newest: today's); a gigabyte
# make figures  measures and draws docs/figures again (matplotlib; TEXT=FILE names the text); continues an interrupted run
# make class    writes slides, handout and solutions to build/class; runs each command of docs/class.md and checks its output
# make page     builds the browser page in build/page (emscripten, node); make page-open serves it on this machine
# make dist     packs the committed sources as a tarball in dist; make dist-page puts the page there, as one file
# make dist-models  packs the sibling models, which make dist leaves out
# make test-page  tests the page in headless Chromium; make page-picture takes its picture for docs/figures
# make fuzz     builds fuzzers in build/fuzz (clang); FUZZ_SECONDS=60 runs each of them for that long
# make wasm-bench  builds for WebAssembly (emcc) and times model.bin on one thread of node
# make lint     checks house style and plain English, then runs mypy, gcc's analyzer, clang-tidy and cppcheck if installed
# make lint-page  checks the page with ESLint and TypeScript, if make page has installed them
# make format   formats all C with clang-format
# make install  installs what was built below PREFIX (/usr/local) as rope-run (NAME), with man page, model and documents
# make uninstall  removes that again
# make clean    removes what was built

# As many jobs as there are processors, unless -j says how many: on the command line, which make obeys first, or in the
# environment. A make that is called by another one has the caller's, and `make clean` must not meet a build.
ifeq ($(MAKELEVEL)$(filter clean,$(MAKECMDGOALS))$(findstring j,$(shell echo "$$MAKEFLAGS")),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
endif

# What a recipe left behind when it failed is no result.
.DELETE_ON_ERROR:

CC ?= cc
# This machine's instructions: -march=native, or -mcpu=native where the compiler wants it so. make ARCH= for any machine.
accepts = $(shell printf 'int main(void){return 0;}' | $(CC) $(1) -x c - -o /dev/null 2>/dev/null && echo $(1))
ARCH := $(or $(call accepts,-march=native),$(call accepts,-mcpu=native))
# Loops begin where a processor fetches: q4 decodes a fifth slower on AVX2 when its loop happens to lie elsewhere.
CFLAGS ?= -O3 -falign-loops=32 $(ARCH)
LDLIBS = -lm
PYTHON ?= python3

# The language and the warnings are not a matter of taste; optimization, architecture and compiler are. That a warning is
# an error is our own habit: WERROR=1. Products and sums may be fused (fma) on every compiler alike.
FLAGS = -std=c11 -Wall -Wextra -Wvla -Wno-unknown-pragmas -ffp-contract=fast
STRICT = $(if $(WERROR),-Werror)

# OpenMP when the compiler has it. make OPENMP= builds without.
OPENMP := $(call accepts,-fopenmp)

# The tiny program, and what it stands on.
CORE_ROOMS = base weights tokens llama kinds
CORE = rope.c src/rope_settings.c $(wildcard $(CORE_ROOMS:%=src/%/*.c))
SOURCES = run.c $(sort $(filter-out src/llama/main.c,$(CORE) $(wildcard src/*.c src/*/*.c)))
OBJECTS = $(SOURCES:%.c=build/%.o)
CORE_OBJECTS = $(CORE:%.c=build/%.o)

# How all is compiled and linked, and the commit that --version tells. An archive of git's has it in run.c itself.
COMPILE := $(CC) $(FLAGS) $(OPENMP) $(CPPFLAGS) $(CFLAGS)
LINK := $(CC) $(FLAGS) $(OPENMP) $(CFLAGS) $(LDFLAGS)
COMMIT := $(shell { [ -e .git ] && grep -q '[$$]Format' run.c && git describe --always --dirty --abbrev=10 --exclude='*'; } \
	2> /dev/null)

# Only the targets that build go by the flags of this call. All others take the program as it was built last, and what is
# out of date of it is built as the rest was: what `make test` tests and `make install` installs is what `make` built.
BUILDERS = run core all debug  # what links a program belongs here
BUILDING := $(filter $(BUILDERS),$(or $(MAKECMDGOALS),run))
recorded = $(shell cat build/$(1) 2> /dev/null)
BUILT := $(call recorded,flags)
BUILT_LINK := $(call recorded,link)
BUILT_COMMIT := $(call recorded,commit)
OLD := $(sort $(filter-out $(COMPILE) $(LINK),$(BUILT) $(BUILT_LINK)))
NEW := $(sort $(filter-out $(BUILT) $(BUILT_LINK),$(COMPILE) $(LINK)))
ifeq ($(BUILDING)$(if $(BUILT),,nothing),)
COMPILE := $(BUILT)
LINK := $(BUILT_LINK)
COMMIT := $(BUILT_COMMIT)
endif

run: $(OBJECTS) build/link
	$(if $(findstring s,$(firstword -$(MAKEFLAGS))),,@echo '$(LINK) $(STRICT) ($(words $(OBJECTS)) objects) -o $@ $(LDLIBS)')
	@$(LINK) $(STRICT) $(OBJECTS) -o $@ $(LDLIBS)

core: $(CORE_OBJECTS) build/link
	$(filter-out $(OPENMP),$(LINK)) $(STRICT) $(CORE_OBJECTS) -o $@ $(LDLIBS)

all: run core

# The tables of families and of keys in C, from their rows. They stay as they are committed without Python, or without
# these files.
FAMILY_ROWS = $(wildcard export/families.json export/keys.json tools/family_table.py)
ROW_TABLES = src/configs/family_words.h src/configs/family_table.h src/configs/key_table.h
$(ROW_TABLES): $(FAMILY_ROWS)
	@if [ $(words $(FAMILY_ROWS)) = 3 ] && command -v $(PYTHON) > /dev/null; then $(PYTHON) tools/family_table.py; fi && touch $(ROW_TABLES)

# Likewise the story of book.txt.
src/measure/prose.inc: $(wildcard book.txt tools/prose.py)
	@if [ -r tools/prose.py ] && command -v $(PYTHON) > /dev/null; then $(PYTHON) tools/prose.py > build/prose.inc && mv build/prose.inc $@; fi && touch $@

build/src/measure/check.o: src/measure/prose.inc
build/src/configs/families.o build/src/configs/config_keys.o: $(ROW_TABLES)

build/%.o: %.c build/flags
	@mkdir -p $(@D)
	$(COMPILE) $(STRICT) $(OWN_FLAGS) -MMD -MP -c $< -o $@

build/run.o: build/commit
build/run.o: OWN_FLAGS = $(if $(COMMIT),-DCOMMIT='" ($(COMMIT))"')

# The records of how it was built. What goes by one is built again when that changes.
changed = $(if $(subst x$(1)x,,x$(2)x),FORCE)
build/flags: $(call changed,$(COMPILE),$(BUILT))
build/flags: export RECORD = $(COMPILE)
build/link: $(call changed,$(LINK),$(BUILT_LINK))
build/link: export RECORD = $(LINK)
build/commit: $(call changed,$(COMMIT),$(BUILT_COMMIT))
build/commit: export RECORD = $(COMMIT)
build/flags build/link build/commit: | say-flags
	@mkdir -p build
	@printf '%s\n' "$$RECORD" > $@

OTHER_FLAGS = $(if $(BUILDING),builds again with other flags,./run stays as it was built with other flags)
say-flags:
	@$(if $(and $(BUILT),$(OLD)$(NEW),$(SAYS)),$(info make: $(OTHER_FLAGS) (before: $(or $(OLD),none); now: $(or $(NEW),none))))

debug:
	$(MAKE) run WERROR=1 CFLAGS='-O1 -g $(ARCH) -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer'

# Every job on every checkpoint with the sanitizers: minutes, apart from make test. ARGS: jobs, lengths, parts of names.
test-sanitized: run
	@MAKEFLAGS= CC='$(CC)' $(PYTHON) tests/sanitized.py $(ARGS)

check-portable: run
	$(PYTHON) tests/portable.py

valgrind: run
	$(PYTHON) tests/portable.py valgrind

# Tests that build something do so as if at a terminal: jobs and flags are this make's own.
test: run
	@MAKEFLAGS= CC='$(CC)' $(PYTHON) tests/run_tests.py

# What takes long: settings by the dozen, errors that are planted one at a time, every document's commands.
test-long: run
	@MAKEFLAGS= CC='$(CC)' $(PYTHON) tests/run_tests.py --long

# What the tests are worth: each error of tests/planted.py, in a copy. ARGS: words of the errors that are meant.
test-planted: run
	@MAKEFLAGS= CC='$(CC)' $(PYTHON) tests/planted.py $(ARGS)

# Against a real server: LLAMA_SERVER=path of llama-server. Minutes.
test-served: run
	@MAKEFLAGS= $(PYTHON) tests/test_served.py

# Published tokenizers, llama.cpp's published library and a server of it. A part that cannot be had says so.
test-world: run
	@MAKEFLAGS= CC='$(CC)' WORLD='$(WORLD)' $(PYTHON) tests/world

figures: run
	$(PYTHON) tools/figures.py

class: run
	$(PYTHON) tools/class_sheets.py
	$(PYTHON) tools/class.py

# ---- install ----

# What the program is called there. A NAME in the environment does not count: some systems have one that means another thing.
NAME = rope-run
PREFIX ?= /usr/local
bindir = $(PREFIX)/bin
datadir = $(PREFIX)/share
mandir = $(datadir)/man
docdir = $(datadir)/doc/$(NAME)
INSTALL ?= install

# The exporter, the probe and their modules, and what the commands of the man page read; the documents. Each keeps its place in the sources.
OWN_FILES = model_export.py server_probe.py $(wildcard export/*.py export/*.json export/kinds/*.py probe/*.py probe/*/*.py) model.bin tokenizer.bin book.txt
DOC_FILES = README.md CHANGELOG.md LICENSE $(wildcard docs/*.md docs/*.json docs/*.tsv docs/figures/*.png)
PROBE_ROOMS = $(sort $(patsubst %/,%,$(dir $(wildcard probe/*/*.py))))
BIN = $(DESTDIR)$(bindir)
MAN = $(DESTDIR)$(mandir)/man1
OWN = $(DESTDIR)$(datadir)/$(NAME)
DOC = $(DESTDIR)$(docdir)

install: run build/$(NAME).1
	$(INSTALL) -d "$(BIN)" "$(MAN)" "$(OWN)/export/kinds" $(PROBE_ROOMS:%="$(OWN)/%") "$(DOC)/docs/figures"
	$(INSTALL) -m 755 run "$(BIN)/$(NAME)"
	$(INSTALL) -m 644 build/$(NAME).1 "$(MAN)"
	ln -sf $(NAME).1 "$(MAN)/$(NAME)-export.1"
	ln -sf $(NAME).1 "$(MAN)/$(NAME)-probe.1"
	for file in $(OWN_FILES); do $(INSTALL) -m 644 $$file "$(OWN)/$$file" || exit 1; done
	for file in $(DOC_FILES); do $(INSTALL) -m 644 $$file "$(DOC)/$$file" || exit 1; done
	chmod 755 "$(OWN)/model_export.py" "$(OWN)/server_probe.py"
	to=$$($(PYTHON) -c 'import os, sys; print(os.path.relpath(*sys.argv[1:]))' "$(OWN)" "$(BIN)") && \
		ln -sf "$$to/model_export.py" "$(BIN)/$(NAME)-export" && ln -sf "$$to/server_probe.py" "$(BIN)/$(NAME)-probe"

# Folders stay that hold something else.
uninstall:
	rm -f "$(BIN)/$(NAME)" "$(BIN)/$(NAME)-export" "$(BIN)/$(NAME)-probe"
	rm -f "$(MAN)/$(NAME).1" "$(MAN)/$(NAME)-export.1" "$(MAN)/$(NAME)-probe.1"
	rm -f $(foreach file,$(OWN_FILES),"$(OWN)/$(file)") $(foreach file,$(DOC_FILES),"$(DOC)/$(file)")
	rm -rf "$(OWN)/export/__pycache__" "$(OWN)/export/kinds/__pycache__" "$(OWN)/probe/__pycache__" $(PROBE_ROOMS:%="$(OWN)/%/__pycache__")
	rmdir "$(OWN)/export/kinds" "$(OWN)/export" $(PROBE_ROOMS:%="$(OWN)/%") "$(OWN)/probe" "$(OWN)" "$(DOC)/docs/figures" "$(DOC)/docs" "$(DOC)" 2> /dev/null || true

# Made from the manual alone, for the program that it is about need not run here.
build/$(NAME).1: FORCE
	@mkdir -p build
	@command -v $(PYTHON) > /dev/null || \
		{ echo 'make: the man page is made with $(PYTHON), which is not here (PYTHON=... names another)' >&2; exit 1; }
	$(PYTHON) tools/manpage.py $(NAME) '$(VERSION)' "$(datadir)/$(NAME)" "$(docdir)" > $@

VERSION = $(shell sed -n 's/^.define VERSION "\(.*\)"/\1/p' run.c)

WASM_FLAGS = -O3 -msimd128 -sALLOW_MEMORY_GROWTH=1 -sNODERAWFS=1 -sEXIT_RUNTIME=1

wasm-bench:
	@mkdir -p build/wasm
	NODE_PATH=$${NODE_PATH:-/usr/share/nodejs} emcc $(FLAGS) -Werror $(WASM_FLAGS) $(SOURCES) $(LDLIBS) -o build/wasm/run.js
	node --no-experimental-fetch build/wasm/run.js model.bin --bench -n 512

clean:
	rm -rf build dist run core

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
SAYS = $(if $(findstring s,$(firstword -$(MAKEFLAGS))),,yes)
SAY = $(if $(SAYS),echo,:)

page-open: page
	$(PYTHON) page/serve.py

# What a release holds: the sources as they are committed, the siblings of the small model, which go where the sources
# are unpacked, and the page in one file. A version that is still in the making is called by its commit, too.
SIBLINGS = model-8k.bin models/*.bin
dist: PACKED = . $(patsubst %,':!%',$(SIBLINGS))
dist-models: PACKED = $(patsubst %,'%',$(SIBLINGS))
dist-models: WHAT = -models

dist dist-models:
	@git rev-parse --verify --quiet HEAD > /dev/null || \
		{ echo 'make $@: the sources are packed as git has them, and this folder is no git repository' >&2; exit 1; }
	@mkdir -p dist
	@commit=$$(git rev-parse --short=10 HEAD) && name=rope.c-$(VERSION)$(if $(findstring dev,$(VERSION)),-$$commit) && \
	git -c core.abbrev=10 archive --prefix=$$name/ -o dist/$$name$(WHAT).tar HEAD -- $(PACKED) && \
	gzip -9nf dist/$$name$(WHAT).tar && \
	$(SAY) "dist: dist/$$name$(WHAT).tar.gz of $$commit$$(git diff --quiet HEAD || echo ', without what is not committed')"

dist-page: page
	@mkdir -p dist
	@cp build/page/rope.html dist/rope.html
	@$(SAY) 'dist: dist/rope.html'

test-page: BROWSER = "$${CHROMIUM:-chromium}" chromium-browser google-chrome
test-page: run page
	@MAKEFLAGS= PAGE_IN_BROWSER=1 $(PYTHON) tests/run_tests.py test_page

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
	$(FUZZ_CC) $(FLAGS) -Werror $(FUZZ_FLAGS) -I. tests/fuzz/fuzz.c $(filter-out run.c,$(SOURCES)) -Wl,--wrap=map_file,--wrap=unmap_file -o $@ $(LDLIBS)

# gcc's analyzer follows every path, but takes vectors for numbers. clang's own is left out: it loses sight of what one
# function has made sure of for another. Of clang-tidy's checks, these are matters of taste (parameters that could be
# swapped, names that the standard reserves and the C library wants defined, results of printf, which ferror tells at the
# end), or take bytes for strings, or 64-bit sizes for ones that an int cannot hold (header.c and test_hostile.py see to
# that), or miss objects behind addresses that are only asked for in advance. Others find what is meant: quotients that
# are cut to whole numbers, loops that add up to a limit, long strings in lists, structs of doubles alone that are compared
# by their bytes. cppcheck's take the address of a result for a use of it, and do not know vectors in braces. What calls
# itself here does so no deeper than a text may nest.
LINT_GCC ?= gcc
VECTORS = src/fast/kernels.c src/fast/matmul.c src/fast/rows.c src/fast/panels.c src/fast/packed.c \
	src/fast/widen.c
TIDY = bugprone-*,cert-*,misc-*,performance-*,portability-*,-bugprone-easily-swappable-parameters,-bugprone-reserved-identifier,-cert-dcl37-c,$\
-cert-dcl51-cpp,-cert-err33-c,-performance-no-int-to-ptr,-cert-err34-c,-bugprone-not-null-terminated-result,$\
-bugprone-implicit-widening-of-multiplication-result,-bugprone-narrowing-conversions,-misc-no-recursion,$\
-bugprone-integer-division,-cert-flp30-c,-bugprone-suspicious-missing-comma,-bugprone-suspicious-memory-comparison,$\
-cert-exp42-c,-cert-flp37-c

# Of Python, what the modules of exporter and probe offer each other has types. An Optional is not followed through every
# branch, and an empty list or dictionary in a function's body need not say what comes into it.
MYPY = --ignore-missing-imports --no-strict-optional --disable-error-code=var-annotated --no-error-summary

lint: run
	@found() { command -v $$1 > /dev/null && echo "$$1" || { echo "$$1 is not here"; false; }; }; status=0; \
	$(PYTHON) tools/lint/house.py || status=1; \
	$(PYTHON) tools/header_table.py --check || status=1; \
	$(PYTHON) tools/family_table.py --check || status=1; \
	$(PYTHON) tools/lint/words.py || status=1; \
	if found mypy; then mypy $(MYPY) export probe || status=1; fi; \
	if found $(LINT_GCC); then for file in $(filter-out $(VECTORS),$(SOURCES)); do \
		$(LINT_GCC) $(FLAGS) -Werror -O1 -fanalyzer -c $$file -o /dev/null || status=1; done; fi; \
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

FORMATTED = *.c *.h src/*.c src/*.h src/*/*.c src/*/*.h page/*.c page/*.h tests/*.c tests/*.h tests/*/*.c

format:
	clang-format -i $(filter-out src/tokens/unicode_tables.h $(ROW_TABLES),$(wildcard $(FORMATTED)))

help:
	@sed -n 's/^# make/make/p' Makefile

.PHONY: test-sanitized all install uninstall page page-tools page-open dist dist-models dist-page test-page page-picture debug check-portable valgrind
.PHONY: wasm-bench test test-long test-planted test-served test-world figures class fuzz lint lint-page format clean help say-flags FORCE
FORCE:

-include $(sort $(OBJECTS:.o=.d) $(CORE_OBJECTS:.o=.d))
