# Everything a contributor types. `make help` lists it.

SHELL := /bin/bash
.DEFAULT_GOAL := help
export PYO3_PYTHON := $(CURDIR)/.venv/bin/python
export PYO3_BUILD_EXTENSION_MODULE := 1
export VIRTUAL_ENV := $(CURDIR)/.venv
FUZZ_SECONDS ?= 60
# Most tests wait for servers, so more of them, and three of the suites, go at once than there are cores.
TEST_PROCESSES ?= 6
TEST_SUITES ?= 3
# Of `make bench-ruby-newer`; 1 only shows that it runs.
ROUNDS ?= 5
# Of `make test-busy`.
RUNS ?= 1

version = $(shell sed -n '/^\[workspace.package\]/,/^$$/s/^version = "\(.*\)"/\1/p' Cargo.toml)

# What each part is built from.
core_sources := $(shell find proto net cache locks -name '*.rs' -o -name '*.lua' -o -name 'Cargo.toml') Cargo.toml Cargo.lock
rust_sources := $(core_sources) $(shell find python/native -name '*.rs' -o -name 'Cargo.toml')
capi_sources := $(core_sources) $(shell find capi -name '*.rs' -o -name '*.h' -o -name 'Cargo.toml')
bench_sources := $(core_sources) $(shell find bench/core bench/floor -name '*.rs' -o -name 'Cargo.toml')
ruby_sources := $(core_sources) $(shell find ruby/native -name '*.rs' -o -name 'Cargo.toml')
perl_sources := $(capi_sources) \
	$(shell find perl -name '*.pm' -not -path '*/blib/*' -not -path '*/t/*') $(wildcard perl/*.xs perl/xs/*.xs perl/src/*.[ch]) perl/Makefile.PL
perl_built := perl/blib/arch/auto/Pinyon/Pinyon.so

distributed := $(rust_sources) $(ruby_sources) $(perl_sources) $(shell find ruby/lib ruby/sig ruby/ext -type f -not -name native.so) \
	ruby/pinyon.gemspec ruby/README.md CHANGELOG.md $(shell find python/pinyon -name '*.py*' -not -path '*/__pycache__*') \
	python/pyproject.toml python/README.md LICENSE-APACHE LICENSE-MIT $(wildcard tools/distribution/*.py tools/distribution/*.txt) \
	tools/newer/folders.py

# Without the crate type that its tests need, which would keep the linker from optimising across crates.
CARGO_CAPI := cargo rustc --release --locked -q -p pinyon-capi --lib --crate-type staticlib,cdylib

# How the benchmark's clients in C are compiled, and linked with Pinyon.
C := cc -std=c11 -O2 -Wall -Wextra -Werror -fPIC
C_PINYON := -Icapi/include target/release/libpinyon.a -lgcc_s -lutil -lrt -lpthread -lm -ldl

.PHONY: help
help: ## List these verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-19s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

HTML ?=
.PHONY: try
try: .venv/.pinyon ## See a cache stampede, a dead server and a lock between processes, in a minute; HTML=file draws them
	PYTHONPATH=examples .venv/bin/python -m pinyon_try $(if $(HTML),--html "$(HTML)")

.PHONY: bench
bench: setup ## Compare Pinyon with the clients people use, in about twenty minutes; writes an HTML report
	.venv/bin/python -m pinyon_bench run

.PHONY: bench-record
bench-record: setup ## The long benchmark; rewrites bench/recorded.json, and the tables and plots of PERFORMANCE.md
	.venv/bin/python -m pinyon_bench record

.PHONY: bench-instructions
bench-instructions: setup ## Count instructions per operation; rewrites bench/instructions.json, which `make test` checks
	.venv/bin/python -m pinyon_bench instructions

SUITE := env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL
ALL_SUITES := --no-print-directory -j $(TEST_SUITES) -k -Otarget 'SUITE=$(CURDIR)/.venv/bin/python $(CURDIR)/tools/suite.py $$@ $(SUITE)' test-suites
.PHONY: test
test: ## Every test, on servers it starts itself; TEST_SUITES of the suites at once
	$(MAKE) --no-print-directory -j 2 rust-tests setup-parts
	$(MAKE) --no-print-directory test-built

# What `make test` does once all is built. At the end it repeats how the suites that failed ended.
.PHONY: test-built
test-built:
	rm -rf target/suites
	$(MAKE) $(ALL_SUITES) || { tail -v -n 100 target/suites/*.failed; exit 1; }

# Longest first. Tests that run make themselves do not belong to this one.
.PHONY: test-suites
test-suites: test-python test-rust test-ruby test-perl test-verify test-bench test-instructions

.PHONY: rust-tests
rust-tests: .venv/.packages
	cargo test --locked -q --no-run

.PHONY: test-rust test-python test-bench test-verify test-ruby test-perl test-instructions
test-rust:
	$(SUITE) cargo test --locked -q --no-fail-fast
test-python:
	cd python && $(SUITE) ../.venv/bin/python -m pytest -q -n $(TEST_PROCESSES) --dist loadscope
test-bench:
	cd bench && $(SUITE) ../.venv/bin/python -m pytest -q
test-verify:
	cd verify && $(SUITE) ../.venv/bin/python -m pytest -q
test-ruby:
	cd ruby && $(SUITE) $(TEST_SEED:%=SEED=%) rake -q test
test-perl:
	cd perl && $(SUITE) prove -b $(if $(TEST_SEED),-s) -j $(TEST_PROCESSES) t
# Other suites at the same time do not change a count: it is of the client's own instructions.
test-instructions:
	$(SUITE) .venv/bin/python -m pinyon_bench instructions --check

.PHONY: test-busy
test-busy: setup rust-tests ## The tests in random order, beside processes that use up all cores, RUNS times
	$(SUITE) .venv/bin/python tools/busy.py --runs $(RUNS) make --no-print-directory test-built TEST_SUITES=$(TEST_SUITES) SUITE_MINUTES=120

# As root, with mmdebstrap. SUITES names some of its suites.
.PHONY: test-newer
test-newer: .venv/.ready ## All languages' tests on Debian's next releases, in folders: newer Python, Ruby, Perl, gcc, Rails and servers
	PYTHONPATH=tools .venv/bin/python -m newer test --processes $(TEST_PROCESSES) $(SUITES)

# As root. PLAYS are some of debian, container and alpine, which takes the wheel for musl from dist.
PLAYS ?=
.PHONY: newcomers
newcomers: ## Play what newcomers type on Debian, in a container and on Alpine; writes docs/newcomer.md with what they see
	tools/setup tools/newcomers/debian-packages.txt
	PYTHONPATH=tools:tools/distribution python3 -m newcomers $(PLAYS)

.PHONY: bench-ruby-newer
bench-ruby-newer: setup ## Compare Pinyon with Dalli 5 in async 2, on the Ruby of a newer Debian, in a folder
	PYTHONPATH=tools .venv/bin/python -m newer ruby
	PINYON_BENCH_RUBY=$(CURDIR)/target/newer/ruby .venv/bin/python -m pinyon_bench run --rows ruby --rounds $(ROUNDS)

# PLATFORMS names some of them: x86_64, arm64, musl and macos.
.PHONY: dist
dist: target/dist/tools/.ready target/dist/.packages ## What is uploaded, in dist: wheels, gems, C libraries of all platforms; takes PLATFORMS
	PYTHONPATH=tools PLATFORMS="$(PLATFORMS)" target/dist/tools/bin/python tools/distribution/build.py
	touch target/dist/.built

target/dist/.built: $(distributed)
	$(MAKE) dist

# Where the C interface is installed, below DESTDIR, and what pinyon.pc says of that; for which platform of Rust's names it is
# built, if not for this one, and where; which system that is, and what unwinds the stack there. With an empty STRIP, debug
# information stays inside.
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
PC_PREFIX ?= $(PREFIX)
PC_LIBDIR ?= $(LIBDIR)
C_TARGET ?=
C_BUILT ?= target/release
STRIP ?= strip
C_SYSTEM ?= $(shell uname -s)
C_UNWINDER ?= -lgcc_s
C_IS_MAC := $(filter Darwin,$(C_SYSTEM))
C_SHARED := $(if $(C_IS_MAC),libpinyon.dylib,libpinyon.so)
C_VERSIONED := $(if $(C_IS_MAC),libpinyon.1.dylib,libpinyon.so.1)
C_LIBRARIES := $(if $(C_IS_MAC),-framework Security -framework CoreFoundation -liconv,$(C_UNWINDER) -lutil -lrt -lpthread -lm -ldl -lc)

.PHONY: install-c
install-c: ## Install the C interface: headers, libraries and pinyon.pc, for C, C++ and others; takes DESTDIR, PREFIX, LIBDIR
	$(CARGO_CAPI) $(C_TARGET:%=--target %)
	$(MAKE) --no-print-directory install-c-built

# What was built before, without building it again.
.PHONY: install-c-built
install-c-built:
	install -d "$(DESTDIR)$(PREFIX)/include/pinyon" "$(DESTDIR)$(LIBDIR)/pkgconfig"
	install -m 644 capi/include/pinyon.h "$(DESTDIR)$(PREFIX)/include/"
	install -m 644 capi/include/pinyon/*.h "$(DESTDIR)$(PREFIX)/include/pinyon/"
	install -m 644 $(C_BUILT)/$(C_SHARED) "$(DESTDIR)$(LIBDIR)/$(C_VERSIONED)"
	install -m 644 $(C_BUILT)/libpinyon.a "$(DESTDIR)$(LIBDIR)/libpinyon.a"
	$(if $(STRIP),$(STRIP) -S "$(DESTDIR)$(LIBDIR)/$(C_VERSIONED)" "$(DESTDIR)$(LIBDIR)/libpinyon.a")
	ln -sf $(C_VERSIONED) "$(DESTDIR)$(LIBDIR)/$(C_SHARED)"
	sed -e 's|@PREFIX@|$(PC_PREFIX)|; s|@LIBDIR@|$(PC_LIBDIR)|; s|@VERSION@|$(version)|; s|@LIBRARIES@|$(C_LIBRARIES)|' capi/pinyon.pc.in \
		> "$(DESTDIR)$(LIBDIR)/pkgconfig/pinyon.pc"

# What it tries of other platforms, and in which emulator, is on docs/platforms.md.
PLATFORM ?= x86_64
.PHONY: test-dist
test-dist: target/dist/.packages $(if $(filter macos,$(PLATFORM)),target/dist/tools/.ready,target/dist/.built) ## Install and try what is in dist for a PLATFORM (x86_64), in fresh environments and gem homes
	PYTHONPATH=tools:tools/distribution target/dist/tools/bin/python -m pytest -q \
		$(if $(filter x86_64,$(PLATFORM)),tools/distribution --ignore=tools/distribution/elsewhere,tools/distribution/elsewhere/test_$(PLATFORM).py)

target/dist/.packages: tools/setup tools/distribution/debian-packages.txt
	mkdir -p $(@D)
	tools/setup tools/distribution/debian-packages.txt
	touch $@

target/dist/tools/.ready: tools/distribution/requirements.txt tools/requirements-build.txt
	python3 -m venv $(@D)
	$(@D)/bin/pip install -q --disable-pip-version-check -r tools/distribution/requirements.txt -r tools/requirements-build.txt
	touch $@

.PHONY: rings
rings: setup ## Compare rings with the clients they are of; rewrites the table in docs/rings.md and vectors/rings.json
	cd python/tests && ../../.venv/bin/python -m other_rings.page

.PHONY: first-mistakes
first-mistakes: setup ## Write docs/first-mistakes.md from the table that the tests play
	cd python/tests && ../../.venv/bin/python first_mistakes.py

.PHONY: verify-locks
verify-locks: setup ## Locks on real processes that are killed, stopped and cut off: 25 minutes
	.venv/bin/python -m pinyon_verify locks

.PHONY: soak
soak: setup ## Caches on real processes that are killed, paused and silenced, in every concurrency model: ten minutes
	.venv/bin/python -m pinyon_verify soak
	.venv/bin/python -m pinyon_verify ruby
	.venv/bin/python -m pinyon_verify storms
	.venv/bin/python -m pinyon_verify perl
	cd perl && PINYON_STORM=100000 prove -b t/storm.t

.PHONY: lint
lint: setup ## Formatting, lints and types of all languages
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked $(INTERLEAVED) --all-targets -- -D warnings
	cargo clippy --locked --manifest-path fuzz/Cargo.toml -- -D warnings
	.venv/bin/ruff format --check python bench verify
	.venv/bin/ruff format --check --config python/pyproject.toml scenarios tools docs/conf.py docs/examples examples
	.venv/bin/ruff check python bench verify
	.venv/bin/ruff check --config python/pyproject.toml scenarios tools docs/conf.py docs/examples examples
	cd python && ../.venv/bin/mypy pinyon
	cd python && PATH=$(CURDIR)/.venv/bin:$$PATH basedpyright --verifytypes pinyon --ignoreexternal
	cd bench && ../.venv/bin/mypy pinyon_bench
	cd verify && ../.venv/bin/mypy pinyon_verify
	cd examples && ../.venv/bin/mypy --strict pinyon_try
	cd tools/distribution && MYPYPATH=.. ../../.venv/bin/mypy --strict . ../newer ../newcomers
	cd ruby && rubocop -c .rubocop.yml . ../verify/ruby
	cd ruby && yard stats --list-undoc --no-cache --no-save --fail-on-warning | tee /dev/stderr | grep -q '100.00% documented'
	cd bench/ruby && rubocop
	perlcritic --quiet --profile bench/perl/.perlcriticrc bench/perl bench/tests/perl
	perlcritic --quiet --profile bench/perl/.perlcriticrc tools/site_perl.pl
	find bench/perl bench/tests/perl -name '*.p[lm]' | xargs perltidy tools/site_perl.pl -pro=bench/perl/.perltidyrc --assert-tidy
	perlcritic --quiet --profile perl/xt/perlcriticrc --severity 4 verify/perl
	find verify/perl -name '*.p[lm]' | xargs -n 1 perltidy -pro=perl/xt/perltidyrc --assert-tidy -st >/dev/null
	cd perl && prove -b xt/layers.t xt/pod.t xt/style.t
	$(MAKE) --no-print-directory lint-workflows lint-dependencies

# actionlint is a program in Go, and no package of Debian or of PyPI holds it.
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

.PHONY: lint-workflows
lint-workflows: target/lint/.ready ## Lints of workflow files and container files, a part of lint; actionlint needs go
	target/lint/bin/zizmor --quiet --offline --no-progress .
	target/lint/bin/hadolint --config examples/containers/hadolint.yaml examples/containers/Dockerfile.*
	if command -v go >/dev/null; then GOBIN=$(CURDIR)/target/lint/bin go install $(ACTIONLINT) && target/lint/bin/actionlint; \
		else echo "lint: there is no go, so actionlint did not run" >&2; fi

target/lint/.ready: tools/requirements-lint.txt
	python3 -m venv $(@D)
	$(@D)/bin/pip install -q --disable-pip-version-check -r tools/requirements-lint.txt
	touch $@

# No package of Debian or of PyPI holds it. Without optimisation, it is built in half the time.
CARGO_DENY := 0.20.2

.PHONY: lint-dependencies
lint-dependencies: target/lint/cargo-deny-$(CARGO_DENY) ## Licences, bans and sources of the crates, a part of lint
	target/lint/bin/cargo-deny --locked check licenses bans sources

target/lint/cargo-deny-$(CARGO_DENY): .venv/.packages
	cargo install --quiet --locked --debug --root target/lint --version $(CARGO_DENY) cargo-deny
	touch $@

.PHONY: signatures
signatures: setup ## Write the arguments of classes and the docstrings of stubs anew, after a change of the core's settings
	.venv/bin/python tools/signatures.py
	.venv/bin/python tools/async_to_sync.py
	.venv/bin/ruff format -q python/pinyon

.PHONY: docs
docs: setup .venv/.docs ## The documentation site, in docs/_build/html; a link that leads nowhere fails it
	.venv/bin/python -m sphinx -q -W --keep-going -c docs -d docs/_build/doctrees . docs/_build/html/$(version)
	cd ruby && yard doc -q --no-cache --no-save --fail-on-warning --output-dir ../docs/_build/html/$(version)/ruby
	perl tools/site_perl.pl docs/_build/html/$(version)/perl
	.venv/bin/python tools/site_files.py docs/_build/html/$(version)

.PHONY: docs-links
docs-links: setup .venv/.docs ## Ask the network for every address that the documentation links to
	.venv/bin/python -m sphinx -q -b linkcheck -c docs -d docs/_build/doctrees . docs/_build/links

.PHONY: fuzz
fuzz: ## Each fuzz target for FUZZ_SECONDS (60); needs Rust's nightly toolchain
	tools/fuzz $(FUZZ_SECONDS)

# Nothing else may run with this feature: its locks are shuttle's.
INTERLEAVED := $(foreach crate,net cache locks,-p pinyon-$(crate) --features pinyon-$(crate)/interleavings)

.PHONY: interleavings
interleavings: .venv/.packages ## The places where threads meet, in many orders of the threads
	cargo test --locked $(INTERLEAVED) --lib -- interleavings

.PHONY: miri
miri: .venv/.packages ## What the C interface does without sockets, in miri; needs Rust's nightly toolchain
	tools/miri

# LANGUAGES are some of c, perl, ruby.
.PHONY: sanitize
sanitize: .venv/.packages ## C's, Perl's and Ruby's tests with AddressSanitizer; needs Rust's nightly toolchain
	tools/sanitize $(LANGUAGES)

.PHONY: setup
setup: ## Packages, .venv with Pinyon and the benchmark's peers, the gem, Perl's library
	$(MAKE) --no-print-directory -j 2 setup-parts

.PHONY: setup-parts
setup-parts: $(perl_built) .venv/.pinyon ruby/lib/pinyon/native.so target/release/.bench-c

.venv/.packages: tools/setup $(wildcard tools/debian-packages*.txt)
	tools/setup
	touch $@

.venv/.ready: .venv/.packages tools/setup-python tools/requirements-build.txt tools/requirements-suites.txt \
		python/requirements-test.txt bench/requirements.txt
	tools/setup-python
	touch $@

# First, while pip works: linking it keeps one core busy.
target/release/.capi: .venv/.packages $(capi_sources)
	$(CARGO_CAPI)
	touch $@

# In one call, dependencies are compiled once, and the linker works for several of them at once. After Perl's library, which
# asks cargo too, and would wait for this.
target/release/.built: .venv/.packages $(rust_sources) $(ruby_sources) $(bench_sources) | $(perl_built)
	cargo build --release --locked -q -p pinyon-python -p pinyon-ruby -p pinyon-bench-core -p pinyon-floor
	touch $@

.venv/.pinyon: .venv/.ready target/release/.built python/pyproject.toml tools/editable
	tools/editable
	touch $@

ruby/lib/pinyon/native.so: target/release/.built
	cp --remove-destination target/release/libpinyon_ruby.so $@

$(perl_built): target/release/.capi $(perl_sources)
	cd perl && perl Makefile.PL >/dev/null && $(MAKE) -s >/dev/null
	touch $@

target/release/.bench-c: target/release/.capi $(wildcard bench/c/*)
	$(C) -shared -o target/release/libpinyon-bench-pinyon.so bench/c/pinyon.c bench/c/loop.c $(C_PINYON)
	$(C) -shared -o target/release/libpinyon-bench-libmemcached.so bench/c/libmemcached.c bench/c/loop.c -lmemcached
	$(C) -o target/release/pinyon-bench-instructions bench/c/instructions.c bench/c/pinyon.c bench/c/loop.c $(C_PINYON)
	touch $@

.venv/.docs: .venv/.ready tools/requirements-docs.txt
	.venv/bin/pip install -q --disable-pip-version-check -r tools/requirements-docs.txt
	touch $@

.PHONY: clean
clean: ## Remove everything that was built
	rm -rf target dist .venv fuzz/target docs/_build ruby/lib/pinyon/native.so
	rm -rf perl/blib perl/Makefile perl/MYMETA.* perl/Pinyon.c perl/Pinyon.o perl/src/*.o perl/Pinyon.bs perl/pm_to_blib
