# make          builds ./run for this machine, or with the CC, CPPFLAGS, CFLAGS, LDFLAGS, ARCH and OPENMP that are given
# make llama    builds ./llama, the tiny program: a Llama alone (rope.c and src/llama)
# make core     builds ./core, the same for all kinds of models (src/decoder and src/kinds)
# make debug    builds with the address and undefined-behavior sanitizers
# make test     runs the tests
# make figures  measures and draws docs/figures again (matplotlib; TEXT=FILE names the text); continues an interrupted run
# make class    writes slides, handout and solutions to build/class; runs each command of docs/class.md and checks its output
# make format   formats all C with clang-format
# make install  installs what was built below PREFIX (/usr/local) as rope-run (NAME), with man page, completion, model and documents
# make uninstall  removes that again
# make clean    removes what was built
# make help     lists these targets and those of tests/rare.mk, tools/lint/lint.mk, tools/dist.mk and page/page.mk

# Paths are those of the sources' own folder.
ifeq ($(wildcard run.c),)
$(error the program is built in the folder of its sources: make -C $(patsubst %/Makefile,%,$(strip $(MAKEFILE_LIST))), \
	or copy that folder and build there)
endif

# As many jobs as there are processors, unless -j says how many: on the command line, which make obeys first, or in the
# environment. A make that is called by another one has the caller's, and `make clean` must not meet a build.
ifeq ($(MAKELEVEL)$(filter clean,$(MAKECMDGOALS))$(findstring j,$(shell echo "$$MAKEFLAGS")),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
endif

# What a recipe left behind when it failed is no result.
.DELETE_ON_ERROR:

# Silent under make -s.
SAYS = $(if $(findstring s,$(firstword -$(MAKEFLAGS))),,yes)
SAY = $(if $(SAYS),echo,:)

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

# The tiny program of a Llama alone, with what it needs, and of all kinds of models.
LLAMA = rope.c src/rope_settings.c $(wildcard $(patsubst %,src/%/*.c,base weights tokens llama))
CORE = $(filter-out src/llama/main.c,$(LLAMA)) $(wildcard src/decoder/*.c src/kinds/*.c)
SOURCES = run.c $(sort $(filter-out src/llama/main.c src/kinds/main.c,$(CORE) $(wildcard src/*.c src/*/*.c)))
OBJECTS = $(SOURCES:%.c=build/%.o)
CORE_OBJECTS = $(CORE:%.c=build/%.o)
LLAMA_OBJECTS = $(LLAMA:%.c=build/%.o)

# How all is compiled and linked, and the commit that --version tells. An archive of git's has it in run.c itself.
COMPILE := $(CC) $(FLAGS) $(OPENMP) $(CPPFLAGS) $(CFLAGS)
LINK := $(CC) $(FLAGS) $(OPENMP) $(CFLAGS) $(LDFLAGS)
COMMIT := $(shell { [ -e .git ] && grep -q '[$$]Format' run.c && git describe --always --dirty --abbrev=10 --exclude='*'; } \
	2> /dev/null)

# Only the targets that build go by the flags of this call. All others take the program as it was built last, and what is
# out of date of it is built as the rest was: what `make test` tests and `make install` installs is what `make` built.
BUILDERS = default run core llama all debug  # what links a program belongs here
BUILDING := $(filter $(BUILDERS),$(or $(MAKECMDGOALS),default))
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

# Silent where there is nothing to do.
.PHONY: default
default: run
	@:

# Links a target's objects by the command $(1). The line that is printed counts them.
define link
@$(SAY) '$(1) $(STRICT) ($(words $(filter %.o,$^)) objects) -o $@ $(LDLIBS)'
@$(1) $(STRICT) $(filter %.o,$^) -o $@ $(LDLIBS)
endef

run: $(OBJECTS) build/link
	$(call link,$(LINK))

core: $(CORE_OBJECTS) build/link
	$(call link,$(LINK))

llama: $(LLAMA_OBJECTS) build/link
	$(call link,$(LINK))

all: run core llama

# What is written in C from data: families and keys of configs, and the story of book.txt. It is written once, before
# anything is compiled, and only what changed gets a new time. Without Python, or without the data, it stays as committed.
# As a makefile that is included, build/tables comes before make looks at any file.
TABLE_MAKERS = $(patsubst %,tools/generate/%.py,family_table key_table prose)
TABLE_DATA = export/families.json src/configs/keys.json src/engines/classes.json $(TABLE_MAKERS) book.txt
TABLES = $(patsubst %,src/configs/made/%.h,family_words family_table key_ids key_table) src/engines/made/classes.h \
	src/tasks/prose.inc
$(TABLES): build/tables ;
-include build/tables
build/tables: $(wildcard $(TABLE_DATA))
	@mkdir -p build
	@if [ $(words $^) = $(words $(TABLE_DATA)) ] && command -v $(PYTHON) > /dev/null; then \
		for maker in $(TABLE_MAKERS); do $(PYTHON) $$maker || exit 1; done; fi
	@touch $@
$(sort $(OBJECTS) $(CORE_OBJECTS) $(LLAMA_OBJECTS)): | build/tables

build/%.o: %.c build/flags
	@mkdir -p $(@D)
	$(COMPILE) $(STRICT) $(OWN_FLAGS) -MMD -MP -c $< -o $@

build/run.o: build/commit
build/run.o: OWN_FLAGS = $(if $(COMMIT),-DCOMMIT='" ($(COMMIT))"')

# What was imported is imported again when these read configs otherwise.
READERS = $(sort $(wildcard src/configs/*.[ch] src/configs/made/*.h)) src/job/fields.c
build/src/job/import.o: $(READERS)
build/src/job/import.o: OWN_FLAGS = -DREADER='"$(shell cat $(READERS) | cksum)"'

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

# Tests that build something do so as if at a terminal: jobs and flags are this make's own.
test: run
	@MAKEFLAGS= CC='$(CC)' $(PYTHON) tests/run_tests.py

figures: run
	$(PYTHON) tools/figures/figures.py

class: run
	$(PYTHON) tools/class/class_sheets.py
	$(PYTHON) tools/class/class.py

# ---- install ----

# What the program is called there. A NAME in the environment does not count: some systems have one that means another thing.
NAME = rope-run
PREFIX ?= /usr/local
bindir = $(PREFIX)/bin
datadir = $(PREFIX)/share
mandir = $(datadir)/man
docdir = $(datadir)/doc/$(NAME)
bashdir = $(datadir)/bash-completion/completions
zshdir = $(datadir)/zsh/site-functions
fishdir = $(datadir)/fish/vendor_completions.d
INSTALL ?= install

# The exporter, the probe and their modules, and what the commands of the man page read; the documents. Each keeps its place in the sources.
OWN_FILES = model_export.py server_probe.py $(wildcard export/*.py export/*.json export/kinds/*.py probe/*.py probe/*/*.py) model.bin tokenizer.bin book.txt
DOC_FILES = README.md CHANGELOG.md LICENSE $(wildcard docs/*.md docs/*.json docs/*.tsv docs/*.txt docs/figures/*.png docs/figures/*.svg)
PROBE_ROOMS = $(sort $(patsubst %/,%,$(dir $(wildcard probe/*/*.py))))
BIN = $(DESTDIR)$(bindir)
MAN = $(DESTDIR)$(mandir)/man1
OWN = $(DESTDIR)$(datadir)/$(NAME)
DOC = $(DESTDIR)$(docdir)

# What completes the command line, for each shell: SHELL:FILE.
COMPLETIONS = "bash:$(DESTDIR)$(bashdir)/$(NAME)" "zsh:$(DESTDIR)$(zshdir)/_$(NAME)" "fish:$(DESTDIR)$(fishdir)/$(NAME).fish"

install: run build/$(NAME).1 build/bash-completion build/zsh-completion build/fish-completion
	$(INSTALL) -d "$(BIN)" "$(MAN)" "$(OWN)/export/kinds" $(PROBE_ROOMS:%="$(OWN)/%") "$(DOC)/docs/figures"
	$(INSTALL) -m 755 run "$(BIN)/$(NAME)"
	$(INSTALL) -m 644 build/$(NAME).1 "$(MAN)"
	ln -sf $(NAME).1 "$(MAN)/$(NAME)-export.1"
	ln -sf $(NAME).1 "$(MAN)/$(NAME)-probe.1"
	for to in $(COMPLETIONS); do $(INSTALL) -d "$$(dirname "$${to#*:}")" && \
		$(INSTALL) -m 644 "build/$${to%%:*}-completion" "$${to#*:}" || exit 1; done
	for file in $(OWN_FILES); do $(INSTALL) -m 644 $$file "$(OWN)/$$file" || exit 1; done
	for file in $(DOC_FILES); do $(INSTALL) -m 644 $$file "$(DOC)/$$file" || exit 1; done
	chmod 755 "$(OWN)/model_export.py" "$(OWN)/server_probe.py"
	to=$$($(PYTHON) -c 'import os, sys; print(os.path.relpath(*sys.argv[1:]))' "$(OWN)" "$(BIN)") && \
		ln -sf "$$to/model_export.py" "$(BIN)/$(NAME)-export" && ln -sf "$$to/server_probe.py" "$(BIN)/$(NAME)-probe"

# Folders stay that hold something else.
uninstall:
	rm -f "$(BIN)/$(NAME)" "$(BIN)/$(NAME)-export" "$(BIN)/$(NAME)-probe"
	rm -f "$(MAN)/$(NAME).1" "$(MAN)/$(NAME)-export.1" "$(MAN)/$(NAME)-probe.1"
	for to in $(COMPLETIONS); do rm -f "$${to#*:}"; done
	rm -f $(foreach file,$(OWN_FILES),"$(OWN)/$(file)") $(foreach file,$(DOC_FILES),"$(DOC)/$(file)")
	rm -rf "$(OWN)/export/__pycache__" "$(OWN)/export/kinds/__pycache__" "$(OWN)/probe/__pycache__" $(PROBE_ROOMS:%="$(OWN)/%/__pycache__")
	rmdir "$(OWN)/export/kinds" "$(OWN)/export" $(PROBE_ROOMS:%="$(OWN)/%") "$(OWN)/probe" "$(OWN)" "$(DOC)/docs/figures" "$(DOC)/docs" "$(DOC)" 2> /dev/null || true

# Made from the manual and the tables in C, for the program that they are about need not run here.
has-python:
	@mkdir -p build
	@command -v $(PYTHON) > /dev/null || \
		{ echo 'make: the man page is made with $(PYTHON), which is not here (PYTHON=... names another)' >&2; exit 1; }

build/%-completion: FORCE | has-python
	$(PYTHON) tools/generate/completion.py $* $(NAME) > $@

build/$(NAME).1: FORCE | has-python
	$(PYTHON) tools/generate/manpage.py $(NAME) '$(VERSION)' "$(datadir)/$(NAME)" "$(docdir)" > $@

VERSION = $(shell sed -n 's/^.define VERSION "\(.*\)"/\1/p' run.c)

clean:
	rm -rf build dist run core llama

FORMATTED = *.c *.h src/*.c src/*.h src/*/*.c src/*/*.h page/*.c page/*.h tests/*.c tests/*.h tests/*/*.c

format:
	clang-format -i $(filter-out src/tokens/unicode_tables.h $(TABLES),$(wildcard $(FORMATTED)))

# Further targets: tests that make test leaves out, make lint, what a release is packed from, and the page.
MORE = tests/rare.mk tools/lint/lint.mk tools/dist.mk page/page.mk
-include $(MORE)

help:
	@sed -n 's/^# make/make/p' Makefile $(wildcard $(MORE))

.PHONY: all debug test figures class install uninstall has-python clean format help say-flags FORCE
FORCE:

-include $(sort $(OBJECTS:.o=.d) $(CORE_OBJECTS:.o=.d) $(LLAMA_OBJECTS:.o=.d))
