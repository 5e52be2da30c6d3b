package pfs

import (
	"fmt"
	"slices"
)

// result says how the jobs fared.
func (sim *Sim) result(jobs []*job) *Result {
	r := new(Result)
	first, last := jobs[0].Start, jobs[0].end
	for _, j := range jobs {
		first, last = min(first, j.Start), max(last, j.end)
	}
	span := max(last-first, 1e-12)
	r.Use, r.Units = sim.use(span), sim.Units()
	for _, j := range jobs {
		r.Jobs = append(r.Jobs, j.result(r.Use, span))
	}
	if p := jobs[0].progress; p.tell != nil {
		p.tell(p.of, p.of)
	}
	return r
}

// use returns the most used resource of each kind.
func (sim *Sim) use(span float64) []ResourceUse {
	most := make(map[string]ResourceUse)
	add := func(kind, name string, busy float64) {
		if u := busy / span; u > most[kind].Share {
			most[kind] = ResourceUse{Kind: kind, Name: name, Share: u}
		}
	}
	numbers := make([]int, 0, len(sim.hosts))
	for n := range sim.hosts {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		h := sim.hosts[n]
		add("network", fmt.Sprintf("node %d", n), max(h.in.busy, h.out.busy))
		add("processor", fmt.Sprintf("node %d", n), h.processors.busy/float64(len(h.processors.free)))
		if h.slots.limit > 0 {
			add("requests", fmt.Sprintf("requests in flight of node %d", n), h.slots.busy)
		}
	}
	for i := range sim.routers {
		add("router", fmt.Sprintf("router %d", i), sim.routers[i].busy)
	}
	sim.eachTarget(func(t *target) {
		add("target", fmt.Sprintf("target %d", t.name), t.disk.busy)
		add("server", fmt.Sprintf("server of target %d", t.name), max(t.server.link.busy, t.server.cache.busy, t.server.processor.busy))
	})
	add("metadata", "metadata server", sim.meta.busy)
	var use []ResourceUse
	for _, kind := range []string{"processor", "network", "requests", "router", "server", "target", "metadata"} {
		if u, ok := most[kind]; ok {
			use = append(use, u)
		}
	}
	return use
}

// eachTarget goes through the targets in order.
func (sim *Sim) eachTarget(do func(*target)) {
	for _, t := range sim.targets {
		do(t)
	}
	nodes := make([]int, 0, len(sim.local))
	for n := range sim.local {
		nodes = append(nodes, n)
	}
	slices.Sort(nodes)
	for _, n := range nodes {
		for _, t := range sim.local[n] {
			do(t)
		}
	}
}

// result says how a job fared.
func (j *job) result(use []ResourceUse, span float64) JobResult {
	r := JobResult{Seconds: j.end - j.Start}
	var stream, connections float64
	writers, written := make(map[int]int), make(map[int]int64)
	var phases [phaseCount]Phase
	for _, w := range j.writers {
		r.Bytes += w.bytes
		r.LockWaits += w.client.lockWaits
		stream, connections = max(stream, w.client.stream.busy), max(connections, w.client.slots.busy)
		for i := range phases {
			phases[i].Mean += w.phases[i] / float64(len(j.writers))
			phases[i].Max = max(phases[i].Max, w.phases[i])
		}
		for i := range w.client.ways {
			for _, l := range w.client.ways[i].lanes {
				writers[l.target.name]++
				if !l.read {
					written[l.target.name] += l.pushed
				}
			}
		}
	}
	r.Phases = Phases{
		Create: phases[create], Pack: phases[packing], Gather: phases[gather], LockWait: phases[lockWait],
		Write: phases[writeTime], Sync: phases[syncTime], Wait: phases[swapWait],
	}
	names := make([]int, 0, len(writers))
	for name := range writers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		r.WritersPerTarget = append(r.WritersPerTarget, writers[name])
		r.MostOnTarget = max(r.MostOnTarget, written[name])
	}
	if r.Seconds > 0 {
		r.Rate = float64(r.Bytes) / r.Seconds
	}
	use = append(use[:len(use):len(use)], ResourceUse{Kind: "stream", Share: stream / span}, ResourceUse{Kind: "connections", Share: connections / span})
	r.Bottleneck = r.bottleneck(use, float64(j.sim.sys.Sync))
	return r
}

// saturated is the share of the time from which on a part of the system is the
// bottleneck, whatever its users do meanwhile.
const saturated = 0.95

// bottleneck says which part of the system worked almost all the time or, if every part
// rested, what took most of the time of a writer: a phase or, where it wrote or waited
// for its bytes to be safe, the busiest part.
func (r *JobResult) bottleneck(use []ResourceUse, fsync float64) string {
	busiest := ResourceUse{Kind: "target"}
	for _, u := range use {
		if u.Share >= saturated && u.Share > busiest.Share {
			busiest = u
		}
	}
	if busiest.Share > 0 {
		return busiest.Kind
	}
	for _, u := range use {
		if u.Kind != "processor" && u.Kind != "metadata" && u.Share > busiest.Share {
			busiest = u
		}
	}
	p := &r.Phases
	fsync = min(fsync, p.Sync.Mean)
	best, most := busiest.Kind, p.Write.Mean+p.Sync.Mean-fsync
	for _, phase := range []struct {
		name string
		mean float64
	}{{"gather", p.Gather.Mean}, {"locks", p.LockWait.Mean}, {"metadata", p.Create.Mean}, {"processor", p.Pack.Mean - p.Create.Mean}, {"sync", fsync}} {
		if phase.mean > most {
			best, most = phase.name, phase.mean
		}
	}
	return best
}
