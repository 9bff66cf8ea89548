# Everything that the project does, each from a bare checkout: Python 3.11+, a Rust toolchain, gcc.
#   make demo   real text through the memory, end to end
#   make test   everything that a change must pass

VENV := .venv
BIN := $(VENV)/bin
# The first interpreter that is new enough; PYTHON=... overrides it.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
SOURCES := $(shell find rust -name '*.rs' -o -name Cargo.toml) Cargo.toml pyproject.toml
UV := $(BIN)/uv

.PHONY: demo test bench lint format docs build clean

demo: build
	$(BIN)/python -m examples.demo

test: build
	cargo test -q -p engram-core
	# One process a core; a file stays in one, since its tests share what is dear to make.
	$(BIN)/python -m pytest -n auto --dist loadfile

bench: build
	$(BIN)/python -m benches

lint: build
	cargo fmt --all --check
	cargo clippy -q --workspace --all-targets -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: build
	cargo fmt --all
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

docs: build
	$(BIN)/mkdocs build --strict

build: $(VENV)/.built

# `uv` installs what the manifest lists; the package itself is built by maturin below.
$(VENV)/.installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or later is needed; name it with PYTHON=..." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q uv
	$(UV) pip install -q --python $(BIN)/python -r pyproject.toml --extra dev
	@touch $@

$(VENV)/.built: $(VENV)/.installed $(SOURCES)
	@command -v cargo >/dev/null || { echo "make: a Rust toolchain is needed (rustup installs one)" >&2; exit 1; }
	VIRTUAL_ENV=$(abspath $(VENV)) PATH="$(abspath $(BIN)):$$PATH" $(BIN)/maturin develop -q --release --uv
	@touch $@

clean:
	rm -rf $(VENV) target site dist python/engram_rs/*.so

# Every port that this machine has a toolchain for, against the vectors.
.PHONY: ports
ports: build
	$(BIN)/python -m ports

# Parity, placement and speed on a GPU, written to docs/benchmarks/gpu.md; without one it says so and writes nothing.
.PHONY: gpu-check
gpu-check: build
	$(BIN)/python -m benches.gpu
