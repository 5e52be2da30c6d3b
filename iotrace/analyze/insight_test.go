package analyze

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/finding"
	"ckpt/iotrace/iotracetest"
)

func codes(r *Report) (out []string) {
	for _, i := range r.Insights {
		out = append(out, i.Code)
	}
	slices.Sort(out)
	return out
}

func found(r *Report, code string) *finding.Finding {
	if i := slices.IndexFunc(r.Insights, func(i finding.Finding) bool { return i.Code == code }); i >= 0 {
		return &r.Insights[i]
	}
	return nil
}

func evidence(i *finding.Finding, name string) float64 {
	for _, n := range i.Evidence {
		if n.Name == name {
			return n.Value
		}
	}
	return -1
}

// TestInsights makes a trace for each finding, and one that has none.
func TestInsights(t *testing.T) {
	event := func(op iotrace.Op, rank int32, start, end int64) iotrace.Event {
		return iotrace.Event{Op: op, Rank: rank, Offset: iotrace.None, Start: start * ms, End: end * ms}
	}
	large := func(rank int32, off, start, end int64) iotrace.Event {
		e := event(iotrace.Write, rank, start, end)
		e.Offset, e.Bytes = off, 64<<20
		return e
	}
	// Files that are opened, slowly, and closed, by a rank or the coordinator.
	opens := func(n int, rank int32) []iotrace.Event {
		var out []iotrace.Event
		for i := range int64(n) {
			out = append(out, event(iotrace.Open, rank, 2*i, 2*i+1), event(iotrace.Close, rank, 2*i+1, 2*i+2))
		}
		return append(out, large(0, 0, 1000, 1050))
	}
	var syncs, oSync []iotrace.Event // one after each write
	for i := range int64(50) {
		e := event(iotrace.Write, 0, 10*i, 10*i+1)
		e.Offset, e.Bytes = i*4096, 4096
		syncs = append(syncs, e, event(iotrace.Sync, 0, 10*i+1, 10*i+10))
	}
	// A rank writes a file anew and syncs it, which may then take the place of the one before.
	saves := func(renamed bool) (out []iotrace.Event) {
		for at := int64(0); at < 4000; at += 20 {
			open, write := event(iotrace.Open, 0, at, at+3), event(iotrace.Write, 0, at+3, at+4)
			open.Create, write.Bytes = true, 8192
			out = append(out, open, write, event(iotrace.Sync, 0, at+4, at+9), event(iotrace.Close, 0, at+9, at+10))
			if renamed {
				out = append(out, event(iotrace.Rename, 0, at+10, at+11))
			}
		}
		return out
	}
	for i := range syncs { // those of O_SYNC take no time of their own
		if e := syncs[i]; e.Op == iotrace.Write {
			e.End += 9
			oSync = append(oSync, e)
		} else {
			e.Start = e.End
			oSync = append(oSync, e)
		}
	}
	synchronous := script(1, oSync...)
	synchronous.Warnings = []iotrace.Warning{{Code: iotrace.WarnSyncWrites, Count: 50, Files: []iotrace.WarnedFile{{Count: 50}}}}
	coordinator := script(1, opens(200, 1)...)
	coordinator.Ranks = append(coordinator.Ranks, iotrace.Rank{Rank: iotrace.None, Node: "coordinator"})
	for _, c := range []struct {
		name  string
		trace *iotrace.Trace
		want  []string
	}{
		{"images of their own", generate(t, iotracetest.Spec{Size: 16 << 20, Ranks: 8}), []string{"CK11"}},
		{"empty", &iotrace.Trace{}, nil},
		{"small requests", generate(t, iotracetest.Spec{Size: 4096, Ranks: 8}), []string{"CK01"}},
		{"off the stripes", generate(t, iotracetest.Spec{Pattern: iotracetest.StridedSimple, Size: 3_000_000, Ranks: 8}), []string{"CK02"}},
		{"shared, strided, small", generate(t, iotracetest.Spec{Pattern: iotracetest.StridedSimple, Shared: true, Size: 4096, Ranks: 8}), []string{"CK06"}},
		{"random", generate(t, iotracetest.Spec{Pattern: iotracetest.Random, Size: 1 << 20, Ranks: 4}), []string{"CK07"}},
		{"opened again", script(1, opens(200, 0)...), []string{"CK21"}},
		{"few metadata operations", script(1, event(iotrace.Open, 0, 0, 50), large(0, 0, 50, 100), event(iotrace.Close, 0, 100, 101)), nil},
		{"the coordinator's", coordinator, nil},
		{"a straggler", script(4, large(0, 0, 0, 10), large(1, 64<<20, 0, 10), large(2, 128<<20, 0, 10), large(3, 192<<20, 0, 30)), []string{"CK05"}},
		{"one writer", script(4, large(0, 0, 0, 10), large(0, 64<<20, 10, 20), event(iotrace.Read, 1, 0, 1), event(iotrace.Read, 2, 0, 1)), []string{"CK20"}},
		{"four in turn", script(4, large(0, 0, 0, 10), large(1, 64<<20, 10, 20), large(2, 128<<20, 20, 30), large(3, 192<<20, 30, 40)), nil},
		{"phases", script(1, large(0, 0, 0, 200), large(0, 64<<20, 1000, 1200), large(0, 128<<20, 2000, 2200)), []string{"CK09"}},
		{"encoding", script(1, event(iotrace.Encode, 0, 0, 30), large(0, 0, 30, 50)), []string{"CK10"}},
		{"not encoded", script(1, event(iotrace.Gather, 0, 0, 30), large(0, 0, 30, 20000)), []string{"CK11"}},
		{"one sync", script(1, large(0, 0, 0, 10), event(iotrace.Sync, 0, 10, 30)), nil},
		{"syncs", script(1, syncs...), []string{"CK12"}},
		{"synchronous writes", synchronous, []string{"CK12"}},
		{"saved by renaming", script(1, saves(true)...), []string{"CK01", "CK04"}},
		{"saved in place", script(1, saves(false)...), []string{"CK01", "CK12", "CK21"}},
	} {
		r := Analyze(c.trace, Options{})
		if got := codes(r); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v: %+v", c.name, got, c.want, r.Insights)
		}
		for _, i := range r.Insights {
			if len(i.Evidence) == 0 || i.Advice == "" || i.Model == "" || i.Gain == nil || *i.Gain > r.Wall || !slices.Contains([]string{finding.High, finding.Warn, finding.Info}, i.Severity) {
				t.Errorf("%s: incomplete: %+v", c.name, i)
			}
		}
	}
	encoded := script(1, event(iotrace.Encode, 0, 0, 30), large(0, 0, 30, 50))
	encoded.Source = "ckpt"
	for codec, want := range map[finding.Codec][]finding.Remedy{finding.CodecUnknown: {finding.CodecAuto, finding.Async}, finding.CodecFixed: {finding.CodecAuto, finding.CodecNone, finding.Async}, finding.CodecLearns: {finding.Async}} {
		if i := Analyze(encoded, Options{Codec: codec}).Insights; len(i) != 1 || !slices.Equal(i[0].Remedies, want) {
			t.Errorf("codec %d: %+v, want remedies %v", codec, i, want)
		}
	}
	of := func(checkpoint int32, events ...iotrace.Event) []iotrace.Event {
		for i := range events {
			events[i].Checkpoint = checkpoint
		}
		return events
	}
	// Two bursts of one checkpoint say nothing of what the job does else.
	both := append(of(1, large(0, 0, 0, 200), large(0, 64<<20, 1000, 1200)), of(2, large(0, 128<<20, 2000, 2200))...)
	if got := codes(Analyze(script(1, both[:2]...), Options{})); got != nil {
		t.Errorf("one checkpoint: %v", got)
	}
	if got := codes(Analyze(script(1, both...), Options{})); !slices.Equal(got, []string{"CK09"}) {
		t.Errorf("two checkpoints: %v", got)
	}
	// Small writes among large ones cost something only if they take time.
	for took, want := range map[int64][]string{0: nil, 10: {"CK01"}} {
		mixed := []iotrace.Event{large(0, 0, 0, 200)}
		for i := range int64(200) {
			e := event(iotrace.Write, 0, 200+10*i, 200+10*i+took)
			e.Offset, e.Bytes = 64<<20+i*4096, 4096
			mixed = append(mixed, e)
		}
		if got := codes(Analyze(script(1, mixed...), Options{})); !slices.Equal(got, want) {
			t.Errorf("small writes that take %d ms: %v, want %v", took, got, want)
		}
	}
	// A rank that is late beside its like, but by little beside what all do.
	late := []iotrace.Event{large(0, 0, 0, 10), large(1, 64<<20, 0, 10), large(2, 128<<20, 0, 30), event(iotrace.Encode, 0, 0, 200)}
	if got := codes(Analyze(script(3, late...), Options{})); slices.Contains(got, "CK05") {
		t.Errorf("late by little: %v", got)
	}
	// Four aggregators of sixteen ranks: that is what every rank is advised to do.
	aggregated := Analyze(iotracetest.Aggregated(16, 50, 1), Options{})
	small := Analyze(iotracetest.Aggregated(16, 50, 1), Options{Thresholds: func() *finding.Thresholds { d := finding.Default(); d.SmallBytes = 8 << 20; return d }()})
	for _, i := range small.Insights {
		if i.Code == "CK01" && slices.Contains(i.Remedies, finding.AggregatorsAuto) {
			t.Errorf("aggregators are advised to a job that has them: %v", i.Remedies)
		}
	}
	if got := codes(aggregated); slices.Contains(got, "CK06") || slices.Contains(codes(small), "CK06") {
		t.Errorf("aggregated: %v, %v", got, codes(small))
	}
	// Ranks that encode in between do not wait for their turn to write.
	if got := codes(Analyze(iotracetest.PerRank(16, 5, 1), Options{})); slices.Contains(got, "CK08") {
		t.Errorf("encoding in between: %v", got)
	}
	// Sixteen ranks, one at work at a time.
	var turns []iotrace.Event
	for k := range int32(16) {
		turns = append(turns, large(k, int64(k)*64<<20, int64(k)*10, int64(k)*10+10))
	}
	if got := codes(Analyze(script(16, turns...), Options{})); !slices.Equal(got, []string{"CK08"}) {
		t.Errorf("turns: %v", got)
	}
}

// TestInsightsOfReads: programs that only read get no advice on writing.
func TestInsightsOfReads(t *testing.T) {
	const ms = 1_000_000
	var random, turns, opens []iotrace.Event
	r := rand.New(rand.NewPCG(1, 1))
	for k := range int64(500) {
		random = append(random, iotrace.Event{Op: iotrace.Read, Offset: r.Int64N(1<<20) * 4096, Bytes: 4096, Start: k * ms, End: k*ms + 400_000})
		turns = append(turns, iotrace.Event{Op: iotrace.Read, Rank: int32(k % 8), Offset: k%8<<30 + k/8<<20, Bytes: 1 << 20, Start: k * ms, End: k*ms + 400_000})
		opens = append(opens, iotrace.Event{Op: iotrace.Open, Offset: iotrace.None, Start: k * ms, End: k*ms + 900_000})
	}
	opens = append(opens, iotrace.Event{Op: iotrace.Read, Bytes: 1 << 20, Start: 600 * ms, End: 601 * ms})
	for name, c := range map[string]struct {
		trace *iotrace.Trace
		want  []string
	}{
		"random": {script(1, random...), []string{"CK14"}},
		"turns":  {script(8, turns...), []string{"CK08"}},
		"opens":  {script(1, opens...), []string{"CK21"}},
	} {
		report := Analyze(c.trace, Options{})
		if got := codes(report); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		for _, i := range report.Insights {
			if len(i.Remedies) > 0 || regexp.MustCompile(`(?i)\bwrit|checkpoint|aggregat`).MatchString(i.Advice) {
				t.Errorf("%s: %s: %s %q", name, i.Code, i.Advice, i.Remedies)
			}
		}
	}
}

// TestOwnLayout: no job is told to take the layout that it has.
// TestHole: the holes before large reads are none of the holes between small ones.
func TestHole(t *testing.T) {
	const hole = 12 << 10
	for _, large := range []int{0, 500} {
		var evs []iotrace.Event
		at, now := int64(0), int64(0)
		read := func(n int, bytes int64) {
			for range n {
				evs = append(evs, iotrace.Event{Op: iotrace.Read, Peer: iotrace.None, Offset: at, Bytes: bytes, Start: now, End: now + 1e6})
				at, now = at+bytes+hole, now+1e6
			}
		}
		read(2000, 4096)
		read(large, 2<<20)
		r := Analyze(&iotrace.Trace{Ranks: []iotrace.Rank{{Rank: 0}}, Files: []string{"/d"}, Events: evs}, Options{})
		f := found(r, "CK13")
		if f == nil || math.Abs(evidence(f, "hole_bytes")-hole) > 0.01*hole {
			t.Errorf("%d large reads: %+v", large, f)
		}
	}
}

func TestOwnLayout(t *testing.T) {
	gather := iotrace.Event{Op: iotrace.Gather, File: iotrace.None, Offset: iotrace.None}
	for _, c := range []struct {
		shared, gathers bool
		not             finding.Remedy
	}{{true, true, finding.LayoutShared}, {false, true, finding.LayoutAggregated}, {false, false, finding.LayoutPerRank}} {
		tr := generate(t, iotracetest.Spec{Pattern: iotracetest.Random, Shared: c.shared, Size: 5000, Ranks: 8, Ops: 200})
		tr.Source = "ckpt"
		if c.gathers {
			tr.Events = append([]iotrace.Event{gather}, tr.Events...)
		}
		for range 1500 {
			at := tr.Events[len(tr.Events)-1].Start
			tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Open, File: 0, Offset: iotrace.None, Start: at, End: at + 1e9})
		}
		r := Analyze(tr, Options{})
		if !slices.Contains(codes(r), "CK21") {
			t.Errorf("%+v: %v", c, codes(r))
		}
		for _, i := range r.Insights {
			if slices.Contains(i.Remedies, c.not) {
				t.Errorf("%+v: %s: %q", c, i.Code, i.Remedies)
			}
		}
	}
}

// TestWord puts the remedies of many findings into words.
func TestWord(t *testing.T) {
	words := map[finding.Remedy]string{}
	for r := finding.Remedy(1); r < finding.RemedyEnd; r++ {
		words[r] = fmt.Sprint("remedy ", r)
	}
	seen := map[string]bool{}
	for _, p := range iotracetest.Patterns() {
		tr := generate(t, iotracetest.Spec{Pattern: p, Shared: true, Size: 5000, Ranks: 8, Ops: 200})
		tr.Source = "ckpt"
		r := Analyze(tr, Options{})
		finding.Word(r.Insights, words)
		for _, i := range r.Insights {
			for k, f := range i.Flags {
				seen[f] = true
				if f == "" || f != words[i.Remedies[k]] {
					t.Errorf("%s: remedy %d is called %q", i.Code, i.Remedies[k], f)
				}
			}
		}
	}
	if len(seen) < 4 {
		t.Errorf("only %v", seen)
	}
}

func TestThresholds(t *testing.T) {
	d := finding.Default()
	if d.SmallBytes != 1<<20 || d.SmallShare != 0.1 || d.StragglerFactor != 1.5 {
		t.Errorf("built in: %+v", d)
	}
	if got, err := finding.ReadThresholds(strings.NewReader("small_bytes: 65536\n")); err != nil || got.SmallBytes != 65536 || got.SmallShare != 0.1 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "# nothing\n", string(finding.ThresholdsText())} {
		if got, err := finding.ReadThresholds(strings.NewReader(text)); err != nil || *got != *d {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"small_byte: 3":                       "line 1: field small_byte not found",
		"small_bytes: many":                   "line 1: cannot",
		"small_share: 1.5":                    "small_share: 1.5: not a share",
		"busy_share: -1":                      "busy_share: -1: not a number from 0",
		"encode_factor: .nan":                 "encode_factor: NaN",
		"encode_factor: .inf":                 "encode_factor: +Inf",
		"large_bytes: 1000":                   "large_bytes: 1000: less than small_bytes",
		"- a\n- b":                            "cannot",
		"a: [":                                "line",
		"small_bytes: 1\n---\nb: 2\n":         "text follows the first YAML document",
		"small_bytes: 9999999999999999999999": "cannot",
	} {
		if _, err := finding.ReadThresholds(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	// One's own thresholds are what counts.
	tr := generate(t, iotracetest.Spec{Size: 4096, Ranks: 8})
	own, err := finding.ReadThresholds(bytes.NewReader([]byte("small_bytes: 512\n")))
	if err != nil {
		t.Fatal(err)
	}
	if r := Analyze(tr, Options{Thresholds: own}); len(r.Insights) != 0 || r.Sizes.Small != 0 {
		t.Errorf("%d small requests, %v", r.Sizes.Small, codes(r))
	}
}

func TestCompare(t *testing.T) {
	a := builtin(t, "dmtcp", iotracetest.Params{})
	b := builtin(t, "dmtcp", iotracetest.Params{Seed: 5, Ranks: 16})
	c := Compare(a, b)
	if len(c.Files) != 0 || len(c.OnlyA) != 4 || len(c.OnlyB) != 16 || c.SamePattern {
		t.Errorf("4 against 16 ranks: %d files in both, only a %d, only b %d", len(c.Files), len(c.OnlyA), len(c.OnlyB))
	}
	find := func(d []Difference, quantity string) Difference {
		i := slices.IndexFunc(d, func(d Difference) bool { return d.Quantity == quantity })
		if i < 0 {
			t.Fatalf("no %s", quantity)
		}
		return d[i]
	}
	if d := find(c.Job, "writes"); d.A != 828 || d.B != 3312 || *d.Relative != -0.75 {
		t.Errorf("writes: %+v", d)
	}
	if d := find(c.Job, "reads"); *d.Relative != 0 || !d.Same {
		t.Errorf("reads: %+v", d)
	}
	// Files of other names are matched by the order of their numbers.
	for i := range b.Files[:4] {
		b.Files[i].Name = []string{"x/ckpt_40000.dmtcp", "x/ckpt_9.dmtcp", "x/ckpt_100.dmtcp", "x/ckpt_41000.dmtcp"}[i]
		b.Files[i].Writes += int64(i)
	}
	b.Files = b.Files[:4]
	c = Compare(a, b)
	if len(c.Files) != 4 || c.Files[0].B != "x/ckpt_9.dmtcp" || c.Files[1].B != "x/ckpt_100.dmtcp" {
		t.Fatalf("%+v", c.Files)
	}
	if d := find(c.Files[0].Differences, "writes"); d.A != 207 || d.B != 208 || math.Abs(*d.Relative+1./208) > 1e-9 {
		t.Errorf("writes: %+v", d)
	}
	if d := find(c.Files[0].Differences, "burst_1_bytes"); d.A != 8192 || d.B != 8192 || !d.Same {
		t.Errorf("burst: %+v", d)
	}
	if d := find(Compare(builtin(t, "minighost", iotracetest.Params{}), a).Job, "access"); d.TextA != "shared" || d.TextB != "independent" || d.Relative != nil {
		t.Errorf("access: %+v", d)
	}
}

// TestCompareReplay: a trace and what a replay of it has recorded, whose files have
// no directories and come in another order, have the same pattern.
func TestCompareReplay(t *testing.T) {
	built := func(names ...string) *iotrace.Trace {
		tr := &iotrace.Trace{Source: "ckpt", Files: names}
		for r := range int32(4) {
			tr.Ranks = append(tr.Ranks, iotrace.Rank{Rank: int(r)})
		}
		for k := range int64(20) {
			for r := range int32(4) {
				tr.Events = append(tr.Events,
					iotrace.Event{Op: iotrace.Write, Rank: r, File: r, Offset: k * 4096, Bytes: 4096, Start: k * 1000, End: k*1000 + 10},
					iotrace.Event{Op: iotrace.Read, Rank: r, File: 4, Offset: (4*k + int64(r)) * 512, Bytes: 512, Start: k*1000 + 20, End: k*1000 + 30})
			}
		}
		return tr
	}
	reversed := func(tr *iotrace.Trace) *iotrace.Trace {
		n := int32(len(tr.Files))
		slices.Reverse(tr.Files)
		for i := range tr.Events {
			tr.Events[i].File = n - 1 - tr.Events[i].File
		}
		return tr
	}
	a := Analyze(built("/scratch/u1/ck/0.img", "/scratch/u1/ck/1.img", "/scratch/u1/ck/2.img", "/scratch/u1/ck/3.img", "/scratch/u1/out.dat"), Options{})
	b := reversed(built("ck_0.img", "ck_1.img", "ck_2.img", "ck_3.img", "out.dat"))
	if c := Compare(a, Analyze(b, Options{})); !c.SamePattern || len(c.Files) != 5 {
		t.Errorf("%d files in both, same %v\n%s\n%s", len(c.Files), c.SamePattern, a.Pattern, Analyze(b, Options{}).Pattern)
	}
	b.Events[0].Offset = 1 << 30
	if Compare(a, Analyze(b, Options{})).SamePattern {
		t.Error("one write goes elsewhere, but the patterns are the same")
	}
	if c := Compare(a, Analyze(built("0.img", "1.img", "2.img", "3.img", "4.img"), Options{})); c.SamePattern {
		t.Error("files of one kind, of two, but the patterns are the same")
	}
}

// TestComparePeriod: a period is compared only where there is one.
func TestComparePeriod(t *testing.T) {
	bursts := func(n int64) *Report {
		var events []iotrace.Event
		for k := range n {
			events = append(events, iotrace.Event{Op: iotrace.Write, Offset: k << 20, Bytes: 1 << 20, Start: k * 2e9, End: k*2e9 + 3e8})
		}
		return Analyze(script(1, events...), Options{})
	}
	many, one := bursts(30), bursts(1)
	has := func(d Difference) bool { return d.Quantity == "period_s" }
	if slices.ContainsFunc(Compare(one, one).Job, has) {
		t.Error("no period is compared")
	}
	d := Compare(many, one).Job
	if i := slices.IndexFunc(d, has); i < 0 || math.Abs(d[i].A-2) > 0.02 || d[i].B != 0 || d[i].Same {
		t.Errorf("%+v", d)
	}
}
