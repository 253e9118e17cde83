# What can be done here; CARGO may be set to another cargo.
CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)

.PHONY: bench

# Captures real traffic (needs root) and prints ratios against other tools, from one run.
bench:
	$(CARGO) build --release -p tcpwhy
	$(CARGO) build --release -p tcpwhy-core --example multiply
	TCPWHY=$(TARGET)/release/tcpwhy MULTIPLY=$(TARGET)/release/examples/multiply \
		bench/bench.sh $(CAPTURE)
