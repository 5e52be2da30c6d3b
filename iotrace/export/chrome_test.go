package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

// An object of the Trace Event format. Times are kept as text, to see that they
// are exact.
type object struct {
	Name, Ph, Cat, Bp string
	Pid, Tid          int
	ID                int64
	Ts, Dur           json.Number
	Args              map[string]any
}

type document struct {
	DisplayTimeUnit string
	OtherData       map[string]string
	TraceEvents     []object
}

// nanos turns microseconds into ns.
func nanos(n json.Number) (int64, error) {
	f, ok := new(big.Rat).SetString(n.String())
	if !ok {
		return 0, fmt.Errorf("%q is no time", n)
	}
	f.Mul(f, big.NewRat(1000, 1))
	if !f.IsInt() || !f.Num().IsInt64() || f.Sign() < 0 {
		return 0, fmt.Errorf("%s us are no whole ns", n)
	}
	return f.Num().Int64(), nil
}

type slice struct{ start, end int64 }

// checkChrome holds a document to the rules of the format, and to the trace.
func checkChrome(tr *iotrace.Trace, b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	d.DisallowUnknownFields()
	var doc document
	if err := d.Decode(&doc); err != nil {
		return err
	}
	processes, threads := make(map[int]string), make(map[int]int)
	open := make(map[int][]slice) // of a thread
	last, slices, metadata := int64(0), 0, true
	var moved [2]float64 // MiB read and written according to the counter
	var width, sampled int64
	for i, o := range doc.TraceEvents {
		fail := func(format string, args ...any) error {
			return fmt.Errorf("event %d: %+v: %s", i, o, fmt.Sprintf(format, args...))
		}
		if o.Ph == "M" {
			if !metadata {
				return fail("metadata comes late")
			}
			switch o.Name {
			case "process_name":
				processes[o.Pid] = o.Args["name"].(string)
			case "thread_name":
				if _, twice := threads[o.Tid]; twice || o.Tid < 1 {
					return fail("thread number is not its own")
				}
				threads[o.Tid] = o.Pid
			case "process_sort_index":
			default:
				return fail("unknown metadata")
			}
			continue
		}
		metadata = false
		ts, err := nanos(o.Ts)
		if err != nil {
			return fail("%v", err)
		}
		if ts < last {
			return fail("time runs backwards")
		}
		last = ts
		if processes[o.Pid] == "" || o.Pid < 1 || o.Tid != 0 && threads[o.Tid] != o.Pid {
			return fail("process or thread has no name")
		}
		switch o.Ph {
		case "X":
			dur, err := nanos(o.Dur)
			if err != nil {
				return fail("%v", err)
			}
			s := slice{ts, ts + dur}
			stack := open[o.Tid]
			for len(stack) > 0 && stack[len(stack)-1].end <= ts {
				stack = stack[:len(stack)-1]
			}
			if n := len(stack); n > 0 && stack[n-1].end < s.end {
				return fail("overlaps a slice that ends at %d", stack[n-1].end)
			}
			open[o.Tid] = append(stack, s)
			slices++
		case "C":
			if ts > 0 && width == 0 {
				width = ts
			}
			sampled++
			for i, what := range []string{"read", "write"} {
				v, err := o.Args[what].(json.Number).Float64()
				if err != nil || v < 0 || math.IsInf(v, 0) {
					return fail("%v", err)
				}
				moved[i] += v
			}
		default:
			return fail("unknown phase")
		}
	}
	if slices != len(tr.Events) {
		return fmt.Errorf("%d slices of %d events", slices, len(tr.Events))
	}
	// The counter, summed over time, shows the bytes moved. Bytes of both layers count
	// once.
	var want [2]float64
	posix := map[int32]bool{iotrace.None: false}
	for _, e := range tr.Events {
		posix[e.File] = posix[e.File] || e.File != iotrace.None && e.Op.Data() && e.Module == iotrace.POSIX
	}
	for _, e := range tr.Events {
		if e.Module != iotrace.POSIX && posix[e.File] {
			continue
		}
		switch e.Op {
		case iotrace.Read:
			want[0] += float64(e.Bytes) / (1 << 20)
		case iotrace.Write:
			want[1] += float64(e.Bytes) / (1 << 20)
		}
	}
	if sampled > 1 {
		for i := range moved {
			if got := moved[i] * float64(width) / 1e9; math.Abs(got-want[i]) > 1e-3*float64(sampled)*float64(width)/1e9+1e-6*want[i] {
				return fmt.Errorf("the counter makes %f MiB, not %f", got, want[i])
			}
		}
	}
	return nil
}

func TestChrome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := iotracetest.Any().Draw(t, "trace")
		var buf bytes.Buffer
		if err := WriteChrome(&buf, tr); err != nil {
			t.Fatal(err)
		}
		if err := checkChrome(tr, buf.Bytes()); err != nil {
			t.Fatalf("%v\n%s", err, buf.Bytes())
		}
	})
	// A call of MPI-IO that becomes two of POSIX, and one whose own nobody has seen.
	both := &iotrace.Trace{Ranks: []iotrace.Rank{{}}, Files: []string{"a", "b"}, Events: []iotrace.Event{
		{Op: iotrace.Write, Module: iotrace.MPIIO, Peer: iotrace.None, Bytes: 8 << 20, End: 9e6},
		{Op: iotrace.Write, Peer: iotrace.None, Bytes: 4 << 20, Start: 1e6, End: 4e6},
		{Op: iotrace.Write, Peer: iotrace.None, Bytes: 4 << 20, Start: 4e6, End: 8e6},
		{Op: iotrace.Write, Module: iotrace.MPIIO, File: 1, Peer: iotrace.None, Bytes: 4 << 20, Start: 9e6, End: 20e6},
	}}
	for _, tr := range []*iotrace.Trace{both, iotracetest.PerRank(4, 50, 2), iotracetest.Aggregated(16, 10, 2), iotracetest.Dense(3000)} {
		var buf bytes.Buffer
		if err := WriteChrome(&buf, tr); err != nil {
			t.Fatal(err)
		}
		if err := checkChrome(tr, buf.Bytes()); err != nil {
			t.Error(err)
		}
	}
}

// TestChromeGolden also shows what a barrier looks like.
func TestChromeGolden(t *testing.T) {
	tr := iotracetest.Golden()
	last := tr.Events[len(tr.Events)-1].End
	for r := range int32(4) {
		tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Barrier, Rank: r, File: iotrace.None, Peer: iotrace.None, Checkpoint: 4, Offset: iotrace.None,
			Start: last + int64(r)*1000, End: last + 5000})
	}
	// Three at a time of one rank, one within another.
	for _, e := range [][2]int64{{0, 1000}, {0, 500}, {200, 700}, {600, 1200}} {
		tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Write, Rank: 0, File: 0, Peer: iotrace.None, Bytes: 1, Start: last + 10000 + e[0], End: last + 10000 + e[1]})
	}
	var buf bytes.Buffer
	if err := WriteChrome(&buf, tr); err != nil {
		t.Fatal(err)
	}
	if err := checkChrome(tr, buf.Bytes()); err != nil {
		t.Error(err)
	}
	// The samples of the counter are many and all alike.
	var text strings.Builder
	for l := range strings.Lines(buf.String()) {
		if !strings.Contains(l, `"ph":"C"`) || strings.Contains(l, `"ts":0,`) {
			text.WriteString(l)
		}
	}
	iotracetest.SameAs(t, "golden.chrome.json", []byte(text.String()), *update)
}

// TestChromeSums adds times up as viewers do. speedscope subtracts the first time of a
// thread, in doubles, and compares sums of start and duration. Perfetto drops a slice
// that overlaps another by one nanosecond; before 2025 it cut off fractions of them.
func TestChromeSums(t *testing.T) {
	tr := &iotrace.Trace{Ranks: []iotrace.Rank{{}, {Rank: 1}}, Files: []string{"a"}, Events: []iotrace.Event{{Op: iotrace.Open, Rank: 1, Peer: iotrace.None}}}
	r := rand.New(rand.NewPCG(1, 2))
	at := int64(777)
	for range 20000 { // back to back, each with one within that ends with it
		end := at + 1 + r.Int64N(5e6)
		for _, start := range []int64{at, at + r.Int64N(end-at)} {
			tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Write, Module: iotrace.MPIIO, Peer: iotrace.None, Bytes: 1, Start: start, End: end})
		}
		at = end
	}
	var buf bytes.Buffer
	if err := WriteChrome(&buf, tr); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		TraceEvents []struct {
			Ph      string
			Tid     int
			Ts, Dur float64
		}
	}
	if err := json.Unmarshal(buf.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	slices := doc.TraceEvents[:0]
	for _, e := range doc.TraceEvents {
		if e.Ph == "X" && e.Tid == 1 {
			slices = append(slices, e)
		}
	}
	if len(slices) != len(tr.Events)-1 {
		t.Fatalf("%d slices", len(slices))
	}
	viewers := map[string]func(float64, float64) (float64, float64){
		"speedscope": func(ts, dur float64) (float64, float64) { ts -= slices[0].Ts; return ts, ts + dur },
		"cut off": func(ts, dur float64) (float64, float64) {
			return math.Trunc(ts * 1000), math.Trunc(ts*1000) + math.Trunc(dur*1000)
		},
	}
	for name, times := range viewers {
		var open []float64
		for i, e := range slices {
			start, end := times(e.Ts, e.Dur)
			for len(open) > 0 && open[len(open)-1] <= start {
				open = open[:len(open)-1]
			}
			if n := len(open); n > 1 || n > 0 && open[n-1] < end {
				t.Errorf("%s: slice %d from %f to %f does not fit into %f", name, i, start, end, open)
				break
			}
			open = append(open, end)
		}
	}
}

// TestChromeOrder has ranks by number, however they came.
func TestChromeOrder(t *testing.T) {
	tr := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: iotrace.None, Node: "mpiexec"}, {Rank: 2}, {Rank: 10}, {Rank: 1, Node: "n"}}}
	for r := range int32(4) {
		tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Open, Rank: r, File: iotrace.None, Peer: iotrace.None, Offset: iotrace.None})
	}
	var buf bytes.Buffer
	if err := WriteChrome(&buf, tr); err != nil {
		t.Fatal(err)
	}
	var doc document
	if err := json.Unmarshal(buf.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range doc.TraceEvents {
		if o.Name == "process_name" {
			got = append(got, fmt.Sprint(o.Pid, " ", o.Args["name"]))
		}
	}
	if diff := cmp.Diff([]string{"1 job ", "2 rank 1 on n", "3 rank 2", "4 rank 10", "5 mpiexec"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestLanes(t *testing.T) {
	l := newLanes(2)
	var got []int
	for _, e := range []iotrace.Event{{Start: 0, End: 10}, {Start: 2, End: 8}, {Start: 3, End: 9}, {Start: 8, End: 11}, {Start: 10, End: 10}, {Start: 11, End: 12}} {
		got = append(got, l.place(1, &e))
	}
	if diff := cmp.Diff([]int{0, 0, 1, 2, 0, 0}, got); diff != "" {
		t.Error(diff)
	}
}
