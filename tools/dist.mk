# make dist     packs the committed sources as a tarball in dist
# make dist-tiny  packs the tiny program: a Llama in one file beside rope.c, its exporter, model.bin and tests
# make dist-models  packs the sibling models, which make dist leaves out

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

# The tiny program, for who wants to read or teach it, or to begin with it (tools/tiny).
DIST = dist
dist-tiny: run
	@mkdir -p $(DIST)
	@name=rope.c-tiny-$(VERSION) && rm -rf build/tiny && mkdir -p build/tiny && \
	$(PYTHON) tools/tiny/pack.py build/tiny/$$name && \
	tar -C build/tiny -czf $(DIST)/$$name.tar.gz $$name && \
	$(SAY) "dist-tiny: $(DIST)/$$name.tar.gz, run.c has $$(wc -l < build/tiny/$$name/run.c) lines"

.PHONY: dist dist-models dist-tiny
