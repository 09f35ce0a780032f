# A handful of verbs; each does its own set-up, once, in .venv. `make` alone lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
UV_VERSION := 0.13.7
WORKERS ?= 2

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-live check bench docs lock clean

help: ## list the verbs
	@echo "make VERB, where VERB is one of"
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)$$/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 12
	@echo "PYTHON=python3.12 chooses another interpreter (after make clean); it must be 3.11 or newer."

demo: $(VENV)/.run ## run the main job on the embedded defaults; ends with the ledger and a report file
	$(BIN)/tidemill demo

test: $(VENV)/.dev ## run all the tests (what CI runs)
	@tools/chromium.sh
	@tools/slurm.sh
	@tools/prometheus.sh
	@tools/postgres.sh
	@PYTHON=$(BIN)/python tools/kubernetes.sh
	$(BIN)/python -m pytest -n $(WORKERS) --hypothesis-profile=ci --durations=15 -rs

test-live: $(VENV)/.dev ## build a real Kubernetes, once; run the tests on real clusters, with 200 Slurm jobs
	@tools/slurm.sh
	@tools/prometheus.sh
	@tools/postgres.sh
	@PYTHON=$(BIN)/python tools/kubernetes.sh build
	TIDEMILL_SLURM_JOBS=200 $(BIN)/python -m pytest --hypothesis-profile=ci -rs tests/live

check: $(VENV)/.dev ## lint, format, types, import contracts, house rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src tests $(wildcard bench)
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest -q tests/tidy

bench: $(VENV)/.run ## measure speed and quality
	$(BIN)/python -m bench

docs: $(VENV)/.dev ## build the documentation into site/
	$(BIN)/mkdocs build --strict

LOCK := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 \
	--generate-hashes --no-header --no-emit-index-url --quiet $(LOCK_FLAGS)

lock: $(VENV)/.made ## pin the dependencies again (LOCK_FLAGS=--upgrade takes newer versions)
	$(PIP) install --quiet uv==$(UV_VERSION)
	$(LOCK) --group build --output-file requirements/run.txt
	$(LOCK) --group build --extra probe --constraints requirements/run.txt --output-file requirements/probe.txt
	$(LOCK) --group build --group dev --extra postgres --constraints requirements/run.txt --output-file requirements/dev.txt
	$(LOCK) --group build --extra postgres --constraints requirements/dev.txt --output-file requirements/image.txt

clean: ## remove .venv and everything built
	rm -rf $(VENV) build dist site .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: a second run finds them newer than what they were made from, and does no work.

$(VENV)/.made: tools/venv.sh
	@tools/venv.sh "$(PYTHON)" $(VENV)
	@touch $@

$(VENV)/.run: $(VENV)/.made requirements/run.txt pyproject.toml
	@echo "set-up: run-time packages, pinned in requirements/run.txt"
	$(PIP) install --require-hashes -r requirements/run.txt
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.txt
	@echo "set-up: packages for developing, pinned in requirements/dev.txt"
	$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@
