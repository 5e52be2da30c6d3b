package fit

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// A Server is a file system that the nodes of a job share. An application that
// writes through MPI-IO from several nodes needs one, and its checkpoints go there too
// (Tables 5.13 and 5.14):
//
//	storage = max(stored by all nodes / server, stored by the fullest node / link)
//
// Two nodes finish sooner than one, as long as their links are the limit. From then on
// more nodes share the same server, and the time no longer falls: 51, 27 and 23 s with
// 1, 2 and 4 nodes (Table 5.14), where disks of their own would give 14, 8 and 5.
type Server struct {
	Systems map[string]serverRate `json:"systems"`
	// Within and Between are relative standard deviations: of the times on one
	// system, and of the rates of systems.
	Within  float64 `json:"within"`
	Between float64 `json:"between_systems"`
	N       int     `json:"n"`
	// LowMiB to HighMiB is what the rows stored, Nodes the most nodes.
	LowMiB  float64 `json:"low_mib"`
	HighMiB float64 `json:"high_mib"`
	Nodes   int     `json:"nodes"`
}

// A serverRate is one shared file system, in MiB/s. Link is Server where no single node
// was measured.
type serverRate struct {
	Link   float64 `json:"link"`
	Server float64 `json:"server"`
}

// Errors borrowed by fits of few rows. Two systems were measured, AFS-1 and AFS-2, whose
// rates differ by a factor of 1.9; a third may differ as much.
const (
	serverWithin  = 0.05
	serverBetween = 0.45
	serverPoints  = 3 // that the priors count for
	serverDefault = "AFS-1"
)

// A ServerTime is the storage time of a checkpoint on a shared file system, with the MiB
// that all nodes and the fullest one stored.
type ServerTime struct {
	system                   string
	nodes                    int
	stored, fullest, seconds float64
}

// ServerTime takes the time of a writing without its coordination.
func (f *Latency) ServerTime(w Writing, seconds float64) ServerTime {
	t := ServerTime{system: w.System, nodes: len(w.Nodes), seconds: seconds - f.Coef[0]*float64(w.NP)}
	for _, n := range w.Nodes {
		t.stored, t.fullest = t.stored+n.Total, max(t.fullest, n.Total)
	}
	return t
}

// FitServer finds the rates of shared file systems.
func FitServer(list []ServerTime) (*Server, error) {
	f := &Server{Systems: map[string]serverRate{}, Between: serverBetween, LowMiB: math.Inf(1)}
	for _, t := range list {
		f.LowMiB, f.HighMiB, f.Nodes = min(f.LowMiB, t.stored), max(f.HighMiB, t.stored), max(f.Nodes, t.nodes)
	}
	logs := func(system string, single bool) (sum float64, n float64) {
		for _, t := range list {
			if t.system == system && (t.nodes == 1) == single {
				sum, n = sum+math.Log(t.stored/t.seconds), n+1
			}
		}
		return sum, n
	}
	for _, t := range list {
		one, n1 := logs(t.system, true)
		many, n := logs(t.system, false)
		r := serverRate{}
		switch {
		case n == 0:
			r.Link = math.Exp(one / n1)
			r.Server = r.Link
		case n1 == 0:
			r.Server = math.Exp(many / n)
			r.Link = r.Server
		default:
			r.Server = math.Exp(many / n)
			r.Link = min(r.Server, math.Exp(one/n1))
		}
		f.Systems[t.system] = r
	}
	if len(f.Systems) == 0 {
		return nil, Refuse("", "no times of shared file systems")
	}
	squares := serverPoints * serverWithin * serverWithin
	for _, t := range list {
		e := math.Log(t.seconds / f.seconds(t.stored, t.fullest, t.system))
		squares += e * e
	}
	f.N = len(list)
	f.Within = math.Sqrt(squares / float64(serverPoints+max(0, f.N-len(f.Systems)-1)))
	return f, nil
}

// rate returns the rates of a system, or of the default one.
func (f *Server) rate(system string) (rate serverRate, known bool) {
	if r, ok := f.Systems[system]; ok {
		return r, true
	}
	if r, ok := f.Systems[serverDefault]; ok {
		return r, false
	}
	names := make([]string, 0, len(f.Systems))
	for name := range f.Systems {
		names = append(names, name)
	}
	return f.Systems[slices.Min(names)], false
}

func (f *Server) seconds(stored, fullest float64, system string) float64 {
	r, _ := f.rate(system)
	return max(stored/r.Server, fullest/r.Link)
}

// interval returns a latency's on a shared file system; more is a variance of its logarithm.
func (f *Server) interval(p Parts, stored float64, w Writing, more float64) Estimate {
	outside := max(Beyond(stored, f.LowMiB, f.HighMiB), Beyond(float64(len(w.Nodes)), 1, float64(f.Nodes)))
	drift := latencyDrift * math.Log(outside)
	squares := more + drift*drift + f.Within*f.Within + w.Codec.Doubt*w.Codec.Doubt + w.Doubt*w.Doubt
	dof := float64(serverPoints + max(0, f.N-len(f.Systems)-1))
	if _, known := f.rate(w.System); !known {
		squares += f.Between * f.Between
		dof = float64(serverPoints + len(f.Systems) - 1)
	}
	return Positive(p.Total, math.Sqrt(squares), dof, outside)
}

func (f *Server) check() error {
	if len(f.Systems) == 0 || !(f.Within >= 0 && f.Within < 10 && f.Between >= 0 && f.Between < 10) || f.N < 0 || f.N > MaxRows || !(f.LowMiB > 0 && f.HighMiB >= f.LowMiB && f.HighMiB < 1e15) || f.Nodes < 1 {
		return errors.New("shared file system: impossible")
	}
	for name, r := range f.Systems {
		if !(r.Link > 0 && r.Link < 1e9 && r.Server > 0 && r.Server < 1e9) {
			return fmt.Errorf("shared file system of %s: impossible rate", name)
		}
	}
	return nil
}
