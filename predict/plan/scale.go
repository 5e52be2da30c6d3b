package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ckpt/dataset"
	"ckpt/predict"
	"ckpt/predict/fit"
)

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
