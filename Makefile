# The everyday targets. `make` lists them.
.PHONY: help build release reproducible installed test test-all bare race lint fuzz ci nightly
FUZZTIME ?= 10s

help: ## list the targets, with their times on two cores
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' Makefile

# Half of the linker's time goes into what only a debugger reads.
build: ## build ./ckpt (a minute at first, then 2 to 15 s after a change)
	go build -ldflags=-w -o ckpt ./cmd/ckpt

release: ## build archives and packages for linux, with checksums, into dist/ (2 min)
	.ci/release

reproducible: ## build a release twice and compare (1 min)
	.ci/reproducible

installed: ## install what is in dist/ into scratch folders, use it, remove it (2 s)
	.ci/installed dist

test: ## run the tests that everybody waits for: of scripts, pages and jobs a half (up to 8 min)
test-all: NAMED = -timeout 30m -run .
test-all: ## run all tests (3 to 13 min)
test test-all:
	@list=/tmp/ckpt-skipped-$$(id -u); : >"$$list"; CKPT_SKIPPED=$$list go test $(NAMED) ./...; status=$$?; \
	sed "s|^$$PWD|skipped: .|; / go test -run \.$$/d" "$$list" | sort -u; exit $$status

bare: ## type the first block of README with a PATH of go, git and sh (as long as test)
	.ci/bare

race: ## run the packages with goroutines under the race detector (10 to 20 min)
	go test -race -timeout 20m ./coordinator/... ./image/... ./iotrace ./iotrace/replay

lint: ## gofmt, tests of imports and prose, the linters of .golangci.yml (1 min)
	.ci/lint

fuzz: ## run every fuzz target for FUZZTIME (4 min)
	.ci/fuzz $(FUZZTIME)

ci: ## run what every change must pass (10 min)
	.ci/run

nightly: ## run the long forms as well (hours)
	CKPT_NIGHTLY=1 .ci/run
