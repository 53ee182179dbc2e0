# Muster's commands. `make help` lists them.
#
# MUSTER_SOAK, MUSTER_SEED and FUZZ_SECONDS are read from the environment where a target says so.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

FUZZ_SECONDS ?= 60
# Property tests draw the same cases in every run of `make test`, so that a change is judged by what it changes; `make soak`
# draws new ones.
SEED := PROPTEST_RNG_SEED=$(or $(MUSTER_SEED),20260815)
NEXTEST := $(shell command -v cargo-nextest 2>/dev/null)
# As root every test of the lab can run, so one that cannot is a failure, not a skip.
STRICT := $(if $(filter 0,$(shell id -u)),MUSTER_LAB_STRICT=1)

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## install what building and testing need (a second run costs nothing)
	@scripts/setup

.PHONY: test
test: setup lint ## everything that must be green: lint, doc tests, all tests
	cargo test --workspace --locked --doc --quiet
ifneq ($(NEXTEST),)
	MUSTER_LAB_PROGRAMS=$$(scripts/lab-programs) $(STRICT) $(SEED) cargo nextest run --workspace --locked --no-fail-fast
else
	MUSTER_LAB_PROGRAMS=$$(scripts/lab-programs) $(STRICT) $(SEED) \
	    cargo test --workspace --locked --no-fail-fast --lib --bins --tests --examples
endif

.PHONY: lint
lint: ## formatting, clippy with warnings denied, house rules
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- --deny warnings
	scripts/house-rules

.PHONY: bench
bench: setup ## side-by-side benchmarks, as tables with ratios
	scripts/bench

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZ_SECONDS (60)
	FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz

.PHONY: soak
soak: setup ## long rounds: power cuts, kill matrices, link chaos
	$(STRICT) MUSTER_SOAK=1 scripts/soak

.PHONY: up
up: ## a Unit on this machine: two nodes and a demo (installs what is missing, builds, starts)
	@scripts/up

.PHONY: down
down: ## take that Unit away again, with everything of it
	@scripts/down

.PHONY: install
install: ## build and install Muster (DESTDIR is honoured)
	scripts/install

.PHONY: clean
clean: ## remove what was built
	cargo clean
	rm -rf fuzz/target
