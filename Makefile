# Cortado from a fresh clone: `make serve` to speak and read, `make test` to check everything.
# Needed: make and Python 3.11 or newer (PYTHON=... names another one). The rest goes into .venv.

PYTHON      ?=
TORCH_INDEX ?=
EXTRAS      ?=
ARGS        ?=

comma := ,
PARTS := $(if $(EXTRAS),-$(subst $(comma),-,$(EXTRAS)))
VENV  := .venv
BIN   := $(VENV)/bin
PY    := $(BIN)/python
# The first that runs and is new enough is taken; a python of pyenv that is not active does not run.
CANDIDATES := $(or $(PYTHON),python3 python3.11 python3.12 python3.13 python3.14 python)

# As pip does: certificates that somebody has added to this machine count.
export UV_SYSTEM_CERTS ?= true
# Where bytecode is not kept, each command compiles its imports anew: 4 s of a core in place of 2.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help serve install develop test checks lint types warm pytest format reference constraints clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  ARGS="--port 9000"   further arguments for serve and pytest'
	@echo '  EXTRAS=mic,whisper   for serve and install: optional parts (mic, vad, whisper, redis, otel, ray, archive, train)'
	@echo '  PYTHON=python3.12    the Python to use; TORCH_INDEX=URL takes torch from another package index'

serve: install ## install what is missing, then serve the shipped model on 127.0.0.1:8000
	@echo 'cortado: loading; the first start on a machine compiles for one to two minutes.' >&2
	@$(BIN)/cortado serve $(ARGS)

install: $(VENV)/.installed$(PARTS) ## install what serves, transcribes and evaluates into .venv

develop: $(VENV)/.developing ## install all of it, what trains and checks included, into .venv

test: checks pytest ## format, lint, types and tests: all that has to pass

# Side by side, since each takes one core.
checks: develop ## lint, types and warm, side by side
	@$(MAKE) --no-print-directory --jobs lint types warm

lint: develop ## ruff: format and lint
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

# Strictness is set in pyproject.toml; as a flag it would override what is relaxed there.
types: develop ## mypy, strict
	@$(BIN)/mypy

# Otherwise each worker of the tests compiles the same, all at once.
warm: develop ## compile what serves the shipped model
	@$(BIN)/cortado warm

# The workers share the cores: threads of PyTorch's in each of them would only wait for one another.
# One more than there are cores, for some tests wait. A file's tests stay together, and files in the order of tests/conftest.py.
pytest: develop ## the tests alone: make pytest ARGS="tests/model -x"
	@OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(PY) -m pytest \
	    --numprocesses $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --maxprocesses 4 --dist loadfile --no-loadscope-reorder $(ARGS)

format: develop ## rewrite the code in the one format
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

reference: develop ## make the tables of docs/protocol.md and docs/settings.md from the code
	@$(PY) -m cortado.server.reference.tables docs

constraints: develop ## pin the newest versions that pyproject.toml allows
	@head -n 2 constraints.txt > constraints.new
	@$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --upgrade \
	    --no-header --no-annotate --no-emit-find-links --quiet >> constraints.new
	@mv constraints.new constraints.txt

clean: ## remove .venv and everything that was made by running
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(PY):
	@found=; for candidate in $(CANDIDATES); do \
	    if $$candidate -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' \
	        >/dev/null 2>&1; then found=$$candidate; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo 'cortado: Python 3.11 to 3.14 is needed and none of these is one: $(CANDIDATES).' \
	        'Install it, or name it: make serve PYTHON=/path/to/python3.11' >&2; exit 1; \
	fi; \
	if ! $$found -c 'import ensurepip, venv' >/dev/null 2>&1; then \
	    echo "cortado: $$found lacks the venv module." \
	        'Install it (on Debian and Ubuntu: apt install python3-venv).' >&2; exit 1; \
	fi; \
	echo "cortado: making $(VENV) with $$($$found --version)"; \
	$$found -m venv $(VENV) || { rm -rf $(VENV); \
	    echo "cortado: $$found could not make $(VENV); its own message is above." >&2; exit 1; }

# The root of this tree is the package `cortado`: it is imported through this link.
$(VENV)/src/cortado: | $(PY)
	@mkdir -p $(@D)
	@ln -sfn ../.. $@

$(VENV)/.installed$(PARTS): pyproject.toml constraints.txt | $(VENV)/src/cortado
	@$(call install,.$(if $(EXTRAS),[$(EXTRAS)]),$(filter train vad,$(subst $(comma), ,$(EXTRAS))))
	@touch $@

$(VENV)/.developing: Makefile pyproject.toml constraints.txt | $(VENV)/src/cortado
	@$(call install,.[train$(comma)mic$(comma)vad$(comma)whisper$(comma)redis$(comma)otel$(comma)ray$(comma)archive$(comma)dev],torch)
	@touch $@ $(VENV)/.installed

# Installs $(1). Where torch belongs to that ($(2) is not empty) and TORCH_INDEX is given, torch and
# torchaudio come from there first and then satisfy the pins.
define install
$(call fetch_uv); \
echo 'cortado: installing into $(VENV)$(if $(2),; the first time this downloads PyTorch and takes some minutes).'; \
if [ -n '$(2)' ] && [ -n '$(TORCH_INDEX)' ]; then \
    $(call either,--index-url '$(TORCH_INDEX)' $(shell grep -oE '^torch(audio)?==[0-9.]+' constraints.txt)); \
fi; \
$(call either,--constraint constraints.txt --editable '$(1)') \
    || { echo 'cortado: the packages could not be installed; the reason is above' \
             '(no network, or no room on the disk?).' >&2; exit 1; }; \
rm -rf $(VENV)/.uv
endef

# uv installs in seconds what takes pip minutes; where it is not to be had, pip does the same.
# It is not left behind: it is as large as a tenth of what serves.
define fetch_uv
[ -x $(BIN)/uv ] \
    || { $(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip >/dev/null; \
         $(PY) -m pip install --quiet --disable-pip-version-check --target $(VENV)/.uv \
             --constraint constraints.txt uv >/dev/null 2>&1; } \
    || echo 'cortado: uv is not to be had here; pip does its work, more slowly.'
endef

# Somebody who watches sees the downloads move.
define either
{ quiet=$$([ -t 2 ] || echo --quiet); \
  { uv=$(BIN)/uv; [ -x $$uv ] || uv=$(VENV)/.uv/bin/uv; \
    [ -x $$uv ] && $$uv pip install $$quiet --python $(PY) $(1); } \
    || $(PY) -m pip install $$quiet --disable-pip-version-check $(1); }
endef
