# `make demo` and `make test` set up .venv by themselves, then do their job.
# PYTHON chooses the interpreter; an already installed torch of that interpreter is reused.

PYTHON ?= python3
PIP := .venv/bin/python -m pip install --quiet --disable-pip-version-check
RUN := .venv/bin/python -m

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint docs bench clean

help:
	@echo "make demo      what strop does, on the data in the package; writes strop-demo/index.html"
	@echo "make test      lint, types, import rules, doctests, tests (under ten minutes on two cores)"
	@echo "make test-all  the same with the slow tests"
	@echo "make docs      the documentation, without warnings, in docs/_build"
	@echo "make bench     the speed ratios of docs/benchmarks.md, beside the peers, on this processor"
	@echo "make clean     remove what the above made"

# The library with its core dependencies; enough for the demo.
.venv/stamp-core: pyproject.toml constraints.txt scripts/make_venv.py
	@$(PYTHON) scripts/make_venv.py
	@touch $@

.venv/stamp-dev: .venv/stamp-core
	@echo "installing what the tests need"
	@$(PIP) --constraint .venv/constraints.txt --editable '.[dev]'
	@touch $@

.venv/stamp-docs: .venv/stamp-core
	@$(PIP) --constraint .venv/constraints.txt --editable '.[docs]'
	@touch $@

.venv/stamp-bench: .venv/stamp-dev
	@$(PIP) --constraint .venv/constraints.txt --editable '.[bench]'
	@touch $@

demo: .venv/stamp-core
	@.venv/bin/strop demo --out strop-demo

lint: .venv/stamp-dev
	@$(RUN) ruff check .
	@$(RUN) ruff format --check --quiet .
	@$(RUN) mypy
	@.venv/bin/lint-imports --no-cache

test: lint
	@$(RUN) pytest --numprocesses 2 -m "not slow"

test-all: lint
	@$(RUN) pytest --numprocesses 2

docs: .venv/stamp-docs
	@$(RUN) sphinx -W --keep-going -q -b html docs docs/_build/html
	@$(RUN) strop.cli thesis report --runs docs/thesis/records --out docs/_build/html/thesis.html
	@echo "docs/_build/html/index.html"

bench: .venv/stamp-bench
	@for one in geometry_projections retrieval_losses retrieval_evaluation; do \
	  echo "benchmarks/$$one.py"; .venv/bin/python benchmarks/$$one.py || exit 1; done

clean:
	rm -rf .venv docs/_build strop-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
