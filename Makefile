# make          builds ./run for this machine
# make debug    with the address and undefined-behaviour sanitizers
# make test     runs the tests
# make check-portable  does so with other compilers, for other processors, under valgrind and with clang's race detector
# make valgrind  the one of these under valgrind
# make figures  measures and draws everything in docs/figures again (matplotlib; TEXT=FILE measures on that text)
# make clean    removes what was built

CC ?= cc
# This machine's instructions: -march=native, or -mcpu=native where the compiler wants it so. make ARCH= for any machine.
accepts = $(shell printf 'int main(void){return 0;}' | $(CC) $(1) -x c - -o /dev/null 2>/dev/null && echo $(1))
ARCH := $(or $(call accepts,-march=native),$(call accepts,-mcpu=native))
CFLAGS ?= -O3 $(ARCH)
LDLIBS = -lm
PYTHON ?= python3

# The language and the warnings are not a matter of taste; optimization, architecture and compiler are.
# Products and sums may be fused (fma) on every compiler alike.
FLAGS = -std=c11 -Wall -Wextra -Werror -Wno-unknown-pragmas -ffp-contract=fast

# OpenMP when the compiler has it. make OPENMP= builds without.
OPENMP := $(call accepts,-fopenmp)

SOURCES = run.c rope.c $(wildcard src/*.c)
OBJECTS = $(SOURCES:%.c=build/%.o)

run: $(OBJECTS)
	$(CC) $(FLAGS) $(OPENMP) $(CFLAGS) $(LDFLAGS) $(OBJECTS) -o $@ $(LDLIBS)

build/%.o: %.c build/flags
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(OPENMP) $(CFLAGS) -MMD -c $< -o $@

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

test: run
	@CC='$(CC)' $(PYTHON) tests/run_tests.py

figures: run
	$(PYTHON) tools/figures.py

clean:
	rm -rf build run

help:
	@sed -n 's/^# make/make/p' Makefile

.PHONY: debug check-portable valgrind test figures clean help FORCE
FORCE:

-include $(OBJECTS:.o=.d)
