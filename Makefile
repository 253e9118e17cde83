# Every way into tcpwhy; `make` alone lists them.

TARGET := $(or $(CARGO_TARGET_DIR),target)
TCPWHY := $(TARGET)/release/tcpwhy
# Built quickly, for a first look.
TCPWHY_DEV := $(TARGET)/debug/tcpwhy
CAPTURE ?= testdata/captures/nginx_nodelay_off.pcap
FUZZ_SECONDS ?= 20
PREFIX ?= /usr/local
# Runs the analysis in a browser; everything that reads captures is in it.
PAGE := $(TARGET)/page/tcpwhy.html
CORE := $(TARGET)/wasm32-unknown-unknown/page/tcpwhy_browser.wasm
# musl is linked into the binary; glibc would still look for libraries of the system at run time.
STATIC := $(shell uname -m)-unknown-linux-musl
STATIC_PROFILE ?= release
TCPWHY_STATIC = $(TARGET)/$(STATIC)/$(patsubst dev,debug,$(STATIC_PROFILE))/tcpwhy

# rustup's cargo, where there is one, goes before an older one of the system.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

.NOTPARALLEL:
.PHONY: help run build test build-tests verify lint bench bench-live bench-active bench-dns bench-spark fuzz pins schemas web page web-check web-sources web-pages picture wheel install install-lab uninstall deb rpm static image fleet-check completions clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

# Faults found are what is wanted here (status 1); 2 and above mean that the work was not done.
run: ## build quickly, and diagnose a capture of nginx with tcp_nodelay off (CAPTURE=FILE: yours)
	@scripts/setup.sh run
	cargo build --locked -p tcpwhy
	@$(TCPWHY_DEV) $(CAPTURE) || test $$? -eq 1

build: ## build the release binary, optimised; installs what is missing for it
	@scripts/setup.sh build
	cargo build --release --locked -p tcpwhy

test: lint ## check format and lints, and run all tests; as root also those in namespaces
	@scripts/setup.sh test
	@scripts/test-python.sh
	@scripts/test.sh

build-tests: ## build what `make test` runs
	@scripts/setup.sh test
	@scripts/test-python.sh --build
	@scripts/test.sh --build

verify: build ## run every case of the lab and print how often tcpwhy is right (root; VERIFY=--short: two minutes)
	$(TCPWHY) lab verify $(VERIFY)

lint: ## check format and lints
	@scripts/setup.sh lint
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

bench: build ## compare time and memory with other tools, and see them grow (root; about 10 minutes)
	cargo build --release --locked -p tcpwhy-core --example multiply --example stages
	TCPWHY=$(TCPWHY) MULTIPLY=$(TARGET)/release/examples/multiply STAGES=$(TARGET)/release/examples/stages bench/bench.sh

bench-live: build ## what watching costs a saturated server, beside tcpdump and strace (root; SOAK_MINUTES=30: memory too)
	TCPWHY=$(TCPWHY) bench/live.sh
	TCPWHY=$(TCPWHY) bench/sockets.sh
	bench/treat.sh

bench-active: build ## `load` beside wrk and h2load: requests a second for each core; percentiles beside an open-loop client
	TCPWHY=$(TCPWHY) bench/active.sh

bench-dns: build ## waits that `dns` computes beside those of getaddrinfo, in 43 configurations (root; about 3 minutes)
	bench/dns.py $(TCPWHY)

bench-spark: wheel ## Spark beside one process: user CPU, memory of the driver, 1 and 2 executors (Java; 3 GB in BENCH_FOLDER; half an hour)
	cargo build --profile wheel --locked -p tcpwhy-core --example multiply
	MULTIPLY=$(TARGET)/wheel/examples/multiply PYTHONPATH=$$(realpath $(TARGET)/wheel-alone/lib/python*/site-packages) \
		$(TARGET)/python/bin/python bench/spark.py $(or $(BENCH_FOLDER),/var/tmp)

fuzz: ## feed hostile input to every fuzz target, FUZZ_SECONDS each
	@scripts/setup.sh fuzz
	fuzz/run.sh $(FUZZ_SECONDS)

# Half an hour on two cores.
pins: ## measure which traces and tests depend on each threshold, and write them into docs/thresholds.md (python3; PIN="NAME…")
	scripts/pin-thresholds.py $(PIN)

schemas: ## write docs/*.schema.json as the types that are serialised say
	UPDATE=1 cargo test --locked -p tcpwhy-core -p tcpwhy-lab --lib the_schema_of
	UPDATE=1 cargo test --locked -p tcpwhy --lib the_schema_of -- --test-threads 1

web: web/node_modules/.package-lock.json ## build the page of `tcpwhy report` from web/ (node), to be committed
	cd web && npm run --silent build

page: web/node_modules/.package-lock.json ## build TARGET/page/tcpwhy.html: tcpwhy in a browser, one file (rustup, clang, node)
	@scripts/setup.sh page
	CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS='-C target-feature=+simd128' \
		cargo build --locked -p tcpwhy-browser --target wasm32-unknown-unknown --profile page $(PAGE_OPTIONS)
	@mkdir -p $(dir $(PAGE))
	cd web && node build.mjs --page $(abspath $(CORE)) $(abspath $(PAGE))

web-check: web-sources web-pages ## both of the next two

web-sources: web/node_modules/.package-lock.json ## check that the committed page is what web/ builds
	cd web && npm run --silent check

web-pages: page ## test both pages in Chromium (BUILT=PROGRAM: with this one)
	$(if $(BUILT),,cargo build --locked -p tcpwhy)
	cd web && TCPWHY=$(abspath $(or $(BUILT),$(TCPWHY_DEV))) TCPWHY_PAGE=$(abspath $(PAGE)) npm run --silent test

book: ## build the documentation as a book in TARGET/book, with all manuals and the help of all commands (mdBook)
	cargo build --locked -p tcpwhy
	TCPWHY=$(TCPWHY_DEV) scripts/book.sh $(dir $(TCPWHY_DEV))..

picture: ## draw the terminal's picture in README (docs/terminal.svg; python3)
	cargo build --locked -p tcpwhy
	scripts/terminal-picture.py 80 25 $(TCPWHY_DEV) --color always testdata/captures/nginx_nodelay_off.pcap >docs/terminal.svg

web/node_modules/.package-lock.json: web/package-lock.json
	@scripts/setup.sh web
	cd web && npm ci --silent --no-fund --no-audit
	@touch $@

wheel: ## build the Python package as a wheel in TARGET/wheels, and check its size and start-up (python3)
	@scripts/setup.sh build
	@scripts/test-python.sh --packages
	@scripts/wheel.sh

# install-program PROGRAM,NAME: a program, its man pages and completions.
define install-program
	install -D -s -m 755 $(1) $(DESTDIR)$(PREFIX)/bin/$(2)
	$(1) man $(DESTDIR)$(PREFIX)/share/man/man1
	$(1) completions bash | install -D -m 644 /dev/stdin \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/$(2)
	$(1) completions zsh | install -D -m 644 /dev/stdin \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_$(2)
	$(1) completions fish | install -D -m 644 /dev/stdin \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/$(2).fish
endef

# As root there may be no cargo: what was built before is installed.
install: ## install the binary, man pages and shell completions below PREFIX (build first)
	@test -x $(TCPWHY) || $(MAKE) build
	$(call install-program,$(TCPWHY),tcpwhy)

install-lab: ## install the same of the lab, which `tcpwhy lab` runs
	@test -x $(TCPWHY)-lab || $(MAKE) build
	$(call install-program,$(TCPWHY)-lab,tcpwhy-lab)

# uninstall-program NAME: what install-program has installed.
define uninstall-program
	rm -f $(DESTDIR)$(PREFIX)/bin/$(1) \
		$(DESTDIR)$(PREFIX)/share/man/man1/$(1).1 $(DESTDIR)$(PREFIX)/share/man/man1/$(1)-*.1 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/$(1) \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_$(1) \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/$(1).fish
endef

uninstall: ## remove what `install` and `install-lab` have installed below PREFIX
	$(call uninstall-program,tcpwhy)
	$(call uninstall-program,tcpwhy-lab)

deb: build ## build two Debian packages in TARGET: tcpwhy, and tcpwhy-lab
	TCPWHY=$(TCPWHY) packaging/deb.sh $(TARGET)

rpm: static ## build two RPM packages in TARGET, for any distribution: tcpwhy, and tcpwhy-lab (rpmbuild)
	@scripts/setup.sh rpm
	TCPWHY=$(TCPWHY_STATIC) packaging/rpm.sh $(TARGET)

# The C library is linked statically. The kernel hooks are in the binary where clang is installed.
static: ## build binaries that need no library of the system, for Linux of any distribution (musl; rustup)
	@scripts/setup.sh build static
	CC_$(subst -,_,$(STATIC))=musl-gcc cargo build --profile $(STATIC_PROFILE) --locked -p tcpwhy --target $(STATIC)
	@ls -l $(TCPWHY_STATIC)

image: static ## build a container image with the static binary alone, TARGET/tcpwhy-image.tar, and run it (root; buildah)
	@scripts/setup.sh image
	packaging/image.sh $(TCPWHY_STATIC) $(TARGET)/tcpwhy-image.tar
	packaging/check-image.sh $(TARGET)/tcpwhy-image.tar

fleet-check: ## try packaging/fleet with Prometheus over two hosts (root; BUILT=PROGRAM: with this one)
	@scripts/setup.sh fleet
	$(if $(BUILT),,cargo build --locked -p tcpwhy)
	packaging/check-fleet.sh $(or $(BUILT),$(TCPWHY_DEV))

completions: build ## write completion scripts for bash, zsh and fish
	@mkdir -p $(TARGET)/completions
	$(TCPWHY) completions bash > $(TARGET)/completions/tcpwhy.bash
	$(TCPWHY) completions zsh > $(TARGET)/completions/_tcpwhy
	$(TCPWHY) completions fish > $(TARGET)/completions/tcpwhy.fish
	$(TCPWHY)-lab completions bash > $(TARGET)/completions/tcpwhy-lab.bash
	$(TCPWHY)-lab completions zsh > $(TARGET)/completions/_tcpwhy-lab
	$(TCPWHY)-lab completions fish > $(TARGET)/completions/tcpwhy-lab.fish

clean: ## remove what was built
	rm -rf $(TARGET) fuzz/target web/node_modules
