# Everything sets itself up in .venv: a fresh machine needs Python 3.11 or newer, and make.
# PYTHON=/path/to/python chooses the interpreter; ARGS="..." is passed on to the demo.

READY := .venv/ready
SOURCES := client_sdk aggregator estimator sottovoce tests

.PHONY: help demo test check lint fuzz clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo    run the main job end to end on this machine'
	@echo 'make test    run the fast tests'
	@echo 'make check   run format check, lint, types and the slow tests: what CI runs after make test'
	@echo 'make lint    run format check, lint and types'
	@echo 'make fuzz    fuzz the server by coverage, FUZZ_SECONDS (150) for each target'
	@echo 'make clean   remove .venv and all that was generated'

# exec: Ctrl-C and SIGTERM reach the demo itself, not a shell around it.
demo: $(READY)
	@exec .venv/bin/sottovoce demo $(ARGS)

test: $(READY)
	@.venv/bin/python -m pytest -m 'not slow'

check: lint
	@.venv/bin/python -m pytest -m slow

lint: $(READY)
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy

# What is new and worth keeping: build/fuzz/TARGET. A finding ends it: build/fuzz/crash-*.
fuzz: $(READY)
	@.venv/bin/python -m pip install -qq --disable-pip-version-check --editable '.[fuzz]'
	@set -e; for target in intake body unsealing hpke; do \
	  mkdir -p build/fuzz/$$target; \
	  .venv/bin/python -m tests.fuzz.fuzz --target=$$target -max_total_time=$(or $(FUZZ_SECONDS),150) \
	    -artifact_prefix=build/fuzz/ build/fuzz/$$target tests/fuzz/corpus/$$target; \
	done

clean:
	@rm -rf .venv build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find $(wildcard $(SOURCES)) -name __pycache__ -type d -prune -exec rm -rf {} +

# Candidates are run, not just looked up: a version manager's shim may exist and not work, and
# some distributions ship a Python that cannot create a virtual environment.
$(READY): pyproject.toml
	@set -e; \
	if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then \
	  for python in $(or $(PYTHON),python3.14 python3.13 python3.12 python3.11 python3); do \
	    if "$$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
	    then found=$$python; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo 'sottovoce needs Python 3.11 or newer that can create virtual environments, and found none.' >&2; \
	    echo 'Install it (on Debian or Ubuntu: python3 and python3-venv), or name it: make PYTHON=/path/to/python' >&2; \
	    exit 1; \
	  fi; \
	  "$$found" -m venv --clear .venv; \
	fi; \
	echo "Installing sottovoce and its tools into .venv ($$(.venv/bin/python --version)); this is done once."; \
	.venv/bin/python -m pip install -qq --disable-pip-version-check --editable '.[dev]'; \
	touch $@
