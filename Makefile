VENV ?= .venv
PYTHON ?= python3
BIN = $(VENV)/bin

.PHONY: help dev lint test docs snapshots bench clean

help: ## this list
	@grep -E '^[a-z]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 12

$(BIN)/gpudoctor:
	$(PYTHON) -m venv $(VENV) && $(BIN)/pip install -q -e '.[test]'

dev: $(BIN)/gpudoctor ## a virtual environment with gpudoctor, editable, and the test tools

lint: dev ## ruff (lint and format) and mypy strict
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

test: dev ## the whole test suite
	$(BIN)/pytest -n auto

docs: dev ## generate docs/ from the manual pages and the parser
	$(BIN)/python docs/generate.py

snapshots: dev ## accept the text reports as they are now
	GPUDOCTOR_UPDATE_SNAPSHOTS=1 $(BIN)/pytest -q tests/ui

bench: dev ## speed of the command line beside its neighbours
	$(BIN)/python benchmarks/cli_speed.py

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache dist
