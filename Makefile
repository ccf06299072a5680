# Bare `make` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/sh
C5C3 := target/local/c5c3
RELEASE := target/release/c5c3
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/c5c3
export C5C3_TOOLS ?= $(CACHE)/tools
export C5C3_KUBERNETES ?= $(CACHE)/kubernetes-v1.37.1
export C5C3_OPERATORS ?= $(CACHE)/operators
export C5C3_FOREIGN_CRDS ?= $(CACHE)/foreign-crds

# Crates whose integration tests need root and installed programs.
REAL := --exclude end-to-end --exclude machine

# The baseline of the API server, where `make conformance` has built it.
WITH_KUBERNETES := $(if $(wildcard $(C5C3_KUBERNETES)/kube-apiserver),scripts/with-kube-apiserver)

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: run-packages build-packages ## Bring the system up on this machine (root), and say how to use it.
	cargo build --profile local --locked -p c5c3
	$(C5C3) up

down: ## Stop it again; state stays (c5c3 down --purge removes that too).
	$(C5C3) down

build: build-packages ## Build the optimised program, for production (target/release/c5c3).
	cargo build --release --locked -p c5c3

quick: build-packages ## Unit and in-process tests: no root, nothing installed but what building needs.
	cargo test --locked --workspace $(REAL)
	cargo test --locked -p machine --lib

test: packages tools ## All tests, those with the real programs too (root).
	scripts/run-tests

soak: packages tools ## Long drills (root): crashes of the store, idle clouds, programs that die while servers are made, two cells, an update below running guests, monitors in two clusters, a lost site of Ceph, keys of Ceph that change, random worlds.
	C5C3_CRASHES=20000 cargo test --locked -p apiserver --lib -- crashes
	cargo build --locked -p c5c3
	C5C3_WORLDS=1000 cargo test --locked -p c5c3-hypervisor --test model
	C5C3_IDLE=600 cargo test --locked -p end-to-end --test cloud -- core_services
	C5C3_DRILLS=3 C5C3_IDLE=600 cargo test --locked -p end-to-end --test compute -- --include-ignored
	C5C3_DRILLS=1 cargo test --locked -p end-to-end --test storage
	cargo test --locked -p end-to-end --test volumes -- --ignored
	cargo test --locked -p end-to-end --test arbiter --test stretch -- --ignored

check: build-packages ## Format, lints and docs, warnings are errors.
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --quiet

bench: packages tools ## Measure; each figure stands beside a baseline of the same run.
	cargo bench --locked -p apimachinery -p c5c3-control-plane -p c5c3-hypervisor -p c5c3-cortex -p c5c3-prysm -p c5c3-arbiter
	$(WITH_KUBERNETES) cargo bench --locked -p apiserver --bench load
	cargo bench --locked -p c5c3-image-builder
	cargo build --locked --release -p c5c3
	BENCH_PROGRAM=$(CURDIR)/$(RELEASE) cargo bench --locked -p machine --bench pods
	cargo bench --locked -p end-to-end --bench cloud --bench servers --bench storage

docs: build-packages tools ## Generate CRDs, roles, charts and the API reference from the types anew.
	UPDATE=1 cargo test --locked -p c5c3-api --quiet
	UPDATE=1 cargo test --locked -p c5c3 --quiet are_generated
	UPDATE=1 cargo test --locked -p end-to-end --test helm --quiet as_recorded

conformance: packages tools ## The API suite on a real kube-apiserver and etcd (built once, about 12 minutes).
	scripts/build-kubernetes
	scripts/fetch-foreign-crds "$(C5C3_FOREIGN_CRDS)"
	scripts/with-kube-apiserver cargo test --locked -p end-to-end --test conformance -- --include-ignored
	scripts/with-kube-apiserver cargo test --locked -p c5c3-api --test api server
	scripts/with-kube-apiserver cargo test --locked -p c5c3-kit -p c5c3-control-plane --test behaviour

kubernetes: packages tools ## A real Kubernetes on this machine with the real operators and ours (root; Go builds it once).
	scripts/build-kubernetes all
	scripts/build-operators
	cargo build --locked -p c5c3 -p real-kubernetes
	scripts/kubernetes up

kubernetes-down: ## Stop it again and remove all of it but what was built.
	scripts/kubernetes down

kubernetes-test: kubernetes ## The acceptance suite of a cloud on it, drills included.
	scripts/kubernetes test

fuzz: build-packages ## Fuzz what reads the input of others, a minute for each target (g++).
	scripts/fuzz 60

audit: rust ## Licences, sources, banned crates and, with a network, advisories (compiles cargo-deny the first time).
	@command -v cargo-deny >/dev/null || cargo install --locked cargo-deny@0.20.2
	cargo deny --all-features check bans licenses sources
	@if cargo deny --all-features fetch db >/dev/null 2>&1; then cargo deny --all-features check advisories; \
	else echo "advisories: skipped, the RustSec database cannot be reached"; fi

packages: rust
	@scripts/install-packages

build-packages: rust
	@scripts/install-packages build

run-packages:
	@scripts/install-packages run

tools: packages
	@scripts/install-tools

rust:
	@scripts/check-rust

.PHONY: kubernetes kubernetes-down kubernetes-test help up down build quick test check bench docs conformance audit fuzz soak packages build-packages run-packages tools rust
