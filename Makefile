# Everything from a fresh clone: each target first builds what it needs in .venv.
# `make help` lists the targets.

PYTHON ?= python3
VENV := .venv
# The environment into which large suites may be installed, see re3_jax/runs/installing.py.
export RE3_JAX_VENV := $(abspath $(VENV))
PY := $(VENV)/bin/python
RUN_READY := $(VENV)/.ready-run
TEST_READY := $(VENV)/.ready-test
DOCS_READY := $(VENV)/.ready-docs

MAKEFLAGS += --no-print-directory
# Byte code is written when a module is first imported, also where the environment says not to, as
# that of many containers does: every process would compile JAX and all else again.
unexport PYTHONDONTWRITEBYTECODE
# Large pages for large arrays, and up to 1 GiB of memory kept between updates instead of returned:
# otherwise page faults take up to a third of a CPU's time on pixels.
export GLIBC_TUNABLES ?= glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=1073741824:$\
glibc.malloc.trim_threshold=1073741824
.SUFFIXES:
.DEFAULT_GOAL := help
TARGETS := run test test-all torture lint bench figure compare report watch look profile compile \
  compile-here test-compile test-compile-here gpu doctor docs try-docs dist help clean
.PHONY: $(TARGETS)

# A misspelt variable would have no effect. Names with an underscore, such as JAX_PLATFORMS, are for
# the environment of what is run.
VARIABLES := ENV AGENT BONUS SEEDS STEPS PRESET OUT RESUME PRETRAIN INIT ARGS FIG RUNS RUN TARGET \
  MINUTES BENCH TESTS PYTHON PYTHONS VENV
# Names without one that a shell or another make may well set.
OTHERS := PY DIST SHELL MAKEFLAGS TMPDIR HOME PATH LANG DESTDIR CC CXX CFLAGS LDFLAGS
UNKNOWN := $(foreach name,$(filter-out $(VARIABLES) $(OTHERS) -%,$(.VARIABLES)),$\
  $(if $(findstring _,$(name)),,$(if $(filter command,$(firstword $(origin $(name)))),$(name))))
ifneq ($(strip $(UNKNOWN)),)
  $(error no variable $(strip $(UNKNOWN)): known are $(VARIABLES); other options go into $\
    ARGS, such as ARGS="--seed 3")
endif

# An empty value is mostly a shell's variable that is not set, and would mean the default.
EMPTY := $(foreach name,$(filter-out ARGS,$(VARIABLES)),$\
  $(if $(filter command,$(firstword $(origin $(name)))),$(if $(strip $($(name))),,$(name))))
ifneq ($(strip $(EMPTY)),)
  $(error $(strip $(EMPTY)) is empty: give it a value, or leave it out)
endif
ifneq ($(words $(VENV)),1)
  $(error VENV=$(VENV) is no single word: name a folder without spaces)
endif

# Those that a target reads; another would have no effect, as SEEDS= has none on a figure.
OF_run := ENV AGENT BONUS SEEDS STEPS PRESET OUT RESUME PRETRAIN INIT ARGS
OF_profile := $(OF_run)
OF_compile := $(OF_run) TARGET
OF_compile-here := $(OF_compile)
OF_compare := RUNS OUT ARGS
OF_report := RUNS OUT ARGS
OF_watch := RUN ARGS
OF_look := RUN OUT ARGS
OF_figure := FIG ARGS
OF_bench := BENCH ARGS
OF_gpu := OUT MINUTES ARGS
OF_doctor := ARGS
OF_torture := ARGS
OF_test := TESTS
OF_test-all := TESTS
OF_dist := PYTHONS
OF_try-docs := PYTHONS ARGS
READ := PYTHON VENV $(foreach goal,$(MAKECMDGOALS),$(OF_$(goal)))
UNREAD := $(foreach name,$(filter-out $(READ),$(VARIABLES)),$\
  $(if $(filter command,$(firstword $(origin $(name)))),$(name)))
NO_TARGET := $(foreach goal,$(filter-out $(TARGETS),$(MAKECMDGOALS)),$\
  $(if $(findstring /,$(goal)),,$(goal)))
ifneq ($(and $(strip $(MAKECMDGOALS)),$(strip $(UNREAD))),)
  ifneq ($(strip $(NO_TARGET)),)
    $(error there is no target $(strip $(NO_TARGET)): make help lists them)
  endif
  $(error $(strip $(UNREAD)) would have no effect on $(MAKECMDGOALS): leave it out, or give options $\
    in ARGS, such as ARGS="--seeds 3"; $(foreach goal,$(MAKECMDGOALS),$(goal) reads $(OF_$(goal))))
endif

# $(call option,VARIABLE,--flag): the flag if VARIABLE was written after `make`; the
# environment is ignored, because shells have an ENV of their own.
given = $(if $(filter command,$(origin $(1))),$($(1)))
option = $(if $(call given,$(1)),$(2) '$(subst ','\'',$(call given,$(1)))')
ifneq ($(filter-out 0 1,$(call given,RESUME)),)
  $(error RESUME=$(RESUME) is neither 1 nor 0: give RESUME=1 to continue a run)
endif
RUN_OPTIONS = $(call option,ENV,--env) $(call option,AGENT,--agent) $(call option,BONUS,--bonus) \
  $(call option,SEEDS,--seeds) $(call option,STEPS,--steps) $(call option,PRESET,--preset) \
  $(call option,PRETRAIN,--pretrain) $(call option,INIT,--init) \
  $(call option,OUT,--out) $(if $(filter-out 0,$(call given,RESUME)),--resume) \
  $(call given,ARGS)

help:
	@printf '%s\n' \
	  'make run ENV=doorkey_6x6   train, and write a run folder: curves, checkpoints, events' \
	  '    or ENV=cheetah_run_sparse: pixels of DeepMind Control, at a small size without a GPU' \
	  '    or ENV=montezuma_revenge: Atari, PRESET=data_efficient without a GPU' \
	  '    [AGENT=a2c|rad|drq|rainbow|dreamer|ppo] [SEEDS=5] [STEPS=env frames]' \
	  '    [BONUS=re3|none|rnd|icm|e3b|noveld|ngu|counts|contrastive|inverse_dynamics|apt|rise|vcse|imagenet|atc]' \
	  '        or a sum, BONUS=re3+rnd' \
	  '    [PRESET=recommended|paper|released|small|data_efficient|debug]' \
	  '    [PRETRAIN=env frames] train on the bonus alone, then another task with [INIT=folder]' \
	  '    [OUT=folder] [RESUME=1] [ARGS="--a2c.learning-rate 1e-3"]  all options: ARGS=--help' \
	  'make test                  lint, types and tests [TESTS="tests/unit -k ring"]' \
	  'make test-all              lint, types and all tests, those of minutes too [TESTS=]' \
	  'make torture               kills, flips bits, fills disks, and counts losses [ARGS=--quick]' \
	  'make test-compile          the tests that compile for GPUs and TPUs, with both compilers' \
	  'make lint                  ruff and mypy' \
	  'make bench                 the benchmarks, one JSON each [BENCH=knn] [ARGS=]' \
	  'make figure FIG=name       one figure of the paper, into runs/drawn [ARGS=]' \
	  'make compare RUNS="a b"    run folders side by side: curves, profiles, a table [OUT=folder]' \
	  'make report RUNS="a b"     the same and more in one HTML file, also of a single run [OUT=file]' \
	  'make watch RUN=folder      a live view of a run that trains elsewhere: curves, progress, video' \
	  'make look RUN=folder       pictures: latents, visited states, frames that the encoder finds alike' \
	  'make profile ENV=...       where the time of a run goes, and a trace for Perfetto' \
	  'make compile TARGET=h100   what a run takes on a GPU or TPU that is not here [ENV=] [AGENT=]' \
	  '    [BONUS=] [PRESET=] [SEEDS=] [OUT=file]  or TARGET=a100, v5e, v6e; without ENV, every agent' \
	  'make gpu                   on a lent NVIDIA GPU: all there is to measure, in 25 minutes or in' \
	  '    [MINUTES=9] at a time, and a table in [OUT=runs/gpu]; on a CPU at a small size' \
	  'make doctor                versions, devices, memory and a short speed check' \
	  'make docs                  the documentation, into site/; runs its tutorials: minutes' \
	  'make dist                  the package: sdist and wheel in dist/, installed and tried once' \
	  '    [PYTHONS="python3.11 python3.12 python3.13"] on each of these' \
	  'make try-docs              every documented command in fresh clones [PYTHONS="python3.12"] [ARGS=]' \
	  'make clean                 remove what was built, .venv too; runs/ is kept' \
	  '' \
	  'PYTHON=python3.12 chooses the interpreter of .venv, VENV=folder another one. Exit codes: 0;' \
	  '130 after Ctrl-C and 143 after SIGTERM; 2 for anything else, which is what make makes of' \
	  'every failure.'

run: $(RUN_READY)
	@$(PY) -m experiments.train $(RUN_OPTIONS)

compare: $(RUN_READY)
	@$(PY) -m experiments.compare $(call given,RUNS) $(call option,OUT,--out) $(call given,ARGS)

report: $(RUN_READY)
	@$(PY) -m experiments.report $(call given,RUNS) $(call option,OUT,--out) $(call given,ARGS)

watch: $(RUN_READY)
	@$(PY) -m experiments.watch $(call option,RUN) $(call given,ARGS)

look: $(RUN_READY)
	@$(PY) -m experiments.look $(call option,RUN) $(call option,OUT,--out) $(call given,ARGS)

profile: $(RUN_READY)
	@$(PY) -m experiments.profile $(RUN_OPTIONS)

# The compilers of accelerators have an environment of their own: in .venv every run would look for
# their devices.
COMPILERS := h100=cuda a100=cuda v5e=tpu v6e=tpu
COMPILER = $(if $(word 2,$(TARGET)),,$(patsubst $(TARGET)=%,%,$(filter $(TARGET)=%,$(COMPILERS))))
compile:
	@$(if $(and $(call given,TARGET),$(COMPILER)),,echo "no target '$(call given,TARGET)': give one \
	  as TARGET=, known: $(foreach one,$(COMPILERS),$(firstword $(subst =, ,$(one))))" >&2; exit 2)
	@$(MAKE) VENV=.venv-compile compile-here

compile-here: $(VENV)/.ready-compile-$(COMPILER)
	@$(PY) -m experiments.compile --target $(TARGET) $(RUN_OPTIONS)

$(VENV)/.ready-compile-%: requirements-compile-%.txt requirements.txt | $(PY)
	$(call install,requirements-compile-$*.txt,--no-deps)
	@touch $@

# With an NVIDIA driver, JAX for it goes into .venv, so that `make run` uses the GPU from then on.
gpu: $(RUN_READY) $(if $(shell command -v nvidia-smi),$(VENV)/.ready-compile-cuda)
	@$(PY) -m benchmarks.gpu $(call option,OUT,--out) $(call option,MINUTES,--minutes) $(call given,ARGS)

# The tests that compile for devices that are not here; `make test` skips them. Without a driver
# JAX takes NVIDIA's compiler only if another platform is named.
TESTS_OF_COMPILERS := tests/unit/test_no_copies.py tests/unit/test_layouts.py \
  tests/unit/test_determinism.py tests/unit/test_cost.py tests/property/test_knn_kernel.py
test-compile:
	@$(MAKE) VENV=.venv-compile test-compile-here

test-compile-here: $(VENV)/.ready-compile-cuda $(VENV)/.ready-compile-tpu
	$(call install,requirements-dev.txt,--no-deps)
	@JAX_PLATFORMS=cpu $(PY) -m pytest -q -m "slow or not slow" $(TESTS_OF_COMPILERS)

doctor: $(RUN_READY)
	@$(PY) -m experiments.doctor $(call given,ARGS)

# $(call programs,folder): its modules that can be run.
programs = $(basename $(notdir $(shell grep -ls '__main__' $(1)/*.py)))

figure: $(RUN_READY)
	@$(if $(filter $(FIG),$(call programs,experiments/figures)),,echo "no figure '$(FIG)': give one \
	  as FIG=, known: $(call programs,experiments/figures)" >&2; exit 2)
	@$(PY) -m experiments.figures.$(FIG) $(call given,ARGS)

# beside_torch trains for hours, in a folder that it is given.
BENCH ?= $(filter-out beside_torch,$(call programs,benchmarks))
bench: $(TEST_READY)
	@$(if $(filter-out $(call programs,benchmarks),$(BENCH)),echo "no benchmark \
	  '$(filter-out $(call programs,benchmarks),$(BENCH))': give one as BENCH=; known: \
	  $(call programs,benchmarks)" >&2; exit 2)
	@for name in $(BENCH); do $(PY) -m benchmarks.$$name $(call given,ARGS) || exit; done

TESTS ?= tests
test: lint
	@$(PY) -m pytest -q -n 2 --dist loadscope $(TESTS)

test-all: lint
	@$(PY) -m pytest -q -n 2 --dist loadscope -m "slow or not slow" $(TESTS)

torture: $(TEST_READY)
	@$(PY) -m tests.torture $(call given,ARGS)

lint: $(TEST_READY)
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check --quiet .
	@$(PY) -m mypy

docs: $(DOCS_READY)
	@PYTHONPATH=$(CURDIR) NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet --strict
	@echo "open site/index.html"

# The wheel is tried in environments that have nothing else, from a folder that is no checkout.
DIST := .venv-dist
dist: | $(PY)
	@rm -rf dist build
	@$(PY) -m venv --clear $(DIST)
	@$(DIST)/bin/python -m pip install -qq --disable-pip-version-check build
	@$(DIST)/bin/python -m build -qq --outdir dist .
	@set -e; for python in $(or $(PYTHONS),$(PY)); do \
	  $$python -m venv --clear $(DIST); \
	  $(DIST)/bin/python -m pip install -qq --disable-pip-version-check "$$(echo dist/*.whl)[run]"; \
	  (cd $(DIST) && bin/re3-jax train --env doorkey_6x6 --preset debug --out run && \
	    bin/re3-jax evaluate --run run --episodes 2); \
	done
	@ls dist/*

try-docs:
	@$(PYTHON) tests/try_docs.py $(if $(PYTHONS),--pythons $(PYTHONS)) $(call given,ARGS)

clean:
	@test ! -f $(VENV)/pyvenv.cfg || rm -rf $(VENV)
	@rm -rf .venv-compile .venv-dist site build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "re3_jax needs Python 3.11 or newer, which '$(PYTHON)' is not:" \
	  "name one with make PYTHON=/path/to/python3.11 ..." >&2; exit 2; }
	@if test -z "$$(ls -A $(VENV) 2>/dev/null)"; then \
	  $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 2; }; \
	elif test -f $(VENV)/pyvenv.cfg; then $(PYTHON) -m venv $(VENV); \
	else echo "VENV=$(VENV) holds files that are no environment: name a new folder" >&2; exit 2; fi
	@$(PY) -c 'import pathlib, sys, sysconfig; \
	  pathlib.Path(sysconfig.get_path("purelib"), "re3_jax.pth").write_text(sys.argv[1] + "\n")' '$(CURDIR)'

# $(call install,requirements file,options of pip): quiet unless it fails; says why the first run
# takes a while. Byte code is written when a module is first imported, which halves the time to the
# first run.
define install
@echo "installing $(1) into $(VENV) (once)" >&2
@$(PY) -m pip install -qq --no-compile --disable-pip-version-check $(2) -r $(1)
endef

$(RUN_READY): requirements.txt | $(PY)
	$(call install,requirements.txt,--no-deps)
	@touch $@

$(TEST_READY): requirements-dev.txt requirements-torch.txt requirements-atari.txt requirements.txt | $(PY)
	$(call install,requirements-dev.txt,--no-deps)
	$(call install,requirements-torch.txt)
	@touch $(RUN_READY) $@

$(DOCS_READY): requirements-docs.txt requirements.txt | $(PY)
	$(call install,requirements-docs.txt,--no-deps)
	@touch $(RUN_READY) $@
