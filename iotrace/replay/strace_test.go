package replay

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckpt/internal/testkit"
	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
	"ckpt/iotrace/strace"
)

// straced is set to a name and a directory in the process that runs under strace.
const straced = "CKPT_TEST_REPLAY"

// stracedTraces are those that are replayed under strace.
func stracedTraces(tb testing.TB) map[string]*iotrace.Trace {
	out := map[string]*iotrace.Trace{"perrank": iotracetest.PerRank(3, 5, 2)}
	for _, name := range iotracetest.Builtins() {
		p := iotracetest.Params{Class: "A", Ranks: 3}
		if name == "dmtcp" {
			p.Ranks = 1 // 126 MiB
		}
		t := iotracetest.Builtin(name, p)
		out[name] = t
	}
	for _, t := range out {
		sequential(t)
	}
	return out
}

func replayForStrace() {
	dir, name := filepath.Split(os.Getenv(straced))
	t := stracedTraces(nil)[name]
	if _, err := Run(context.Background(), t, Options{Dir: dir}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestStrace: the system calls of a replay, as strace sees them, are the operations
// of the trace: for each file the same writes, reads, syncs and cuts, with the same
// sizes and offsets; in the same order where one rank uses the file, for strace
// does not tell ranks apart that are threads.
func TestStrace(t *testing.T) {
	testkit.All(t, "strace")
	for name, tr := range stracedTraces(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			text := filepath.Join(dir, "text")
			cmd := exec.Command("strace", "-f", "-ttt", "-T", "-y", "-s", "0", "-o", text, os.Args[0])
			cmd.Env = append(os.Environ(), straced+"="+filepath.Join(dir, "try", name))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			f, err := os.Open(text)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			seen, _, err := strace.Read(f, iotrace.Options{})
			if err != nil {
				t.Fatal(err)
			}
			kept, _ := chosen(tr)
			want, got := requests(kept, ""), requests(seen, filepath.Join(dir, "try"))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// requests returns what was done to each file below dir.
func requests(t *iotrace.Trace, dir string) map[string]any {
	names := make([]string, len(t.Files))
	if dir == "" {
		names = flatten(t.Files)
	} else {
		for i, name := range t.Files {
			if filepath.Dir(name) == dir {
				names[i] = filepath.Base(name)
			}
		}
	}
	order := make(map[string][]step)
	for _, e := range t.Events {
		if e.File == iotrace.None || names[e.File] == "" || !e.Op.Data() && e.Op != iotrace.Sync && e.Op != iotrace.Truncate {
			continue
		}
		s := step{Op: e.Op, Bytes: e.Bytes}
		if e.Op.Data() {
			s.Off = e.Offset
		}
		order[names[e.File]] = append(order[names[e.File]], s)
	}
	out := make(map[string]any)
	for name, steps := range order {
		if name != "minighost.ckpt" { // the one that several ranks use
			out[name] = steps
			continue
		}
		counts := make(map[step]int)
		for _, s := range steps {
			counts[s]++
		}
		out[name] = counts
	}
	return out
}
