package analyze

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ckpt/internal/testkit"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze/pattern"
	"ckpt/iotrace/iotracetest"
)

// TestPatternLength holds the description of a pattern against those with more
// ranks: they differ in nothing but the digits of their numbers.
func TestPatternLength(t *testing.T) {
	digits := regexp.MustCompile(`[0-9]+`)
	check := func(name string, trace func(ranks int) *iotrace.Trace) {
		t.Helper()
		describe := func(ranks int) string {
			tr := trace(ranks)
			text := Analyze(tr, Options{}).Pattern.String()
			if with := Analyze(coordinated(tr), Options{}).Pattern.String(); with != text {
				t.Errorf("%s with %d ranks and a coordinator: %s, without: %s", name, ranks, with, text)
			}
			return regexp.MustCompile(`[0-9]+-[0-9]+ bytes`).ReplaceAllString(text, "0 bytes")
		}
		var first string
		all := []int{16, 64, 256}
		if !testkit.Nightly() {
			all = all[:2]
		}
		for _, ranks := range all {
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
		check(name, func(ranks int) *iotrace.Trace {
			tr := iotracetest.Builtin(name, iotracetest.Params{Ranks: ranks, Class: "A", Aggregators: ranks / 4})
			return tr
		})
	}
	for _, p := range []iotracetest.Pattern{iotracetest.Contiguous, iotracetest.StridedSimple, iotracetest.StridedNested} {
		for _, shared := range []bool{false, true} {
			check(fmt.Sprintf("%s, shared %v", p, shared), func(ranks int) *iotrace.Trace {
				tr := iotracetest.Generate(iotracetest.Spec{Pattern: p, Shared: shared, Ranks: ranks, Ops: 60})
				return tr
			})
		}
	}
	// Random requests and those of varying size differ between any two ranks; the
	// description has a line for each.
	for _, p := range []iotracetest.Pattern{iotracetest.Random, iotracetest.StridedVariable} {
		check(string(p), func(ranks int) *iotrace.Trace {
			tr := iotracetest.Generate(iotracetest.Spec{Pattern: p, Shared: true, Ranks: ranks, Ops: 400, Variable: true})
			return tr
		})
	}
	// As ckpt records its checkpoints: requests of each rank in sizes of its own.
	check("images of ckpt", func(ranks int) *iotrace.Trace { return iotracetest.PerRank(ranks, 40, 1) })
	check("packed images of ckpt", func(ranks int) *iotrace.Trace {
		tr := iotracetest.PerRank(ranks, 1, 1)
		for i := range tr.Events {
			if e := &tr.Events[i]; e.Op == iotrace.Write && ranks > 0 {
				e.Bytes = int64(700_000 + 4096*(e.Rank*7%11))
			}
		}
		return tr
	})
	check("a file of ckpt", func(ranks int) *iotrace.Trace { return iotracetest.Aggregated(ranks, 40, 1) })
}

// coordinated is a trace as ckpt keeps it: the first process is the coordinator,
// which is no rank.
func coordinated(tr *iotrace.Trace) *iotrace.Trace {
	out := *tr
	out.Ranks = append([]iotrace.Rank{{Rank: iotrace.None, Node: "coordinator"}}, tr.Ranks...)
	out.Files = append(slices.Clone(tr.Files), "0001/manifest")
	out.Events = slices.Clone(tr.Events)
	for i := range out.Events {
		e := &out.Events[i]
		if e.Rank++; e.Op == iotrace.Gather {
			e.Peer++
		}
	}
	last := out.Events[len(out.Events)-1]
	out.Events = append(out.Events, iotrace.Event{Op: iotrace.Rename, File: int32(len(tr.Files)), Peer: iotrace.None,
		Checkpoint: last.Checkpoint, Offset: iotrace.None, Start: last.Start + 1, End: last.End + 5})
	return &out
}

// TestCoordinator: a process that is no rank does not count as one, and does not
// change the numbers of the others, wherever it stands.
func TestCoordinator(t *testing.T) {
	for _, ranks := range []int{4, 16} {
		r := Analyze(coordinated(iotracetest.PerRank(ranks, 5, 2)), Options{})
		if r.Ranks != ranks || r.ActiveRanks != ranks || r.Nodes != ranks/4 {
			t.Errorf("%d ranks: %d, %d active, on %d nodes", ranks, r.Ranks, r.ActiveRanks, r.Nodes)
		}
		for _, f := range r.Files {
			want := 1
			if f.Name == "0001/manifest" {
				want = 0
			}
			if f.Ranks != want || f.Access != Independent {
				t.Errorf("%s: %d ranks, %s", f.Name, f.Ranks, f.Access)
			}
		}
		for _, g := range r.Pattern.Groups {
			if strings.HasSuffix(g.File, "/rank-{rank}.img") != (g.Files > 1) || !strings.Contains(g.File, "/rank-") || strings.Contains(g.Ranks, strconv.Itoa(ranks)) {
				t.Errorf("%+v", g)
			}
		}
	}
	// One that writes is described beside the ranks.
	tr := coordinated(iotracetest.PerRank(4, 5, 1))
	tr.Events[len(tr.Events)-1] = iotrace.Event{Op: iotrace.Write, File: int32(len(tr.Files)) - 1, Peer: iotrace.None, Bytes: 100, Start: 1 << 60, End: 1 << 60}
	if text := Analyze(tr, Options{}).Pattern.String(); !strings.HasSuffix(text, "manifest (1): no rank\n  write 1×100 @0\n") {
		t.Errorf("%s", text)
	}
}

// TestRankNumbers: a trace of some ranks of an MPI job names them as the job does;
// process ids are counted.
func TestRankNumbers(t *testing.T) {
	for _, c := range []struct {
		source string
		ranks  []int
		want   string
	}{
		{"ckpt", []int{4, 5, 6}, "/r{rank} (3): ranks 4-6 (3)\n  write 1×8 @100·rank\n"},
		{"strace", []int{4, 5, 6}, "/r# (3): ranks 0-2 (3)\n  write 1×8 @100·rank+400\n"},
		// No process has the number 0. These are aggregators, as in what a replay of
		// a trace of Darshan leaves.
		{"replay", []int{0, 16, 32}, "/r{rank} (3): ranks 0-32/16 (3)\n  write 1×8 @100·rank\n"},
	} {
		tr := &iotrace.Trace{Source: c.source}
		for i, r := range c.ranks {
			tr.Ranks, tr.Files = append(tr.Ranks, iotrace.Rank{Rank: r}), append(tr.Files, fmt.Sprint("/r", r))
			tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Write, Rank: int32(i), File: int32(i), Bytes: 8, Offset: 100 * int64(r)})
		}
		if got := Analyze(tr, Options{}).Pattern.String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.source, got, c.want)
		}
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
		{"sizes", 5, []string{"r0", "r1", "r2", "r3", "r4"}, func(add func(op)) {
			for r := range int32(5) {
				size := int64(100 + 10*(r%3))
				add(op{r, r, 8, 10})
				add(op{r, r, 18, size})
				add(op{r, r, 18 + size, 7})
			}
		}, "r{rank} (5): ranks 0-4 (5)\n  write 1×10 @8, 1×100-120, 1×7\n"},
		{"two sizes", 3, []string{"r0", "r1", "r2"}, func(add func(op)) {
			for r := range int32(3) {
				add(op{r, r, 0, int64(10 + r%2)})
			}
		}, "r{rank} (2): ranks 0, 2 (2)\n  write 1×10 @0\nr1 (1): rank 1 (1)\n  write 1×11 @0\n"},
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
	for _, p := range []iotracetest.Pattern{iotracetest.Contiguous, iotracetest.StridedSimple, iotracetest.StridedNested} {
		tr := iotracetest.Generate(iotracetest.Spec{Pattern: p, Shared: true, Ranks: 6, Ops: 77})
		unfolds(t, tr)
	}
	for _, name := range iotracetest.Builtins() {
		tr := iotracetest.Builtin(name, iotracetest.Params{Ranks: 9, Class: "A", Aggregators: 3})
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
	var unfold func(items []pattern.Item, rank, shift int64)
	unfold = func(items []pattern.Item, rank, shift int64) {
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
