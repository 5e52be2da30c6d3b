package life

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/protocol/supervisor"
)

// decided is the supervisor of a job as the simulation of each group drives it: an iteration is a
// second of running, and a group a rank.
type decided struct {
	t       *testing.T
	s       *supervisor.Supervisor
	e       *each
	taken   [][]float64 // by group and order: positions of its checkpoints
	spawned map[int]int // by group: the checkpoint that it goes back to
	inc     []int
	next    []int
}

func newDecided(t *testing.T, e *each) *decided {
	t.Helper()
	cfg := supervisor.Config{Log: channel.Receiver, Iterations: int(e.Work), Schedule: protocol.Schedule{Every: int(e.Interval)}, AutoRestart: true,
		Limits: protocol.Limits{Silence: 1e6 * time.Hour, Phase: 1e6 * time.Hour, Restarts: 1 << 30}, Keep: 1}
	if e.Spread {
		cfg.Stagger = supervisor.Spread
	}
	for i := range e.Groups {
		cfg.Groups = append(cfg.Groups, []int{i})
	}
	s, err := supervisor.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	d := &decided{t: t, s: s, e: e, taken: make([][]float64, e.Groups), spawned: map[int]int{}, inc: make([]int, e.Groups), next: make([]int, e.Groups)}
	d.take(s.Begin(0))
	for i := range e.Groups {
		d.next[i] = i + 1
		d.ready(i)
	}
	clear(d.spawned)
	return d
}

func (d *decided) take(acts []supervisor.Action) {
	for _, a := range acts {
		switch x := a.Action.(type) {
		case protocol.Spawn:
			d.spawned[a.Group], d.inc[a.Group] = x.From, x.Incarnation
		case protocol.Finish:
			d.t.Errorf("the supervisor ends the job: %+v", x.Outcome)
		}
	}
}

func (d *decided) step(group int, ev protocol.Event) {
	d.take(d.s.Step(time.Duration(d.e.now*1e9), supervisor.Event{Group: group, Event: ev}))
}

func (d *decided) rank(i int, m protocol.Message) {
	d.step(i, protocol.FromRank{Incarnation: d.inc[i], Rank: i, Message: m})
}

func (d *decided) ready(i int) {
	d.rank(i, protocol.Hello{Address: fmt.Sprint("host:", i)})
	d.rank(i, protocol.Ready{})
}

// stored says that a group has stored a checkpoint at its position.
func (d *decided) stored(i int) {
	n, pos := d.next[i], d.e.groups[i].pos
	d.rank(i, protocol.Stopped{Number: n, Iter: int(pos)})
	d.rank(i, protocol.Drained{Number: n})
	d.rank(i, protocol.Written{Number: n})
	d.step(i, protocol.Committed{Number: n, Vectors: []channel.Vector{{Sent: make([]uint64, d.e.Groups), Received: make([]uint64, d.e.Groups), Depends: make([]uint64, d.e.Groups)}}})
	d.next[i] += d.e.Groups
	d.taken[i] = append(d.taken[i], pos)
}

// died says that a group failed, and compares whom the supervisor sends back, and to where.
func (d *decided) died(i int) {
	clear(d.spawned)
	d.step(i, protocol.RankLost{Incarnation: d.inc[i], Rank: i, Cause: "was killed"})
	if len(d.spawned) == 0 { // after failures that follow each other it waits a little
		if at, ok := d.s.Deadline(); ok {
			d.take(d.s.Step(at, supervisor.Event{Group: supervisor.Job, Event: protocol.Tick{}}))
		}
	}
	from, back := d.spawned[i]
	pos := 0.0
	if from > 0 {
		pos = d.taken[i][(from-1)/d.e.Groups]
	}
	if !back || len(d.spawned) != 1 || pos != d.e.groups[i].saved {
		d.t.Errorf("group %d failed: the supervisor sends back %v, it to %g; simulated: it alone, to %g", i, d.spawned, pos, d.e.groups[i].saved)
	}
	d.ready(i)
}

// TestSupervisorDecides: the supervisor of a job, told what happens in a simulation of each group,
// sends the same groups back to the same checkpoints. TestGroupByGroup holds crowds to that
// simulation.
func TestSupervisorDecides(t *testing.T) {
	failures := 0
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 11))
		j := &Job{Work: 6000, Interval: 400, Nodes: 2 + rng.IntN(4), Spread: seed%2 == 1, Slack: 10, Levels: []Level{{Cost: 10 + 20*rng.Float64(), Restart: 20, Read: 5}}}
		j.Groups = j.Nodes
		j.Interval = float64(j.Groups) * 100 // whole iterations for each part
		m := &Machine{NodeMTBF: float64(j.Nodes) * 900, Detect: 10, Spares: -1}
		e := &each{Job: j, m: m, src: m.source(j.Nodes, rng)}
		e.begin()
		d := newDecided(t, e)
		e.stored, e.died = d.stored, func(i int) { failures++; d.died(i) }
		e.live()
	}
	if failures < 20 {
		t.Errorf("%d failures prove little", failures)
	}
}
