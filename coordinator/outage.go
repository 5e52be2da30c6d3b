package coordinator

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
	"ckpt/image/nodes"
)

// An outage is one failure, from the death of ranks until all that have to be
// restarted for it compute again. Ranks of one node that die before any of them
// has come back count as one failure of that node.
type outage struct {
	since  time.Duration
	until  time.Duration // 0: it lasts
	node   int           // -1 if no node is behind it
	iter   int           // about where the ranks were
	groups []int         // that died
	down   []int         // groups that do not compute yet
	back   []int         // groups that were begun again since
	ranks  int           // restarted, however often
	lost   int           // iterations that these repeat, together
	lostBy map[int]int   // by group, those that each of its ranks repeats
}

// outages are the failures of a run, in order.
type outages []*outage

// died notes that a rank of a group died, and all ranks of the group with it.
func (all *outages) died(group, node, iter int, now time.Duration) {
	for _, o := range *all {
		if o.until == 0 && o.node == node && node >= 0 && !slices.Contains(o.groups, group) && !slices.Contains(o.back, group) {
			o.groups, o.down = append(o.groups, group), append(o.down, group)
			return
		}
	}
	*all = append(*all, &outage{since: now, node: node, iter: iter, groups: []int{group}, down: []int{group}, lostBy: map[int]int{}})
}

// of returns the last outage that still keeps one of the groups down, nil if there
// is none.
func (all outages) of(groups ...int) *outage {
	for _, o := range slices.Backward(all) {
		if slices.ContainsFunc(groups, func(g int) bool { return slices.Contains(o.down, g) }) {
			return o
		}
	}
	return nil
}

// lost returns how many iterations further behind its failure a group begins at
// iter: than where it was, or than where it could not be begun before.
func (all outages) lost(group, iter int) int {
	if o := all.of(group); o != nil {
		return max(0, o.iter-o.lostBy[group]-iter)
	}
	return 0
}

// restarts notes that the ranks of a group begin again, lost iterations behind
// where they were: for it failed, or, on account of the failure of others, goes
// back with them. Where a checkpoint turns out to be unusable, they are restarted
// once, and what they lose adds up.
func (all outages) restarts(group int, failed []int, ranks, lost int) {
	o := all.of(group)
	if o == nil {
		if o = all.of(failed...); o == nil {
			return
		}
		o.down = append(o.down, group)
	}
	for _, o := range all {
		if o.until == 0 {
			o.back = append(o.back, group)
		}
	}
	if _, before := o.lostBy[group]; !before {
		o.ranks += ranks
	}
	o.lostBy[group] += lost
	o.lost += ranks * lost
}

// computes notes that all ranks of a group compute.
func (all outages) computes(group int, now time.Duration) {
	for _, o := range all {
		o.down = slices.DeleteFunc(o.down, func(g int) bool { return g == group })
		if len(o.down) == 0 && o.until == 0 {
			o.until = now
		}
	}
}

// sum puts the failures into the result of the run.
func (all outages) sum(r *Result, now time.Duration) {
	r.Failures = len(all)
	r.Restarts, r.WorkLost, r.Recovery = []int{}, []int{}, []float64{}
	for _, o := range all {
		if o.ranks == 0 {
			continue
		}
		if o.until == 0 {
			o.until = now
		}
		r.Restarts, r.WorkLost = append(r.Restarts, o.ranks), append(r.WorkLost, o.lost)
		r.Recovery = append(r.Recovery, (o.until - o.since).Seconds())
	}
}

// A restarting is one restart: of the ranks that a failure takes back, or of all ranks when
// a user restarts the job. It is reported when all of them are where they were before, or
// when it is certain that they never will be.
type restarting struct {
	cause    *outage // nil: a user
	groups   []int
	from     []int // checkpoints of these, 0 the beginning
	ranks    []int
	read     wire.RestoreReport // the longest times, the sums of bytes
	traces   [][]byte           // of what the ranks read
	repeated int                // iterations, of all ranks
	lost     time.Duration      // that these took at first; 0 unknown
	replay   time.Duration      // that they take now
	until    time.Duration      // all compute
	unread   []int              // ranks that have not told what they read
	behind   map[int]behind     // by rank, of those that are not where they were
}

// A behind is how far a rank has to come, and since when it computes.
type behind struct {
	iter  int
	since time.Duration
}

// restartings are the restarts under way.
type restartings []*restarting

// of returns the restart that a rank is part of, or nil.
func (all restartings) of(rank int) *restarting {
	for _, r := range all {
		if slices.Contains(r.ranks, rank) {
			return r
		}
	}
	return nil
}

// again reports whether a group restarts, and how many iterations its ranks repeat.
func (g *group) again() (cause *outage, repeated int, yes bool) {
	if o := g.d.outages.of(g.id); o != nil {
		return o, o.lostBy[g.id], true
	}
	return nil, 0, !g.computed && g.d.resumed()
}

// resumed reports whether a user restarted the job, so that all groups restart.
func (d *driver) resumed() bool { return d.parent > 0 || len(d.stored) > 0 }

// restarted notes that all ranks of a group compute, before the outage hears of it.
func (g *group) restarted(now time.Duration) {
	cause, repeated, yes := g.again()
	g.computed = true
	if !yes {
		return
	}
	i := slices.IndexFunc(g.d.restarts, func(r *restarting) bool { return r.cause == cause && r.until == 0 })
	if i < 0 {
		i = len(g.d.restarts)
		g.d.restarts = append(g.d.restarts, &restarting{cause: cause, behind: map[int]behind{}})
	}
	r := g.d.restarts[i]
	r.groups, r.from = append(r.groups, g.id), append(r.from, g.restored.number)
	r.repeated += repeated * len(g.ranks)
	for _, rank := range g.ranks {
		r.ranks, r.unread = append(r.ranks, rank), append(r.unread, rank)
		if repeated > 0 {
			r.behind[rank] = behind{g.restored.iter + repeated, now}
		}
	}
	if cause != nil {
		if at, ok := g.takenAt[g.restored.number]; ok && cause.since > at.on {
			r.lost = max(r.lost, cause.since-at.on)
		}
	}
}

// noteTaken notes when a checkpoint was taken, or, with number 0, when the group first
// began to compute. Of many checkpoints the newest count.
func (g *group) noteTaken(number int, at moment) {
	if g.takenAt == nil {
		g.takenAt = map[int]moment{}
	}
	if _, ok := g.takenAt[number]; ok || number == 0 && g.restored.number > 0 {
		return
	}
	if len(g.takenAt) >= maxTaken {
		delete(g.takenAt, slices.Min(slices.Collect(maps.Keys(g.takenAt))))
	}
	g.takenAt[number] = at
}

// maxTaken is for how many checkpoints a group remembers when they were taken.
const maxTaken = 64

// allCompute notes that no rank of a restart is missing any more.
func (d *driver) allCompute(now time.Duration) {
	for _, r := range d.restarts {
		if r.until > 0 {
			continue
		}
		if r.cause != nil && r.cause.until > 0 || r.cause == nil && len(r.groups) == len(d.groups) {
			r.until = now
		}
	}
}

// hasRead takes what a rank read when it was restarted.
func (d *driver) hasRead(rank int, body []byte) {
	r := d.restarts.of(rank)
	var report wire.RestoreReport
	if r == nil || json.Unmarshal(body, &report) != nil {
		return
	}
	r.unread = slices.DeleteFunc(r.unread, func(k int) bool { return k == rank })
	r.read.Read, r.read.Log = max(r.read.Read, report.Read), max(r.read.Log, report.Log)
	r.read.TurnWait = max(r.read.TurnWait, report.TurnWait)
	r.read.ReadBytes += report.ReadBytes
	if len(report.Trace) > 0 {
		r.traces = append(r.traces, report.Trace)
	}
	r.read.LogBytes += report.LogBytes
	d.tellRestarted(r)
}

// reached notes how far a rank is.
func (d *driver) reached(rank, iter int, now time.Duration) {
	r := d.restarts.of(rank)
	if r == nil {
		return
	}
	b, ok := r.behind[rank]
	if !ok || iter < b.iter {
		return
	}
	delete(r.behind, rank)
	r.replay = max(r.replay, now-b.since)
	d.tellRestarted(r)
}

// endRestarting reports the restart of a rank that has died again, as far as it came. With
// a negative rank it reports all of them: the run ends.
func (d *driver) endRestarting(rank int) {
	for _, r := range slices.Clone(d.restarts) {
		if rank < 0 || slices.Contains(r.ranks, rank) {
			d.reportRestarted(r)
		}
	}
}

// tellRestarted reports a restart of which all is known.
func (d *driver) tellRestarted(r *restarting) {
	if r.until > 0 && len(r.unread) == 0 && len(r.behind) == 0 {
		d.reportRestarted(r)
	}
}

// reportRestarted reports what a restart cost, unless its ranks never computed.
func (d *driver) reportRestarted(r *restarting) {
	d.restarts = slices.DeleteFunc(d.restarts, func(other *restarting) bool { return other == r })
	if r.until == 0 {
		return
	}
	ev := &job.RestartedEvent{Type: "restarted", Groups: len(r.groups), Ranks: len(r.ranks), From: r.from, Seconds: r.until.Seconds(),
		Read: r.read.Read.Seconds(), ReadBytes: r.read.ReadBytes, Log: r.read.Log.Seconds(), LogBytes: r.read.LogBytes,
		TurnWait: r.read.TurnWait.Seconds(),
		Repeated: r.repeated, LostWork: r.lost.Seconds()}
	if d.spec.Lone() {
		ev.Ranks = d.spec.NP
	}
	if r.cause != nil {
		ev.Failed, ev.Seconds = true, (r.until - r.cause.since).Seconds()
	}
	if len(r.behind) == 0 && r.repeated > 0 {
		s := r.replay.Seconds()
		ev.Replay = &s
	}
	if d.spec.Several() {
		slices.Sort(r.ranks)
		ev.Of = r.ranks
	}
	d.Event(ev)
	if len(r.traces) > 0 {
		d.Go(func() {
			if err := job.WriteTrace(d.job, job.RestartTracePath(d.job), r.traces); err != nil {
				d.log.Debug("trace", "of", "restart", "error", err)
			}
		})
	}
}

// A moment is when a checkpoint was taken: its ranks reached the state that it holds, and then
// computed on: at once, or when it was committed.
type moment struct{ state, on time.Duration }

// Durable notes that a version has become safe on the level that the job asks for. It returns for
// how long the state was not, and how much work a loss of all before would have cost.
func (g *group) Durable(number int) (r job.Risk) {
	at, ok := g.takenAt[number]
	if !ok {
		return r
	}
	now := g.d.now()
	r = job.Risk{Lag: (now - at.state).Seconds(), AtRisk: g.atRisk(now).Seconds()}
	g.safe = max(g.safe, at.state)
	g.d.result.addRisk(r)
	return r
}

// atRisk is how much work would be lost with everything that is not safe.
func (g *group) atRisk(now time.Duration) time.Duration { return max(0, now-g.safe) }

// drains reports whether versions on the nodes become safe in the store only, later.
func (g *group) drains() bool {
	return g.landed != "" && g.spec.Tier.Drain.Mode != nodes.DrainNone
}

// addRisk adds what became safe to the account of a run.
func (r *Result) addRisk(risk job.Risk) {
	if r.Durability == nil {
		r.Durability = &Durability{}
	}
	d := r.Durability
	d.Mean = (d.Mean*float64(d.Checkpoints) + risk.Lag) / float64(d.Checkpoints+1)
	d.Checkpoints++
	d.Max, d.AtRisk = max(d.Max, risk.Lag), max(d.AtRisk, risk.AtRisk)
}

// A Durability is how long the states of a run were at risk, in seconds: each checkpoint from the
// time at which its ranks stopped until it was safe on the level that the job asks for, the store
// or, with --drain none, the nodes.
type Durability struct {
	Checkpoints int     `json:"checkpoints"` // that became safe
	Mean        float64 `json:"lag_mean_s"`
	Max         float64 `json:"lag_max_s"`
	// AtRisk is the most work that a loss of all that was not safe would have cost.
	AtRisk float64 `json:"at_risk_max_s"`
}
