# What people and CI call. `make help` lists it. Everything that is installed goes into the checkout: .cache,
# node_modules, target; only Kubernetes and Helm, which take minutes to build, into the user's cache.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
export PATH := $(CURDIR)/.cache/node/bin:$(PATH):$(HOME)/.cargo/bin

BINARY := $(or $(CARGO_TARGET_DIR),target)/debug/hawsepipe
# What `make run` starts: built without optimization.
QUICK := $(or $(CARGO_TARGET_DIR),target)/quick/hawsepipe
DENY_VERSION := 0.20.2
# What goes into the image of `make e2e`.
E2E_BUILD ?=
E2E_BINARY ?= $(BINARY)
# Linked statically, for which cargo must be told the target.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
BRIDGE = $(abspath $(or $(CARGO_TARGET_DIR),target))/$(HOST)/bridge/hawsepipe-bridge
PYTHON := $(CURDIR)/.cache/venv/bin/python
# The programs that the conformance suite is run with, in a workspace of their own.
CONFORMANCE := --manifest-path tests/conformance/rmcp/Cargo.toml --target-dir $(or $(CARGO_TARGET_DIR),target)/conformance
PLUGIN_TESTS := plugins/*/*.test.mjs
# Fuzzing needs what only a nightly compiler has.
NIGHTLY ?= nightly-2026-05-20
FUZZ_VERSION := 0.13.2
FUZZ_TARGETS ?= frames answers expressions sources envelopes headers events sealed
FUZZ_SECONDS ?= 300
MUTANTS_VERSION := 27.1.0
# The one in the Dockerfile.
CYCLONEDX_VERSION := $(shell sed -n 's/^ARG CYCLONEDX_VERSION=//p' Dockerfile)
# A program, and the archive of an image, for `make release-check` instead of those that it builds.
RELEASE_BINARY ?=
RELEASE_IMAGE ?=
# Which part of all mutants is tried: of some 3,300, each 54th.
SHARD ?= 0/54
MUTANTS_TREE := .cache/mutants/tree
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
IMAGE ?= hawsepipe:$(VERSION)

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-14s %s\n", $$1, $$2 }'

.PHONY: run
run: cargo-there ## Build, start the quickstart's gateway in the foreground, show one call
	@.ci/setup.sh node
	@.ci/setup.sh npm manifests/quickstart/servers
	@echo "==> cargo build (a first build takes some minutes)"
	@cargo build --locked --profile quick --bin hawsepipe
	@manifests/quickstart/run.sh $(QUICK)

.PHONY: run-research
run-research: cargo-there ## Build, start the research example in the foreground, ask it a question; MODEL_URL, MODEL_NAME, MODEL_KEY
	@.ci/setup.sh node
	@cargo build --locked --profile quick --bin hawsepipe
	@manifests/examples/research/run.sh $(QUICK)

.PHONY: test
test: setup ## Set up and run every test but the long ones
	@echo "==> tests of the plugins, of the guards in examples, and of the bill of materials"
	@node --test $(PLUGIN_TESTS) tests/fixtures/*.test.mjs .ci/*.test.mjs
	@echo "==> types of the plugins, and what is bundled"
	@npm run --silent --prefix plugins/sdk check
	@mkdir -p .cache/curate && node plugins/curate/build.mjs "$(CURDIR)/.cache/curate"
	@for file in index.mjs LICENCES.txt; do cmp .cache/curate/$$file plugins/curate/$$file \
		|| { echo "plugins/curate/$$file is stale: run \`make plugins\`" >&2; exit 1; }; done
	@echo "==> the contract's own tests, unmodified"
	@node tests/fixtures/contract-1.0/run.mjs
	@echo "==> alerts"
	@.cache/prometheus/promtool check rules --lint=all --lint-fatal charts/hawsepipe/alerts/*.yaml
	@.cache/prometheus/promtool test rules tests/alerts/*.yaml
	@echo "==> cargo test"
	@cargo build --locked --quiet $(CONFORMANCE)
	@HAWSEPIPE_TEST_PYTHON=$(PYTHON) .ci/tests.sh

.PHONY: test-long
test-long: setup ## Run the long tests: soaks, the conformance suite in all set-ups, each SDK client on each server (over an hour)
	@cargo clippy --locked --benches -- -D warnings
	@cargo build --locked --quiet $(CONFORMANCE)
	@HAWSEPIPE_TEST_PYTHON=$(PYTHON) .ci/tests.sh long

.PHONY: conformance
conformance: cargo-there ## Run the official conformance suite through the gateway, also with plugins and two processes, and report what is not scored
	@.ci/setup.sh node
	@.ci/setup.sh node-suite
	@.ci/setup.sh npm tests/conformance
	@cargo build --locked $(CONFORMANCE)
	@cargo test --locked --test it conformance:: -- --include-ignored --nocapture --test-threads 1

.PHONY: e2e
e2e: e2e-up ## Install the charts on a node that runs on this machine, upgrade and evict under load, uninstall (root, Debian)
	@.ci/setup.sh node
	@.ci/setup.sh node-suite
	@.ci/setup.sh npm tests/conformance
	@.ci/setup.sh venv tests/fixtures/requirements.txt
	@trap 'tests/e2e/node/node.sh down' EXIT; cargo test --locked --test e2e

.PHONY: e2e-up
e2e-up: cargo-there bridge sbom ## Start the node of `make e2e`, with the image in it, and leave it running
	@.ci/setup.sh npm manifests/quickstart/servers
	@.ci/setup.sh helm
	@.ci/setup.sh e2e
	@cargo build --locked $(E2E_BUILD)
	@tests/e2e/images/images.sh $(E2E_BINARY) $(BRIDGE) .cache/e2e/images
	@tests/e2e/node/node.sh up

.PHONY: e2e-down
e2e-down: ## Remove the node of `make e2e`
	@tests/e2e/node/node.sh down

.PHONY: soak
soak: cargo-there ## The long tests: 10,000 faults of plugins, 100,000 calls while workers die, a guard under edits (about an hour)
	@.ci/setup.sh node
	@.ci/setup.sh npm tests/fixtures
	@.ci/setup.sh venv tests/fixtures/requirements.txt
	@.ci/setup.sh k8s
	@HAWSEPIPE_TEST_PYTHON=$(PYTHON) cargo test --locked --test it faults:: -- --ignored --nocapture --test-threads 1
	@cargo test --locked --test cluster operator::soak -- --ignored --nocapture

.PHONY: fuzz
fuzz: fuzz-there ## Fuzz what comes from outside; FUZZ_TARGETS="frames", FUZZ_SECONDS=300 of each, NIGHTLY=a toolchain
	@for target in $(FUZZ_TARGETS); do \
		mkdir -p fuzz/found/$$target; \
		cargo +$(NIGHTLY) fuzz run $$target fuzz/found/$$target fuzz/corpus/$$target -- \
			-max_total_time=$(FUZZ_SECONDS) -max_len=16384 -rss_limit_mb=4096; \
	done

.PHONY: corpus
corpus: cargo-there ## Let the corpus of the fuzz targets grow by random changes, with no nightly; FUZZ_SECONDS=300 in all
	@HAWSEPIPE_CORPUS_SECONDS=$(FUZZ_SECONDS) cargo test --locked --test it faults::corpus -- --nocapture

.PHONY: cel-golden
cel-golden: ## Evaluate the expressions of tests/fixtures/cel with cel-go again; needs Go
	@cd tests/fixtures/cel && go run . > golden.jsonl.new && mv golden.jsonl.new golden.jsonl

.PHONY: mutants
mutants: mutants-there ## Change the code in about 60 places, and see whether the unit tests notice; SHARD=3/54 draws others
	@rm -rf $(MUTANTS_TREE) && git clone --quiet --shared . $(MUTANTS_TREE)
	@cd $(MUTANTS_TREE) && CARGO_TARGET_DIR=$(CURDIR)/.cache/mutants/target CARGO_PROFILE_DEV_DEBUG=0 \
		cargo mutants --in-place --sharding round-robin --shard $(SHARD) --timeout 120 --output $(CURDIR)/.cache/mutants \
			$(foreach folder,domain config engine node controller,-f 'src/$(folder)/**') -- --locked --lib

.PHONY: setup
setup: cargo-there ## Install what the tests need: npm packages, a Python environment, an authorization server, Kubernetes, Helm, Prometheus, Node where it lacks
	@.ci/setup.sh node
	@.ci/setup.sh node-suite
	@.ci/setup.sh npm manifests/quickstart/servers tests/fixtures tests/conformance plugins/sdk plugins/curate
	@.ci/setup.sh venv tests/fixtures/requirements.txt
	@.ci/setup.sh exchange
	@.ci/setup.sh k8s
	@.ci/setup.sh helm
	@.ci/setup.sh prometheus

.PHONY: lint
lint: deny-there ## Check formatting, clippy, licences and sources of dependencies, the release workflow
	cargo fmt --all --check
	cargo clippy --locked --lib --bins --tests --test e2e -- -D warnings
	cargo check --locked --no-default-features --lib --bins
	cargo deny --locked --log-level error check licenses bans sources
	@.ci/setup.sh actionlint
	.cache/actionlint/actionlint

.PHONY: fmt
fmt: ## Format the Rust code
	cargo fmt --all

.PHONY: bench
bench: cargo-there ## Measure the gateway against direct calls, a bare hop and a peer; ARGS="--quick", "--help"
	@.ci/setup.sh node
	@.ci/setup.sh venv benches/requirements.txt
	@HAWSEPIPE_TEST_PYTHON=$(PYTHON) cargo bench --locked --profile dist --bench gateway -- $(ARGS)

.PHONY: bench-cluster
bench-cluster: cargo-there ## Measure the operator with thousands of objects; ARGS="--upstreams 1000"
	@.ci/setup.sh k8s
	@.ci/setup.sh kwok
	@cargo bench --locked --profile dist --bench cluster -- $(ARGS)

.PHONY: image
image: ## Build the image with docker or buildah; IMAGE=NAME:TAG, ARGS="--platform linux/arm64 --build-arg BASE_IMAGE=..."
	@if docker info >/dev/null 2>&1; then builder=docker; else builder=buildah; fi; \
	command -v $$builder >/dev/null || { echo "Missing: Docker, running, or buildah. Install one, for example with:" \
		"apt-get install buildah" >&2; exit 1; }; \
	set -x; $$builder build --tag $(IMAGE) --build-arg VERSION=$(VERSION) \
		--build-arg REVISION=$$(git rev-parse HEAD 2>/dev/null || echo unknown) $(ARGS) .

.PHONY: sbom
sbom: cyclonedx-there ## Write .cache/sbom.cdx.json, the software bill of materials of the image, but with this machine's Node.js
	@.ci/setup.sh node
	@cargo cyclonedx --quiet --format json --spec-version 1.5 --no-build-deps --override-filename crates
	@mkdir -p .cache && mv crates.json .cache/crates.json
	@node .ci/sbom.mjs .cache/crates.json plugins > .cache/sbom.cdx.json
	@echo "==> .cache/sbom.cdx.json"

.PHONY: release-check
release-check: sbom ## Build and check what docs/releasing.md publishes, as far as one machine can; RELEASE_IMAGE=FILE takes that image
	@command -v jq >/dev/null || { echo "Missing: jq. Install it, for example with: apt-get install jq" >&2; exit 1; }
	@.ci/setup.sh helm
	@.ci/setup.sh actionlint
	@.cache/actionlint/actionlint
	@rm -rf .cache/release && mkdir -p .cache/release && cp .cache/sbom.cdx.json .cache/release/
	@.ci/release.sh version v$(VERSION)
	@.ci/release.sh binary .cache/release $(RELEASE_BINARY)
	@.ci/release.sh charts .cache/release
	@if [[ -n "$(RELEASE_IMAGE)" ]]; then cp "$(RELEASE_IMAGE)" .cache/release/image.tar; \
		else .ci/release.sh image .cache/release/image.tar $(IMAGE); fi
	@.ci/release.sh check .cache/release

.PHONY: bridge
bridge: cargo-there ## Build the static bridge that runs in images of MCP servers
	@RUSTFLAGS="-C target-feature=+crt-static" cargo build --profile bridge --locked --no-default-features \
		--bin hawsepipe-bridge --target $(HOST)
	@ls -l $(BRIDGE)

.PHONY: test-bridge
test-bridge: setup bridge ## Run the tests of the bridge with the static build, also in an empty root folder
	@HAWSEPIPE_TEST_PYTHON=$(PYTHON) HAWSEPIPE_TEST_BRIDGE=$(BRIDGE) cargo test --locked --test it bridge::

.PHONY: crds
crds: ## Write crds/ and the chart of them anew from the types
	cargo run --locked --quiet -- crds --write crds
	cargo run --locked --quiet -- crds --write charts/hawsepipe-crds/templates --helm

.PHONY: charts
charts: cargo-there ## Write what follows from charts/hawsepipe anew: manifests/install.yaml, the README's table
	@.ci/setup.sh helm
	@UPDATE_GOLDEN=1 cargo test --locked --quiet --test cluster -- chart::manifests::the_manifest chart::readme::the_readme

.PHONY: plugins
plugins: ## Bundle the plugins that need packages into one file each
	@.ci/setup.sh node
	@.ci/setup.sh npm plugins/curate
	@node plugins/curate/build.mjs "$(CURDIR)/plugins/curate"

.PHONY: docs
docs: ## Write docs/reference and the operator's roles anew from the code
	cargo run --locked --quiet -- docs docs/reference --roles .

.PHONY: dashboards
dashboards: ## Write the Grafana dashboards of the chart anew from their script
	@.ci/setup.sh node
	@node charts/hawsepipe/dashboards/generate.mjs

.PHONY: panels
panels: cargo-there ## Draw the panels of the dashboards anew for docs/dashboards.md, from what a real Prometheus answers
	@.ci/setup.sh node
	@.ci/setup.sh npm tests/fixtures tests/panels
	@.ci/setup.sh venv tests/fixtures/requirements.txt
	@.ci/setup.sh k8s
	@.ci/setup.sh prometheus
	@rm -rf .cache/panels && mkdir -p .cache/panels
	@HAWSEPIPE_PANELS="$(CURDIR)/.cache/panels" cargo test --locked --test it gateway::monitored
	@HAWSEPIPE_PANELS="$(CURDIR)/.cache/panels" cargo test --locked --test cluster monitored
	@node tests/panels/draw.mjs .cache/panels docs/dashboards

.PHONY: advisories
advisories: deny-there ## Check dependencies against the RustSec advisories (needs the network)
	cargo deny --locked check advisories

.PHONY: clean
clean: ## Remove what was built and installed here
	rm -rf target .cache {manifests/quickstart/servers,tests/fixtures,tests/conformance,tests/panels,plugins/sdk,plugins/curate}/node_modules

.PHONY: cargo-there
cargo-there:
	@command -v cargo >/dev/null || { echo "Missing: Rust. Install it with rustup (https://rustup.rs)" >&2; exit 1; }

.PHONY: deny-there
deny-there: cargo-there
	@cargo deny --version >/dev/null 2>&1 || { echo "==> installing cargo-deny $(DENY_VERSION)"; \
		CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
		cargo install --locked --quiet cargo-deny@$(DENY_VERSION); }

.PHONY: cyclonedx-there
cyclonedx-there: cargo-there
	@cargo cyclonedx --version >/dev/null 2>&1 || { echo "==> installing cargo-cyclonedx $(CYCLONEDX_VERSION)"; \
		CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
		cargo install --locked --quiet cargo-cyclonedx@$(CYCLONEDX_VERSION); }

.PHONY: mutants-there
mutants-there: cargo-there
	@cargo mutants --version >/dev/null 2>&1 || { echo "==> installing cargo-mutants $(MUTANTS_VERSION)"; \
		CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
		cargo install --locked --quiet cargo-mutants@$(MUTANTS_VERSION); }

.PHONY: fuzz-there
fuzz-there: cargo-there
	@cargo +$(NIGHTLY) --version >/dev/null 2>&1 || { echo "Missing: the Rust toolchain $(NIGHTLY). Install it with:" \
		"rustup toolchain install $(NIGHTLY) --profile minimal; or name another: make fuzz NIGHTLY=nightly" >&2; exit 1; }
	@cargo +$(NIGHTLY) fuzz --version >/dev/null 2>&1 || { echo "==> installing cargo-fuzz $(FUZZ_VERSION)"; \
		cargo install --locked --quiet cargo-fuzz@$(FUZZ_VERSION); }
