# make page     builds the browser page in build/page (emscripten, node); make page-open serves it on this machine
# make dist-page  packs the page as one file, dist/rope.html
# make test-page  tests the page in headless Chromium; make page-picture takes its picture for docs/figures
# make lint-page  checks the page with ESLint and TypeScript, if make page has installed them
# make wasm-bench  builds for WebAssembly (emcc) and times model.bin on one thread of node

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

page-open: page
	$(PYTHON) page/serve.py

dist-page: page
	@mkdir -p dist
	@cp build/page/rope.html dist/rope.html
	@$(SAY) 'dist: dist/rope.html'

test-page: BROWSER = "$${CHROMIUM:-chromium}" chromium-browser google-chrome
test-page: run page
	@MAKEFLAGS= PAGE_IN_BROWSER=1 $(PYTHON) tests/run_tests.py test_page

page-picture: BROWSER = "$${CHROMIUM:-chromium}" chromium-browser google-chrome
page-picture: page
	node tools/figures/page_picture.mjs

# The page's modules and its tests: ESLint, then TypeScript's checker over what JSDoc says of types.
lint-page:
	@if [ -x page/node_modules/.bin/eslint ] && [ -x page/node_modules/.bin/tsc ]; then \
		page/node_modules/.bin/eslint --config page/eslint.config.js page/src page/*.mjs tests/page && \
		page/node_modules/.bin/tsc -p page/jsconfig.json; \
	else echo 'eslint and tsc are not here (make page gets them)'; fi

WASM_FLAGS = -O3 -msimd128 -sALLOW_MEMORY_GROWTH=1 -sNODERAWFS=1 -sEXIT_RUNTIME=1

wasm-bench:
	@mkdir -p build/wasm
	NODE_PATH=$${NODE_PATH:-/usr/share/nodejs} emcc $(FLAGS) -Werror $(WASM_FLAGS) $(SOURCES) $(LDLIBS) -o build/wasm/run.js
	node --no-experimental-fetch build/wasm/run.js model.bin --bench -n 512

.PHONY: page page-tools page-open dist-page test-page page-picture lint-page wasm-bench
