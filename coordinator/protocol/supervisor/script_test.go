package supervisor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/recovery"
)

// script drives a supervisor by hand and compares what it does, described in
// words.
type script struct {
	t   *testing.T
	s   *Supervisor
	now time.Duration
	got []string

	watch func(Action) // may be nil
}

// newScript starts a job of single ranks that compute.
func newScript(t *testing.T, cfg Config) *script {
	t.Helper()
	if cfg.Groups == nil {
		cfg.Groups = [][]int{{0}, {1}, {2}}
	}
	cfg.Iterations, cfg.AutoRestart = 100, true
	cfg.Limits = protocol.Limits{Silence: time.Hour, Phase: 10 * time.Second, Restarts: 5}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	sc := &script{t: t, s: s}
	sc.take(s.Begin(0))
	for r := range s.ranks {
		sc.ready(r)
	}
	sc.got = nil
	return sc
}

func (sc *script) step(group int, ev protocol.Event) {
	sc.now += time.Millisecond
	sc.take(sc.s.Step(sc.now, Event{group, ev}))
}

// rank lets one say something, in its present incarnation.
func (sc *script) rank(r int, m protocol.Message) {
	g := sc.s.of[r]
	sc.step(g.id, protocol.FromRank{Incarnation: g.incarnation, Rank: r, Message: m})
}

func (sc *script) ready(r int) {
	sc.rank(r, protocol.Hello{Address: fmt.Sprintf("host:%d", r)})
	sc.rank(r, protocol.Ready{})
}

func (sc *script) dies(r int) {
	g := sc.s.of[r]
	sc.step(g.id, protocol.RankLost{Incarnation: g.incarnation, Rank: r, Cause: "was killed"})
}

func (sc *script) fenced(r, round int, v channel.Vector) {
	sc.rank(r, protocol.Fenced{Round: round, Vector: v})
}

// checkpoint has a single rank that is stopped at boundary iter store it.
func (sc *script) checkpoint(r, number, iter int, v channel.Vector) {
	g := sc.s.of[r].id
	sc.rank(r, protocol.Stopped{Number: number, Iter: iter})
	sc.rank(r, protocol.Drained{Number: number})
	sc.rank(r, protocol.Written{Number: number})
	sc.step(g, protocol.Committed{Number: number, Vectors: []channel.Vector{v}})
}

func (sc *script) take(acts []Action) {
	for _, a := range acts {
		if sc.watch != nil {
			sc.watch(a)
		}
		if text := describe(a.Action); text != "" {
			sc.got = append(sc.got, strings.TrimSpace(fmt.Sprintf("%d: %s", a.Group, text)))
		}
	}
}

func describe(a protocol.Action) string {
	switch a := a.(type) {
	case protocol.Send:
		return fmt.Sprintf("%s to rank %d", spell(a.Message), a.Rank)
	case protocol.Broadcast:
		return spell(a.Message)
	case protocol.Spawn:
		return fmt.Sprintf("spawn %d from %d", a.Incarnation, a.From)
	case protocol.Commit:
		return fmt.Sprintf("commit %d", a.Checkpoint.Number)
	case protocol.Forget:
		return fmt.Sprintf("forget after %d", a.After)
	case protocol.Collect:
		return fmt.Sprintf("collect before %v, remove %v", a.Base, a.Remove)
	case protocol.Recovery:
		return fmt.Sprintf("recovery of %v: %v from %v, %d ranks", a.Failed, a.RolledBack, a.From, a.Ranks)
	case protocol.Answer:
		return strings.TrimSpace(fmt.Sprintf("answer %d: %d %s", a.ID, a.Number, a.Err))
	case protocol.Print:
		return fmt.Sprintf("print %q of rank %d", a.Text, a.Rank)
	case protocol.Finish:
		return a.Outcome.Result.String()
	}
	return ""
}

// spell names a message and what it says of other ranks.
func spell(m protocol.Message) string {
	text := protocol.Name(m)
	var counts []protocol.Count
	switch m := m.(type) {
	case protocol.Drain:
		counts = m.Expected
	case protocol.Collected:
		counts = m.Received
	case protocol.Moved:
		counts = []protocol.Count{{Peer: m.Rank, N: m.Incarnation}}
	case protocol.Unfence:
		for _, l := range m.Moved {
			counts = append(counts, protocol.Count{Peer: l.Rank, N: l.Incarnation})
		}
	}
	for _, c := range counts {
		text += fmt.Sprintf(" %d:%d", c.Peer, c.N)
	}
	return text
}

// want compares what was done since the last call.
func (sc *script) want(actions ...string) {
	sc.t.Helper()
	if !slices.Equal(actions, sc.got) {
		sc.t.Fatal(cmp.Diff(actions, sc.got))
	}
	sc.got = nil
}

func vector(sent, received []uint64) channel.Vector {
	return channel.Vector{Sent: sent, Received: received, Depends: make([]uint64, len(sent))}
}

// TestAlone: with a pessimistic log a failed rank goes back alone, to its newest
// checkpoint; the others only hear where it is now.
func TestAlone(t *testing.T) {
	sc := newScript(t, Config{Log: channel.Receiver, Schedule: protocol.Schedule{Every: 10}})
	sc.checkpoint(1, 2, 10, vector([]uint64{3, 0, 3}, []uint64{2, 0, 2}))
	sc.want("1: drain to rank 1", "1: write", "1: commit 2", "1: resume", "-1: collect before [0 2 0], remove []")
	sc.dies(1)
	sc.want("-1: recovery of [1]: [1] from [2], 1 ranks", "1: spawn 2 from 2")
	sc.ready(1)
	sc.want("0: moved 1:2 to rank 0", "2: moved 1:2 to rank 2", "1: moved 0:1 to rank 1", "1: moved 2:1 to rank 1", "1: start")
}

// TestSenderKeeps: what a checkpoint covers need not be kept by the senders any
// more.
func TestSenderKeeps(t *testing.T) {
	sc := newScript(t, Config{Log: channel.Sender, Schedule: protocol.Schedule{Every: 10}})
	sc.checkpoint(1, 2, 10, vector([]uint64{3, 0, 3}, []uint64{2, 0, 5}))
	sc.want("1: drain to rank 1", "1: write", "1: commit 2", "1: resume", "-1: collect before [0 2 0], remove []",
		"0: collected 1:2 to rank 0", "2: collected 1:5 to rank 2")
}

// TestLine: without a log the survivors are fenced; one of them has received what
// the failed rank has never sent now, and goes back as well.
func TestLine(t *testing.T) {
	sc := newScript(t, Config{Log: channel.None, Schedule: protocol.Schedule{Every: 10}})
	sc.checkpoint(0, 1, 10, vector([]uint64{0, 4, 0}, []uint64{0, 4, 0}))
	sc.checkpoint(1, 2, 10, vector([]uint64{4, 0, 0}, []uint64{4, 0, 0}))
	sc.got = nil
	sc.dies(0)
	sc.want("1: fence", "2: fence")
	sc.fenced(2, 1, vector([]uint64{0, 0, 0}, []uint64{0, 0, 0}))
	sc.want()
	sc.fenced(1, 1, vector([]uint64{5, 0, 0}, []uint64{5, 0, 0}))
	sc.want("0: forget after 1", "1: forget after 2", "-1: recovery of [0]: [0 1] from [1 2], 2 ranks",
		"0: spawn 2 from 1", "1: spawn 2 from 2", "2: unfence 0:2 1:2")
	sc.ready(0)
	sc.want("2: moved 0:2 to rank 2", "0: moved 2:1 to rank 0")
	sc.ready(1) // and both start
	sc.want("0: moved 1:2 to rank 0", "2: moved 1:2 to rank 2", "1: moved 0:2 to rank 1", "1: moved 2:1 to rank 1", "0: start", "1: start")
}

// TestSilentSurvivor: one that does not answer the fence is cancelled.
func TestSilentSurvivor(t *testing.T) {
	sc := newScript(t, Config{Log: channel.None})
	sc.dies(0)
	sc.fenced(1, 1, vector([]uint64{0, 0, 0}, []uint64{0, 0, 0}))
	at, ok := sc.s.Deadline()
	if !ok || at > sc.now+10*time.Second {
		t.Fatalf("deadline %v, %v", at, ok)
	}
	sc.got = nil
	sc.now += 10 * time.Second
	sc.step(Job, protocol.Tick{})
	sc.want("0: forget after 0", "2: forget after 0", "-1: recovery of [0 2]: [0 2] from [0 0], 2 ranks",
		"0: spawn 2 from 0", "2: spawn 2 from 0", "1: unfence 0:2 2:2")
}

// TestLateFence: if it is the coordinator that stood still, the survivors have more
// time to answer.
func TestLateFence(t *testing.T) {
	sc := newScript(t, Config{Log: channel.None})
	sc.dies(0)
	sc.got = nil
	sc.now += 10*time.Second + 2*time.Hour
	sc.step(Job, protocol.Tick{})
	sc.want()
	sc.fenced(1, 1, vector([]uint64{0, 0, 0}, []uint64{0, 0, 0}))
	at, ok := sc.s.Deadline()
	if !ok || at > sc.now+time.Hour {
		t.Fatalf("deadline %v, %v", at, ok)
	}
	sc.got = nil
	sc.now += time.Hour
	sc.step(Job, protocol.Tick{})
	sc.want("0: forget after 0", "2: forget after 0", "-1: recovery of [0 2]: [0 2] from [0 0], 2 ranks",
		"0: spawn 2 from 0", "2: spawn 2 from 0", "1: unfence 0:2 2:2")
}

// TestStop: the boundary is the latest that a group holds at, and the channels
// between the groups are drained there.
func TestStop(t *testing.T) {
	sc := newScript(t, Config{Log: channel.None, Groups: [][]int{{0}, {1}}})
	sc.step(Job, protocol.Requested{Request: protocol.Request{ID: 7, Stop: true}})
	sc.want("0: propose", "1: propose")
	sc.rank(0, protocol.Holding{Number: 1, Iter: 5})
	sc.want("0: stop-at")
	sc.rank(0, protocol.Stopped{Number: 1, Iter: 5, Sent: []protocol.Count{{Peer: 1, N: 10}}})
	sc.want()
	sc.rank(1, protocol.Holding{Number: 2, Iter: 6})
	sc.want("1: stop-at", "0: stop-at")
	sc.rank(0, protocol.Stopped{Number: 1, Iter: 6, Sent: []protocol.Count{{Peer: 1, N: 12}}})
	sc.rank(1, protocol.Stopped{Number: 2, Iter: 6, Sent: []protocol.Count{{Peer: 0, N: 11}}})
	sc.want("0: drain 1:11 to rank 0", "1: drain 0:12 to rank 1")
	for r := range 2 {
		sc.rank(r, protocol.Drained{Number: r + 1})
		sc.rank(r, protocol.Written{Number: r + 1})
	}
	sc.got = nil
	sc.step(0, protocol.Committed{Number: 1, Vectors: []channel.Vector{vector([]uint64{0, 12}, []uint64{0, 11})}})
	sc.want()
	sc.step(1, protocol.Committed{Number: 2, Vectors: []channel.Vector{vector([]uint64{11, 0}, []uint64{12, 0})}})
	sc.want("-1: answer 7: 2", "0: quit", "1: quit", "-1: stopped")
}

// TestStopFails: if one group cannot take its checkpoint, all go on.
func TestStopFails(t *testing.T) {
	sc := newScript(t, Config{Log: channel.Receiver, Groups: [][]int{{0}, {1}}})
	sc.step(Job, protocol.Requested{Request: protocol.Request{ID: 7, Stop: true}})
	sc.rank(0, protocol.Holding{Number: 1, Iter: 5})
	sc.got = nil
	sc.dies(1)
	sc.want("-1: recovery of [1]: [1] from [0], 1 ranks", "1: spawn 2 from 0", "0: abort", "-1: answer 7: 0 checkpoint 2 was aborted: rank 1: was killed while agreeing on an iteration")
	sc.rank(0, protocol.Aborted{Number: 1})
	sc.want("0: resume")
}

// TestPrint: each output comes once, whichever incarnation puts it out.
func TestPrint(t *testing.T) {
	sc := newScript(t, Config{Log: channel.Receiver, Printed: []uint64{0, 1, 0}})
	for _, index := range []uint64{1, 2, 1, 2, 3} {
		sc.rank(1, protocol.Output{Index: index, Text: fmt.Sprint("line ", index)})
	}
	sc.want(`-1: print "line 2" of rank 1`, `-1: print "line 3" of rank 1`)
}

// TestStoring: no more groups drain and store at the same time than may; the
// others stand at their boundaries in turn.
func TestStoring(t *testing.T) {
	sc := newScript(t, Config{Log: channel.Receiver, Schedule: protocol.Schedule{Every: 10}, Storing: 1})
	for _, r := range []int{2, 0, 1} {
		sc.rank(r, protocol.Stopped{Number: r + 1, Iter: 10})
	}
	sc.want("2: drain to rank 2")
	sc.rank(2, protocol.Drained{Number: 3})
	sc.rank(2, protocol.WriteFailed{Number: 3, Text: "no space"})
	sc.want("2: write", "2: abort")
	sc.rank(2, protocol.Aborted{Number: 3})
	sc.want("2: resume", "0: drain to rank 0")
}

// TestBeginWithLine: a job that is taken over begins with the recovery line of
// what is in the store, and what lies behind it in time is removed.
func TestBeginWithLine(t *testing.T) {
	known := []Stored{
		{Group: 0, Number: 1, Iter: 10, Vectors: []channel.Vector{vector([]uint64{0, 4}, []uint64{0, 4})}},
		{Group: 1, Number: 2, Iter: 10, Vectors: []channel.Vector{vector([]uint64{4, 0}, []uint64{4, 0})}},
		{Group: 1, Number: 4, Iter: 20, Vectors: []channel.Vector{vector([]uint64{8, 0}, []uint64{8, 0})}},
	}
	s, err := New(Config{Groups: [][]int{{0}, {1}}, Log: channel.None, Iterations: 100, Known: known, Incarnation: 7})
	if err != nil {
		t.Fatal(err)
	}
	sc := &script{t: t, s: s}
	sc.take(s.Begin(0))
	sc.want("0: forget after 1", "1: forget after 2", "0: spawn 7 from 1", "1: spawn 7 from 2")
}

// TestBadConfig: what cannot be is refused before anything is begun.
func TestBadConfig(t *testing.T) {
	two := [][]int{{0}, {1}}
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"no ranks":        {Config{}, "there are no groups"},
		"empty group":     {Config{Groups: [][]int{{0}, {}}}, "group 1 has no ranks"},
		"rank twice":      {Config{Groups: [][]int{{0, 1}, {1}}}, "once"},
		"rank missing":    {Config{Groups: [][]int{{0}, {2}}}, "once"},
		"disorder":        {Config{Groups: [][]int{{1, 0}}}, "ascending"},
		"optimistic pair": {Config{Groups: [][]int{{0, 1}, {2}}, Log: channel.Optimistic}, "groups of one rank"},
		"jitter":          {Config{Groups: two, Jitter: 1}, "jitter"},
		"log":             {Config{Groups: two, Log: 9}, "unknown"},
		"foreign group":   {Config{Groups: two, Known: []Stored{{Group: 2, Number: 3}}}, "of group 2"},
		"no vectors":      {Config{Groups: two, Known: []Stored{{Group: 0, Number: 1}}}, "vectors"},
		"short vectors":   {Config{Groups: two, Known: []Stored{{Group: 0, Number: 1, Vectors: make([]channel.Vector, 1)}}}, "vectors"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want something about %q", err, c.want)
			}
		})
	}
	for _, log := range []channel.Kind{channel.Receiver, channel.Sender, channel.Optimistic} {
		if _, err := New(Config{Groups: two, Log: log, Base: []int{3, 0}}); !errors.Is(err, recovery.ErrNoLine) {
			t.Errorf("%v, and the checkpoint that the logs reach back to is missing: %v", log, err)
		}
	}
}
