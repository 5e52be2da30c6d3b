package service

import (
	"io/fs"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/fstest"

	"ckpt/dataset"
	"ckpt/predict/fit"
)

func specOf(t *testing.T, app string) *dataset.Instance {
	t.Helper()
	inst, err := dataset.ParseApp(app, 0)
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

func groupsOf(t *testing.T, m Mode, mapping []int, size int) []int {
	t.Helper()
	g, err := Groups(m, mapping, size)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*math.Abs(want) {
		t.Errorf("%s: %g, want %g", what, got, want)
	}
}

func TestGroups(t *testing.T) {
	for _, c := range []struct {
		mode Mode
		size int
		want []int
	}{
		{Coordinated, 0, []int{0, 0, 0, 0, 0}}, {Semi, 0, []int{0, 0, 0, 1, 1}}, {Semi, 2, []int{0, 0, 1, 1, 2}}, {Uncoordinated, 0, []int{0, 1, 2, 3, 4}},
	} {
		if got := groupsOf(t, c.mode, []int{3, 2}, c.size); !slices.Equal(got, c.want) {
			t.Errorf("%s in groups of %d: %v, want %v", c.mode, c.size, got, c.want)
		}
	}
	if _, err := Groups("other", []int{1}, 0); err == nil {
		t.Error("a mode that does not exist has groups")
	}
}

// These are log_bytes of ckpt launch APP --iterations 10, by mode, mapping and log. Jobs of
// ring leave two tokens of each rank that nobody receives, and an optimistic log leaves its
// end unwritten.
func TestLoggedBytes(t *testing.T) {
	for _, c := range []struct {
		app     string
		mode    Mode
		mapping []int
		log     Log
		want    float64
		share   float64
	}{
		{"bt.S.4", Semi, []int{2, 2}, Receiver, 1286400, 0},
		{"bt.S.4", Uncoordinated, []int{4}, Receiver, 1931520, 0},
		{"bt.S.9", Semi, []int{5, 4}, Receiver, 2022080, 0},
		{"sp.S.4", Uncoordinated, []int{4}, Optimistic, 1497736, 0.06},
		{"lu.S.6", Semi, []int{3, 3}, Receiver, 486880, 0},
		{"cg.S.8", Semi, []int{4, 4}, Receiver, 686720, 0},
		{"minighost.S.8", Semi, []int{4, 4}, Receiver, 825280, 0},
		{"ring.S.5", Uncoordinated, []int{3, 2}, Receiver, 218400, 0.02},
		{"ring.S.5", Uncoordinated, []int{3, 2}, Optimistic, 223744, 0.03},
		{"ring.S.5", Uncoordinated, []int{3, 2}, Sender, 2240, 0},
		{"ring.S.5", Semi, []int{3, 2}, Receiver, 89280, 0.02},
		{"bt.S.4", Uncoordinated, []int{4}, None, 0, 0},
	} {
		traffic := CountTraffic(specOf(t, c.app), groupsOf(t, c.mode, c.mapping, 0))
		near(t, c.app+" "+string(c.mode)+" "+string(c.log), 10*traffic.Logged(c.log).Bytes, c.want, c.share+1e-9)
	}
}

// Without groups nothing crosses, with a group for each rank all of it does, and larger
// groups log less.
func TestModesShare(t *testing.T) {
	inst := specOf(t, "bt.W.16")
	last := 1.1
	for _, size := range []int{1, 2, 4, 8, 16} {
		traffic := CountTraffic(inst, groupsOf(t, Semi, []int{16}, size))
		if s := traffic.Share(); s >= last || size == 1 && s != 1 || size == 16 && s != 0 {
			t.Errorf("groups of %d: share %g after %g", size, s, last)
		} else {
			last = s
		}
	}
}

// Messages without a pattern go to all ranks alike.
func TestGuessed(t *testing.T) {
	w, err := dataset.ParseWorkload([]byte("name: x\nkernel: generic\nprocs: any\nclasses:\n  only: {iterations: 1}\n"+
		"arrays:\n  - {name: a, elem: float64, count: 1}\nmessages:\n  - {to: somebody, count: 3, bytes: 100}\n"), "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	inst, err := w.Instance("only", 5)
	if err != nil {
		t.Fatal(err)
	}
	traffic := CountTraffic(inst, groupsOf(t, Semi, []int{3, 2}, 0))
	// Three of the ranks send half of their messages outside, two of them three quarters.
	near(t, "crossing", traffic.Crossing, 3*3*0.5+2*3*0.75, 1e-12)
	near(t, "bytes", traffic.Logged(Receiver).Bytes, 9*(56+104), 1e-12)
	if len(traffic.Guessed) != 1 {
		t.Errorf("guessed %v", traffic.Guessed)
	}
	if one := CountTraffic(inst, groupsOf(t, Coordinated, []int{5}, 0)); one.Crossing != 0 {
		t.Errorf("%g messages cross between groups of one job", one.Crossing)
	}
}

// disk is a machine with a disk in each node, which takes one second for a rank, and one
// more for ranks that agree first.
func disk(perNode []int, agree int, keptMiB float64) (fit.Range, float64, error) {
	s := 0.0
	for _, n := range perNode {
		s = max(s, float64(n)*(1+keptMiB/100))
	}
	mib := 0.0
	for _, n := range perNode {
		mib += 100 * float64(n)
	}
	if agree > 0 {
		s++
	}
	return fit.Range{Value: s, Low: s / 2, High: 2 * s}, mib, nil
}

func testCase(t *testing.T, m Mode, l Log) *ModeCase {
	t.Helper()
	mapping := []int{4, 4, 4, 4}
	groups := groupsOf(t, m, mapping, 0)
	return &ModeCase{Mode: m, Log: l, Mapping: mapping, Groups: groups, Traffic: CountTraffic(specOf(t, "bt.W.16"), groups), IterationS: 1, Store: disk}
}

// Eq 3.5 and 3.6: none, all or a share of the groups store at the same time.
func TestContention(t *testing.T) {
	for _, c := range []struct {
		mode     Mode
		together float64
		group    float64
		all      float64
	}{
		{Coordinated, 0, 5, 5},       // four ranks on a disk, after they agreed
		{Semi, 0, 5, 20},             // one node after the other
		{Semi, 1, 5, 5},              // all nodes, each on its own disk
		{Semi, 0.5, 5, 10},           // two nodes at a time
		{Uncoordinated, 0, 1, 16},    // one rank after the other
		{Uncoordinated, 1, 4, 4},     // all; nobody agrees
		{Uncoordinated, 0.25, 4, 16}, // the ranks of a node
		{Uncoordinated, 0.1, 2, 16},  // two of a node
	} {
		k := testCase(t, c.mode, c.mode.Logs()[0])
		k.Together = c.together
		r, err := CostOf(k)
		if err != nil {
			t.Fatal(err)
		}
		if r.GroupS.Value != c.group || r.AllS.Value != c.all || r.StoredMiB != 1600 {
			t.Errorf("%s, %g together: group %g, all %g, %g MiB; want %g, %g, 1600", c.mode, c.together, r.GroupS.Value, r.AllS.Value, r.StoredMiB, c.group, c.all)
		}
		if !(r.AllS.Low <= r.GroupS.Low && r.AllS.High >= r.AllS.Value) {
			t.Errorf("%s, %g together: all %+v of groups %+v", c.mode, c.together, r.AllS, r.GroupS)
		}
	}
}

// A log that waits for the disk costs more than one that does not, and none costs nothing.
func TestLogging(t *testing.T) {
	slow := map[Log]fit.Range{}
	for _, l := range Uncoordinated.Logs() {
		r, err := CostOf(testCase(t, Uncoordinated, l))
		if err != nil {
			t.Fatal(err)
		}
		slow[l] = r.Slowdown
		if !r.Slowdown.Valid() || !r.RestartS.Valid() || !r.KeptS.Valid() {
			t.Errorf("%s: %+v", l, r)
		}
		if r.Domino != (l == None) || (r.RestartRanks == 16) != (l == None) {
			t.Errorf("%s: domino %v, %d ranks restart", l, r.Domino, r.RestartRanks)
		}
		if (r.KeptS.Value > 0) != (l == Sender) || (r.Logged.Bytes > 0) != (l == Receiver || l == Optimistic) {
			t.Errorf("%s: kept %g s, %g bytes logged", l, r.KeptS.Value, r.Logged.Bytes)
		}
		if len(r.Assumed) == 0 {
			t.Errorf("%s assumes nothing", l)
		}
	}
	if !(slow[Receiver].Value > slow[Optimistic].Value && slow[Optimistic].Value > slow[None].Value && slow[Receiver].Value > slow[Sender].Value) {
		t.Errorf("slowdowns %v", slow)
	}
	if slow[Optimistic].Low != 0 || slow[None] != (fit.Range{}) {
		t.Errorf("slowdowns %v", slow)
	}
}

// TestKept: kept messages make checkpoints larger, and add no agreement: of 20 s for 1600 MiB, 16
// are for bytes.
func TestKept(t *testing.T) {
	c := testCase(t, Semi, Sender)
	c.IterationS = 2
	r, err := CostOf(c)
	if err != nil {
		t.Fatal(err)
	}
	mib := c.Traffic.CrossingBytes / (1 << 20)
	near(t, "kept", r.KeptMiBPerS, mib/2, 1e-9)
	near(t, "a second's", r.KeptS.Value, mib/100/2, 1e-9)
	near(t, "a round", r.Round(10).Value, 20+10*mib/100/2, 1e-9)
	if !(r.KeptS.Low < r.KeptS.Value && r.KeptS.High > r.KeptS.Value) {
		t.Errorf("%+v has no interval", r.KeptS)
	}
}

// restartsOf draws restarts of a machine that takes 0.15 s, 25 ms for a rank, and reads
// 200 MiB/s.
func restartsOf(rng *rand.Rand, noise float64, ranks ...int) []dataset.JobRestart {
	var out []dataset.JobRestart
	for _, n := range ranks {
		bytes := int64(n) * 50 << 20
		read := float64(bytes) / (200 << 20) * (1 + noise*rng.NormFloat64())
		total := read + (0.15+0.025*float64(n))*(1+noise*rng.NormFloat64())
		replay := 2.0
		out = append(out, dataset.JobRestart{Failed: true, Groups: 1, Ranks: n, TotalS: total, ReadS: read, ReadBytes: bytes,
			LostIterations: 6, LostS: 3, ReplayS: &replay})
	}
	return out
}

// The restart of one group follows from those of all ranks and of one, within 25 %.
func TestRestartOfGroup(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		noise := 0.05 * float64(seed%2)
		m := &Machine{}
		m.FitRestarts(restartsOf(rng, noise, 16, 16, 1, 1))
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
		c := testCase(t, Semi, Receiver)
		c.Machine = m
		c.Store = func(perNode []int, _ int, _ float64) (fit.Range, float64, error) {
			n := 0
			for _, k := range perNode {
				n += k
			}
			return fit.Exactly(1), 50 * float64(n), nil
		}
		r, err := CostOf(c)
		if err != nil {
			t.Fatal(err)
		}
		want := 4*50/200. + 0.15 + 0.025*4
		near(t, "restart", r.RestartS.Value, want, 0.25)
		near(t, "replay", r.ReplaySpeed.Value, 1.5, 1e-9)
		if r.RestartS.Low > want || r.RestartS.High < want {
			t.Errorf("seed %d: restart %+v does not hold %g", seed, r.RestartS, want)
		}
	}
}

// Of restarts of one size nobody knows what a rank adds.
func TestOneSize(t *testing.T) {
	m := &Machine{}
	m.FitRestarts(restartsOf(rand.New(rand.NewPCG(1, 1)), 0, 8, 8))
	same, more := m.Restart(8, 400), m.Restart(64, 400)
	near(t, "the same", same.Coordination, 0.35, 1e-9)
	if more.Total.High/more.Total.Low < 2*same.Total.High/same.Total.Low {
		t.Errorf("8 ranks restart in %+v, 64 in %+v", same.Total, more.Total)
	}
}

func TestModesFit(t *testing.T) {
	if FitMachine([]dataset.JobRun{{App: "bt", Class: "W", NP: 16, Mode: "coordinated", Mapping: []int{16}}}) != nil {
		t.Error("a job without groups and restarts measured a machine")
	}
	run := dataset.JobRun{App: "bt", Class: "W", NP: 16, Mode: "semi", Log: "pessimistic-receiver", Mapping: []int{8, 8},
		Logs: &dataset.JobLogs{Iterations: 20, Bytes: 4000, Commits: 1000, Seconds: 3}}
	m := FitMachine([]dataset.JobRun{run})
	near(t, "commit", m.CommitS.Value, 3e-3, 1e-9)
	traffic := CountTraffic(specOf(t, "bt.W.16"), groupsOf(t, Semi, []int{8, 8}, 0))
	near(t, "commits", m.CommitsPerFrame.Value, 1000/(20*traffic.Logged(Receiver).Frames), 1e-9)
	got := m.Logged("bt", "W", 16, Semi, Receiver, groupsOf(t, Semi, []int{8, 8}, 0))
	if got == nil || *got != 200 {
		t.Errorf("logged %v, want 200 bytes", got)
	}
	if other := m.Logged("bt", "W", 16, Semi, Receiver, groupsOf(t, Semi, []int{4, 4, 4, 4}, 0)); other != nil {
		t.Errorf("logged %v in groups of another size", *other)
	}
	c := testCase(t, Semi, Receiver)
	c.LoggedBytes = got
	r, err := CostOf(c)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "rate", r.LogMiBPerS, 200./(1<<20), 1e-9)
}

func TestModesCheck(t *testing.T) {
	for _, m := range []Machine{
		{CommitS: &fit.Range{Value: 1, Low: 2, High: 3}}, {FixedS: &fit.Range{Value: 1, Low: -1, High: 3}}, {RankS: &fit.Range{Value: math.NaN(), Low: 0, High: 1}}, {ReadMiBPerS: &fit.Range{Value: 1, Low: 0, High: 2}},
		{Replay: &fit.Range{Value: 1, Low: 0.5, High: 2}}, {LogBytes: []MeasuredLog{{NP: 4, Ranks: 0}}}, {LogBytes: []MeasuredLog{{NP: 4, Ranks: 1, Bytes: -1}}},
	} {
		if m.Check() == nil {
			t.Errorf("%+v passes", m)
		}
	}
}

// TestExchange: counts are of a step where the program marks steps, and senseless ones are refused.
func TestExchange(t *testing.T) {
	of := func(np, steps, to string) fs.FS {
		dir := fstest.MapFS{}
		for _, name := range []string{"0.csv", "1.csv"} {
			dir[name] = &fstest.MapFile{Data: []byte("ranks,seconds,steps,any_source\n" + np + ",8," + steps + ",4\nto,messages,bytes\n" + to + ",20,400\n")}
		}
		return dir
	}
	e, err := ReadExchange(of("2", "4", "1"))
	if err != nil || e.StepS != 2 || e.AnySource != 2 || e.Pairs[0] != (Pair{0, 1, 5, 100}) {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err = ReadExchange(of("2", "0", "1")); err != nil || e.StepS != 8 {
		t.Errorf("%+v, %v", e, err)
	}
	for _, bad := range []fs.FS{of("2", "4", "2"), of("2", "4", "-1"), of("2", "-4", "1"), of("0", "4", "0"), of("x", "4", "1")} {
		if e, err := ReadExchange(bad); err == nil {
			t.Errorf("%+v was read", e)
		}
	}
}
