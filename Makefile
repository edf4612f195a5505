# Two commands do everything on a fresh machine: `make demo` and `make test`. They need Python 3.11+ and Java 17+, and set up the rest in .venv.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARGS ?=
# Processes that share the tests, a file each: twice as many as two cores, since most tests wait for a broker or for a process to end (with three, a third
# of the processors' time was left over).
JOBS ?= 4
# How long the model of the protocol is explored behind a storm.
MODEL_MINUTES ?= 5
# The other versions of Kafka that semel writes to; those of tests/transaction/broker/test_versions.py in the ordinary run, and in the exhaustive one.
VERSIONS ?= 4.0.2 4.1.2 4.2.1 4.4.0
TESTED_VERSIONS := 4.1.2 4.4.0
ALL_VERSIONS := 3.9.1 4.0.2 4.2.1 $(TESTED_VERSIONS)
SUITE = $(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder --durations 30
ON_EACH_VERSION := tests/spark/crash/test_driver_steps.py tests/objections/test_epochs_and_producer_ids_roll_over.py \
	$(foreach product,admin database read session streams transaction two_phase wire,$(wildcard tests/$(product)/broker tests/$(product)/crash)) \
	--ignore=tests/transaction/broker/test_versions.py
# Of these, every case on each version.
WHOLE_ON_EACH_VERSION := tests/spark/crash/test_driver_steps.py tests/objections/test_epochs_and_producer_ids_roll_over.py \
	tests/transaction/crash/test_owner_steps.py tests/transaction/crash/test_healing_steps.py tests/read/broker/test_cut_sources.py

# What is run on each version of Spark beside the lock's: the README's program, kills, restarts, replay, state, batch jobs.
ON_EACH_SPARK := tests/docs/test_blocks_run.py::test_page[README] tests/spark/crash tests/spark/unit/jvm tests/read/broker/test_reader_without_limits.py \
	$(patsubst %,tests/spark/broker/test_%.py,precedence_rows precedence_topics precedence_mixed planner_killed ends_by_itself write source source_refusals \
	source_columns small_batches query_internals proof)

# uv does not read where pip is told to fetch from.
INDEX = index="$${UV_DEFAULT_INDEX:-$${PIP_INDEX_URL:-$$($(BIN)/python -m pip config get global.index-url 2>/dev/null)}}"; \
	if [ -n "$$index" ]; then export UV_DEFAULT_INDEX="$$index"; fi;

export UV_HTTP_TIMEOUT ?= 300
export UV_PYTHON_DOWNLOADS := never
# Spark starts a Python process for each thing that it plans: without compiled modules, each of them compiles pandas and PySpark anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup java kafka warm test test-exhaustive test-versions test-spark check lint format types layers docs documents demo connect-demo streams-demo twophase-demo model fuzz storm bench timeline lock clean mirror-demo oracle-connect oracle-streams oracle-mirror oracle-debezium

help:  ## show this
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-13s %s\n", $$1, $$2}'

setup: $(READY)  ## set up .venv with exactly the packages of the lock

$(READY): requirements.txt requirements-setup.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; give it as: make PYTHON=python3.11" >&2; exit 1; }
	@echo "setting up $(VENV): about 1 GB the first time, most of it PySpark"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-setup.txt
	@$(INDEX) export VIRTUAL_ENV="$(CURDIR)/$(VENV)"; \
	$(BIN)/uv pip sync --no-build-isolation --require-hashes requirements.txt && \
	$(BIN)/uv pip install --no-build-isolation --no-deps --config-setting editable_mode=compat --editable .
	@touch $(READY)

# Asked before a gigabyte is fetched; whether it is new enough is asked by semel.
java:
	@"$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version > /dev/null 2>&1 || { printf '%s\n' \
	"Java is missing: Kafka and Spark need Java 17 or newer. Install it, or point JAVA_HOME to it:" \
	"  Debian, Ubuntu  sudo apt install openjdk-17-jre-headless" \
	"  Fedora          sudo dnf install java-21-openjdk-headless" \
	"  macOS           brew install openjdk@21" >&2; exit 1; }

kafka: java setup  ## fetch Apache Kafka into the cache, where it is not there yet
	@$(BIN)/python -m semel.sandbox

# Spark's classes are parsed while Kafka is fetched: the one computes, the other waits for the network.
warm: java setup
	@$(BIN)/python -m semel.testing.spark.spark_home & $(BIN)/python -m semel.sandbox && wait $$!

# Kafka's other versions are fetched while tests run; what cannot be had is said by the tests that need it, which fetch what is not there yet.
test: warm  ## run the whole test suite (ARGS are for pytest)
	@$(BIN)/python -m semel.sandbox $(TESTED_VERSIONS) > /dev/null 2>&1 & $(SUITE) $(ARGS)

test-exhaustive: warm  ## run the whole suite and every case of its matrices: more than an hour (ARGS are for pytest)
	@$(BIN)/python -m semel.sandbox $(ALL_VERSIONS) > /dev/null 2>&1 & $(SUITE) -o faulthandler_timeout=1800 -m "exhaustive or not exhaustive" $(ARGS)

test-versions: java setup  ## run the tests of the core against a broker, the kills and the rollover on the other versions of Kafka that are trusted (VERSIONS)
	@for version in $(VERSIONS); do \
	echo "Apache Kafka $$version"; export SEMEL_KAFKA_VERSION=$$version; \
	case $$version in 4.0.*) lacks="--deselect tests/two_phase --deselect tests/database";; *) lacks=;; esac; \
	$(BIN)/python -m semel.sandbox && $(SUITE) $(ON_EACH_VERSION) $$lacks $(ARGS) && $(SUITE) -m exhaustive $(WHOLE_ON_EACH_VERSION) $(ARGS) || exit 1; \
	done

test-spark: VERSIONS = 4.0.5 4.1.4 4.2.1
test-spark: kafka  ## run the README's program, kills, restarts, replay, state and batch jobs on other versions of PySpark (VERSIONS)
	@for version in $(VERSIONS); do \
	echo "PySpark $$version"; $(MAKE) --no-print-directory .venv-spark-$$version/.ready || exit 1; python=.venv-spark-$$version/bin/python; \
	case $$version in 4.3.*) newer=none;; 4.2.*) newer=spark_4_3;; *) newer="spark_4_3 or spark_4_2";; esac; \
	$$python -m semel.testing.spark.spark_home && PATH="$(CURDIR)/.venv-spark-$$version/bin:$$PATH" $$python -m pytest \
	--numprocesses $(JOBS) --dist loadfile --durations 30 -m "not exhaustive and not ($$newer)" $(ON_EACH_SPARK) $(ARGS) || exit 1; \
	done

# The lock, with another PySpark and the Py4J that it asks for.
.venv-spark-%/.ready: $(READY)
	@echo "setting up .venv-spark-$*"
	@test -x .venv-spark-$*/bin/python || $(PYTHON) -m venv .venv-spark-$*
	@sed -E '/^(pyspark|py4j)==/,/[^\\]$$/d' requirements.txt > .venv-spark-$*/requirements.txt
	@$(INDEX) export VIRTUAL_ENV="$(CURDIR)/.venv-spark-$*"; \
	$(BIN)/uv pip sync --quiet --no-build-isolation --require-hashes .venv-spark-$*/requirements.txt && \
	$(BIN)/uv pip install --quiet --no-build-isolation --constraint .venv-spark-$*/requirements.txt pyspark==$* && \
	$(BIN)/uv pip install --quiet --no-build-isolation --no-deps --config-setting editable_mode=compat --editable .
	@touch $@

check: lint format types layers docs documents  ## lint, format, types, import rules, the site, code in the documents (with -k: all of them, also after one failed)

lint: setup
	$(BIN)/ruff check .

format: setup
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports --no-cache

# Without the notice of the theme about its successor.
docs: setup  ## build the site of the pages into site/; links and anchors that lead nowhere fail it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# Page by page to whoever is free, in the order of tests/docs.
documents: warm
	@$(INDEX) $(BIN)/python -m pytest --quiet --numprocesses $(JOBS) --dist load --maxschedchunk 1 tests/docs

demo: kafka  ## see it: kills of driver and executors, and not one record lost or doubled (ARGS are for semel demo)
	@$(BIN)/semel demo $(ARGS)

connect-demo: kafka  ## see Connect: a file and a database into topics, killed at every turn, and not one record lost or doubled
	@$(BIN)/python -m examples.demos.connect

streams-demo: kafka  ## see streams: a windowed count while its workers are killed, added and removed, beside a naive one that is wrong
	@$(BIN)/python -m examples.demos.streams $(ARGS)

twophase-demo: kafka  ## see it with PostgreSQL: a table and a topic under SIGKILL, beside a naive dual write that tears
	@$(BIN)/python -m examples.demos.two_phase $(ARGS)

oracle-connect: setup  ## ask Kafka Connect's own converters and transformations again, for tests/connect/oracle/answers.json
	@$(BIN)/python -m tests.connect.oracle
	@$(BIN)/python -m tests.connect.oracle.avro
	@$(BIN)/python -m tests.connect.oracle.avro_reads

oracle-streams: setup  ## ask Kafka Streams' own test driver again, for tests/streams/oracle/answers.jsonl.xz
	@$(BIN)/python -m tests.streams.oracle

oracle-debezium: kafka  ## ask Debezium's own PostgreSQL connector again, for tests/connect/oracle/debezium.json.xz
	@$(BIN)/python -m tests.connect.oracle.debezium

oracle-mirror: setup  ## ask MirrorMaker 2's own classes again, for tests/mirror/oracle/answers.json
	@$(BIN)/python -m tests.mirror.oracle

mirror-demo: kafka  ## see the mirror: two clusters, driver and executors killed under load, and not one record lost or doubled
	@$(BIN)/python -m examples.demos.mirror

model: setup  ## check the protocol itself: every order of events, and deliberate breaks that must be found (ARGS are for the model)
	@$(BIN)/python -m model $(ARGS)

fuzz: setup  ## feed every parser with spoilt inputs, a minute each (ARGS: --target records --minutes 10 --seed 1)
	@$(BIN)/python -m tests.fuzz --minutes 1 $(ARGS)

storm: kafka  ## strike programs, brokers and the wire at random for 5 minutes, and see whether all is exact (ARGS: --system mirror --minutes 30 --seed 7); then the model
	@$(BIN)/python -m tests.storm $(ARGS)
	@$(BIN)/python -m model --minutes $(MODEL_MINUTES)

bench: kafka  ## measure it against what Spark and Kafka bring themselves (ARGS are for the bench)
	@$(BIN)/python -m bench $(ARGS)

timeline: kafka  ## see where the time of a micro-batch and of a write goes, into docs/timeline.png
	@$(BIN)/python -m bench.timeline $(ARGS)

lock: setup  ## pin the newest packages that pyproject.toml allows
	@export VIRTUAL_ENV="$(CURDIR)/$(VENV)"; \
	options="--universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --upgrade --quiet"; \
	export UV_CUSTOM_COMPILE_COMMAND="make lock"; \
	$(BIN)/uv pip compile $$options --extra spark --extra aws --extra connect --extra database --extra delta --extra iceberg --extra metrics --extra registry --extra s3 --extra stores --extra streams --extra testing --group dev --output-file requirements.txt pyproject.toml && \
	$(BIN)/uv pip compile $$options --constraint requirements.txt --group setup --output-file requirements-setup.txt

clean:  ## remove .venv and everything that was built; the cache with Kafka stays
	rm -rf $(VENV) .venv-spark-* build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache spark-warehouse metastore_db derby.log artifacts
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
