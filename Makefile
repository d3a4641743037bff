# SPDX-License-Identifier: LGPL-3.0
# run: the replay tool on the examples and, where a Flux is, on jobs that run for it; check: all
# tests; check-long: hours of them; model: the model checker; bench: figures, as ratios.

PYTHON = python3
PY = .venv/bin/python

.PHONY: run check check-long model bench setup clean

setup:
	@sh scripts/setup "$(PYTHON)"

run: setup
	@mkdir -p build
	@$(PY) -m epilog_replay --what-if dws-epilog= examples/hangs.eventlog
	@echo
	@$(PY) -m epilog_replay --what-if dws-epilog= --plot build/examples.svg examples
	@echo
	@$(PY) scripts/run-live

check: setup
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m pytest

check-long: setup
	@EPILOG_RANDOM_COUNT=10000 LEDGER_FUZZ_COUNT=1000000 TEST_LONG=t FLUX_ENABLE_VALGRIND_TEST=t \
	    LIVE_LIMIT=14400 $(PY) -m pytest

model:
	@sh model/check

bench: setup
	@$(PY) bench/ledger.py
	@$(PY) bench/replay.py
	@$(PY) bench/live.py
	@$(PY) bench/python_async.py

clean:
	rm -rf .venv build .pytest_cache .ruff_cache .hypothesis *.egg-info
	rm -f epilog_replay/_ledger*.so
