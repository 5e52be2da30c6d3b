// Package mix runs applications at one storage in virtual time, each of them some
// processes that read or write a file, one operation after the other. It shows what
// they cost each other, and what the order of their requests changes:
//
//	system, err := pfs.Load("sophia")
//	result, err := mix.Run(ctx, system, apps, mix.Options{Scheduler: &pfs.Scheduler{Policy: "mlf"}})
//	fmt.Println(result.Makespan, result.Apps[0].Flow)
//
// The workloads are those of Lebre (thesis, INPG 2006); the tests run its mix of ten.
package mix

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"ckpt/image/pfs"
)

// An App is an application whose processes read or write at the same time. Each
// begins its next operation when the one before is answered.
type App struct {
	Name string `json:"name"`
	User string `json:"user,omitempty"`
	// Write says that it writes, otherwise it reads.
	Write bool `json:"write"`
	// Random says that operations are in random order, not by ascending offset.
	Random bool `json:"random,omitempty"`
	// Own says that each process has a file of its own, not all one.
	Own bool `json:"own,omitempty"`
	// Processes work on a node each. Of one file they take operations in turn: process
	// r begins with operation r, and goes on with r + Processes.
	Processes int     `json:"processes"`
	Bytes     int64   `json:"bytes"` // of all processes
	Grain     int64   `json:"grain"` // of one operation
	Start     float64 `json:"start"` // seconds
}

// Limits of an App: far beyond those of the thesis.
const (
	maxProcesses  = 1 << 16
	maxOperations = 1 << 26
)

func (a *App) check() error {
	switch {
	case a.Processes < 1 || a.Processes > maxProcesses:
		return fmt.Errorf("mix: %s: %d processes, want 1 to %d", a.Name, a.Processes, maxProcesses)
	case a.Grain < 1:
		return fmt.Errorf("mix: %s: operations of %d bytes, want 1 or more", a.Name, a.Grain)
	case a.Bytes < 1 || a.Bytes/a.Grain > maxOperations:
		return fmt.Errorf("mix: %s: %d bytes, want 1 to %d operations", a.Name, a.Bytes, maxOperations)
	case !(a.Start >= 0 && a.Start <= 1e6):
		return fmt.Errorf("mix: %s: start after %v s, want 0 to 1e6", a.Name, a.Start)
	}
	return nil
}

// Options of Run.
type Options struct {
	// Seed decides random orders, and when within Spread a process begins.
	Seed   uint64
	Spread float64 // seconds; default 0.05
	// Think is how many seconds a process lets pass, at most, between an answer and its
	// next operation. Each time is drawn.
	Think float64
	// Scheduler, if not nil, takes the place of that of the description.
	Scheduler *pfs.Scheduler
}

// Result is what Run found.
type Result struct {
	Apps     []AppResult `json:"apps"`
	Makespan float64     `json:"makespan"` // seconds from the first start to the last end
	MaxFlow  float64     `json:"max_flow"`
	SumFlow  float64     `json:"sum_flow"`
	// Units are the targets with what their schedulers counted.
	Units []pfs.Unit `json:"units,omitempty"`
}

// AppResult is how an application fared.
type AppResult struct {
	Name       string  `json:"name"`
	Bytes      int64   `json:"bytes"`
	Operations int64   `json:"operations"`
	Start      float64 `json:"start"`
	End        float64 `json:"end"`
	Flow       float64 `json:"flow"` // from its start to its end
	Rate       float64 `json:"rate"` // bytes per second
}

// Run runs applications until all are done. The same input gives the same result.
func Run(ctx context.Context, s *pfs.System, apps []App, o Options) (*Result, error) {
	if o.Scheduler != nil {
		if err := o.Scheduler.Check(); err != nil {
			return nil, fmt.Errorf("mix: %w", err)
		}
	}
	sim := pfs.NewSim(s, pfs.Options{Seed: o.Seed, Scheduler: o.Scheduler})
	m, err := Begin(sim, apps, o)
	if err != nil {
		return nil, err
	}
	if err := sim.Run(ctx); err != nil {
		return nil, err
	}
	return m.Result(), nil
}

// Alone runs each application by itself, and returns its flow time without others.
func Alone(ctx context.Context, s *pfs.System, apps []App, o Options) ([]float64, error) {
	flows := make([]float64, len(apps))
	for i, a := range apps {
		a.Start = 0
		r, err := Run(ctx, s, []App{a}, o)
		if err != nil {
			return nil, err
		}
		flows[i] = r.Apps[0].Flow
	}
	return flows, nil
}

// A Mix is applications at work in a Sim, beside whatever else works there.
type Mix struct {
	sim  *pfs.Sim
	apps []*running
}

// running is an application at work.
type running struct {
	App
	operations int64
	end        float64
}

// Begin has applications begin at their times. Run the Sim afterwards.
func Begin(sim *pfs.Sim, apps []App, o Options) (*Mix, error) {
	if len(apps) == 0 {
		return nil, errors.New("mix: no applications")
	}
	if o.Spread == 0 {
		o.Spread = 0.05
	}
	m := &Mix{sim: sim}
	if !(o.Spread > 0 && o.Spread <= 1e6) || !(o.Think >= 0 && o.Think <= 1e6) {
		return nil, fmt.Errorf("mix: a spread of %v s, %v s between operations, want 0 to 1e6", o.Spread, o.Think)
	}
	for i := range apps {
		if err := apps[i].check(); err != nil {
			return nil, err
		}
	}
	node := 0
	for i := range apps {
		a := &running{App: apps[i]}
		m.apps = append(m.apps, a)
		a.begin(sim, rand.New(rand.NewPCG(o.Seed, uint64(i))), o, node)
		node += a.Processes
	}
	return m, nil
}

// Result says how the applications fared that are done.
func (m *Mix) Result() *Result {
	r := &Result{Units: m.sim.Units()}
	first, last := m.apps[0].Start, 0.0
	for _, a := range m.apps {
		f := AppResult{Name: a.Name, Bytes: a.Bytes, Operations: a.operations, Start: a.Start, End: a.end, Flow: a.end - a.Start}
		if f.Flow > 0 {
			f.Rate = float64(f.Bytes) / f.Flow
		}
		r.Apps = append(r.Apps, f)
		r.MaxFlow = max(r.MaxFlow, f.Flow)
		r.SumFlow += f.Flow
		first, last = min(first, a.Start), max(last, a.end)
	}
	r.Makespan = last - first
	return r
}
