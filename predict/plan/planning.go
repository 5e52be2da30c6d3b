package plan

import (
	"math"
	"slices"

	"ckpt/predict"
	"ckpt/predict/fit"
)

// check fills in defaults and refuses invalid values.
func (p *Planning) check() error {
	if err := p.checkRun(); err != nil {
		return err
	}
	if p.Keep < 0 || p.CapacityMiB < 0 || math.IsNaN(float64(p.CapacityMiB)) {
		return fit.Refuse("keep at least one checkpoint in a store of positive size", "%d checkpoints in %g MiB cannot be kept", p.Keep, p.CapacityMiB)
	}
	p.Keep = max(1, p.Keep)
	var err error
	if p.Minimize, err = ParseAim(string(p.Minimize)); err != nil {
		return err
	}
	if p.Minimize == LeastTotal && p.Checkpoints == 0 {
		return fit.RefuseFor(fit.FixCheckpoints, "runs with different numbers of checkpoints cannot be compared by their total")
	}
	if err := p.places(); err != nil {
		return err
	}
	if len(p.MPI) == 0 {
		p.MPI = []string{"mpich", "openmpi"}
	}
	if p.IO != predict.FullIO {
		if slices.ContainsFunc(p.Aggregators, func(n int) bool { return n != 0 }) || slices.ContainsFunc(p.BuffersMiB, func(b float64) bool { return b != 0 }) {
			return fit.RefuseFor(fit.UseCollectiveIO, "aggregators and buffers exist only for collective I/O")
		}
		p.Aggregators, p.BuffersMiB = []int{0}, []float64{0}
	}
	if len(p.Aggregators) == 0 {
		p.Aggregators = []int{0}
	}
	if len(p.BuffersMiB) == 0 {
		p.BuffersMiB = p.buffers()
	}
	return nil
}

// checkFailures refuses what says nothing about a machine that fails.
func (p *Planning) checkFailures() error {
	switch {
	case !(p.AppSeconds > 0 && p.AppSeconds < 1e10):
		return fit.Refuse("give the time of the run without checkpoints, like 24h", "a run of %g seconds cannot be planned", p.AppSeconds)
	case !(p.MTBFS > 0 && p.MTBFS < 1e10):
		return fit.Refuse("give the mean time between failures of the job, like 24h", "failures every %g seconds cannot be planned", p.MTBFS)
	case p.Law == fit.Thesis:
		return fit.RefuseFor(fit.UseAutoLaw, "the thesis has no equation for the time of some ranks of a node")
	case p.GroupSize < 0 || p.GroupSize > p.App.NP:
		return fit.Refuse("give 1 to the number of ranks", "groups of %d ranks are impossible for %s", p.GroupSize, p.App)
	}
	if len(p.Together) == 0 {
		p.Together = []float64{0}
	}
	for _, share := range p.Together {
		if !(share >= 0 && share <= 1) {
			return fit.Refuse("give 0% to 100%", "a share of %g of the groups is impossible", share)
		}
	}
	if p.Levels != nil {
		return p.Levels.check(p.Storage != nil)
	}
	return nil
}

// checkRun refuses times that cannot be planned.
func (p *Planning) checkRun() error {
	if p.MTBFS != 0 {
		return p.checkFailures()
	}
	if p.Checkpoints == 0 && !(p.Overhead > 0 && p.Overhead <= 10) {
		return fit.Refuse("give a share like 10%", "invalid overhead %g", p.Overhead)
	}
	if p.Checkpoints < 0 || p.Checkpoints > 1e6 || p.Checkpoints > 0 && p.Overhead != 0 {
		return fit.Refuse("give an overhead, or a number of checkpoints from 1", "%d checkpoints with an overhead of %g cannot be planned", p.Checkpoints, p.Overhead)
	}
	possible := func(s float64) bool { return s > 0 && s < 1e10 }
	if len(p.Runs) == 0 && !possible(p.AppSeconds) || p.AppSeconds != 0 && !possible(p.AppSeconds) {
		return fit.Refuse("give the time of the run without checkpoints, like 24h", "a run of %g seconds cannot be planned", p.AppSeconds)
	}
	for _, r := range p.Runs {
		if !possible(r.Seconds) || r.Nodes < 1 || !(r.BufferMiB >= 0) {
			return fit.Refuse("give nodes and seconds", "a run of %g seconds on %d nodes cannot be planned", r.Seconds, r.Nodes)
		}
		if r.BufferMiB > 0 && p.IO != predict.FullIO {
			return fit.RefuseFor(fit.UseCollectiveIO, "the run on %d nodes has a buffer of %g MiB, and buffers exist only for collective I/O", r.Nodes, r.BufferMiB)
		}
	}
	if p.MaxNodes < 0 {
		return fit.Refuse("give a number from 1", "%d nodes cannot be planned", p.MaxNodes)
	}
	return nil
}

// places chooses the processes per node: as asked for, as in the runs, or powers of
// two and the whole job; and with a limit on nodes the fewest that keep to it.
func (p *Planning) places() error {
	np := p.App.NP
	try := p.PPN
	switch {
	case len(p.Mapping) > 0:
		return nil
	case len(try) > 0:
	case len(p.Runs) > 0 && p.AppSeconds == 0:
		for _, r := range p.Runs {
			try = append(try, predict.NodesOf(np, r.Nodes))
		}
	default:
		for n := 1; n < np && n <= 128; n *= 2 {
			try = append(try, n)
		}
		if np <= 128 {
			try = append(try, np)
		}
		if p.MaxNodes > 0 {
			try = append(try, predict.NodesOf(np, p.MaxNodes))
		}
	}
	p.PPN = nil
	for _, ppn := range try {
		if ppn < 1 || ppn > np {
			return fit.Refuse("between 1 and the number of processes", "%d processes per node are impossible for %s", ppn, p.App)
		}
		if !slices.Contains(p.PPN, ppn) && (p.MaxNodes == 0 || predict.NodesOf(np, ppn) <= p.MaxNodes) {
			p.PPN = append(p.PPN, ppn)
		}
	}
	if len(p.PPN) == 0 {
		return fit.Refuse("allow more nodes, or more processes per node", "no mapping of %s keeps to %d nodes", p.App, p.MaxNodes)
	}
	slices.Sort(p.PPN)
	return nil
}

// buffers are the runs', or the library's.
func (p *Planning) buffers() (out []float64) {
	for _, r := range p.Runs {
		if r.BufferMiB > 0 && !slices.Contains(out, r.BufferMiB) {
			out = append(out, r.BufferMiB)
		}
	}
	if len(out) == 0 {
		out = []float64{0}
	}
	return out
}

// appSeconds is the run of a configuration without checkpoints, 0 if it is not known.
func (p *Planning) appSeconds(r predict.Request) float64 {
	for _, run := range p.Runs {
		if run.Nodes == len(r.Mapping) && (run.BufferMiB == 0 || run.BufferMiB == r.BufferMiB) {
			return run.Seconds
		}
	}
	return p.AppSeconds
}

// mappings are those to try.
func (p *Planning) mappings() (list [][]int) {
	if len(p.Mapping) > 0 {
		return [][]int{p.Mapping}
	}
	for _, ppn := range p.PPN {
		list = append(list, predict.Blocks(p.App.NP, ppn))
	}
	return list
}
