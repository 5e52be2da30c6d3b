package mpi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"

	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/recovery"
	"ckpt/internal/testkit"
)

// A save is a rank's checkpoint.
type save struct {
	p    *ordered
	snap *Snapshot
}

// A groupJob is a job of groups, in one process, whose Comms are killed.
type groupJob struct {
	t     testing.TB
	kind  channel.Kind
	group []int // of each rank
	rng   *rand.Rand
	dir   string
	iters int
	kills int // still to come

	mu       sync.Mutex // registry
	comms    []*Comm
	segs     []*Segment
	addrs    []string
	incs     []uint64
	logs     []*memLog
	saves    [][]save
	meetings map[int]*meeting
	programs []*ordered
	ended    chan ending
	state    []string // of each rank: running, done, dead
	restarts []int
}

type ending struct {
	rank int
	err  error
}

var errKilled = errors.New("killed")

// A meeting is a barrier of the members of a group outside of their Comms, as the
// coordinator is.
type meeting struct {
	mu      sync.Mutex
	cond    sync.Cond
	members int
	here    int
	round   int
	dead    bool
	sent    map[int][]Count
}

func (m *meeting) meet(last func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return false
	}
	round := m.round
	if m.here++; m.here == m.members {
		m.here = 0
		m.round++
		if last != nil {
			last()
		}
		m.cond.Broadcast()
		return true
	}
	for m.round == round && !m.dead {
		m.cond.Wait()
	}
	return m.round != round
}

func (m *meeting) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
	m.cond.Broadcast()
}

func newGroupJob(t testing.TB, kind channel.Kind, group []int, seed uint64, iters, kills int) *groupJob {
	n := len(group)
	j := &groupJob{t: t, kind: kind, group: group, rng: rand.New(rand.NewPCG(seed, 1)), dir: shmDir(t), iters: iters, kills: kills,
		comms: make([]*Comm, n), segs: make([]*Segment, n), addrs: make([]string, n), incs: make([]uint64, n), saves: make([][]save, n),
		meetings: map[int]*meeting{}, programs: make([]*ordered, n), ended: make(chan ending, n), state: make([]string, n), restarts: make([]int, n)}
	for r := range n {
		j.logs = append(j.logs, &memLog{rng: rand.New(rand.NewPCG(seed, uint64(10+r))), first: 1, faulty: kills > 0 && r%2 == 0})
		ep, err := channel.New(channel.Config{Kind: kind, Rank: r, Size: n})
		if err != nil {
			t.Fatal(err)
		}
		st := ep.Snapshot()
		j.saves[r] = []save{{newOrdered(r), &Snapshot{State: st.Encode(), Vector: st.Vector, LogFrom: 1}}}
	}
	return j
}

func (j *groupJob) members(g int) (ranks []int) {
	for r, of := range j.group {
		if of == g {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// start begins an incarnation of a group.
func (j *groupJob) start(g int, line []uint64) { j.join(g, line)() }

// join makes the Comms of an incarnation and returns what has its program run.
func (j *groupJob) join(g int, line []uint64) (run func()) {
	j.mu.Lock()
	members := j.members(g)
	m := &meeting{members: len(members), sent: map[int][]Count{}}
	m.cond.L = &m.mu
	j.meetings[g] = m
	listeners := map[int]net.Listener{}
	for _, r := range members {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			j.t.Fatal(err)
		}
		listeners[r], j.addrs[r] = l, l.Addr().String()
	}
	killAfter := math.MaxInt
	if j.kills > 0 {
		j.kills--
		killAfter = 1 + j.rng.IntN(j.iters*5)
	}
	victim := members[j.rng.IntN(len(members))]
	// Half of the groups share a segment.
	shared := len(members) > 1 && g%2 == 0
	for _, r := range members {
		cfg := Config{Rank: r, Size: len(j.group), NodeOf: make([]int, len(j.group)), Listener: listeners[r],
			Peers: slices.Clone(j.addrs), Token: []byte("secret"), Channels: &Channels{
				Kind: j.kind, Group: members, Incarnation: j.incs[r], Incarnations: slices.Clone(j.incs), MaxUnacked: 1 << 20}}
		for p := range cfg.Peers { // some are heard of later
			if j.comms[p] == nil && !slices.Contains(members, p) {
				cfg.Peers[p] = ""
			}
		}
		if shared {
			seg, err := OpenSegment(fmt.Sprintf("%s/group%d.%d", j.dir, g, j.incs[r]), OpenMPI, len(members))
			if err != nil {
				j.t.Fatal(err)
			}
			cfg.Segment, j.segs[r] = seg, seg
		}
		if j.kind.Logs() {
			cfg.Channels.Log = j.logs[r]
		}
		s := j.saves[r][len(j.saves[r])-1]
		j.programs[r] = s.p.clone()
		cfg.Channels.Restore = &Restored{State: s.snap.State, Pending: s.snap.Pending, Frames: j.logs[r].read(), Line: line}
		c, err := Join(cfg)
		if err != nil {
			j.t.Fatal(err)
		}
		j.comms[r] = c
	}
	for p, c := range j.comms {
		for _, r := range members {
			if c != nil && j.group[p] != g {
				if err := c.PeerMoved(r, j.addrs[r], j.incs[r]); err != nil && !errors.Is(err, errKilled) {
					j.t.Error(err)
				}
				j.collect(r, p)
				j.collect(p, r)
			}
		}
	}
	var comms []*Comm
	for _, r := range members {
		comms = append(comms, j.comms[r])
	}
	j.mu.Unlock()
	return func() {
		kill := sync.OnceFunc(func() {
			m.kill()
			for _, c := range comms {
				c.Abort(errKilled)
			}
		})
		for i, r := range members {
			j.state[r] = "running"
			c, p := comms[i], j.programs[r]
			after := math.MaxInt
			if r == victim {
				after = killAfter
			}
			go func() {
				var killing sync.WaitGroup
				err := j.run(c, p, m, func() {
					if after--; after == 0 {
						killing.Go(kill) // at some instant of what follows
					}
				})
				if err != nil {
					kill() // all of the group die together
				}
				killing.Wait()
				j.ended <- ending{r, err}
			}()
		}
	}
}

// collect tells rank p what the last checkpoint of rank r has of its messages.
func (j *groupJob) collect(r, p int) {
	if j.comms[p] != nil && j.kind == channel.Sender {
		_ = j.comms[p].Collected(r, j.saves[r][0].snap.Vector.Received[p]) // it may have ended
	}
}

// run is a rank.
func (j *groupJob) run(c *Comm, p *ordered, m *meeting, op func()) error {
	for p.iter < j.iters {
		if err := p.step(c, op); err != nil {
			return err
		}
		if _, err := c.Output(); err != nil {
			return err
		}
		if (uint64(p.iter)*2654435761+uint64(j.group[c.Rank()])*40503)>>4%4 == 0 {
			if err := j.checkpoint(c, p, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkpoint takes one of a group.
func (j *groupJob) checkpoint(c *Comm, p *ordered, m *meeting) error {
	r := c.Rank()
	m.mu.Lock()
	m.sent[r] = c.Sent()
	m.mu.Unlock()
	if !m.meet(nil) {
		return errKilled
	}
	var expected []Count
	m.mu.Lock()
	for src, counts := range m.sent {
		for _, n := range counts {
			if j.group[n.Peer] != j.group[r] {
				j.t.Errorf("rank %d counts messages to rank %d", src, n.Peer)
			}
			if n.Peer == r {
				expected = append(expected, Count{Peer: src, N: n.N})
			}
		}
	}
	m.mu.Unlock()
	if err := c.Drain(context.Background(), expected); err != nil {
		return err
	}
	snap, err := c.Snapshot(context.Background())
	if err != nil {
		return err
	}
	j.mu.Lock()
	j.saves[r] = append(j.saves[r], save{p.clone(), snap})
	j.mu.Unlock()
	if !m.meet(func() { // all are stored: commit
		j.mu.Lock()
		defer j.mu.Unlock()
		for _, r := range j.members(j.group[r]) {
			if j.kind == channel.Receiver || j.kind == channel.Sender {
				j.saves[r] = j.saves[r][len(j.saves[r])-1:]
				j.logs[r].truncate(j.saves[r][0].snap.LogFrom)
			}
			for p := range j.comms {
				j.collect(r, p)
			}
		}
	}) {
		return errKilled
	}
	return nil
}

// settleSaves drops checkpoints of a dead group that not all of its members have.
func (j *groupJob) settleSaves(g int) {
	iter := math.MaxInt
	for _, r := range j.members(g) {
		iter = min(iter, j.saves[r][len(j.saves[r])-1].p.iter)
	}
	for _, r := range j.members(g) {
		j.saves[r] = slices.DeleteFunc(j.saves[r], func(s save) bool { return s.p.iter > iter })
	}
}

// play runs the job to its end, through all failures, and returns the programs.
func (j *groupJob) play() []*ordered {
	for _, g := range slices.Compact(slices.Sorted(slices.Values(j.group))) {
		j.start(g, nil)
	}
	for slices.Contains(j.state, "running") || slices.Contains(j.state, "dead") {
		if dead := slices.Index(j.state, "dead"); dead >= 0 {
			j.recover(j.group[dead])
			continue
		}
		j.wait()
	}
	var wg sync.WaitGroup
	for r, c := range j.comms {
		wg.Go(func() {
			if err := flush(context.Background(), c); err != nil {
				j.t.Errorf("rank %d: %v", r, err)
			}
		})
	}
	wg.Wait()
	for r, c := range j.comms {
		if v, err := vector(c); err != nil || v.Outputs != uint64(j.iters) {
			j.t.Errorf("rank %d: %d outputs, %v", r, v.Outputs, err)
		}
		if messages, bytes := kept(c); j.kind != channel.Sender && (messages != 0 || bytes != 0) {
			j.t.Errorf("rank %d keeps %d messages, %d bytes, after the end", r, messages, bytes)
		}
		if c.Pending() != nil {
			j.t.Errorf("rank %d has messages left", r)
		}
	}
	for r := range j.comms {
		j.close(r)
	}
	return j.programs
}

func (j *groupJob) wait() {
	e := <-j.ended
	j.state[e.rank] = "done"
	if e.err != nil {
		j.state[e.rank] = "dead"
		if !errors.Is(e.err, errKilled) {
			j.t.Fatalf("rank %d: %v", e.rank, e.err)
		}
	}
}

func (j *groupJob) close(r int) {
	j.mu.Lock()
	c := j.comms[r]
	j.comms[r] = nil
	j.mu.Unlock()
	if err := c.Close(); err != nil {
		j.t.Error(err)
	}
	if s := j.segs[r]; s != nil {
		if err := errors.Join(s.Unlink(), s.Close()); err != nil {
			j.t.Error(err)
		}
		j.segs[r] = nil
	}
}

// bury waits until all of a group have ended, and cleans up behind them.
func (j *groupJob) bury(g int) {
	for _, r := range j.members(g) {
		j.comms[r].Abort(errKilled)
		j.meetings[g].kill()
		for j.state[r] == "running" {
			j.wait()
		}
		j.state[r] = "dead"
		j.close(r)
		j.logs[r].crash()
		j.incs[r]++
		j.restarts[r]++
	}
	j.settleSaves(g)
}

// recover brings a group back whose members have died, and those who have to go
// back with it.
func (j *groupJob) recover(g int) {
	if j.kind == channel.Receiver || j.kind == channel.Sender {
		j.bury(g)
		j.start(g, nil)
		return
	}
	// Groups are single ranks here.
	failed := []int{}
	held := make([]channel.Vector, len(j.group))
	for r, c := range j.comms {
		v, err := c.Fence(context.Background())
		held[r] = v
		if err != nil {
			failed = append(failed, r)
			j.bury(r)
		}
	}
	h := j.history(held, failed)
	opt := recovery.Options{InTransit: recovery.Forbidden}
	if j.kind == channel.Optimistic {
		opt.InTransit = recovery.Allowed
	}
	line, err := recovery.Find(h, failed, opt)
	if err != nil {
		j.t.Fatal(err)
	}
	keep := make([]uint64, len(j.group))
	for r, p := range line.Places {
		keep[r] = math.MaxUint64
		if p.Current {
			continue
		}
		if j.kind == channel.Optimistic {
			keep[r] = p.State.Sent[0]
		}
		if !slices.Contains(failed, r) {
			j.bury(r)
		}
		j.saves[r] = j.saves[r][:p.State.Number+1]
	}
	if j.kind == channel.None {
		keep = nil
	}
	// Nobody goes on before the logs of all who go back have lost what the line takes
	// back, see Restored.Line.
	var run []func()
	for r, p := range line.Places {
		if !p.Current {
			run = append(run, j.join(r, keep))
		}
	}
	for r, p := range line.Places {
		if p.Current {
			_ = j.comms[r].Unfence() // it may have died meanwhile, which is the next failure
		} else if err := j.comms[r].Logged(context.Background()); err != nil {
			j.t.Error(err)
		}
	}
	for _, f := range run {
		f()
	}
}

// history is what the line is found from: what all have stored and what the
// survivors say that they depend on.
func (j *groupJob) history(held []channel.Vector, failed []int) *recovery.History {
	j.mu.Lock()
	defer j.mu.Unlock()
	h := &recovery.History{}
	for r := range j.group {
		var states []recovery.State
		add := func(v channel.Vector, s recovery.State) {
			s.Sent, s.Received = v.Sent, v.Received
			if j.kind == channel.Optimistic {
				s.Sent, s.Received = slices.Repeat([]uint64{v.Matches}, len(j.group)), v.Depends
			}
			states = append(states, s)
		}
		survives := !slices.Contains(failed, r)
		for n, s := range j.saves[r] {
			add(s.snap.Vector, recovery.State{Number: n, Iteration: s.p.iter})
			for _, v := range j.logged(r, s) {
				// A survivor that holds goes on with what it had been delivered,
				// and logs that.
				late := survives && v.Matches > held[r].Matches
				if !late && (n+1 == len(j.saves[r]) || v.Matches < j.saves[r][n+1].snap.Vector.Matches) {
					add(v, recovery.State{Number: n, Iteration: s.p.iter, Logged: true})
				}
			}
		}
		rk := recovery.Rank{Checkpoints: states}
		if survives {
			add(held[r], recovery.State{Number: len(states), Iteration: math.MaxInt})
			rk.Current = &states[len(states)-1]
			last := &states[len(states)-2] // it may have taken this checkpoint since
			for p := range j.group {
				rk.Current.Sent[p] = max(rk.Current.Sent[p], last.Sent[p])
				rk.Current.Received[p] = max(rk.Current.Received[p], last.Received[p])
			}
		}
		h.Ranks = append(h.Ranks, rk)
	}
	return h
}

// logged returns the states of a rank that can be rebuilt from a checkpoint.
func (j *groupJob) logged(r int, s save) []channel.Vector {
	if j.kind == channel.None {
		return nil
	}
	st, err := channel.Decode(s.snap.State)
	if err != nil {
		j.t.Fatal(err)
	}
	states, err := st.Logged(j.logs[r].read())
	if err != nil {
		j.t.Fatal(err)
	}
	return states
}

// compare checks a run with failures against one without.
func compare(t *testing.T, calm, stormy []*ordered) {
	t.Helper()
	for r := range calm {
		if !slices.Equal(calm[r].x, stormy[r].x) {
			t.Fatalf("rank %d ends in %v, without failures in %v", r, stormy[r].x[:6], calm[r].x[:6])
		}
		if !slices.Equal(stormy[r].orders, stormy[0].orders) {
			t.Fatalf("ranks %d and 0 do not agree on orders of arrival: %x, %x", r, stormy[r].orders, stormy[0].orders)
		}
	}
}

// Groups die again and again, at any instant, logs fail, and the result is that of
// a run in which nothing happens.
func TestGroupsRestartAlone(t *testing.T) {
	for _, test := range []struct {
		kind  channel.Kind
		group []int
	}{
		{channel.Receiver, []int{0, 1, 2, 3}},
		{channel.Receiver, []int{0, 0, 1, 1, 2}},
		{channel.Receiver, []int{0, 1, 0, 1}},
		{channel.Sender, []int{0, 1, 2, 3}},
		{channel.Sender, []int{0, 0, 1, 1, 1}},
		{channel.Optimistic, []int{0, 1, 2, 3}},
		{channel.None, []int{0, 1, 2}},
	} {
		t.Run(fmt.Sprint(test.kind, test.group), func(t *testing.T) {
			const iters = 24
			calm := newGroupJob(t, test.kind, test.group, 0, iters, 0).play()
			rounds := 2
			if testkit.Nightly() {
				rounds = 8
			}
			for seed := range uint64(rounds) {
				j := newGroupJob(t, test.kind, test.group, seed, iters, 3+len(test.group))
				compare(t, calm, j.play())
				if slices.Max(j.restarts) == 0 {
					t.Errorf("seed %d: nobody was restarted", seed)
				}
			}
		})
	}
}
