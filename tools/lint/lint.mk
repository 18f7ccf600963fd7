# make lint     checks house style, plain English, links and options of documents, then runs mypy, gcc's analyzer, clang-tidy and cppcheck if installed
# make report   prints lines, words, lengths and hooks beside those of the last version (SINCE=COMMIT); nothing in it fails

# gcc's analyzer follows every path, but takes vectors for numbers. clang's own is left out: it loses sight of what one
# function has made sure of for another. Of clang-tidy's checks, these are matters of taste (parameters that could be
# swapped, names that the standard reserves and the C library wants defined, results of printf, which ferror tells at the
# end), or take bytes for strings, or 64-bit sizes for ones that an int cannot hold (header.c and test_hostile.py see to
# that), or miss objects behind addresses that are only asked for in advance. Others find what is meant: quotients that
# are cut to whole numbers, loops that add up to a limit, long strings in lists, structs of doubles alone that are compared
# by their bytes. cppcheck's take the address of a result for a use of it, and do not know vectors in braces. What calls
# itself here does so no deeper than a text may nest.
LINT_GCC ?= gcc
VECTORS = src/fast/attention_few.c src/fast/attention_int8.c src/fast/kernels.c src/fast/matmul.c src/fast/rows.c src/fast/panels.c src/fast/packed.c \
	src/fast/widen.c
TIDY = bugprone-*,cert-*,misc-*,performance-*,portability-*,-bugprone-easily-swappable-parameters,-bugprone-reserved-identifier,-cert-dcl37-c,$\
-cert-dcl51-cpp,-cert-err33-c,-performance-no-int-to-ptr,-cert-err34-c,-bugprone-not-null-terminated-result,$\
-bugprone-implicit-widening-of-multiplication-result,-bugprone-narrowing-conversions,-misc-no-recursion,$\
-bugprone-integer-division,-cert-flp30-c,-bugprone-suspicious-missing-comma,-bugprone-suspicious-memory-comparison,$\
-cert-exp42-c,-cert-flp37-c,-misc-include-cleaner,-bugprone-signed-bitwise,-portability-avoid-pragma-once,$\
-bugprone-multi-level-implicit-pointer-conversion,-bugprone-macro-parentheses,-cert-int09-c,-misc-use-internal-linkage,$\
-portability-no-assembler,-bugprone-switch-missing-default-case,-bugprone-assignment-in-selection-statement,-cert-exp45-c,$\
-bugprone-inc-dec-in-conditions,-misc-unused-parameters,-bugprone-unchecked-string-to-number-conversion

# Of Python, what the modules of exporter and probe offer each other has types. An Optional is not followed through every
# branch, and an empty list or dictionary in a function's body need not say what comes into it.
MYPY = --ignore-missing-imports --no-strict-optional --disable-error-code=var-annotated --no-error-summary

lint: run
	@found() { command -v $$1 > /dev/null && echo "$$1" || { echo "$$1 is not here"; false; }; }; status=0; \
	$(PYTHON) tools/lint/house.py || status=1; \
	$(PYTHON) tools/generate/header_table.py --check || status=1; \
	$(PYTHON) tools/generate/family_table.py --check || status=1; \
	$(PYTHON) tools/generate/key_table.py --check || status=1; \
	$(PYTHON) tools/lint/words.py || status=1; \
	$(PYTHON) tools/lint/documents.py || status=1; \
	$(PYTHON) tools/lint/habits.py || status=1; \
	if found mypy; then mypy $(MYPY) export probe || status=1; fi; \
	if found $(LINT_GCC); then for file in $(filter-out $(VECTORS),$(SOURCES)); do \
		$(LINT_GCC) $(FLAGS) -Werror -O1 -fanalyzer -c $$file -o /dev/null || status=1; done; fi; \
	if found clang-tidy; then clang-tidy --quiet --warnings-as-errors='*' --checks='-*,$(TIDY)' $(SOURCES) -- \
		-std=c11 -march=native 2> /dev/null || status=1; fi; \
	if found cppcheck; then cppcheck --quiet --std=c11 --enable=warning,performance,portability --error-exitcode=1 \
		--suppress=uninitvar --suppress=internalAstError --suppress=ctuuninitvar --suppress=toomanyconfigs $(SOURCES) || status=1; fi; \
	$(MAKE) -s lint-page || status=1; \
	exit $$status

report:
	@$(PYTHON) tools/lint/report.py $(SINCE)

.PHONY: lint report
