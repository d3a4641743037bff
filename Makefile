# SPDX-License-Identifier: LGPL-3.0
# run: the replay tool on the examples; check: all tests; bench: figures, as ratios.

PYTHON = python3
PY = .venv/bin/python

.PHONY: run check bench setup clean

setup:
	@sh scripts/setup "$(PYTHON)"

run: setup
	@mkdir -p build
	@$(PY) -m epilog_replay --what-if dws-epilog= examples/hangs.eventlog
	@echo
	@$(PY) -m epilog_replay --what-if dws-epilog= --plot build/examples.svg examples

check: setup
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m pytest

bench: setup
	@$(PY) bench/ledger.py
	@$(PY) bench/replay.py

clean:
	rm -rf .venv build .pytest_cache .ruff_cache .hypothesis *.egg-info
	rm -f epilog_replay/_ledger*.so
