VENV ?= .venv
PYTHON ?= python3
BIN = $(VENV)/bin

FROM ?=

.PHONY: help dev lint test quick new-check docs messages site snapshots words gate clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 12

$(BIN)/gpudoctor:
	$(PYTHON) -m venv $(VENV) && $(BIN)/pip install -q -e '.[test]'

dev: $(BIN)/gpudoctor ## a virtual environment with gpudoctor, editable, and the test tools

lint: dev ## ruff (lint and format) and mypy strict
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

test: dev ## the whole test suite
	$(BIN)/pytest -n auto

QUICK = tests/test_layering.py tests/test_catalogue.py tests/test_words.py tests/lang/test_catalogues.py \
	tests/checks tests/rules tests/engine tests/report
LEFT_OUT = checks/config checks/recordings checks/test_reachability.py engine/test_baseline.py \
	engine/test_claimed_gain.py engine/test_cost_of_a_report.py report/test_every_format.py

quick: lint ## what catches most, in 90 s on 2 cores: lint, layers, words, translations, checks from source, rules, reports
	$(BIN)/pytest -q -n 2 -m "not slow" $(LEFT_OUT:%=--ignore=tests/%) $(QUICK)

new-check: dev ## once the files of a new check are there: entries of deferred translations, words, pages, quick
	$(BIN)/python -m gpudoctor.lang --defer
	$(MAKE) words docs quick

docs: dev ## generate docs/ from the manual pages and the parser
	$(BIN)/python docs/generate.py

messages: dev ## bring the translations up to date with the source: make messages [FROM="FILE.po ..."]
	$(BIN)/python -m gpudoctor.lang $(FROM)

site: dev ## the documentation site in build/site, with pictures of real runs; a broken link is an error
	$(BIN)/pip install -q -e '.[test,site]'
	$(BIN)/python docs/site_builder.py

snapshots: dev ## accept the text reports as they are now
	GPUDOCTOR_UPDATE_SNAPSHOTS=1 $(BIN)/pytest -q tests/ui tests/estimate/test_whole_texts.py

words: dev ## accept what the checks say, and where their thresholds decide, as it is now
	rm -f tests/checks/said.txt tests/checks/limits.txt
	GPUDOCTOR_UPDATE_WORDS=1 $(BIN)/pytest -q -n auto tests/checks

BASE ?= HEAD
GATE = $(CURDIR)/benchmarks/gate.py
INPUTS = $(PUBLIC:%=--public %) $(RECORDINGS:%=--recordings %)

gate: dev ## what BASE and this version say of the same inputs: make gate BASE=large [PUBLIC=FOLDER] [RECORDINGS=FOLDER]
	rm -rf build/gate && git worktree prune && git worktree add --detach build/gate/tree $(BASE)
	cd build/gate/tree && PYTHONPATH=$$PWD:$$PWD/checks:$$PWD/rules $(CURDIR)/$(BIN)/python $(GATE) collect ../before.json $(INPUTS)
	$(BIN)/python $(GATE) collect build/gate/now.json $(INPUTS)
	$(BIN)/python $(GATE) compare build/gate/before.json build/gate/now.json

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache dist
