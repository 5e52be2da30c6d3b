# The everyday targets. `make` lists them.
.PHONY: help build release reproducible test race lint fuzz ci nightly
FUZZTIME ?= 10s

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' Makefile

build: ## build ./ckpt
	go build -o ckpt ./cmd/ckpt

release: ## build static binaries for linux, with checksums, into dist/
	.ci/release

reproducible: ## build a release twice and compare
	.ci/reproducible

test: ## run the tests that every developer waits for
	go test ./...

race: ## run the packages with goroutines under the race detector
	go test -race -timeout 20m ./coordinator/... ./image/... ./iotrace ./iotrace/replay

lint: ## gofmt, tests of imports and prose, the linters of .golangci.yml
	.ci/lint

fuzz: ## run every fuzz target for FUZZTIME
	.ci/fuzz $(FUZZTIME)

ci: ## run what every change must pass
	.ci/run

nightly: ## run the long forms as well
	CKPT_NIGHTLY=1 .ci/run
