# make demo        install everything into .venv, build, and run the demonstration
# make test        the same set-up, then every behaviour once: after each change (tests/suites.py lists the suites)
# make test-all    sanitizers, fuzzing and all of what `make test` takes a sample of, too: before a change lands (CI runs this)
# make test-long   soaks, other versions and whole matrices: before a release, and after changes of what they are about
# make test-rest   what `make test-all` runs besides `make test`
# make test-NAME   one suite; `make sanitize` and `make fuzz` are suites too
# make build       install unihal into .venv
# make benchmarks  print ratios against NumPy and the frameworks' CPU; BENCHMARK_ARGUMENTS=--quick leaves out the largest
# make fuzz        fuzz descriptors, settings, tables and profiles, FUZZ_SECONDS=8 each; FUZZ_SEED=0 for new random inputs
# make coverage    rewrite docs/coverage.md from the adapters' tables
# make format      rewrite sources in the project's format
# make clean       remove what was built; .venv stays
#
# Needs Python 3.11 with venv, gcc and g++, and make. BACKEND=stub (the default) lets host memory stand in for hardware in
# `make demo`; BACKEND= takes what is there; BACKEND=opencl takes an OpenCL device, or PoCL where there is none.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-builtin-rules --no-print-directory

PYTHON ?= python3
BACKEND ?= stub
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 8
FUZZ_SEED ?= 1

# The caller's Python, pip and unihal settings must not leak into .venv, the build or the tests.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV CMAKE_ARGS
unexport $(filter UNIHAL_%,$(.VARIABLES))
unexport CUSTOM_DEVICE_ROOT TF_PLUGGABLE_DEVICE_LIBRARY_PATH
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)

# What was compiled before, here or in another clone, is not compiled again where there is ccache, and a folder for it that
# can be written: sources, and kernels by PoCL, which lie beside ccache's folder for a month.
CACHES := $(shell folder="$$(ccache --get-config cache_dir 2>/dev/null)" && mkdir -p "$$folder" 2>/dev/null && \
  test -w "$$folder" && echo "$$folder")
ifneq ($(CACHES),)
CCACHE := $(shell command -v ccache)
export POCL_CACHE_DIR ?= $(CACHES)-pocl
export CMAKE_C_COMPILER_LAUNCHER ?= $(CCACHE)
export CMAKE_CXX_COMPILER_LAUNCHER ?= $(CCACHE)
# What ccache's manual asks for where headers are precompiled (tests/googletest.cmake).
export CCACHE_SLOPPINESS ?= pch_defines,time_macros
# Objects of another clone serve, wherever it lies: paths are hashed relative to the clone.
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1
endif

RUN := .venv/bin/python -m
CMAKE := .venv/bin/cmake
SITE := .venv/stamps/unihal
# Two suites at a time more than there are cores: each is mostly one thread, which waits for processes now and then.
SUITES := .venv/bin/python tests/suites.py --jobs $(shell expr $(JOBS) + 2)
# The plugins by name: pytest rewrites the assertions of whole packages that bring one, and unihal is one, in each process.
PLUGINS := --disable-plugin-autoload -p unihal_pytest -p pytest_timeout -p _hypothesis_pytestplugin
PYTEST := $(RUN) pytest $(PLUGINS) --durations=10 --durations-min=1

NATIVE_FOLDERS := include csrc stub plugins python/src
NATIVE_SOURCES := $(shell find $(NATIVE_FOLDERS) python/CMakeLists.txt CMakeLists.txt -type f 2>/dev/null)
PYTHON_SOURCES := $(shell find python/unihal python/unihal_pytest python/unihal_torch python/unihal_workshop python/gpux python/paddle_iluvatar python/tf_rdna python/unihal_paddle.pth -type f -not -path '*/__pycache__/*')
FORMATTED := $(shell find $(NATIVE_FOLDERS) tests benchmarks -type f \( -name '*.h' -o -name '*.c' -o -name '*.cc' \))
CHECKED := python plugins tests benchmarks docs setup.py

.PHONY: demo benchmarks build test test-rest test-all test-long check check-whole check-instruction-sets check-includes test-native sanitize sanitize-address sanitize-thread sanitize-thread-whole fuzz fuzz-long test-matrices \
  test-workshop test-workshop-whole test-python test-python-whole test-gpu-sample test-gpu test-paddle test-paddle-whole test-tensorflow test-tensorflow-whole test-torch test-torch-whole test-onnxruntime test-onnxruntime-whole test-gpux test-gpux-whole test-conformance-sample \
  test-conformance test-mutations test-strict test-opencl-sample test-opencl test-amd-sample test-amd test-races test-conformance-opencl test-paddle-versions test-paddle-versions-sample test-tensorflow-versions test-tensorflow-versions-sample test-torch-versions test-paddle-projects test-tensorflow-projects test-tensorflow-projects-sample soak \
  coverage format clean

demo: build
	if [[ '$(BACKEND)' == opencl ]] && ! UNIHAL_BACKEND=opencl .venv/bin/unihal devices >/dev/null; then \
	  echo 'There is no OpenCL device: PoCL, on the processor, stands in.'; \
	  bash tests/fetch_pocl.sh; source .venv/pocl/environment; \
	fi; \
	$(if $(BACKEND),UNIHAL_BACKEND='$(BACKEND)') .venv/bin/unihal demo --out out/demo

build: $(SITE)

test: build
	$(SUITES) test
	@echo 'make test: every suite passed'

test-all: test test-rest
	@echo 'make test-all: every suite passed'

# What shims are built for is there before suites run side by side; where it cannot be fetched, the suite that needs it says so.
test-rest: .venv/stamps/requirements
	-bash tests/fetch_tensorflow_versions.sh $(firstword $(TENSORFLOW_VERSIONS))
	$(MAKE) build
	$(SUITES) rest

test-long: .venv/stamps/requirements
	-bash tests/fetch_tensorflow_versions.sh $(TENSORFLOW_VERSIONS)
	$(MAKE) build
	$(SUITES) long
	@echo 'make test-long: every suite passed'

# -- set-up ------------------------------------------------------------------------------------------------------------

.venv/bin/python:
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { echo \
	  'unihal: requirements.txt is pinned for Python 3.11; name one with: make PYTHON=python3.11' >&2; exit 1; }
	'$(PYTHON)' -m venv .venv || { echo \
	  'unihal: no virtual environment could be made; on Debian: apt-get install python3-venv' >&2; exit 1; }

.venv/stamps/requirements: requirements.txt | .venv/bin/python
	$(RUN) pip install --quiet --requirement requirements.txt
	mkdir -p '$(@D)' && touch '$@'

# TensorFlow's adapter gets a shim for each version that lies in .venv.
TENSORFLOW_VERSIONS := 2.18.1 2.19.1 2.20.0
TENSORFLOWS := $(foreach version,$(TENSORFLOW_VERSIONS),$(wildcard .venv/tensorflow-$(version)/site-packages))

$(SITE): .venv/stamps/requirements $(NATIVE_SOURCES) $(PYTHON_SOURCES) setup.py pyproject.toml MANIFEST.in $(TENSORFLOWS:=/tensorflow/__init__.py)
	folders="$$(printf '%s;' $(TENSORFLOWS:%=$(CURDIR)/%) "$$(echo '$(CURDIR)'/.venv/lib/python*/site-packages)")"; \
	CMAKE_ARGS="-DUNIHAL_WARNINGS_AS_ERRORS=ON -DUNIHAL_STUB_INSTRUCTION_SETS=NATIVE '-DUNIHAL_TENSORFLOW_FOLDERS=$${folders%;}'" \
	  $(RUN) pip install --quiet --no-build-isolation --no-deps --force-reinstall .
	mkdir -p '$(@D)' && touch '$@'

# -- tests -------------------------------------------------------------------------------------------------------------

check: .venv/stamps/requirements
	.venv/bin/clang-format --dry-run -Werror $(FORMATTED)
	$(RUN) ruff check $(CHECKED)
	$(RUN) ruff format --check $(CHECKED)
	$(RUN) mypy

# mypy once more, with the types of those frameworks whose modules `make check` does not read (pyproject.toml).
check-whole: .venv/stamps/requirements
	mkdir -p build
	sed 's/^follow_imports = "skip"/follow_imports = "silent"/' pyproject.toml >build/check-whole.toml
	$(RUN) mypy --config-file build/check-whole.toml --cache-dir build/mypy-whole

# The stub's loops for instruction sets that this machine may lack, and that nothing here can run then: they compile.
check-instruction-sets: .venv/stamps/requirements
	mkdir -p build
	$(CMAKE) -G Ninja -B build/sets -DCMAKE_BUILD_TYPE=Release -DUNIHAL_WARNINGS_AS_ERRORS=ON -DUNIHAL_STUB_INSTRUCTION_SETS=ON \
	  -DCMAKE_MAKE_PROGRAM="$$PWD/.venv/bin/ninja" -DPython_EXECUTABLE="$$PWD/.venv/bin/python" >build/configure-sets.log || { cat build/configure-sets.log; exit 1; }
	$(CMAKE) --build build/sets --target unihal_stub_avx512

# Every file names the headers that it needs: each by itself and without precompiled ones, which may hide that it does not.
check-includes: .venv/stamps/requirements
	mkdir -p build
	$(CMAKE) -G Ninja -B build/includes -DCMAKE_BUILD_TYPE=Debug -DUNIHAL_WARNINGS_AS_ERRORS=ON -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DUNIHAL_UNITY=OFF \
	  -DUNIHAL_STUB_INSTRUCTION_SETS=OFF -DUNIHAL_BUILD_ONNXRUNTIME=ON \
	  -DCMAKE_MAKE_PROGRAM="$$PWD/.venv/bin/ninja" -DPython_EXECUTABLE="$$PWD/.venv/bin/python" >build/configure-includes.log || { cat build/configure-includes.log; exit 1; }
	$(CMAKE) --build build/includes

# The suites of core and stub, in the build folder of the installed package; those of opencl, hip and corex, and the ops of
# the strict mode, run with the sanitizers. Threads of OpenMP sleep where they wait: programs of a second at most run side by side, and would keep the cores
# from one another.
test-native: $(SITE)
	bash tests/fetch_googletest.sh
	$(CMAKE) -B build/cmake -DUNIHAL_BUILD_TESTS=ON -DUNIHAL_BUILD_GPU_TESTS=OFF >build/configure.log || { cat build/configure.log; exit 1; }
	$(CMAKE) --build build/cmake
	OMP_WAIT_POLICY=passive .venv/bin/ctest --test-dir build/cmake --output-on-failure --no-tests=error --parallel $(JOBS) --timeout 600 \
	  --exclude-regex '^stub_(data|nn)_test\.strict'

sanitize: sanitize-address sanitize-thread

sanitize-address: .venv/stamps/requirements
	bash tests/fetch_googletest.sh
	bash tests/fetch_pocl.sh
	tests/sanitize.sh address,undefined build/asan

sanitize-thread: .venv/stamps/requirements
	bash tests/fetch_googletest.sh
	bash tests/fetch_pocl.sh
	tests/sanitize.sh thread build/tsan

# With the ops that no other thread has to do with, too.
sanitize-thread-whole: .venv/stamps/requirements
	bash tests/fetch_googletest.sh
	bash tests/fetch_pocl.sh
	SANITIZE_WHOLE=1 tests/sanitize.sh thread build/tsan

fuzz: .venv/stamps/requirements
	FUZZ_SEED=$(FUZZ_SEED) tests/fuzz/run.sh $(FUZZ_SECONDS)

fuzz-long: .venv/stamps/requirements
	FUZZ_SEED=0 tests/fuzz/run.sh 300

# The two frameworks' libraries clash in one process, so each suite has its own.
test-python: $(SITE)
	bash tests/fetch_pocl.sh
	$(PYTEST) -m 'not whole and not long' tests/python tests/docs

test-python-whole: $(SITE)
	$(PYTEST) -m 'whole and not long' tests/python tests/docs

# The GPU backends without a GPU: declarations against the vendors' headers, doubles, kernels by the vendors' compilers.
test-gpu-sample: $(SITE)
	bash tests/fetch_hip_headers.sh
	bash tests/fetch_amd_clang.sh
	$(PYTEST) -m 'not whole and not long' tests/gpu

test-gpu: $(SITE)
	bash tests/fetch_amd_clang.sh
	$(PYTEST) -m 'whole and not long' tests/gpu

# Faults planted in a backend, each of which conformance must find.
test-mutations: $(SITE)
	$(PYTEST) tests/mutations

test-paddle: $(SITE)
	$(PYTEST) -m 'not whole and not long' tests/paddle

test-paddle-whole: $(SITE)
	$(PYTEST) -m 'whole and not long' tests/paddle

test-tensorflow: $(SITE)
	$(PYTEST) -m 'not whole and not long' tests/tensorflow

test-tensorflow-whole: $(SITE)
	$(PYTEST) -m 'whole and not long' tests/tensorflow

test-torch: $(SITE)
	$(PYTEST) -m 'not whole and not long' tests/torch

test-torch-whole: $(SITE)
	$(PYTEST) -m 'whole and not long' tests/torch

test-onnxruntime: $(SITE)
	$(PYTEST) -m 'not whole and not long' tests/onnxruntime

test-onnxruntime-whole: $(SITE)
	$(PYTEST) -m 'whole and not long' tests/onnxruntime

test-gpux: $(SITE)
	$(PYTEST) -m 'not whole and not long' tests/gpux

# The rest needs Chromium and some minutes.
test-gpux-whole: $(SITE)
	bash tests/gpux/fetch_chromium.sh
	$(PYTEST) -m 'whole and not long' tests/gpux

test-workshop: $(SITE)
	$(PYTEST) -m 'not whole and not long' tests/workshop

# The page needs Chromium.
test-workshop-whole: $(SITE)
	bash tests/gpux/fetch_chromium.sh
	$(PYTEST) -m 'whole and not long' tests/workshop

# Tests marked `whole` take the whole of what others take a sample of; those marked `long`, of what is whole elsewhere.
test-matrices: $(SITE)
	bash tests/gpux/fetch_ray.sh
	bash tests/fetch_pocl.sh
	failed=; \
	for folder in tensorflow paddle torch onnxruntime gpux workshop conformance docs; do \
	  $(PYTEST) -m long tests/$$folder || failed+=" $$folder"; \
	done; \
	tests/opencl/with_opencl.sh $(PYTEST) --unihal-backend=opencl -m long tests/opencl || failed+=" opencl"; \
	if [[ -n $$failed ]]; then echo "FAILED in$$failed" >&2; exit 1; fi
	$(PYTEST) --unihal-stub=strict -k 'test_fit_with or eager or resnet18-function or transformer-function' tests/tensorflow/test_models.py
	$(PYTEST) --unihal-stub=strict -k 'float64 or half_precision' tests/paddle/test_kernels.py
	tests/opencl/with_opencl.sh $(PYTEST) --unihal-backend=opencl tests/tensorflow/test_models.py -k 'fit and not digits_cnn'

test-conformance-sample: $(SITE)
	$(PYTEST) -m 'not whole and not long' tests/conformance

test-conformance: $(SITE)
	$(PYTEST) -m 'whole and not long' tests/conformance

# On the strict stub, where a race or memory that stays fails a test: the frameworks' training, and what a graph of Paddle's
# reads of the device while it runs. Keras' fit is what test_strict.py runs; launches in an eager step are of the smallest model.
test-strict: $(SITE)
	$(PYTEST) --unihal-stub=strict tests/paddle/test_{training,strict,static,distributed}.py
	$(PYTEST) --unihal-stub=strict -k 'not float64 and not half_precision' tests/paddle/test_kernels.py
	$(PYTEST) --unihal-stub=strict -m 'not long' -k 'not test_fit_with' \
	  tests/tensorflow/test_{models,strict,waits}.py
	$(PYTEST) --unihal-stub=strict tests/torch/test_{training,device,tools}.py
	$(PYTEST) --unihal-stub=strict -m 'not whole' tests/onnxruntime/test_{device,models}.py

# The opencl backend on PoCL, and a sample of conformance.
test-opencl-sample: $(SITE)
	bash tests/fetch_pocl.sh
	tests/opencl/with_opencl.sh $(PYTEST) --unihal-backend=opencl -m 'not whole and not long' tests/opencl

# The rest of the backend's tests, and the training runs of both frameworks on polaris. Of those in float64, for which
# every kernel is compiled once more, the smallest model.
test-opencl: $(SITE)
	bash tests/fetch_pocl.sh
	if [[ -d '$(POCL_CACHE_DIR)' ]]; then find '$(POCL_CACHE_DIR)' -mindepth 2 -maxdepth 2 -type d -mtime +30 -exec rm -rf {} +; fi
	tests/opencl/with_opencl.sh $(PYTEST) --unihal-backend=opencl -m 'whole and not long' tests/opencl
	tests/opencl/with_opencl.sh $(PYTEST) --unihal-backend=opencl tests/paddle/test_training.py
	tests/opencl/with_opencl.sh $(PYTEST) --unihal-backend=opencl tests/tensorflow/test_models.py -k 'digits_cnn and (fit or function)'

# What AMD's compiler makes of the kernels: one program of each kernel, and all on each card.
test-amd-sample: $(SITE)
	bash tests/fetch_amd_clang.sh
	$(PYTEST) -m 'not whole and not long' tests/kernels

test-amd: $(SITE)
	bash tests/fetch_amd_clang.sh
	$(PYTEST) -m 'whole and not long' tests/kernels

# Races between work-items, in a sample of conformance under Oclgrind.
test-races: $(SITE)
	bash tests/fetch_oclgrind.sh
	$(PYTEST) tests/races

# Three quarters of an hour.
test-conformance-opencl: $(SITE)
	bash tests/fetch_pocl.sh
	tests/opencl/with_opencl.sh .venv/bin/unihal conformance --backend opencl --jobs $(JOBS)

# Each wheel is a download of 190 MB, kept in .venv. Of the sample the first version is the oldest one; the others train once.
PADDLE_VERSIONS := 3.0.0 3.1.1 3.2.2
PADDLE_SAMPLE := tests/paddle/test_training.py tests/paddle/test_high_level.py tests/paddle/test_complex.py tests/paddle/test_sparse_arithmetic.py
with_paddle = PYTHONPATH=.venv/paddle-$(1) \
  CUSTOM_DEVICE_ROOT="$$(echo "$$PWD"/.venv/lib/python*/site-packages/paddle_custom_device)" $(2)

test-paddle-versions-sample: $(SITE)
	bash tests/fetch_paddle_versions.sh $(PADDLE_VERSIONS)
	$(call with_paddle,$(firstword $(PADDLE_VERSIONS)),$(PYTEST) -m 'not whole and not long' -k 'not predictor' $(PADDLE_SAMPLE))
	for version in $(wordlist 2,9,$(PADDLE_VERSIONS)); do $(call with_paddle,$$version,$(PYTEST) tests/paddle/test_training.py -k 'digits'); done

test-paddle-versions: $(SITE)
	bash tests/fetch_paddle_versions.sh $(PADDLE_VERSIONS)
	for version in $(PADDLE_VERSIONS); do $(call with_paddle,$$version,$(PYTEST) -m 'not long' tests/paddle); done

# Each is a download of 220 MB and 1 GB in .venv. The sample is of the oldest one. On the strict stub each version must order what
# it frees after what uses it: which of its streams it computes on differs.
TENSORFLOW_SAMPLE := tests/tensorflow/test_{versions,models,variable,fallbacks,registry}.py
with_tensorflow = PYTHONPATH='$(CURDIR)/.venv/tensorflow-$(1)/site-packages' $(2)

test-tensorflow-versions-sample: .venv/stamps/requirements
	bash tests/fetch_tensorflow_versions.sh $(firstword $(TENSORFLOW_VERSIONS))
	$(MAKE) build
	$(call with_tensorflow,$(firstword $(TENSORFLOW_VERSIONS)),$(PYTEST) -m 'not whole and not long' $(TENSORFLOW_SAMPLE))
	$(call with_tensorflow,$(firstword $(TENSORFLOW_VERSIONS)),$(PYTEST) --unihal-stub=strict -k 'digits_cnn or allocation' tests/tensorflow/test_strict.py)

test-tensorflow-versions: .venv/stamps/requirements
	bash tests/fetch_tensorflow_versions.sh $(TENSORFLOW_VERSIONS)
	$(MAKE) build
	failed=; for version in $(TENSORFLOW_VERSIONS); do \
	  $(call with_tensorflow,$$version,$(PYTEST) -m 'not whole and not long' tests/tensorflow) || failed+=" $$version"; \
	  $(call with_tensorflow,$$version,$(PYTEST) --unihal-stub=strict tests/tensorflow/test_strict.py) || failed+=" $$version (strict)"; done; \
	if [[ -n $$failed ]]; then echo "FAILED on TensorFlow$$failed" >&2; exit 1; fi

# One after the other; each is a download of 3 GB with CUDA's libraries, and takes 5 GB until its tests have run; no GPU is needed.
TORCH_VERSIONS := 2.11.0 2.12.1 2.14.1 2.15.0
test-torch-versions: $(SITE)
	tests/torch_versions.sh $(TORCH_VERSIONS)

# Projects from PyPI in a folder of their own, without the releases that they ask for; some build by tools of before.
test-paddle-projects: $(SITE)
	$(RUN) pip install --quiet --upgrade --target build/paddle-project-tools 'setuptools<70' 'setuptools-scm<8' 'cython<3.1' wheel
	PYTHONPATH='$(CURDIR)/build/paddle-project-tools' $(RUN) pip install --quiet --no-deps --no-build-isolation --upgrade \
	  --target build/paddle-projects --requirement tests/projects/requirements.txt 'setuptools<80'
	$(RUN) pip install --quiet --no-deps --upgrade \
	  --target build/paddle-projects-newer --requirement tests/projects/requirements-newer.txt
	PADDLE_PROJECTS=$$PWD/build/paddle-projects $(PYTEST) tests/projects/test_paddle_projects.py

# keras_hub and tf_keras, a download of 4 MB. The sample is of one model of each kind.
with_tensorflow_projects = $(RUN) pip install --quiet --no-deps --upgrade --target build/tensorflow-projects \
    --requirement tests/projects/tensorflow_requirements.txt && \
  TENSORFLOW_PROJECTS=$$PWD/build/tensorflow-projects $(1)

test-tensorflow-projects-sample: $(SITE)
	$(call with_tensorflow_projects,$(PYTEST) -m 'not long' tests/projects/test_tensorflow_projects.py)

test-tensorflow-projects: $(SITE)
	$(call with_tensorflow_projects,$(PYTEST) tests/projects/test_tensorflow_projects.py)

# Memory stays flat over 10,000 steps of training.
soak: $(SITE)
	for framework in paddle tensorflow; do .venv/bin/python benchmarks/soak.py --framework $$framework; done

# -- benchmarks ----------------------------------------------------------------------------------------------------

benchmarks: $(SITE)
	$(CMAKE) -B build/cmake -DUNIHAL_BUILD_BENCHMARKS=ON >build/configure.log || { cat build/configure.log; exit 1; }
	$(CMAKE) --build build/cmake --target benchmarks
	mkdir -p out
	.venv/bin/python benchmarks/run.py --json out/benchmarks.json $(BENCHMARK_ARGUMENTS)

# -- upkeep ------------------------------------------------------------------------------------------------------------

coverage: $(SITE)
	.venv/bin/python docs/generate_coverage.py

format: .venv/stamps/requirements
	.venv/bin/clang-format -i $(FORMATTED)
	$(RUN) ruff check --fix $(CHECKED)
	$(RUN) ruff format $(CHECKED)

clean:
	rm -rf build out '$(SITE)'
