package iotracetest

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ckpt/iotrace"
)

// sound checks what the package promises of every trace.
func sound(t rapid.TB, tr *iotrace.Trace) {
	t.Helper()
	if err := Valid(tr); err != nil {
		t.Fatal(err)
	}
	open := map[[2]int32]bool{}
	busy := make([]int64, len(tr.Ranks))
	for i, e := range tr.Events {
		key := [2]int32{e.Rank, e.File}
		switch {
		case e.Op == iotrace.Open:
			if open[key] {
				t.Fatalf("event %d: opened twice", i)
			}
			open[key] = true
		case !open[key]:
			t.Fatalf("event %d: %v without open", i, e.Op)
		case e.Op == iotrace.Close:
			open[key] = false
		}
		if e.Start < busy[e.Rank] {
			t.Fatalf("event %d: rank %d does two things at a time", i, e.Rank)
		}
		busy[e.Rank] = e.End
	}
	for key, still := range open {
		if still {
			t.Fatalf("file %d of rank %d is not closed", key[1], key[0])
		}
	}
}

func TestGenerate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Spec{Pattern: rapid.SampledFrom(Patterns()).Draw(t, "pattern"), Shared: rapid.Bool().Draw(t, "shared"), Read: rapid.Bool().Draw(t, "read"),
			Variable: rapid.Bool().Draw(t, "variable"), Ranks: rapid.IntRange(2, 9).Draw(t, "ranks"), Ops: rapid.IntRange(1, 60).Draw(t, "ops"),
			Size: rapid.Int64Range(1, 1<<24).Draw(t, "size"), Bursts: rapid.IntRange(1, 4).Draw(t, "bursts"),
			Every: time.Duration(rapid.IntRange(0, 5000).Draw(t, "every")) * time.Millisecond,
			Noise: rapid.Float64Range(0, 0.5).Draw(t, "noise"), Seed: rapid.Uint64().Draw(t, "seed")}
		tr := Generate(s)
		sound(t, tr)
		again := Generate(s)
		if diff := cmp.Diff(tr, again); diff != "" {
			t.Fatalf("not the same again: %s", diff)
		}
		var data int
		for _, e := range tr.Events {
			if e.Op.Data() {
				data++
			}
		}
		if want := s.Ranks * s.Ops * s.Bursts; data < want || s.Noise == 0 && data != want {
			t.Fatalf("%d requests, want %d", data, want)
		}
	})
}

func TestBuiltins(t *testing.T) {
	for _, name := range Builtins() {
		for _, p := range []Params{{}, {Ranks: 1}, {Ranks: 9, Class: "D", Seed: 4}, {Ranks: 70, Class: "A", Aggregators: 7}} {
			tr := Builtin(name, p)
			sound(t, tr)
			again := Builtin(name, p)
			if diff := cmp.Diff(tr, again); diff != "" {
				t.Errorf("%s %+v: not the same again: %s", name, p, diff)
			}
		}
	}
}

// requests are the sizes that a rank writes, or reads, in order.
func requests(tr *iotrace.Trace, rank int32, op iotrace.Op) (sizes []int64, total int64) {
	for _, e := range tr.Events {
		if e.Rank == rank && e.Op == op {
			sizes = append(sizes, e.Bytes)
			total += e.Bytes
		}
	}
	return sizes, total
}

// TestDMTCP holds the trace against Figures 3.14 to 3.17 and 5.14.
func TestDMTCP(t *testing.T) {
	tr := Builtin("dmtcp", Params{})
	sizes, total := requests(tr, 2, iotrace.Write)
	if len(sizes) != 44+163 {
		t.Fatalf("%d writes", len(sizes))
	}
	var header int64
	for _, n := range sizes[:44] {
		header += n
	}
	if header != 8192 || sizes[42] != 3582 || sizes[43] != 4096 || sizes[44] != 4096 {
		t.Errorf("%d bytes in the first burst: %v", header, sizes[:45])
	}
	if mib := float64(total-header) / (1 << 20); math.Abs(mib-155.12) > 0.005 {
		t.Errorf("%.3f MiB in the second burst", mib)
	}
	// Figure 3.17: 109.43 MiB at 135168.
	var off int64
	for i, n := range sizes {
		if n == 114749440 {
			if off != 135168 || fmt.Sprint(sizes[i+1:i+4]) != "[4096 1343488 4096]" {
				t.Errorf("data segment at %d, then %v", off, sizes[i+1:i+4])
			}
		}
		off += n
	}
	pages := 0
	for _, n := range sizes[44:] {
		if n == 4096 {
			pages++
		} else if n <= 0 || n%4096 != 0 {
			t.Errorf("write of %d bytes", n)
		}
	}
	if pages < 163*3/4 {
		t.Errorf("only %d writes of a page", pages)
	}
	// All other classes and numbers of ranks work out too, whatever the seed.
	for seed := range uint64(200) {
		tr := Builtin("dmtcp", Params{Ranks: 1, Seed: seed})
		sizes, _ := requests(tr, 0, iotrace.Write)
		for _, n := range sizes {
			if n <= 0 {
				t.Fatalf("seed %d: write of %d bytes", seed, n)
			}
		}
		if len(sizes) != 207 {
			t.Fatalf("seed %d: %d writes", seed, len(sizes))
		}
	}
}

// TestMiniGhost holds the number of writes and bytes against Table 4.8, 16 ranks
// with 200³ points each and a buffer of 4 MiB, and Figure 4.10.
func TestMiniGhost(t *testing.T) {
	for aggregators, writes := range map[int]int{1: 1289, 2: 1294, 4: 1304} {
		tr := Builtin("minighost", Params{Ranks: 16, Class: "C", Aggregators: aggregators, Buffer: 4 << 20})
		n, written, read := 0, int64(0), int64(0)
		for rank := range int32(16) {
			sizes, w := requests(tr, rank, iotrace.Write)
			_, r := requests(tr, rank, iotrace.Read)
			n += len(sizes)
			written += w
			read += r
		}
		if n != writes {
			t.Errorf("%d aggregators: %d writes, Table 4.8 has %d", aggregators, n, writes)
		}
		if mib := float64(written) / (1 << 20); math.Abs(mib-4882.82) > 0.01 {
			t.Errorf("%d aggregators: %.2f MiB written, Table 4.8 has 4882.82", aggregators, mib)
		}
		if mib := float64(read) / (1 << 20); math.Abs(mib-976.57) > 0.01 {
			t.Errorf("%d aggregators: %.2f MiB read, Table 4.8 has 976.57", aggregators, mib)
		}
	}
	tr := Builtin("minighost", Params{})
	_, first := requests(tr, 0, iotrace.Write)
	if mib := float64(first) / (1 << 20); math.Abs(mib-76.29) > 0.01 {
		t.Errorf("first aggregator of two writes %.2f MiB, Figure 4.10 has 76.29", mib)
	}
	if sizes, _ := requests(tr, 1, iotrace.Write); len(sizes) != 4 {
		t.Errorf("rank 1, no aggregator, writes %v", sizes)
	}
}
