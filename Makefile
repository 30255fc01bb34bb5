# SPDX-License-Identifier: MIT
# A thin front to Meson; `make help` lists what there is.
PREFIX  ?= /usr/local
DESTDIR ?=
SEED    ?= 78
SEEDS   ?= 10000
SOAK    ?= 3600
BASE    ?= HEAD~1

.PHONY: all help run demo test campaign simulate soak bench compare lint fuzz install clean format

all: build/build.ninja
	@ninja -C build --quiet

build/build.ninja:
	@command -v meson >/dev/null || { echo "meson is missing: run tools/install-deps run" >&2; exit 1; }
	@meson setup build --prefix=$(PREFIX) >/dev/null

help:
	@echo "make            build/daruma and build/libdaruma.*"
	@echo "make run        install what is missing, build, start the server"
	@echo "make demo       the demonstration of the library"
	@echo "make test       install what is missing, build every way, run every test"
	@echo "make campaign   the random tests at full size (SEED=N repeats one)"
	@echo "make simulate   SEEDS=N lives of the engine in a hostile world, from SEED"
	@echo "make soak       SOAK=SECONDS (3600) of mixed traffic on each store; nothing may grow"
	@echo "make bench      measure; writes bench/results and docs/performance.md"
	@echo "make compare    BASE=REVISION: this tree's program beside that of another"
	@echo "make lint       layers, banned calls, lengths, formatting, documents"
	@echo "make fuzz       each fuzz target, and the real server, for FUZZ_SECONDS (60; SEED=N repeats)"
	@echo "make install    PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)"
	@echo "make clean      remove everything that was built"

run:
	@tools/install-deps run
	@$(MAKE) --no-print-directory all
	@mkdir -p var
	@echo "API      http://127.0.0.1:8700   (docs: http://127.0.0.1:8700/v1/openapi.json, metrics: /metrics)"
	@echo "try it   curl -i http://127.0.0.1:8700/v1/queues/demo/tasks -d '{\"target\":\"http://127.0.0.1:8700/healthz\",\"method\":\"GET\"}'"
	@echo "then     build/daruma tasks demo        (Ctrl-C stops the server)"
	@exec build/daruma serve -c config/daruma.yaml

demo: all
	@build/examples/retry-demo

test:
	@tools/install-deps test
	@python3 tools/test all

campaign:
	@tools/install-deps test
	@DARUMA_SEED=$(SEED) python3 tools/test campaign

simulate:
	@tools/install-deps test
	@DARUMA_SEED=$(SEED) DARUMA_SIM_SEEDS=$(SEEDS) python3 tools/test simulate

soak:
	@tools/install-deps test
	@DARUMA_SEED=$(SEED) DARUMA_SOAK_SECONDS=$(SOAK) python3 tools/test soak

bench:
	@tools/install-deps bench
	@meson setup build-bench -Dbench=true >/dev/null
	@ninja -C build-bench --quiet
	@python3 bench/run --build build-bench
	@python3 bench/server/run --build build-bench
	@python3 bench/providers/run --build build-bench
	@python3 bench/gateway/run --build build-bench
	@python3 bench/postgres/run --build build-bench
	@python3 bench/scale/run --build build-bench

compare:
	@tools/install-deps bench
	@meson setup build-bench -Dbench=true >/dev/null
	@ninja -C build-bench --quiet
	@python3 bench/compare --build build-bench --base $(BASE) --instructions

lint:
	@python3 tools/lint

fuzz:
	@tools/install-deps test
	@DARUMA_FUZZ_SEED=$(if $(filter file,$(origin SEED)),$$(date +%s),$(SEED)) \
		python3 tools/test fuzz --seconds $${FUZZ_SECONDS:-60}

install: all
	@meson configure build --prefix=$(PREFIX) >/dev/null
	@DESTDIR=$(abspath $(DESTDIR)) meson install -C build --quiet

clean:
	@rm -rf build build-*

format:
	@git ls-files '*.c' '*.h' | xargs clang-format-14 -i
