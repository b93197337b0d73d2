# Every task of this project, for people and for continuous integration alike. `make` alone lists them.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SOURCES := client eventlog jute persistence quorum server testing tests bench compat-tests scripts
COMPILED := build/compiled
COMPAT := PYTHONPATH=compat-tests $(BIN)/python -m
PURE := HATCH_BUILD_NO_HOOKS=true

.PHONY: help
help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY) ## the virtual environment in .venv, with .venv/bin/triokeeper running from this checkout

# Rebuilt when the dependencies change. Debian ships python3 without venv; root can have it installed, others are told.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Triokeeper needs Python 3.11 or later; try: make setup PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	        apt-get update -q && apt-get install -q -y --no-install-recommends python3-venv; \
	    else \
	        echo "Python's venv module is missing; on Debian: sudo apt-get install python3-venv" >&2; exit 1; \
	    fi
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PURE) $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' --constraint constraints.txt
	@touch $@

.PHONY: constraints
constraints: setup ## take the newest releases of everything, and list them in constraints.txt
	$(PURE) $(BIN)/python -m pip install --quiet --upgrade --upgrade-strategy eager --editable '.[dev]'
	{ head -n 1 constraints.txt; $(BIN)/python -m pip freeze --exclude-editable; } > constraints.tmp
	mv constraints.tmp constraints.txt

.PHONY: run
run: setup ## one server on 127.0.0.1:2181, compiled if it can be, data under ./data; CONFIG=zoo.cfg to choose
	$(BIN)/python -m scripts.run_server $(CONFIG)

.PHONY: compile
compile: setup ## the same server with its hot modules compiled, in build/compiled
	$(BIN)/python scripts/compile_hot_modules.py

.PHONY: test
test: lint ## all that a change must pass
	$(BIN)/python -m pytest

.PHONY: test-compiled
test-compiled: compile ## the tests of the server and its files against the compiled modules
	$(BIN)/python -m pytest --override-ini 'pythonpath=$(COMPILED) . compat-tests' tests/server tests/persistence

.PHONY: test-workers
test-workers: setup ## the testing kit under pytest-xdist: eight workers, fifty runs, nothing left behind
	$(BIN)/python -m pytest tests/testing/test_workers.py -m long $(ARGS)

.PHONY: lint
lint: setup ## ruff (rules and format), mypy --strict, import contracts
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: setup ## put the sources into the one format
	$(BIN)/ruff check --fix --quiet $(SOURCES) || true
	$(BIN)/ruff format $(SOURCES)

.PHONY: hooks
hooks: setup ## run make lint before every commit
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pre-commit
	$(BIN)/pre-commit install

SEEDS ?= $(if $(SEED),$(SEED),1:100)
MINUTES ?= 1
JOBS ?= 1

.PHONY: sim
sim: setup ## whole ensembles under faults on virtual clocks, networks and disks: SEEDS=1:3000, or SEED=7 with its trace
	$(BIN)/python -m tests.sim.run --seeds $(SEEDS) --minutes $(MINUTES) --jobs $(JOBS) $(if $(SEED),--trace) \
	    $(if $(STANDALONE),--standalone) $(if $(PLANT),--plant $(PLANT)) $(ARGS)

.PHONY: sim-plants
sim-plants: setup ## every bug of tests/sim/plants.py planted in turn: which seed finds it, and after how long (PLANTS="a b" for some)
	$(BIN)/python -m tests.sim.run_plants $(PLANTS) --minutes $(MINUTES) --jobs $(JOBS) $(ARGS)

SERVER ?= both
COMPAT_FOLDERS := $(addprefix compat-tests/,clients recipes protocol disk ensembles tools faults)

.PHONY: compat
compat: setup ## all compatibility tests; SERVER=triokeeper, reference, docker:IMAGE or HOST:PORT[,...] (default: both kinds)
	$(BIN)/python -m pytest $(or $(TESTS),$(COMPAT_FOLDERS)) -m '' --server='$(SERVER)' --report=build/compat \
	    --junitxml=build/compat/junit.xml $(if $(filter both,$(SERVER)$(TESTS)$(ARGS)),--write-docs) $(ARGS)

.PHONY: compat-apps
compat-apps: setup ## Kafka, Solr, HBase, BookKeeper, Patroni, celery, tooz on both servers; APP=kafka for one, SERVER= for one server
	$(BIN)/python -m pytest compat-tests/apps -v -m '' --server='$(SERVER)' --report=build/compat-apps \
	    --junitxml=build/compat-apps/junit.xml $(if $(filter both,$(SERVER)$(APP)$(ARGS)),--write-docs) \
	    $(if $(APP),-k $(APP)) $(ARGS)

.PHONY: compat-differential
compat-differential: setup ## the same random requests to this server and to Apache's: 20 seeds of 1000
	$(COMPAT) protocol.differential.run --seeds 20 --ops 1000 $(ARGS)

.PHONY: compat-kazoo
compat-kazoo: setup ## Kazoo's own test suite against this server
	$(COMPAT) clients.kazoo.run_suite $(ARGS)

.PHONY: compat-ensemble
compat-ensemble: setup ## three and five servers: elections, kills, restarts under load, fail-over of clients
	$(BIN)/python -m pytest $(addprefix compat-tests/ensembles/,test_ensembles.py test_reconfig.py test_ensemble_words.py test_observer_masters.py test_read_only_mode.py) -m '' $(ARGS)

.PHONY: compat-mixed
compat-mixed: setup ## ensembles of this server and Apache's together, and migrating from one to the other
	$(BIN)/python -m pytest $(addprefix compat-tests/,ensembles/test_mixed_ensembles.py ensembles/test_migration.py disk/test_older_releases.py) -m '' $(ARGS)

.PHONY: compat-zkcli
compat-zkcli: setup ## our zkCli beside Apache's, every command on the same servers: equal output and exit codes
	$(BIN)/python -m pytest compat-tests/tools/zkcli -m '' $(ARGS)

.PHONY: compat-scripts
compat-scripts: setup ## zkServer.sh and the toolkits against Apache's; APACHE_ZOOKEEPER_HOME=... for its shell scripts
	$(BIN)/python -m pytest compat-tests/tools/test_scripts.py -m '' $(ARGS)

.PHONY: bench
bench: setup ## ratios to Apache ZooKeeper on this machine; WORKLOAD='three*' for some, ARGS=--pure for the pure server
	$(BIN)/python bench/run.py $(if $(WORKLOAD),--workload '$(WORKLOAD)') $(ARGS)

.PHONY: bench-testing
bench-testing: setup ## how soon a test suite has its server, from a fresh environment with the wheel; ARGS=--pure
	$(BIN)/python -m bench.testing_kit $(ARGS)

.PHONY: bench-crosscheck
bench-crosscheck: setup ## what triokeeper crosscheck adds to a client's requests: less than a millisecond
	$(BIN)/python -m bench.crosscheck $(ARGS)

.PHONY: fuzz
fuzz: setup ## malformed and hostile bytes at the client port
	$(COMPAT) faults.fuzz.run $(ARGS)

.PHONY: unread
unread: setup ## 200 clients that do the dearest thing they can and read nothing, for a minute: memory is bounded and given back
	$(COMPAT) faults.unread.run $(ARGS)

.PHONY: probes
probes: setup ## 100,000 health probes, a third of them with a late newline: none may get an empty answer
	$(COMPAT) protocol.word_probes $(ARGS)

.PHONY: fuzz-peers
fuzz-peers: setup ## strangers at the quorum and election ports of an ensemble, 10,000 rounds at each
	$(COMPAT) faults.fuzz.peers $(ARGS)

.PHONY: crash
crash: setup ## kill -9 under load: every acknowledged write must survive
	$(COMPAT) faults.crash.run $(ARGS)

.PHONY: wheel
wheel: setup ## the installable package in dist/, its hot modules compiled for this Python and platform
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls -t dist/*.whl | head -n 1

.PHONY: wheel-pure
wheel-pure: setup ## the installable package in dist/ that runs on any Python and platform
	$(PURE) $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls -t dist/*.whl | head -n 1

.PHONY: image
image: setup ## the image triokeeper:latest, in the Docker engine that runs or in one that is started for it
	$(BIN)/python -m scripts.docker_image

.PHONY: docker-test
docker-test: setup ## the image against real containers: variables, volumes, scripts, ensembles, migration
	$(BIN)/python -m pytest compat-tests/docker -m '' $(ARGS)

.PHONY: docker-engine-stop
docker-engine-stop: setup ## end the Docker engine that make image started, if it did
	$(BIN)/python -m scripts.docker_engine stop

.PHONY: clean
clean: ## remove what the other targets made (not ./data)
	test ! -e build/docker-engine/dockerd.pid || $(BIN)/python -m scripts.docker_engine stop
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
