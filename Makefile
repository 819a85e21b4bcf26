# Two commands do everything on a fresh machine: `make demo` and `make test`.
# Each makes the virtual environment, and asks for the Debian packages, where they are missing.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.stamp
# program:package pairs that the demo and the tests start as real programs
TOOLS  := ip:iproute2 ping:iputils-ping iperf3:iperf3 tcpdump:tcpdump tshark:tshark

.PHONY: help venv native deps bench-peers demo test test-fast test-slow lint format proto clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

venv: $(STAMP) ## make .venv with everything in it; the program is .venv/bin/opavnic

$(STAMP): pyproject.toml Makefile $(wildcard native/Cargo.* native/src/*.rs)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "opavnic needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || sh tools/install-packages.sh python3-venv
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	@touch $@

native: ## build the fast datapath again; `make venv` builds it too, where cargo is
	@command -v cargo >/dev/null || { echo "no cargo here: https://rustup.rs, or Debian's package cargo" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --no-deps -e .

bench-peers: ## install the peers that `opavnic bench datapath` measures beside ours
	@sh tools/install-packages.sh iperf3:iperf3 vde_switch:vde2 ovs-vswitchd:openvswitch-switch

deps: ## install the Debian packages that the demo and the tests use
	@sh tools/install-packages.sh $(TOOLS)

demo: venv deps ## two hosts, real TAPs, ping and a TCP transfer
	$(BIN)/opavnic demo

test: venv deps ## everything but the tests marked slow
	$(BIN)/python -m pytest -m 'not slow' -n 2 --dist loadfile
	@if command -v cargo >/dev/null; then cd native && cargo test --locked --quiet --no-default-features; fi

test-fast: venv ## only what needs no privilege
	$(BIN)/python -m pytest -m 'not slow and not e2e' -n 2

test-slow: venv deps ## the tests marked slow
	$(BIN)/python -m pytest -m slow

lint: venv ## style, types, floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if command -v cargo >/dev/null; then cd native && cargo fmt --check && cargo clippy --locked --quiet --all-targets -- -D warnings; fi

format: venv ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

proto: venv ## make the gRPC messages and stubs again from their .proto files
	$(BIN)/python -m grpc_tools.protoc -I . --python_out=. --pyi_out=. --grpc_python_out=. ejfat/control/pb/*.proto

clean: ## remove what the build made
	rm -rf $(VENV) native/target build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
