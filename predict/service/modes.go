package service

import (
	"ckpt/predict/fit"
	"fmt"
	"iter"
	"math"
)

// A Storing predicts the time, in seconds, of storing the memory of some ranks at the same
// time, so many of each node. As many as agree first agree on a moment (Eq 3.5 of the
// thesis), or 0 if each stores on its own (Eq 3.6). Each rank stores keptMiB of messages beside
// its memory.
type Storing func(perNode []int, agree int, keptMiB float64) (seconds fit.Range, mib float64, err error)

// A ModeCase is a job whose costs under one mode and log are asked for.
type ModeCase struct {
	Mode    Mode
	Log     Log
	Mapping []int
	// Groups is the group of each rank, Traffic what crosses between them.
	Groups  []int
	Traffic Traffic
	// LoggedBytes, if it is not nil, was measured: bytes logged in an iteration.
	LoggedBytes *float64
	IterationS  float64 // of the run without checkpoints
	// Together is the share of the groups that store at the same time: 0 for one after
	// the other, 1 for all.
	Together float64
	Store    Storing
	Machine  *Machine // nil: all is assumed
	// ReadMiB is what a rank reads when it restarts at a measured rate; 0 is what it stored.
	ReadMiB float64
}

// A ModeCost is what a mode costs, before failures are counted.
type ModeCost struct {
	GroupCount int
	GroupRanks int // of the largest group
	// GroupS is the time of a checkpoint of the largest group, while others store as
	// Together says. AllS is what the job loses until every group has stored once.
	GroupS, AllS fit.Range
	StoredMiB    float64 // of all groups, without logs
	// Logged is of one iteration. KeptMiBPerS is what senders keep for each second of
	// work, LogMiBPerS what is logged.
	Logged                  Logging
	LogMiBPerS, KeptMiBPerS float64
	// CrossingShare is the share of the bytes sent that cross from one group to another.
	CrossingShare float64
	// Slowdown is the share of the speed that logging costs.
	Slowdown fit.Range
	// KeptS is the time that a second of work adds to AllS, since checkpoints hold the
	// messages that senders keep.
	KeptS fit.Range
	// RestartS is the time until the ranks that go back compute again, ReplaySpeed how
	// many times faster they then repeat lost work. LogReadS is what reading a second's
	// worth of log adds to a restart.
	RestartRanks          int
	RestartS, ReplaySpeed fit.Range
	LogReadS              fit.Range
	// Domino says that nothing bounds how far ranks roll back: in the worst case to the
	// beginning.
	Domino  bool
	Assumed []string
}

// Round is what a round of checkpoints costs after so many seconds of work, whose messages it
// stores.
func (r *ModeCost) Round(work float64) fit.Range { return r.AllS.Plus(r.KeptS.Scale(work)) }

// CostOf predicts what a mode and log cost.
func CostOf(c *ModeCase) (*ModeCost, error) {
	by := sizes(c.Groups)
	r := &ModeCost{GroupCount: len(by)}
	for _, n := range by {
		r.GroupRanks = max(r.GroupRanks, n)
	}
	if err := c.storing(r, 0); err != nil {
		return nil, err
	}
	if err := c.logging(r); err != nil {
		return nil, err
	}
	if err := c.restarting(r); err != nil {
		return nil, err
	}
	if len(by) > 1 && c.Log == None {
		r.Domino = c.Traffic.Crossing > 0
		r.RestartRanks = len(c.Groups)
	}
	return r, nil
}

// perNode counts the ranks of some groups by node.
func (c *ModeCase) perNode(in func(group int) bool) []int {
	out := make([]int, len(c.Mapping))
	rank := 0
	for node, n := range c.Mapping {
		for range n {
			if in(c.Groups[rank]) {
				out[node]++
			}
			rank++
		}
	}
	return out
}

// storing adds up what it takes until all groups have stored once: groups store in
// batches, and while a batch stores the others wait for its messages. At best the pauses
// hide behind each other, and a rank loses its own only.
func (c *ModeCase) storing(r *ModeCost, keptMiB float64) error {
	if r.GroupCount == 1 {
		s, mib, err := c.Store(c.Mapping, len(c.Groups), keptMiB)
		r.GroupS, r.AllS, r.StoredMiB = s, s, mib
		return err
	}
	agree := 0
	if r.GroupRanks > 1 {
		agree = r.GroupRanks
	}
	size := max(1, int(math.Ceil(c.Together*float64(r.GroupCount))))
	seen := map[string]batchCost{} // most batches are alike
	for nodes := range c.batches(size) {
		key := c.shape(nodes)
		b, ok := seen[key]
		if !ok {
			perNode := make([]int, len(c.Mapping))
			for _, n := range nodes {
				perNode[n.node] = n.ranks
			}
			var err error
			if b.seconds, b.mib, err = c.Store(perNode, agree, keptMiB); err != nil {
				return err
			}
			seen[key] = b
		}
		r.StoredMiB += b.mib
		r.AllS = r.AllS.Plus(b.seconds)
		if b.seconds.Value >= r.GroupS.Value {
			r.GroupS = b.seconds
		}
	}
	r.AllS.Low = min(r.AllS.Low, r.GroupS.Low)
	return nil
}

type batchCost struct {
	seconds fit.Range
	mib     float64
}

// A part is the ranks of one node in a batch.
type part struct{ node, ranks int }

// batches yields the nodes of each batch of groups. Groups are ranks that follow each
// other, and so are batches.
func (c *ModeCase) batches(size int) iter.Seq[[]part] {
	return func(yield func([]part) bool) {
		var parts []part
		current, rank := 0, 0
		for node, n := range c.Mapping {
			for range n {
				if b := c.Groups[rank] / size; b != current {
					if !yield(parts) {
						return
					}
					current, parts = b, nil
				}
				if k := len(parts); k == 0 || parts[k-1].node != node {
					parts = append(parts, part{node, 0})
				}
				parts[len(parts)-1].ranks++
				rank++
			}
		}
		if len(parts) > 0 {
			yield(parts)
		}
	}
}

// shape names batches that take the same time.
func (c *ModeCase) shape(parts []part) string {
	count := map[[2]int]int{}
	for _, p := range parts {
		count[[2]int{c.Mapping[p.node], p.ranks}]++
	}
	return fmt.Sprint(count)
}

// memoryMiBPerS is the rate at which a sender copies what it keeps.
var memoryMiBPerS = fit.Range{Value: 4000, Low: 1000, High: 16000}

// logging fills in the costs of a log while nothing fails.
func (c *ModeCase) logging(r *ModeCost) error {
	r.Logged = c.Traffic.Logged(c.Log)
	if r.GroupCount == 1 {
		r.Logged = Logging{}
		return nil
	}
	if c.LoggedBytes != nil {
		r.Logged.Bytes = *c.LoggedBytes
	} else if n := len(c.Traffic.Guessed); n > 0 {
		r.assume("of %d kinds of messages nobody knows where they go: all ranks are equally likely", n)
	}
	r.CrossingShare = c.Traffic.Share()
	perSecond := 1 / (c.IterationS * (1 << 20))
	r.LogMiBPerS, r.KeptMiBPerS = r.Logged.Bytes*perSecond, r.Logged.Kept*perSecond
	m := c.machine()
	commit := m.quantity(r, m.CommitS, usual.commitS, "a commit of a log takes %s ms", 1e3)
	each := m.quantity(r, m.CommitsPerFrame, usual.commits, "%s commits for a logged message", 1)
	wait := commit.Times(each).Scale(r.Logged.Waits)
	wait.High = max(wait.High, wait.Value)
	switch c.Log {
	case Optimistic:
		// Writing hides behind computing, or takes as long as if it did not.
		all := commit.Times(each).Scale(c.Traffic.Busiest)
		wait = fit.Range{Value: all.Value / 2, Low: 0, High: all.High}
		r.assume("half of the optimistic log hides behind the computation")
	case Sender:
		mib := c.Traffic.BusiestBytes / (1 << 20)
		wait = wait.Plus(fit.Exactly(mib).Over(memoryMiBPerS))
	}
	share := func(s float64) float64 { return s / (c.IterationS + s) }
	r.Slowdown = fit.Range{Value: share(wait.Value), Low: share(wait.Low), High: share(wait.High)}
	return c.keeping(r)
}

// keeping finds the time that the kept messages of an iteration add to the checkpoints. They
// make each larger, but add neither files nor commits.
func (c *ModeCase) keeping(r *ModeCost) error {
	if r.Logged.Kept == 0 {
		return nil
	}
	with := &ModeCost{GroupCount: r.GroupCount, GroupRanks: r.GroupRanks}
	if err := c.storing(with, r.Logged.Kept/float64(len(c.Groups))/(1<<20)); err != nil {
		return err
	}
	value, low, high := with.AllS.Value-r.AllS.Value, with.AllS.Low-r.AllS.Low, with.AllS.High-r.AllS.High
	value = max(0, value)
	r.KeptS = fit.Range{Value: value, Low: min(value, max(0, low)), High: max(value, high)}.Scale(1 / c.IterationS)
	return nil
}

// restarting fills in the restart of the group that failed; without logs all ranks may
// have to go back.
func (c *ModeCase) restarting(r *ModeCost) error {
	failed := c.Groups[len(c.Groups)-1]
	by := sizes(c.Groups)
	for g, n := range by {
		if n == r.GroupRanks {
			failed = g
			break
		}
	}
	r.RestartRanks = r.GroupRanks
	nodes := c.perNode(func(g int) bool { return g == failed || c.Log == None })
	if c.Log == None {
		r.RestartRanks = len(c.Groups)
	}
	m := c.machine()
	if t := m.RestartTimes; t != nil {
		if err := t.tooFar(Load{Ranks: float64(r.RestartRanks)}, 1); err != nil {
			return err
		}
	}
	r.RestartS = m.starting(r, r.RestartRanks)
	seconds, mib, err := c.Store(nodes, 0, 0)
	if err != nil || mib == 0 {
		return nil // storing has refused it before
	}
	read := fit.Range{Value: seconds.Value, Low: seconds.Low / readDoubt, High: seconds.High * readDoubt}
	if m.readMeasured() && c.ReadMiB > 0 {
		mib = c.ReadMiB * float64(r.RestartRanks)
	}
	switch t := m.Restart(r.RestartRanks, mib); {
	case m.ReadMiBPerS != nil:
		read = fit.Exactly(mib).Over(*m.ReadMiBPerS)
		r.RestartS = r.RestartS.Plus(read)
	case m.readMeasured():
		if t.TooFar != nil {
			return t.TooFar
		}
		read = t.Total.Scale(t.Storage / t.Total.Value)
		r.RestartS = t.Total
	default:
		r.assume("reading is as fast as writing")
		r.RestartS = r.RestartS.Plus(read)
	}
	r.ReplaySpeed = fit.Exactly(1)
	if r.GroupCount > 1 && c.Log != None {
		r.ReplaySpeed = m.quantity(r, m.Replay, usual.replay, "lost work is repeated at %s times its speed", 1)
		share := float64(r.GroupRanks) / float64(len(c.Groups))
		r.LogReadS = read.Scale((r.LogMiBPerS + r.KeptMiBPerS) * share / mib)
	}
	return nil
}

// Starting is the time of a restart of some ranks until they read, and what of it is
// assumed. A machine that was not measured is nil.
func (m *Machine) Starting(ranks int) (fit.Range, []string) {
	if m == nil {
		m = &Machine{}
	}
	var r ModeCost
	t := m.starting(&r, ranks)
	return t, r.Assumed
}

// readMeasured reports whether the reading of checkpoints was measured.
func (m *Machine) readMeasured() bool {
	return m.ReadMiBPerS != nil || m.RestartTimes != nil && m.RestartTimes.Bytes.High > 0
}

func (m *Machine) starting(r *ModeCost, ranks int) fit.Range {
	if t := m.RestartTimes; t != nil {
		start := t.of(&t.Coordination, Load{Ranks: float64(ranks)})
		return within(start.Value, t.factor(t.NP.beyond(float64(ranks)), laws(start), false))
	}
	return m.quantity(r, m.FixedS, usual.fixedS, "a restart takes %s s to notice the failure and to begin", 1).
		Plus(m.quantity(r, m.RankS, usual.rankS, "starting a rank takes %s ms", 1e3).Scale(float64(ranks)))
}

func (c *ModeCase) machine() *Machine {
	if c.Machine == nil {
		return &Machine{}
	}
	return c.Machine
}

// quantity is the measured value or the assumed one, which it notes.
func (m *Machine) quantity(r *ModeCost, measured *fit.Range, otherwise fit.Range, text string, unit float64) fit.Range {
	if measured != nil {
		return *measured
	}
	r.assume(text, fmt.Sprintf("%g (%g to %g)", otherwise.Value*unit, otherwise.Low*unit, otherwise.High*unit))
	return otherwise
}

func (r *ModeCost) assume(format string, args ...any) {
	r.Assumed = append(r.Assumed, fmt.Sprintf(format, args...))
}

// A Mode says which ranks take checkpoints together, and restart together.
type Mode string

// The modes, by the names that jobs use.
const (
	Coordinated   Mode = "coordinated"
	Semi          Mode = "semi"
	Uncoordinated Mode = "uncoordinated"
)

// Modes lists them.
func Modes() []Mode { return []Mode{Coordinated, Semi, Uncoordinated} }

// A Log says what is kept of messages between groups.
type Log string

// The logs, by the names that jobs use. In a coordinated job there is nothing to log.
const (
	NoGroups   Log = ""
	None       Log = "none"
	Receiver   Log = "pessimistic-receiver"
	Sender     Log = "pessimistic-sender"
	Optimistic Log = "optimistic"
)

// Logs lists the logs that a mode works with, the default first.
func (m Mode) Logs() []Log {
	switch m {
	case Semi:
		return []Log{Receiver, Sender}
	case Uncoordinated:
		return []Log{Receiver, Sender, Optimistic, None}
	}
	return []Log{NoGroups}
}

// Groups returns the group of each rank. Mode semi has the nodes as groups, or size ranks
// that follow each other.
func Groups(m Mode, mapping []int, size int) ([]int, error) {
	var out []int
	for node, n := range mapping {
		for range n {
			switch {
			case m == Coordinated:
				out = append(out, 0)
			case m == Uncoordinated:
				out = append(out, len(out))
			case m != Semi:
				return nil, fmt.Errorf("mode %q is unknown", m)
			case size > 0:
				out = append(out, len(out)/size)
			default:
				out = append(out, node)
			}
		}
	}
	return out, nil
}

// sizes counts the ranks of each group.
func sizes(groups []int) []int {
	var out []int
	for _, g := range groups {
		for g >= len(out) {
			out = append(out, 0)
		}
		out[g]++
	}
	return out
}
