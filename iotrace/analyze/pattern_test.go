package analyze

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"ckpt/iotrace"
	"ckpt/iotrace/synth"
)

// TestPatternLength holds the description of a pattern against those with more
// ranks: they differ in nothing but the digits of their numbers.
func TestPatternLength(t *testing.T) {
	digits := regexp.MustCompile(`[0-9]+`)
	check := func(name string, describe func(ranks int) string) {
		t.Helper()
		var first string
		for _, ranks := range []int{16, 64, 256} {
			text := describe(ranks)
			form := digits.ReplaceAllString(text, "0")
			if first == "" {
				first = form
				t.Logf("%s\n%s", name, text)
			}
			if form != first {
				t.Errorf("%s with %d ranks: %s", name, ranks, text)
			}
			if strings.Contains(text, "#") || strings.Contains(text, "elsewhere") {
				t.Errorf("%s with %d ranks: not the same in all: %s", name, ranks, text)
			}
		}
	}
	for _, name := range []string{"dmtcp", "minighost"} {
		check(name, func(ranks int) string {
			return builtin(t, name, synth.Params{Ranks: ranks, Class: "A", Aggregators: ranks / 4}).Pattern.String()
		})
	}
	for _, p := range []synth.Pattern{synth.Contiguous, synth.StridedSimple, synth.StridedNested} {
		for _, shared := range []bool{false, true} {
			check(fmt.Sprintf("%s, shared %v", p, shared), func(ranks int) string {
				tr, err := synth.Generate(synth.Spec{Pattern: p, Shared: shared, Ranks: ranks, Ops: 60})
				if err != nil {
					t.Fatal(err)
				}
				return Analyze(tr, Options{}).Pattern.String()
			})
		}
	}
	// What is random, or of varying size, is not the same in any two ranks; the
	// description says so in as many lines.
	for _, p := range []synth.Pattern{synth.Random, synth.StridedVariable} {
		check(string(p), func(ranks int) string {
			tr, err := synth.Generate(synth.Spec{Pattern: p, Shared: true, Ranks: ranks, Ops: 400, Variable: true})
			if err != nil {
				t.Fatal(err)
			}
			text := Analyze(tr, Options{}).Pattern.String()
			return regexp.MustCompile(`[0-9]+-[0-9]+ bytes`).ReplaceAllString(text, "0 bytes")
		})
	}
}

// TestPatternText describes small patterns.
func TestPatternText(t *testing.T) {
	type op struct {
		rank, file int32
		off, size  int64
	}
	for _, c := range []struct {
		name  string
		ranks int
		files []string
		ops   func(add func(op))
		want  string
	}{
		{"matrix", 4, []string{"matrix"}, func(add func(op)) {
			for r := range int32(4) {
				for row := range int64(5) {
					for k := range int64(3) {
						add(op{r, 0, row*1000 + int64(r)*200 + k*50, 20})
					}
				}
			}
		}, "matrix (1): ranks 0-3 (4)\n  5×[write 3×20 @200·rank/50]+1000\n"},
		{"loops of loops", 1, []string{"f"}, func(add func(op)) {
			for i := range int64(4) {
				for k := range int64(3) {
					add(op{0, 0, i*1000 + k*100, 10})
					add(op{0, 0, i*1000 + k*100 + 50, 7})
				}
			}
		}, "f (1): rank 0 (1)\n  4×[3×[write 1×10 @0, 1×7 @50]+100]+1000\n"},
		{"names", 3, []string{"run7/r0.d", "run7/r1.d", "run7/r2.d"}, func(add func(op)) {
			for r := range int32(3) {
				add(op{r, r, 8, 10})
			}
		}, "run7/r{rank}.d (3): ranks 0-2 (3)\n  write 1×10 @8\n"},
		{"generations", 1, []string{"a1-deadbeef77", "a2-0123456789"}, func(add func(op)) {
			for f := range int32(2) {
				add(op{0, f, 0, 10})
			}
		}, "a#-# (2): rank 0 (1)\n  write 1×10 @0\n"},
		{"all but some", 99, []string{"f"}, func(add func(op)) {
			for r := range int32(99) {
				size := int64(10)
				if r%20 == 4 {
					size = 20
				}
				add(op{r, 0, int64(r) * 100, size})
			}
		}, "f (1): ranks all but 4-84/20 (94)\n  write 1×10 @100·rank\nf (1): ranks 4-84/20 (5)\n  write 1×20 @100·rank\n"},
		{"not linear", 20, []string{"f"}, func(add func(op)) {
			for r := range int64(20) {
				add(op{int32(r), 0, r * r * r, 1})
			}
		}, "f (1): ranks 0-19 (20)\n  write 1×1 @0 (others elsewhere)\n"},
		{"hashes and holes", 1, []string{"#", "1#", "\x00"}, func(add func(op)) {
			for f := range int32(3) {
				add(op{0, f, 0, 1})
			}
		}, "# (1): rank 0 (1)\n  write 1×1 @0\n1# (1): rank 0 (1)\n  write 1×1 @0\n (1): rank 0 (1)\n  write 1×1 @0\n"},
	} {
		tr := &iotrace.Trace{Files: c.files}
		for r := range c.ranks {
			tr.Ranks = append(tr.Ranks, iotrace.Rank{Rank: r})
		}
		c.ops(func(o op) {
			tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Write, Rank: o.rank, File: o.file, Offset: o.off, Bytes: o.size})
		})
		if got := Analyze(tr, Options{}).Pattern.String(); got != c.want {
			t.Errorf("%s:\n%swant\n%s", c.name, got, c.want)
		}
	}
}

// TestPatternUnfolds replays descriptions and gets the requests back.
func TestPatternUnfolds(t *testing.T) {
	for _, p := range []synth.Pattern{synth.Contiguous, synth.StridedSimple, synth.StridedNested} {
		tr, err := synth.Generate(synth.Spec{Pattern: p, Shared: true, Ranks: 6, Ops: 77})
		if err != nil {
			t.Fatal(err)
		}
		unfolds(t, tr)
	}
	for _, name := range synth.Builtins() {
		tr, err := synth.Builtin(name, synth.Params{Ranks: 9, Class: "A", Aggregators: 3})
		if err != nil {
			t.Fatal(err)
		}
		unfolds(t, tr)
	}
}

// unfolds compares what each rank does with its group's items.
func unfolds(t *testing.T, tr *iotrace.Trace) {
	t.Helper()
	want := map[int32][]string{}
	for _, e := range tr.Events {
		if e.Op.Data() && (e.File == 0 || len(tr.Files) == len(tr.Ranks)) {
			want[e.Rank] = append(want[e.Rank], fmt.Sprint(e.Op, e.Offset, e.Bytes))
		}
	}
	got := map[int32][]string{}
	var unfold func(items []Item, rank, shift int64)
	unfold = func(items []Item, rank, shift int64) {
		for _, it := range items {
			for k := range it.Times {
				unfold(it.Body, rank, shift+k*it.Shift)
			}
			op := iotrace.Read
			if it.Op == "write" {
				op = iotrace.Write
			}
			for k := range it.Count {
				got[int32(rank)] = append(got[int32(rank)], fmt.Sprint(op, shift+it.Offset+rank*it.PerRank+k*it.Step, it.Bytes))
			}
		}
	}
	for _, g := range Analyze(tr, Options{}).Pattern.Groups {
		for r := range tr.Ranks {
			if covers(g.Ranks, r) {
				unfold(g.Items, int64(r), 0)
			}
		}
	}
	if fmt.Sprint(want) != fmt.Sprint(got) {
		t.Errorf("%s: the description does not give the requests back:\n%.500v\nwant\n%.500v", tr.Job, got, want)
	}
}

// covers reads the ranks of a group.
func covers(ranks string, r int) bool {
	if rest, ok := strings.CutPrefix(ranks, "all but "); ok {
		return !covers(rest, r)
	}
	for part := range strings.SplitSeq(ranks, ", ") {
		var a, b int
		step := 1
		if n, _ := fmt.Sscanf(part, "%d-%d/%d", &a, &b, &step); n == 1 {
			b = a
		}
		if r >= a && r <= b && (r-a)%step == 0 {
			return true
		}
	}
	return false
}
