# Everything a newcomer runs. Each target installs or builds what it needs, and can be run twice.
SHELL := /bin/bash -euo pipefail
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PYTHONPATH := deploy/testbed:deploy/demo:deploy/manifests:deploy/dashboards
TESTBED := $(BIN)/python -m testbed
DEMO := $(BIN)/python -m demo

.PHONY: help
help: ## Say what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(VENV)/.locked: requirements/dev.txt pyproject.toml
	@echo "Installing the locked Python packages into $(VENV)"
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends python3-venv && \
	  $(PYTHON) -m venv $(VENV); }
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: venv
venv: $(VENV)/.locked ## Install the locked Python packages

.PHONY: lock
lock: ## Pin the newest versions that fit pyproject.toml, with hashes and without addresses
	$(PYTHON) -m venv $(VENV)-lock && $(VENV)-lock/bin/pip install --quiet uv
	$(VENV)-lock/bin/uv pip compile -q --upgrade --generate-hashes --no-emit-index-url --no-header --universal \
	  --python-version 3.11 pyproject.toml -o requirements/runtime.txt
	$(VENV)-lock/bin/uv pip compile -q --upgrade --generate-hashes --no-emit-index-url --no-header --universal \
	  --python-version 3.11 pyproject.toml --extra tracing -c requirements/runtime.txt -o requirements/tracing.txt
	$(VENV)-lock/bin/uv pip compile -q --upgrade --generate-hashes --no-emit-index-url --no-header --universal \
	  --python-version 3.11 pyproject.toml --extra tracing --group dev -c requirements/runtime.txt -o requirements/dev.txt
	rm -rf $(VENV)-lock

.PHONY: cluster-up cluster-status cluster-down
cluster-up: venv ## Bring up a real cluster and a Docker engine on this machine
	@$(TESTBED) up
cluster-status: venv ## Say how each of its parts fares
	@$(TESTBED) status
cluster-down: venv ## Take it down and leave nothing
	@$(TESTBED) down

.PHONY: env
env: venv ## Print the environment that speaks to it, for eval
	@$(TESTBED) env
	@echo "export PATH=$(abspath $(BIN)):\$$PATH"

.PHONY: demo demo-down
BACKEND ?= docker
demo: venv ## Walk through the life of sandboxes, on a real cluster; BACKEND=pod: as Pods
	@$(DEMO) up --backend $(BACKEND)
demo-down: venv ## Remove all that the demo made
	@$(DEMO) down

.PHONY: lint types contracts generated docs check
lint: venv ## Check style
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
types: venv ## Check types
	@$(BIN)/mypy
	@$(BIN)/mypy tests docs/conf.py
contracts: venv ## Check that the arrows between packages point one way
	@PYTHONPATH=controller:$(PYTHONPATH) $(BIN)/lint-imports --no-cache
generated: venv ## Check that what is generated from the models is what they generate
	@$(BIN)/python -m sandkeeper.api.crd --check crds
	@$(BIN)/python -m sandkeeper.api.crd --check charts/sandkeeper/files/crds
	@$(BIN)/python -m sandkeeper.api.reference --check docs/reference
	@$(BIN)/python -m sandkeeper.cli.reference --check docs/reference
	@$(BIN)/python -m manifests.values_schema --check charts/sandkeeper
	@$(BIN)/python -m manifests.values_reference --check docs/reference
	@$(BIN)/python -m dashboards --check $(DASHBOARDS)
docs: venv ## Build the site of the documents into build/docs; what leads nowhere is an error
	@rm -rf build/docs
	@$(BIN)/sphinx-build --fail-on-warning --quiet --fresh-env --doctree-dir build/doctrees docs build/docs
check: lint types contracts generated docs ## All checks that need no cluster

.PHONY: crds reference
crds: venv reference ## Generate the CRDs, the references and the schema of the chart's values from the models
	@$(BIN)/python -m sandkeeper.api.crd --write crds
	@$(BIN)/python -m sandkeeper.api.crd --write charts/sandkeeper/files/crds
	@$(BIN)/python -m manifests.values_schema --write charts/sandkeeper
reference: venv ## Generate the references: resources, reasons, configuration, metrics, the chart's values
	@$(BIN)/python -m sandkeeper.api.reference --write docs/reference
	@$(BIN)/python -m sandkeeper.cli.reference --write docs/reference
	@$(BIN)/python -m manifests.values_reference --write docs/reference

.PHONY: manifests
manifests: crds dashboard-files ## Generate the manifests for those who do without Helm from the chart, and all that it carries
	@$(BIN)/python -m manifests.rendering --write deploy
DASHBOARDS := charts/sandkeeper/files/dashboards docs/reference/dashboards.md
.PHONY: dashboard-files dashboards
dashboard-files: venv ## Generate the Grafana dashboards, and the page about them
	@$(BIN)/python -m dashboards --write $(DASHBOARDS)
dashboards: dashboard-files test-tools ## Draw their pictures anew: a real Prometheus, a real operator and two minutes of churn
	@PYTHONPATH=tests:$(PYTHONPATH) $(BIN)/python -m watching

# What has to be built and installed, parts of the test bed and images, takes minutes once; a test's time limit is no place for it.
.PHONY: test-tools
test-tools: venv
	@{ ldd "$$(command -v busybox)" 2>&1 || true; } | grep -q 'not a dynamic' || { apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends busybox-static; }
	@ls /usr/lib*/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1 || { apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends libfaketime; }
	@$(TESTBED) prometheus
	@$(TESTBED) build
	@$(TESTBED) images

.PHONY: test test-fast test-nightly mutation
test: check test-tools ## Run everything: checks, then all tests, on a real cluster and a real engine
	@$(BIN)/pytest -n 3 --dist loadgroup -m "not nightly"
test-fast: venv ## Run the tests that need neither cluster nor engine
	@$(BIN)/pytest -m "not cluster and not engine and not testbed_cycle and not nightly"
test-nightly: check test-tools ## Run the long storms too, properties with 10,000 examples, and the mutants
	@HYPOTHESIS_PROFILE=nightly $(BIN)/pytest -n 3 --dist loadgroup --timeout 3600
	@$(MAKE) mutation
mutation: venv ## Change the pure layers in every small way: do tests see it? SAMPLE=200 SEED=1 ONLY="config lifecycle.view" AGAIN=1
	@PYTHONPATH=tests:$(PYTHONPATH) $(BIN)/python -m mutation $(if $(AGAIN),--again) \
	  $(addprefix --only ,$(ONLY)) $(addprefix --sample ,$(SAMPLE)) $(addprefix --seed ,$(SEED))

.PHONY: chaos
MINUTES ?= 5
chaos: test-tools ## Break everything around the operator, and write docs/reliability.md anew; STORMS="pods ..." only prints
	@PYTHONPATH=tests:$(PYTHONPATH) $(BIN)/python -m chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) \
	  $(addprefix --storm ,$(STORMS))

.PHONY: bench
bench: test-tools ## Measure, and write docs/performance.md anew; PARTS="pod-ready ..." only prints those
	@PYTHONPATH=tests:$(PYTHONPATH) $(BIN)/python -m bench $(addprefix --only ,$(PARTS))
