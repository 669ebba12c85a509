# Every target prepares what it needs by itself: an own virtual environment with locked, hashed versions.
#   make demo ARGS="--for 20"      make test ARGS="tests/unit -k cron"
# PYTHON=python3.12 chooses the interpreter the environment is made with (Python >= 3.11).

.DEFAULT_GOAL := help
.PHONY: help demo test test-browser test-long test-matrix examples check lines format bench chaos fuzz-specs model lock sbom clean

ARGS ?=
IN_PARALLEL = -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --maxprocesses 4
ONLY ?=
PYTHON ?=
UV ?= uv
export PYTHON
# Some images forbid it; without compiled files each of the tests' many processes compiles the product anew.
export PYTHONDONTWRITEBYTECODE :=
BIN := .venv/bin
PYTEST = $(BIN)/python -m pytest -p tests.house.no_skips $(IN_PARALLEL)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' Makefile

demo: ## two nodes on an embedded PostgreSQL; ARGS="--for 20" ends it after 20 seconds
	@.ci/environment runtime
	@$(BIN)/pgcron-ha demo $(ARGS)

# What other targets run: make check, make test-browser, make examples.
ELSEWHERE = tests/house tests/web/browser tests/docs/test_examples.py

test: ## the tests, against real PostgreSQL servers and processes; fails if one is skipped
	@.ci/environment dev
	@$(PYTEST) --durations 25 $(or $(ARGS),$(addprefix --ignore=,$(ELSEWHERE)))

test-browser: ## the tests of the pages in a real browser (as root apt installs Chromium)
	@.ci/environment dev
	@.ci/browser
	@$(PYTEST) tests/web/browser $(ARGS)

test-long: ## the tests that `make test` leaves out, as they take long; the models of the protocol, too
	@.ci/environment dev
	@.ci/browser
	@.ci/model-checker
	@$(PYTEST) -m long $(ARGS)

test-matrix: ## the protocol's tests on PostgreSQL 14 to 18, through pgbouncer, with the defaults of databases in production; ONLY=14,hostile chooses
	@.ci/environment dev
	@$(BIN)/python -m tests.matrix --needs $(if $(ONLY),--only "$(ONLY)") | sh -e
	@$(BIN)/python -m tests.matrix $(if $(ONLY),--only "$(ONLY)") $(if $(ARGS),-- $(ARGS))

check: ## format, lint, strict types, import contracts, and the tests of the rules for code (tests/house)
	@.ci/environment dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy pgcron_ha migrations tests
	$(BIN)/lint-imports
	$(PYTEST) -q tests/house

examples: ## the examples of the documents; of the SQL contract the one for Node, too, which needs npm or apt, and for PHP and Ruby where they are
	@.ci/environment dev
	@.ci/node
	@PGCRON_HA_TEST_NODE=1 PGCRON_HA_TEST_LANGUAGES="$$(.ci/languages)" $(PYTEST) tests/docs/test_examples.py tests/db/test_sql_contract.py $(ARGS)

lines: ## the lines of code of the product, by package
	@.ci/environment dev
	@$(BIN)/python -m tests.house.lines

format: ## let ruff write the format and the simple fixes
	@.ci/environment dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: ## figures beside their baselines; ONLY=drain,enqueue chooses, ARGS="--quick --json FILE"
	@.ci/environment dev
	@$(BIN)/python -m tests.benchmarks $(if $(ONLY),--only $(ONLY)) $(ARGS)

chaos: ## faults by a seed against real nodes and servers; SEED=1 (or 1,2,3) MINUTES=5 REPORT=FILE ARGS="--ttl 5"
	@.ci/environment dev
	@$(BIN)/python -m tests.chaos --seeds "$(or $(SEED),1)" --minutes "$(or $(MINUTES),2)" $(if $(REPORT),--report "$(REPORT)") $(ARGS)

fuzz-specs: ## random specs by a seed, on all cores: errors that are not refusals, budgets, worst times; COUNT=1000000 SEED=1
	@.ci/environment dev
	@$(BIN)/python -m tests.fuzz_specs --count $(or $(COUNT),100000) --seed $(or $(SEED),1)

model: ## every state of the protocol's models, and what each guard is for; FULL=1 ONLY=concurrency_key ARGS=--trail
	@.ci/environment dev
	@.ci/model-checker
	@$(BIN)/python -m tests.model $(if $(FULL),--full) $(if $(ONLY),--only "$(ONLY)") $(ARGS)

lock: ## resolve pyproject.toml again into .requirements/ (needs uv)
	.requirements/lock "$(UV)"

sbom: ## the locked packages and their hashes as CycloneDX JSON, in sbom.cdx.json
	@.ci/environment dev
	@$(BIN)/python -m tests.house.sbom > sbom.cdx.json

clean: ## remove the environment and the caches
	rm -rf .venv .cache .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist sbom.cdx.json
