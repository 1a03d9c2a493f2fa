# Everything a clean checkout needs: Python 3.11 or later, git, make and a package registry.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
# Compiled once, not by each of the processes that the tests start, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help demo test test-fast test-deep lint bench lock clean

help:
	@echo "make demo       set up, then show memory saved, recalled after a restart, and refused to a public session"
	@echo "make test       set up, then run every check that CI runs"
	@echo "make test-fast  the same tests without the harness, without processes and without coverage, in a few minutes"
	@echo "make test-deep  the same tests with many more traces and sequences; takes hours"
	@echo "make lint       ruff and mypy alone"
	@echo "make bench      measure beside the floors, as JSON; takes minutes, on a quiet machine"
	@echo "make lock       pin the dependencies again (needs uv)"
	@echo "make clean      remove the environment and what the tools left"

demo: .venv/.run
	@$(BIN)/tidegate demo

test: lint
	$(BIN)/coverage erase
	$(BIN)/pytest -n 2 --dist worksteal --durations 15 --cov --cov-report=
	@echo "coverage of policy and core, branches included: the gate is 100 %"
	$(BIN)/coverage report --include="src/tidegate/policy/*,src/tidegate/core/*" --fail-under=100
	@echo "coverage of the rest: the gate is 95 %"
	$(BIN)/coverage report --omit="src/tidegate/policy/*,src/tidegate/core/*" --fail-under=95

test-fast: .venv/.dev
	$(BIN)/pytest -n 2 --dist worksteal -m "not harness and not processes and not long"

test-deep: .venv/.dev
	TIDEGATE_TEST_DEEP=1 $(BIN)/pytest -n 2 --dist worksteal

lint: .venv/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: .venv/.dev
	@$(BIN)/python -m benchmarks

lock:
	uv pip compile pyproject.toml --extra server --group build $(LOCK) -o requirements.lock
	uv pip compile pyproject.toml --extra all --group dev $(LOCK) -c requirements.lock -o requirements-dev.lock

LOCK := --universal --python-version 3.11 --generate-hashes --upgrade --quiet \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links

clean:
	rm -rf .venv build dist htmlcov .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

# What `make demo` needs: the package, the MCP server, the build back end.
.venv/.run: requirements.lock pyproject.toml
	@echo "Setting up .venv (once, under a minute) ..."
	@$(PYTHON) -m venv .venv
	@$(PIP) install --quiet --require-hashes -r requirements.lock
	@$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $@

# What `make test` needs besides.
.venv/.dev: .venv/.run requirements-dev.lock
	@echo "Setting up the tools for the tests (once, about a minute) ..."
	@$(PIP) install --quiet --require-hashes -r requirements-dev.lock
	@touch $@
