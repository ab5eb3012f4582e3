# make demo   from a clone to a real command in a real container
# make test   lint, types and the whole default suite, on real engines
# make docs   write docs/cli.md and check every command line of the documentation
SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
STATE := $(CURDIR)/build/state
RUN := SANDBOXRUN_STATE_DIR=$(STATE) $(VENV)/bin/sandboxrun

.PHONY: podman-images demo test check lint format bench soak images docs dev system engine clean

dev: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml hatch_build.py $(wildcard images/init/*.[ch] images/checks/*.[ch]) | system
	test -x $(PY) || python3 -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

system:
	@scripts/install-system-packages

engine: dev
	$(RUN) engine up

images: engine
	$(RUN) image build --if-missing

podman-images: images
	$(RUN) engine up --podman
	$(RUN) image build --if-missing --engine managed:podman

demo: images
	$(RUN) exec 'echo "hello from $$(hostname)"; id; uname -sm; ls -A /workspace'
	$(RUN) exec --json 'python3 --version' | $(PY) -m json.tool --no-ensure-ascii

lint: dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

check: lint

format: dev
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

docs: dev
	$(PY) scripts/cli_reference.py > docs/cli.md
	$(PY) -m pytest -q tests/interfaces/test_docs.py

# Tests mostly wait for engines: two files at a time take little more than half the time.
TEST := SANDBOXRUN_TEST_STATE=$(STATE) $(PY) -m pytest -n 2 --dist loadfile

test: lint podman-images
	$(TEST) -m "not slow"

soak: podman-images
	$(TEST) -m slow

bench: images
	SANDBOXRUN_STATE_DIR=$(STATE) $(PY) -m tests.bench

clean:
	-$(RUN) engine down
	rm -rf build dist $(VENV)
