package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/root"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/testkit"
)

// effectLines are command lines that answer; the first few are tried every time.
var effectLines = []string{
	"predict count --checkpoint-time 20s --overhead 10% --app-time 24h",
	"interval --cost 60s --mtbf 12h",
	"predict size bt.B.16 --nodes 2",
	"predict scale bt.C",
	"predict time bt.B.16 --nodes 2",
	"predict storage --size 911GiB --nodes 128 --node-mtbf 5y --waste 2%",
	"predict count bt.B.16 --nodes 2 --overhead 10% --app-time 24h",
	"predict plan bt.B.16 --overhead 10% --app-time 24h",
	"predict plan bt.B.16 --mtbf 12h --app-time 24h --nodes 4",
	"predict plan bt.B.16 --mtbf 12h --app-time 24h --nodes 4 --local-rate 2GiB/s --store-rate 300MiB/s --share-local 80%",
	"predict plan bt.B.16 --overhead 10% --app-time 24h --on nfs",
	"predict plan bt.B.16 --overhead 10% --app-time 24h --engine ckpt",
	"predict time bt.B.16 --nodes 2 --on nfs",
	"predict time bt.B.16 --nodes 2 --engine ckpt",
	"predict time bt.B.16 --nodes 4 --mode semi",
	"predict count bt.B.16 --nodes 2 --overhead 10% --app-time 24h --on nfs",
	"predict count bt.B.16 --nodes 2 --overhead 10% --app-time 24h --mtbf 12h",
	"predict storage bt.D.64 --nodes 4 --mtbf 12h --waste 5%",
	"interval bt.B.16 --mtbf 12h",
	"interval bt.B.16 --mtbf 12h --nodes 4 --mode semi",
	"interval --storage-level local=5s --storage-level store=60s --share-local 80% --mtbf 12h",
	"layout bt.B.16 --nodes 4",
	"layout bt.B.16 --nodes 4 --layout shared",
	"layout bt.B.16 --nodes 4 --layout shared --on nfs",
	"tune bt.B.16 --nodes 4 --on nfs",
	"tune bt.B.16 --nodes 4 --on nfs --level application --following",
	"predict size bt.B.16 --nodes 2 --engine ckpt",
	"predict size bt.B.16 --nodes 2 --engine dmtcp",
	"predict size bt.B.16 --nodes 4 --level application",
	"predict size bt.B.16 --nodes 2 --level application --codec zstd",
	"predict time bt.B.16 --nodes 2 --level application",
	"predict time bt.B.16 --nodes 2 --level application --on nfs",
	"predict time bt.B.16 --nodes 4 --level application --mode semi",
	"predict plan bt.B.16 --overhead 10% --app-time 24h --level application",
	"predict plan bt.B.16 --mtbf 12h --app-time 24h --nodes 4 --level application --on nfs",
	"predict count bt.B.16 --nodes 2 --overhead 10% --app-time 24h --level application",
	"predict storage bt.D.64 --nodes 4 --mtbf 12h --waste 5% --level application",
	"predict storage bt.D.64 --nodes 4 --mtbf 12h --waste 5% --level application --codec zstd",
	"predict storage bt.D.64 --nodes 4 --mtbf 12h --waste 5% --engine dmtcp",
	"simulate --nodes 64 --node-bytes 8GiB --store-rate 10GiB/s --node-mtbf 60d --app-time 5d --runs 20",
	"simulate --nodes 64 --np 256 --node-bytes 8GiB --store-rate 10GiB/s --local-rate 1GiB/s --node-mtbf 60d --app-time 5d --runs 20 --mode semi,uncoordinated --logging 2% --node-loss 50% --spares 1 --repair 1d",
}

// effectValues has for each flag a value that the command lines above do not use.
var effectValues = map[string]string{
	"map": "6,10", "mpi": "openmpi", "codec": "gzip", "io": "full", "law": "power", "engine": "ckpt", "on": "eos-spider2", "background": "20%",
	"measure-size": "1MiB", "nodes": "8", "mode": "uncoordinated", "log": "pessimistic-sender", "group-size": "2", "stagger": "none",
	"aggregators": "2", "buffers": "8MiB", "buffer": "8MiB", "ppn": "8", "minimize": "storage", "keep": "3", "capacity": "10MiB", "top": "1",
	"max-nodes": "1", "checkpoints": "3", "interval": "20m", "mtbf": "1d", "node-mtbf": "30d", "local-rate": "1GiB/s", "store-rate": "200MiB/s",
	"network-rate": "10MiB/s", "share-local": "70%", "protect": "partner:2", "drain-slowdown": "3%", "layout": "aggregated", "overhead": "0.1%",
	"app-time": "12h", "checkpoint-time": "30s", "size": "3GiB", "restart": "40s", "downtime": "50s", "strategy": "static", "stripe-size": "2MiB",
	"stripe-count": "4", "first-ost": "1", "osts": "0-2", "rank": "4", "with": "bt.B.16,nodes=4", "policy": "fifo", "objective": "bytes", "memory": "40MiB",
	"cost": "70s", "replay": "2", "logging": "3%", "logged": "50%", "log-growth": "1%", "seed": "4", "shape": "0.7", "waste": "4%",
	"node-rate": "7GiB/s", "level": "application", "machine-nodes": "500", "store": "elsewhere", "async": "2", "lag": "20s",
	"node-bytes": "9GiB", "drain": "every=2", "node-loss": "40%", "detect": "50s", "spares": "2", "repair": "2d", "slack": "20s", "coordination": "1ms", "group-nodes": "4",
	"domains": "4", "domain-mtbf": "30d", "store-mtbf": "2d", "store-repair": "2h", "walltime": "1d", "queue": "1h", "machine": "summit", "target": "waste<5%", "solve": "nodes=4..8",
}

// effectElsewhere are flags that need files, change only texts, or are shown to change nothing
// by a warning while their old meaning is deprecated.
var effectElsewhere = []string{"np", "model", "measure", "runs", "plot", "failures", "from-job", "storage-level", "vary", "manager-files", "system", "all", "help",
	"json", "quiet", "verbose"}

// TestEffects: each flag of a command that predicts changes its answer, or is refused.
func TestEffects(t *testing.T) {
	t.Parallel()
	lines := effectLines
	if !testkit.Nightly() {
		lines = lines[:4]
	}
	tried := 0
	for _, line := range lines {
		words := strings.Fields(line)
		cmd, _, err := root.New(&ui.Globals{}).Find(words)
		if err != nil {
			t.Fatal(err)
		}
		plain, status := answer(t, words)
		if status != 0 {
			t.Fatalf("%s: status %d", line, status)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			value := effectValues[f.Name]
			if f.Name == "engine" && strings.Contains(line, "application") {
				value = "dmtcp" // ckpt is the usual one there
			}
			if f.Value.Type() == "bool" {
				value = map[string]string{"true": "false", "false": "true"}[f.DefValue]
			}
			deprecated := cmd.Name() == "interval" && f.Name == "nodes"
			if f.Hidden || deprecated || slices.Contains(words, "--"+f.Name) || slices.Contains(effectElsewhere, f.Name) {
				return
			}
			if value == "" {
				t.Errorf("%s: --%s has no value here", cmd.CommandPath(), f.Name)
				return
			}
			tried++
			if out, status := answer(t, append(slices.Clone(words), "--"+f.Name+"="+value)); status == 0 && out == plain {
				t.Errorf("ckpt %s --%s=%s: no effect", line, f.Name, value)
			}
		})
	}
	t.Logf("%d flags", tried)
}

// answer returns the JSON and the status of a command line.
func answer(t *testing.T, words []string) (string, int) {
	t.Helper()
	var out, said bytes.Buffer
	status := root.Run(t.Context(), append(slices.Clone(words), "--json"), ui.Streams{In: strings.NewReader(""), Out: &out, Err: &said})
	return out.String(), status
}
