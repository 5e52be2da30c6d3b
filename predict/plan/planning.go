package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"ckpt/dataset"
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

// A Run is a run without checkpoints, whose time is known.
type Run struct {
	Mapping []int // ranks of each node
	Seconds float64
}

// NP is the number of ranks of a run.
func (r Run) NP() (n int) {
	for _, ranks := range r.Mapping {
		n += ranks
	}
	return n
}

// A Scale is the scaling curve of an application: run times over the number of ranks,
// alone, with checkpoints, and with compressed checkpoints. More ranks make a run
// shorter and its checkpoints larger, so that a protected run is fastest on fewer
// ranks than a run without protection (León 2022, section 3.3.3).
type Scale struct {
	App         string         `json:"app"`
	MPI         string         `json:"mpi"`
	Engine      dataset.Engine `json:"engine"`
	Codec       string         `json:"codec"` // of the compressed checkpoints
	Checkpoints int            `json:"checkpoints"`
	Points      []ScalePoint   `json:"point_list"`
	Fastest     Fastest        `json:"fastest"`
	Source      string         `json:"source"` // of the times
}

// A ScalePoint is a run on one number of ranks.
type ScalePoint struct {
	NP         int       `json:"np"`
	Mapping    []int     `json:"mapping"`
	Alone      float64   `json:"alone_s"`
	Protected  TimeRange `json:"protected"`
	Compressed TimeRange `json:"compressed"`
	Overhead   float64   `json:"overhead"` // of the checkpoints, not compressed
}

// A TimeRange is a time with its 95 % interval. A measured time is its own interval.
type TimeRange struct {
	Seconds float64 `json:"run_s"`
	Low     float64 `json:"low_s"`
	High    float64 `json:"high_s"`
}

// Fastest has the number of ranks with the shortest time of each kind.
type Fastest struct {
	Alone      int `json:"alone_np"`
	Protected  int `json:"protected_np"`
	Compressed int `json:"compressed_np"`
}

// MeasuredScale returns the scaling curve of an application whose runs were measured
// with one checkpoint each, with and without gzip: León (2022), Tables 5.3-5.6. The
// time alone is the run's less its checkpoint. Nil nps means all.
func MeasuredScale(app, class, mpi string, nps []int, checkpoints int) (*Scale, error) {
	if err := checkCount(checkpoints); err != nil {
		return nil, err
	}
	all, err := dataset.Latencies()
	if err != nil {
		return nil, err
	}
	s := &Scale{App: app + "." + class, MPI: mpi, Engine: dataset.DMTCP, Codec: "gzip", Checkpoints: checkpoints}
	points := map[int]*ScalePoint{}
	for _, l := range all {
		if l.App != app || l.Class != class || l.MPI != mpi {
			continue
		}
		s.Source = "measured, Table " + l.Table
		p := points[l.NP]
		if p == nil {
			p = &ScalePoint{NP: l.NP, Mapping: []int{l.NP}}
			points[l.NP] = p
		}
		alone := l.AppSeconds - l.Seconds
		total := alone + float64(checkpoints)*l.Seconds
		if l.Codec == "none" {
			p.Alone, p.Protected = alone, TimeRange{total, total, total}
		} else {
			p.Compressed = TimeRange{total, total, total}
		}
	}
	if len(points) == 0 {
		return nil, fit.RefuseFor(fit.GiveRuns, "%s under %s: no run times are known", s.App, mpi)
	}
	if err := s.choose(points, nps); err != nil {
		return nil, err
	}
	return s, s.complete()
}

// choose takes the points with the wanted numbers of ranks.
func (s *Scale) choose(points map[int]*ScalePoint, nps []int) error {
	var known []string
	for np, p := range points {
		known = append(known, fmt.Sprint(np))
		if nps == nil || slices.Contains(nps, np) {
			s.Points = append(s.Points, *p)
		}
	}
	slices.SortFunc(known, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	for _, np := range nps {
		if points[np] == nil {
			return fit.RefuseFor(fit.GiveRuns, "%s under %s: no run time on %d ranks is known, only on %s", s.App, s.MPI, np, strings.Join(known, ", "))
		}
	}
	return nil
}

// PredictedScale predicts the scaling curve of runs whose times without checkpoints are known.
// Each takes so many checkpoints, written in a way; codec packs the compressed kind.
func PredictedScale(m *predict.Model, w Way, app, mpi string, runs []Run, checkpoints int, codec string) (*Scale, error) {
	if err := checkCount(checkpoints); err != nil {
		return nil, err
	}
	s := &Scale{App: app, MPI: mpi, Engine: cmp.Or(w.Engine, dataset.DMTCP), Codec: codec, Checkpoints: checkpoints, Source: "run times given, checkpoints of " + string(cmp.Or(w.Engine, dataset.DMTCP)) + " predicted"}
	for _, run := range runs {
		a, err := m.Application(s.App, run.NP())
		if err != nil {
			return nil, err
		}
		p := ScalePoint{NP: run.NP(), Mapping: run.Mapping, Alone: run.Seconds}
		for _, kind := range []struct {
			codec string
			to    *TimeRange
		}{{"none", &p.Protected}, {codec, &p.Compressed}} {
			w.Storing.Codec = kind.codec
			c, err := w.Cost(m, predict.Request{App: a, Mapping: run.Mapping, MPI: mpi})
			if err != nil {
				return nil, err
			}
			n := float64(checkpoints)
			t, _ := c.Mean(checkpoints)
			*kind.to = TimeRange{run.Seconds + n*t.Value, run.Seconds + n*t.Low, run.Seconds + n*t.High}
		}
		s.Points = append(s.Points, p)
	}
	return s, s.complete()
}

func checkCount(checkpoints int) error {
	if checkpoints < 1 || checkpoints > 1<<20 {
		return fit.Refuse("one or more", "%d checkpoints are no protection", checkpoints)
	}
	return nil
}

// complete orders the points and finds the fastest.
func (s *Scale) complete() error {
	if len(s.Points) == 0 {
		return fit.RefuseFor(fit.GiveRuns, "%s: no run times", s.App)
	}
	slices.SortFunc(s.Points, func(a, b ScalePoint) int { return a.NP - b.NP })
	fastest := func(time func(ScalePoint) float64) int {
		return slices.MinFunc(s.Points, func(a, b ScalePoint) int { return cmp.Compare(time(a), time(b)) }).NP
	}
	for i := range s.Points {
		p := &s.Points[i]
		p.Overhead = p.Protected.Seconds/p.Alone - 1
	}
	s.Fastest = Fastest{
		Alone:      fastest(func(p ScalePoint) float64 { return p.Alone }),
		Protected:  fastest(func(p ScalePoint) float64 { return p.Protected.Seconds }),
		Compressed: fastest(func(p ScalePoint) float64 { return p.Compressed.Seconds }),
	}
	return nil
}

// Open reports whether another number of ranks may be as fast as the fastest: their
// intervals overlap.
func (s *Scale) Open(np int, of func(ScalePoint) TimeRange) bool {
	i := slices.IndexFunc(s.Points, func(p ScalePoint) bool { return p.NP == np })
	best := of(s.Points[i])
	return slices.ContainsFunc(s.Points, func(p ScalePoint) bool { return p.NP != np && of(p).Low < best.High })
}
