# make run   opens the chat (first time: makes .venv, installs, fetches the default model)
# make test  lint, types and tests
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -P -m pip --disable-pip-version-check --quiet --quiet
# Says what it does and how far it is.
INSTALL := $(BIN)/python -P tools/install.py
# The kernels are compiled when the package is installed.
KERNELS := $(wildcard chatkv/native/*.[ch]) chatkv/native/build.py
# What the sources are checked with and what they are run with are installed apart: run needs less.
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
# FlashInfer's own wrapper classes are tested on the CPU, without what it requires (CUDA packages, 1 GB and
# more): this is the smallest of its versions. Where it can't be had those tests are skipped.
FLASHINFER := 0.6.18.post1
INSTALLED_FLASHINFER := $(VENV)/.installed-flashinfer-$(FLASHINFER)
INSTALLED_GPU := $(VENV)/.installed-gpu
FLASHINFER_IMPORTS := 'apache-tvm-ffi>=0.1.11,<0.2' nvidia-ml-py requests tqdm packaging
FAST := .venv-fast
DOCS := .venv-docs
FAST_TESTS := tests/kvcache tests/scheduler tests/insight tests/chat tests/test_files.py
ARGS ?=
# Who names a model does not need the default one.
FETCH_DEFAULT = $(if $(filter --model --model=%,$(ARGS)),:,$(BIN)/chatkv fetch)

# Where there is a GPU these tests neither compute on it nor compile for it: that is test-gpu's.
ON_CPU = CUDA_VISIBLE_DEVICES= FLASHINFER_DISABLE_JIT=1

.DEFAULT_GOAL := help
.PHONY: help run test test-fast test-gpu lint format bench bench-core bench-engines bench-gpu bench-screen docs wheel clean

help:
	@echo 'make run     open the chat; options in ARGS="--theme chatkv-light"'
	@echo 'make test    everything that must hold: lint, types, tests; pytest options in ARGS'
	@echo 'make test-fast  the core alone, under a minute: no torch, no Textual'
	@echo 'make test-gpu  the tests that need an NVIDIA GPU; elsewhere they are skipped, with the reason'
	@echo 'make lint    ruff and mypy only      make format  let ruff format the sources'
	@echo 'make bench   measure; options in ARGS     make bench-core, -engines, -gpu, -screen: as its makers do'
	@echo 'make docs    build the site into site/'
	@echo 'make wheel   build dist/*.whl        make clean   remove what was built (not $(VENV))'

run: $(INSTALLED)
	@$(FETCH_DEFAULT)
	@$(BIN)/chatkv run $(ARGS)

test: lint $(INSTALLED_FLASHINFER)
	@$(BIN)/chatkv fetch
	$(ON_CPU) HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile $(ARGS)

# Core, scheduler, insight and chats need neither torch nor Textual: an environment of their own, made in seconds.
test-fast: $(FAST)/.installed
	PYTHONPATH=. $(FAST)/bin/python -m pytest --numprocesses auto --maxprocesses 4 $(FAST_TESTS) $(ARGS)

$(FAST)/.installed: pyproject.toml
	@$(NEW_PYTHON) $(FAST)
	@$(FAST)/bin/python -m pip --disable-pip-version-check --quiet install numpy msgspec platformdirs hypothesis \
	    pytest pytest-asyncio pytest-timeout pytest-xdist
	@touch $@

# A process of its own: the other tests forbid FlashInfer to compile. The first time takes minutes.
test-gpu: $(INSTALLED_GPU)
	@$(BIN)/chatkv doctor
	@$(BIN)/chatkv fetch
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n0 -m gpu -rs tests/gpu $(ARGS)

lint: $(INSTALLED_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED_DEV)
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: $(INSTALLED)
	@$(FETCH_DEFAULT)
	@$(BIN)/chatkv bench $(ARGS)

# How its makers measure: the core beside SGLang's, other engines, a GPU, what the screen costs.
bench-core bench-engines bench-gpu bench-screen: bench-%: $(INSTALLED)
	@$(BIN)/python -m benchmarks $* $(ARGS)

# The site, from the same pages as on disk; a broken link is an error.
docs: $(DOCS)/.installed
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet && echo "site/index.html"

$(DOCS)/.installed:
	@$(NEW_PYTHON) $(DOCS)
	@$(DOCS)/bin/python -m pip --disable-pip-version-check --quiet install 'mkdocs-material>=9.6,<10'
	@touch $@

wheel: $(BIN)/pip
	$(PIP) wheel --no-deps --wheel-dir dist .

clean:
	rm -rf dist build chatkv/native/*.so .mypy_cache .ruff_cache .pytest_cache .hypothesis snapshot_report.html
	find chatkv tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml $(KERNELS) $(BIN)/pip
	@echo 'Installing chatkv into $(VENV) (torch is large: this can take a few minutes) ...'
	@$(INSTALL) --editable '.[web]'
	@touch $@

$(INSTALLED_DEV): pyproject.toml $(KERNELS) $(BIN)/pip
	@echo 'Installing chatkv and its checkers into $(VENV) (torch is large: this can take a few minutes) ...'
	@$(INSTALL) --editable '.[dev]'
	@touch $@ $(INSTALLED)

$(INSTALLED_FLASHINFER): | $(INSTALLED_DEV)
	@$(PIP) install $(FLASHINFER_IMPORTS) && $(PIP) install --no-deps flashinfer-python==$(FLASHINFER) && touch $@ \
	    || echo 'make: FlashInfer could not be installed: the tests of its wrapper classes are skipped' >&2

$(INSTALLED_GPU): pyproject.toml $(INSTALLED_DEV)
	@if $(BIN)/python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then \
	    echo 'Installing FlashInfer into $(VENV) (820 MB) ...'; \
	    $(INSTALL) --editable '.[dev,gpu]' && touch $@; fi

$(BIN)/pip:
	@$(NEW_PYTHON) $(VENV)

# Makes an environment in the folder named behind it.
define NEW_PYTHON
new() { for python in "$$PYTHON" python3 python3.13 python3.12 python3.11 python; do \
    [ -n "$$python" ] && "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
    "$$python" -m venv "$$1" && return 0; \
    echo "make: '$$python -m venv' failed; install Python's venv module (on Debian: python3-venv)" >&2; \
    rm -rf "$$1"; return 1; \
done; \
echo 'make: no Python 3.11 or newer found; install one, or name it: make PYTHON=/path/to/python3' >&2; return 1; }; new
endef
