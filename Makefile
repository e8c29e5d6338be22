# Each target makes the virtual environment .venv on first use and installs only what it needs.
# A changed pyproject.toml makes the next target install again.

PYTHON ?= python3
TORCH ?= torch==2.13.0
PYTEST_ARGS ?=

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(VENV)/bin/pip

# Quiet, but errors are shown.
export PIP_QUIET := 2
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# One thread for each numerical library: steady timings, and no contention between test workers.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 BLIS_NUM_THREADS=1 \
	VECLIB_MAXIMUM_THREADS=1 NUMEXPR_NUM_THREADS=1 NUMBA_NUM_THREADS=1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test test-slow test-all check bench docs clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo 'Variables: PYTHON=$(PYTHON)  TORCH=$(TORCH)  PYTEST_ARGS=$(PYTEST_ARGS)'

demo: $(VENV)/.demo-installed ## Run the demonstration (needs the runtime dependencies only)
	@$(PY) -m surefoot.cli demo

test: $(VENV)/.test-installed ## Run the quick tests (no PyTorch)
	$(ONE_THREAD) $(PY) -m pytest -m "not slow" -n 2 $(PYTEST_ARGS)

ALL := $(VENV)/.torch-installed $(VENV)/.test-installed $(VENV)/.slow-installed

test-slow: $(ALL) ## Run the other tests but the longest
	$(ONE_THREAD) $(PY) -m pytest -m "slow and not long" -n 2 $(PYTEST_ARGS)

test-all: $(ALL) ## Run all tests with PyTorch, the longest too; coverage of 95 % or more
	$(ONE_THREAD) $(PY) -m pytest -n 2 --cov=surefoot --cov-report=term-missing --cov-fail-under=95 $(PYTEST_ARGS)

check: $(VENV)/.check-installed ## Lint, check the format, the types and the layers
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

bench: $(VENV)/.bench-installed ## Run the measurements, each library on one thread
	$(ONE_THREAD) $(PY) measurements/run.py

docs: $(VENV)/.docs-installed ## Build the documentation site in build/docs; warnings are errors
	$(PY) -m sphinx -W --keep-going -q -b html -d build/doctrees docs build/docs
	@echo 'Open build/docs/index.html'

clean: ## Remove the virtual environment, caches and build products
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* coverage.xml
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name .git -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.created:
	@command -v "$(PYTHON)" >/dev/null || { \
		echo 'error: $(PYTHON) not found; name a Python 3.11 or newer: make PYTHON=python3.12 ...' >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "error: surefoot needs Python 3.11 or newer, but $(PYTHON) is $$("$(PYTHON)" -V 2>&1);" \
			'name another: make PYTHON=python3.12 ...' >&2; exit 1; }
	@echo 'Making $(VENV)'
	@"$(PYTHON)" -m venv --clear $(VENV)
	@touch $@

$(VENV)/.demo-installed: pyproject.toml $(VENV)/.created
	@echo 'Installing surefoot'
	@$(PIP) install -e .
	@touch $@

$(VENV)/.test-installed $(VENV)/.slow-installed $(VENV)/.check-installed $(VENV)/.bench-installed $(VENV)/.docs-installed: $(VENV)/.%-installed: pyproject.toml $(VENV)/.created
	@echo 'Installing surefoot[$*]'
	@$(PIP) install -e '.[$*]'
	@touch $@

$(VENV)/.torch-installed: pyproject.toml $(VENV)/.created
	@echo 'Installing $(TORCH)'
	@$(PIP) install '$(TORCH)'
	@touch $@
