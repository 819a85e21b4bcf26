# Two commands do everything on a fresh machine: `make demo` and `make test`.
# Each makes the virtual environment, and asks for the Debian packages, where they are missing.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.stamp
# program:package pairs that the demo and the tests start as real programs
TOOLS  := ip:iproute2 ping:iputils-ping iperf3:iperf3 tcpdump:tcpdump tshark:tshark \
          ibstat:infiniband-diags ibv_devices:ibverbs-utils ib_send_lat:perftest
# the Omni-Path software. Debian starts a fabric manager when it installs opa-fm: not where there are real HFIs
OPA_TOOLS := opainfo:opa-basic-tools opafabricinfo:opa-fastfabric libopamgt0 ibstat:infiniband-diags libibumad-dev curl:curl \
             prometheus-node-exporter:prometheus-node-exporter \
             $(if $(wildcard /sys/class/infiniband/hfi1_*),,/usr/lib/opa-fm/bin/opafmd:opa-fm)

# the browser in which tests open the web view
BROWSER := chromium:chromium

# what tests of the hosts' kernels start in hosts; the daemons are unpacked without being installed: none starts here.
# keepalived and FRR's vrrpd move a virtual MAC from host to host (VRRP); as a service it starts only where it has a configuration
HOST_TOOLS := dhclient:isc-dhcp-client udhcpc:udhcpc libusrsctp2 libjson-c5 keepalived:keepalived
DAEMONS    := build/daemons
DAEMON_FILES := usr/sbin/dhcpd:isc-dhcp-server usr/sbin/dhcrelay:isc-dhcp-relay usr/lib/frr/vrrpd:frr 'usr/lib/*/libyang.so.*:libyang2'

# what guests of labs are made of; the rest is unpacked without being installed: no daemon starts, no kernel is added
GUEST_TOOLS := podman:podman qemu-system-x86_64:qemu-system-x86 /bin/busybox:busybox-static
GUESTS      := build/guests
GUEST_FILES := 'boot/vmlinuz-*:linux-image-cloud-amd64' usr/sbin/dockerd:docker.io usr/bin/containerd:containerd \
               usr/sbin/runc:runc

# what `opavnic kernel build` needs; where ccache is, a build after the first takes seconds
KERNEL_TOOLS := linux-source gcc:gcc flex:flex bison:bison bc:bc m4:m4 ccache:ccache xz:xz-utils strip:binutils ethtool:ethtool

# the module of before, while another is built: hosts and tests go on using it
OLD_NATIVE := build/native-before.so

# pip passes over a failed build of the native module: then the file is missing, or still that of before
define HAS_NATIVE
if ! command -v cargo >/dev/null; then \
  echo "no cargo here: without the native module frames pass through Python (https://rustup.rs, or Debian's package cargo)" >&2; \
else set -- opavnic/_native*.so; test -e "$$1" && ! test "$$1" -ef $(OLD_NATIVE) || { \
  echo "the native module was not built; what cargo says: cd native && cargo build --release" >&2; exit 1; }; fi
endef

# setuptools warns of each editable installation, in ten lines
EDITABLE := PYTHONWARNINGS=ignore::UserWarning $(BIN)/python -m pip install --quiet

# Some environments forbid Python to keep what it compiled. The tests start Python thousands of times, and pytest rewrites
# 400 modules in each worker: compiled anew each time, that is the larger part of a collection.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help venv native deps browser host-tools bench-peers demo docs pictures test test-native test-fast test-e2e test-slow test-alone test-long kernel kernel-tools test-kernel test-guests interop chaos chaos-cluster mutants mutants-sample mutants-native sanitize memcheck fuzz lint lint-python lint-native format generated opa-tools dist clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

venv: $(STAMP) ## make .venv with everything in it; the program is .venv/bin/opavnic

$(STAMP): pyproject.toml bench/pyproject.toml Makefile tools/build_backend.py $(wildcard ejfat/control/pb/*.proto native/Cargo.* native/*/Cargo.toml native/*/src/*.rs native/*/src/*/*.rs)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "opavnic needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || sh tools/install-packages.sh python3-venv
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@rm -f opavnic/_native*.so  # a build that fails would leave it, and it would not fit these sources
	$(EDITABLE) -e '.[dev,docs,web,cluster,ejfat]' -e bench
	@$(HAS_NATIVE)
	@touch $@

native: ## build the fast datapath again; `make venv` builds it too, where cargo is
	@command -v cargo >/dev/null || { echo "no cargo here: https://rustup.rs, or Debian's package cargo" >&2; exit 1; }
	@rm -f $(OLD_NATIVE); mkdir -p $(dir $(OLD_NATIVE)); ln opavnic/_native*.so $(OLD_NATIVE) 2>/dev/null || true
	$(EDITABLE) --no-deps -e .
	@$(HAS_NATIVE)
	@rm -f $(OLD_NATIVE)

bench-peers: ## install the peers that `opavnic bench datapath` measures beside ours
	@sh tools/install-packages.sh iperf3:iperf3 vde_switch:vde2 ovs-vswitchd:openvswitch-switch

deps: ## install the Debian packages that the demo and the tests use
	@sh tools/install-packages.sh $(TOOLS)

opa-tools: ## install Intel's fabric manager and tools for Omni-Path, as Debian has them; tests run them
	@sh tools/install-packages.sh $(OPA_TOOLS)

browser: ## install Chromium, in which tests open the web view
	@sh tools/install-packages.sh $(BROWSER)

docs: venv ## build the documentation site into site/VERSION/, strictly: a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m tools.site

pictures: venv deps browser ## make the pictures of docs/ again, from running labs; look at them before they go in
	OPAVNIC_PICTURES=$(CURDIR)/docs/pictures $(ONE_BY_ONE) tests/e2e/test_pictures.py tests/e2e/test_top_terminal.py

demo: venv deps ## two hosts, real TAPs, ping and a TCP transfer
	$(BIN)/opavnic demo

# twice the processors of a small machine: tests of labs wait more than they compute
WORKERS ?= 4
# more options of pytest, such as --maxfail=10
OPTIONS ?=

host-tools:
	@sh tools/install-packages.sh $(HOST_TOOLS)
	@sh tools/unpack-packages.sh $(DAEMONS) $(DAEMON_FILES)

# tests/conftest.py orders the files: what waits beside what computes, those of many tests first.
ONE_BY_ONE := $(BIN)/python -m pytest
# tests that need a kernel are those of `make test-kernel`, also where one is built
PYTEST := OPAVNIC_KERNEL_TESTS=later $(ONE_BY_ONE) -n $(WORKERS) --dist loadfile --no-loadscope-reorder
QUICK  := -m 'not slow and not long and not chaos'
WITH_DAEMONS := PATH="$$PATH:$(CURDIR)/$(DAEMONS)/usr/sbin:$(CURDIR)/$(DAEMONS)/usr/lib/frr:/usr/lib/frr"

test: venv deps opa-tools browser host-tools ## everything but the tests marked slow, long or chaos
	$(WITH_DAEMONS) $(PYTEST) $(QUICK) $(OPTIONS)
	@$(MAKE) --no-print-directory test-native

test-native: ## the tests of native/, where cargo is
	@if command -v cargo >/dev/null; then cd native && cargo test --locked --quiet; fi

test-fast: venv ## only what needs no privilege
	$(PYTEST) $(QUICK) --ignore=tests/e2e $(OPTIONS)

test-e2e: venv deps opa-tools browser host-tools ## only what needs privileges
	$(WITH_DAEMONS) $(PYTEST) $(QUICK) $(OPTIONS) tests/e2e

test-slow: venv deps opa-tools browser host-tools ## the tests marked slow but those of test-alone
	$(WITH_DAEMONS) $(PYTEST) -m 'slow and not alone and not long' $(OPTIONS)

test-alone: venv deps opa-tools ## the tests marked slow that need all processors, one by one
	$(ONE_BY_ONE) -m 'slow and alone and not long' $(OPTIONS)

test-long: venv ## the tests marked long: campaigns of minutes, of which the other runs hold a part
	$(BIN)/python -m pytest -m long -n 2
	$(BIN)/python -m pytest -m 'hypothesis and not long and not e2e' --hypothesis-profile hundred -n 2

kernel: venv ## build the kernel that `make test-kernel` needs, unless it is built: minutes; installs linux-source
	@$(BIN)/python -c 'from opavnic.kernel.cache import find_kernel; find_kernel()' 2>/dev/null || { \
	  $(MAKE) --no-print-directory kernel-tools && PATH="/usr/lib/ccache:$$PATH" $(BIN)/opavnic kernel build; }

kernel-tools:
	@sh tools/install-packages.sh $(KERNEL_TOOLS)

# what else is in tests/unit/opavnic/kernel needs none: `make test` runs it
KERNEL_TESTS = $(shell grep -l require_kernel tests/unit/opavnic/kernel/test_*.py tests/e2e/test_*.py)

test-kernel: venv deps kernel ## Linux's own opa_vnic and hfi1: vectors and MADs beside our agent, virtual time, and hosts of labs
	$(ONE_BY_ONE) -n 2 --dist loadfile -rs -m 'not long and not alone' $(OPTIONS) $(KERNEL_TESTS)

test-guests: venv deps ## containers of podman and docker, and a virtual machine of QEMU, as hosts of labs
	@sh tools/install-packages.sh $(GUEST_TOOLS)
	@sh tools/unpack-packages.sh $(GUESTS) $(GUEST_FILES)
	PATH="$(CURDIR)/$(GUESTS)/usr/sbin:$(CURDIR)/$(GUESTS)/usr/bin:$$PATH" \
	  $(BIN)/python -m pytest tests/e2e/test_containers.py tests/e2e/test_virtual_machine.py

interop: venv deps ## the load balancer beside E2SAR and udplbd2, if you have them (tests/interop/README.md)
	$(MAKE) -C tests/interop

CHAOS_S     ?= 240
CHAOS_SEED  ?= $(shell date +%Y%m%d)
CHAOS_FIRST ?= 1
CHAOS_OF    := not over_machines

chaos: venv deps ## abuse real labs at random for CHAOS_S seconds; CHAOS_SEED=N plays the same again
	CHAOS_S=$(CHAOS_S) CHAOS_SEED=$(CHAOS_SEED) CHAOS_FIRST=$(CHAOS_FIRST) $(BIN)/python -m pytest -s -m 'chaos and not slow' -k '$(CHAOS_OF)' tests/chaos

chaos-cluster: CHAOS_OF := over_machines
chaos-cluster: chaos ## the same over three machines: kill, stop, part, wrong certificates, slow and full disks

MUTANTS      ?= 100
MUTANTS_SEED ?= 1

mutants: venv ## change the code in MUTANTS places, one at a time, and see whether the nearest tests fail; MUTANTS_SEED=N
	$(BIN)/python -m tools.mutants --count $(MUTANTS) --seed $(MUTANTS_SEED)

# modules whose mutants of this seed have all been tried; the others follow with `make mutants`
SAMPLED := ejfat/events/reassembly.py hfi_sim/engine/link/credits.py hfi_sim/fabric/faults/manager.py \
           hfi_sim/routing/dimension_order.py lnet/routes/messages.py lnet/routes/multi_rail.py lnet/routes/rails.py \
           vema/em/core/dialogue.py

mutants-sample: venv ## the mutants that CI tries: a fixed sample, within two minutes
	$(BIN)/python -m tools.mutants --count 30 --seed 48 $(SAMPLED)

# a part of the mutants of the engine in Rust, K/N: each N-th one, from the K-th on
MUTANTS_SHARD ?= 0/100

mutants-native: ## the same of the engine in Rust with cargo-mutants, which it installs (minutes); MUTANTS_SHARD=K/N
	@command -v cargo-mutants >/dev/null || cargo install --quiet --locked cargo-mutants \
	  || { echo "cargo-mutants could not be installed: see what cargo says" >&2; exit 1; }
	cd native && { cargo mutants --shard $(MUTANTS_SHARD) --sharding round-robin \
	  || { test $$? -eq 3 && test ! -s target/mutants.out/missed.txt; }; }  # 3: some ran for ever, which is noticed, too

HOST     := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
COVERAGE := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
            -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
            -Cllvm-args=-sanitizer-coverage-trace-compares
FUZZ_S   ?= 60
# the compiler's unstable options, of which the sanitizers are, with a stable toolchain
UNSTABLE := RUSTC_BOOTSTRAP=1

sanitize: ## the tests of native/ with AddressSanitizer and its leak check
	cd native && $(UNSTABLE) RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=target/asan \
	  cargo test --locked --quiet --target $(HOST)

memcheck: ## the tests of native/ under valgrind, which knows no AVX-512: the portable code runs
	@command -v valgrind >/dev/null || sh tools/install-packages.sh valgrind
	cd native && CARGO_TARGET_$(shell echo $(HOST) | tr a-z- A-Z_)_RUNNER='valgrind --quiet --error-exitcode=9' \
	  cargo test --locked --quiet

fuzz: ## each fuzz target of native/ for FUZZ_S seconds, with AddressSanitizer; no cargo-fuzz needed
	cd native/fuzz && $(UNSTABLE) RUSTFLAGS='--cfg fuzzing $(COVERAGE) -Zsanitizer=address -Ccodegen-units=1' \
	  CARGO_TARGET_DIR=../target/fuzz cargo build --quiet --release --locked --target $(HOST)
	set -e; for target in native/fuzz/fuzz_targets/*.rs; do \
	  native/target/fuzz/$(HOST)/release/$$(basename $$target .rs) -max_total_time=$(FUZZ_S) -max_len=4000; done
	$(BIN)/python -m pytest -q -m long tests/unit/opavnic/kernel/test_hfi_model.py

lint: venv ## style, types, floors, generated files
	@$(MAKE) --no-print-directory --output-sync=target -j2 lint-python lint-native

lint-python: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.floors
	$(BIN)/python -m tools.layout
	$(BIN)/python -m tools.doc_blocks
	$(BIN)/python -m tools.docstrings
	$(BIN)/python -m tools.generate --check
	$(BIN)/python -m tools.english

lint-native:
	@if command -v cargo >/dev/null; then cd native && cargo fmt --check && cargo clippy --locked --quiet --all-targets -- -D warnings; fi

format: venv ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generated: venv ## make the generated files again from their declarations (tools/generate)
	$(BIN)/python -m tools.generate

dist: venv ## build sdist, manylinux wheel and Debian packages, and try them where no compiler is
	@sh tools/install-packages.sh mmdebstrap:mmdebstrap
	$(BIN)/python -m tools.release

clean: ## remove what the build made
	rm -rf $(VENV) native/target build dist *.egg-info bench/build bench/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
