package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

func TestMain(m *testing.M) {
	if os.Getenv(straced) != "" {
		replayForStrace()
		return
	}
	testkit.Sample(30)
	goleak.VerifyTestMain(m)
}

// record replays and returns what the replay was recorded to do.
func record(tb testing.TB, t *iotrace.Trace, o Options) (*iotrace.Trace, *Result, error) {
	tb.Helper()
	var buf bytes.Buffer
	o.Recorder = iotrace.NewRecorder(&buf, iotrace.Meta{Job: t.Job, Source: "replay"})
	if o.Dir == "" {
		o.Dir = "/replay"
	}
	res, err := Run(context.Background(), t, o)
	if cerr := o.Recorder.Close(); cerr != nil {
		tb.Fatal(cerr)
	}
	got, rerr := iotrace.ReadTrace(&buf)
	if rerr != nil {
		tb.Fatal(rerr)
	}
	return got, res, err
}

// A step is an operation, without its time.
type step struct {
	Op         iotrace.Op
	File       string
	Off, Bytes int64
}

// steps returns what each rank did, in order.
func steps(t *iotrace.Trace) map[iotrace.Rank][]step {
	names := flatten(t.Files)
	out := make(map[iotrace.Rank][]step)
	for _, e := range t.Events {
		s := step{Op: e.Op, Bytes: e.Bytes}
		if e.Op.Data() {
			s.Off = e.Offset
		}
		if e.File != iotrace.None {
			s.File = names[e.File]
		}
		out[t.Ranks[e.Rank]] = append(out[t.Ranks[e.Rank]], s)
	}
	return out
}

// chosen returns a copy of the events to replay.
func chosen(t *iotrace.Trace) (*iotrace.Trace, leftOuts) {
	out, left, _ := choose(context.Background(), t, false) // only a context fails it
	return out, left
}

// sequential makes each rank do one thing at a time: only then is the order of its
// operations certain.
func sequential(t *iotrace.Trace) {
	last := make(map[int32]int64)
	for i := range t.Events {
		e := &t.Events[i]
		e.End -= e.Start
		e.Start = max(e.Start, last[e.Rank])
		e.End += e.Start
		last[e.Rank] = e.End
	}
	t.Sort()
}

func builtin(tb testing.TB, name string, p iotracetest.Params) *iotrace.Trace {
	tb.Helper()
	t := iotracetest.Builtin(name, p)
	return t
}

// TestSameOperations: what the trace of a replay shows is what was replayed, rank by
// rank: the same operations in the same order with the same sizes and offsets.
func TestSameOperations(t *testing.T) {
	traces := map[string]*iotrace.Trace{
		"per rank":   iotracetest.PerRank(4, 5, 2),
		"aggregated": iotracetest.Aggregated(8, 3, 2),
	}
	for _, name := range iotracetest.Builtins() {
		traces[name] = builtin(t, name, iotracetest.Params{Class: "A"})
	}
	for _, pattern := range iotracetest.Patterns() {
		for _, shared := range []bool{false, true} {
			for _, read := range []bool{false, true} {
				tr := iotracetest.Generate(iotracetest.Spec{Pattern: pattern, Shared: shared, Read: read, Variable: true, Ranks: 3, Ops: 60, Bursts: 2, Noise: 0.1, Seed: 3})
				traces[fmt.Sprintf("%s shared=%t read=%t", pattern, shared, read)] = tr
			}
		}
	}
	for name, tr := range traces {
		t.Run(name, func(t *testing.T) {
			sequential(tr)
			m := newMemFS()
			got, res, err := record(t, tr, Options{fs: m})
			if err != nil {
				t.Fatal(err)
			}
			want, _ := chosen(tr)
			if diff := cmp.Diff(steps(want), steps(got)); diff != "" {
				t.Error(diff)
			}
			if res.MissingBytes != 0 || res.Opens != 0 && name != "per rank" && name != "aggregated" {
				t.Errorf("%+v", res)
			}
			if res.Traced.BytesWritten != res.Replayed.BytesWritten || res.Traced.BytesRead != res.Replayed.BytesRead || res.Traced.Operations != res.Replayed.Operations {
				t.Errorf("traced %+v, replayed %+v", res.Traced, res.Replayed)
			}
			if m.open != 0 || len(m.names()) != 0 {
				t.Errorf("%d files are open, %v is left", m.open, m)
			}
		})
	}
}

// TestMissingBytes: what was not there to read was not read.
func TestMissingBytes(t *testing.T) {
	event := func(op iotrace.Op, off, n, at int64) iotrace.Event {
		return iotrace.Event{Op: op, Peer: iotrace.None, Offset: off, Bytes: n, Start: at, End: at + 1}
	}
	tr := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: 0}}, Files: []string{"f"}, Events: []iotrace.Event{
		event(iotrace.Write, 0, 8192, 0), event(iotrace.Truncate, iotrace.None, 1000, 2), event(iotrace.Read, 0, 8192, 4), event(iotrace.Read, 4096, 4096, 6)}}
	got, res, err := record(t, tr, Options{Dir: filepath.Join(t.TempDir(), "try")})
	if err != nil {
		t.Fatal(err)
	}
	if res.Replayed.BytesRead != 1000 || res.Replayed.BytesWritten != 8192 || res.MissingBytes != 7192+4096 || res.Traced.BytesRead != 8192+4096 {
		t.Errorf("%+v", res)
	}
	for _, o := range res.Operations {
		if o.Op == "read" && (o.Replayed.Bytes != 1000 || o.Replayed.Rate() != 1000/o.Replayed.Time) {
			t.Errorf("%+v", o)
		}
	}
	var read []int64
	for _, e := range got.Events {
		if e.Op == iotrace.Read {
			read = append(read, e.Bytes)
		}
	}
	if diff := cmp.Diff([]int64{1000, 0}, read); diff != "" {
		t.Error(diff)
	}
}

// TestAnyTrace: whatever is in a trace, the replay ends, with no error but that of
// an option, and leaves nothing.
func TestAnyTrace(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tr := iotracetest.Any().Draw(rt, "trace")
		for i := range tr.Events {
			e := &tr.Events[i]
			e.Bytes %= 1 << 16
		}
		if rapid.Bool().Draw(rt, "sequential") {
			sequential(tr)
			for _, e := range tr.Events {
				if e.End > iotrace.MaxTime {
					rt.Skip()
				}
			}
		}
		m := newMemFS()
		o := Options{fs: m, Ranks: rapid.IntRange(0, 7).Draw(rt, "ranks"),
			Layout: rapid.SampledFrom([]Layout{Traced, PerRank, Aggregated, Shared}).Draw(rt, "layout")}
		got, res, err := record(t, tr, o)
		if _, ok := err.(*OptionError); err != nil && !ok {
			rt.Fatal(err)
		}
		if m.open != 0 || len(m.names()) != 0 {
			rt.Errorf("%d files are open, %v is left", m.open, m)
		}
		if err == nil && (res.Replayed.Operations != int64(len(got.Events)) || iotracetest.Valid(got) != nil) {
			rt.Errorf("%+v, recorded %d", res, len(got.Events))
		}
	})
}

// hurried is a trace of ranks with several operations at a time, on shared files.
func hurried(rt *rapid.T) *iotrace.Trace {
	seed := rapid.Uint64().Draw(rt, "seed")
	r := rand.New(rand.NewPCG(seed, 1))
	ranks, files := 1+r.IntN(5), 1+r.IntN(4)
	tr := &iotrace.Trace{Job: "hurried"}
	for i := range ranks {
		tr.Ranks = append(tr.Ranks, iotrace.Rank{Rank: i})
	}
	for i := range files {
		tr.Files = append(tr.Files, fmt.Sprintf("/d/f%d", i))
	}
	var now int64
	for range r.IntN(60) {
		now += r.Int64N(3)
		op := iotrace.Op(1 + r.IntN(int(iotrace.Barrier)))
		e := iotrace.Event{Op: op, Rank: int32(r.IntN(ranks)), File: int32(r.IntN(files)), Peer: iotrace.None, Checkpoint: int32(r.IntN(2)),
			Create: r.IntN(2) == 0, Offset: r.Int64N(1<<16) - 1, Bytes: r.Int64N(1 << 14), Start: now, End: now + r.Int64N(8)}
		if op == iotrace.Barrier {
			e.File = iotrace.None
		}
		if op == iotrace.Rename && r.IntN(3) > 0 {
			tr.Renames = append(tr.Renames, iotrace.Renaming{From: e.File, To: int32(r.IntN(files)), At: e.End})
		}
		tr.Events = append(tr.Events, e)
	}
	return tr
}

// TestOrder: an operation begins after those of its rank that had ended in the trace
// when it began, whatever else happens at the same time.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tr, _, err := choose(t.Context(), hurried(rt), false)
		if err != nil {
			rt.Fatal(err)
		}
		if len(tr.Events) == 0 {
			rt.Skip()
		}
		p, err := newPlan(t.Context(), tr)
		if err != nil {
			rt.Fatal(err)
		}
		m := newMemFS()
		o := Options{Dir: "/", fs: m, clock: systemClock{}}
		r := newRunning(p, &o)
		if err := r.prepare(context.Background()); err != nil {
			rt.Fatal(err)
		}
		if err := r.run(context.Background()); err != nil {
			rt.Fatal(err)
		}
		if err := r.close(); err != nil || m.open != 0 {
			rt.Fatal(err, m.open)
		}
		for i := range p.events {
			for j := range p.events {
				a, b := p.op(int32(i)), p.op(int32(j))
				waits := a.Rank == b.Rank || a.File == b.File && a.File >= 0 && b.Op == iotrace.Read ||
					b.Op == iotrace.Rename && (a.File == b.File || a.File == b.Peer)
				if i < j && waits && a.End <= b.Start && a.end > b.begin {
					rt.Fatalf("op %d ended at %d, op %d began at %d\n%+v\n%+v", i, a.end, j, b.begin, a, b)
				}
				if a.meeting >= 0 && a.meeting == b.meeting && a.end < b.begin {
					rt.Fatalf("op %d left the barrier at %d, op %d came at %d", i, a.end, j, b.begin)
				}
			}
		}
	})
}

// TestConcurrency: ranks, and operations of a rank, that were under way together
// are so again; none that were not.
func TestConcurrency(t *testing.T) {
	// Every request waits until as many are under way as in the trace.
	for _, at := range []int{1, 2, 5} {
		tr := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: 0}, {Rank: 1}}, Files: []string{"a", "b"}}
		for k := range 10 {
			for i := range at {
				for rank := range int32(2) {
					tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Write, Rank: rank, File: rank, Peer: iotrace.None, Offset: int64(k*at + i), Bytes: 1,
						Start: int64(100*k + i), End: int64(100*k + 99)})
				}
			}
		}
		m := newMemFS()
		together := make(chan struct{})
		count := 0
		m.busy = func() {
			m.mu.Lock()
			c := together
			if count++; count == 2*at {
				count, together = 0, make(chan struct{})
				close(c)
			}
			m.mu.Unlock()
			<-c
		}
		_, res, err := record(t, tr, Options{fs: m})
		if err != nil {
			t.Fatal(err)
		}
		if m.most != 2*at || res.Traced.AtOnce != int64(2*at) {
			t.Errorf("%d at a time, %d in the trace, want %d", m.most, res.Traced.AtOnce, 2*at)
		}
	}
	// Processes that came one after the other.
	tr := &iotrace.Trace{Files: []string{"a"}}
	for i := range int32(8) {
		tr.Ranks = append(tr.Ranks, iotrace.Rank{Rank: int(4000 + i)})
		for k := range int64(5) {
			tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Write, Rank: i, File: 0, Peer: iotrace.None, Offset: k, Bytes: 1,
				Start: int64(i)*10 + k, End: int64(i)*10 + k + 1})
		}
	}
	m := newMemFS()
	if _, _, err := record(t, tr, Options{fs: m}); err != nil {
		t.Fatal(err)
	}
	if m.most != 1 {
		t.Errorf("%d at a time", m.most)
	}
}

// TestDisk replays on a real file system.
func TestDisk(t *testing.T) {
	for _, direct := range []bool{false, true} {
		t.Run(fmt.Sprintf("direct=%t", direct), func(t *testing.T) {
			dir := t.TempDir()
			if direct {
				f, err := vfs.OS{}.Create(filepath.Join(dir, "probe"))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				d, err := f.ReopenDirect()
				if err != nil {
					t.Skip(err)
				}
				d.Close()
			}
			tr := builtin(t, "minighost", iotracetest.Params{Class: "A", Ranks: 4, Buffer: 1 << 20})
			end := tr.Events[len(tr.Events)-1].End
			tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Write, Rank: 1, File: 0, Peer: iotrace.None, Offset: 20 << 20, Bytes: 1 << 20,
				Start: end, End: end}, iotrace.Event{Op: iotrace.Read, Rank: 1, File: int32(len(tr.Files)), Peer: iotrace.None, Offset: 10, Bytes: 9 << 20,
				Start: end, End: end + 1e9})
			tr.Files = append(tr.Files, "/etc/input")
			var moved, want int64
			o := Options{Dir: filepath.Join(dir, "new"), Direct: direct, Keep: true, Progress: func(done, total int64) { moved, want = done, total }}
			_, res, err := record(t, tr, o)
			if err != nil {
				t.Fatal(err)
			}
			if res.MissingBytes != 0 || res.PreparedFiles != 1 || res.Opens != 2 || res.PreparedBytes != 9<<20 || moved != want || moved == 0 || direct != (res.DirectRequests > 0) {
				t.Errorf("%+v; moved %d, want %d", res, moved, want)
			}
			var names []string
			entries, err := os.ReadDir(o.Dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				fi, _ := e.Info()
				names = append(names, fmt.Sprintf("%s %d", e.Name(), fi.Size()))
			}
			if diff := cmp.Diff([]string{fmt.Sprintf("etc_input %d", 10+9<<20), fmt.Sprintf("minighost.ckpt %d", 21<<20)}, names); diff != "" {
				t.Error(diff)
			}
			// A second one finds the files; only if it may, it replaces them.
			if _, _, err := record(t, tr, o); !errors.Is(err, fs.ErrExist) {
				t.Errorf("again: %v", err)
			}
			o.Overwrite, o.Keep = true, false
			if _, _, err := record(t, tr, o); err != nil {
				t.Error(err)
			}
			if entries, err := os.ReadDir(o.Dir); err != nil || len(entries) != 0 {
				t.Errorf("%v, %v is left", err, entries)
			}
		})
	}
}
