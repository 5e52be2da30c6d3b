package coordinator

import (
	"slices"
	"sync"
	"testing"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/internal/vfs"
)

// BenchmarkBarrierProcesses measures coordination with 64 rank processes of a
// job that computes: from the proposal until all ranks stand at a boundary with
// their channels drained. Most of it is waiting for the end of an iteration.
func BenchmarkBarrierProcesses(b *testing.B) {
	s := newSpec(b, "ring.S.64", 2)
	s.MPI = mpi.OpenMPI.String() // 180 MiB of shared memory per checkpoint, not 430
	s.Iterations = 1 << 30
	w := &stopwatch{b: b}
	interrupts := make(chan struct{}, 2)
	opt := Options{Store: b.TempDir(), Job: "job", Observer: &recorder{t: b}, Interrupts: interrupts, watch: w.watch}
	opt.Observer = &recorder{t: b, on: func(ev any) {
		switch ev.(type) {
		case *StartEvent:
			go w.demand(opt.Store, func() { interrupts <- struct{}{}; interrupts <- struct{}{} })
		}
	}}
	if _, err := Launch(b.Context(), s, opt); err != nil {
		b.Fatal(err)
	}
	w.report()
}

// BenchmarkBarrierConnections measures the same with 4,096 ranks simulated as
// connections over loopback, both ends in this process: each answers at once, so
// that all of it is the protocol and the sockets.
func BenchmarkBarrierConnections(b *testing.B) {
	for _, network := range []string{"unix", "tcp"} {
		b.Run(network, func(b *testing.B) { barrierConnections(b, network, 4096) })
	}
}

func barrierConnections(b *testing.B, network string, ranks int) {
	inst, err := dataset.ParseApp("cg.S", ranks)
	if err != nil {
		b.Fatal(err)
	}
	s := job.NewSpec(inst)
	s.Iterations = 1 << 30
	if s.Mapping, err = job.EvenMapping(ranks, 64); err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	_, j := emptyJob(b, dir)
	w := &stopwatch{b: b}
	interrupts := make(chan struct{}, 2)
	rec := &recorder{t: b, on: func(ev any) {
		if _, ok := ev.(*StartEvent); ok {
			go w.demand(dir, func() { interrupts <- struct{}{}; interrupts <- struct{}{} })
		}
	}}
	d := newDriver(resolved(b, s), j, dir, libraryID{}, protocol.DefaultLimits, rec)
	ranksim, err := newSimulation()
	if err != nil {
		b.Fatal(err)
	}
	defer ranksim.close()
	d.launcher = ranksim
	d.network = network
	d.watch = w.watch
	if _, err := d.drive(b.Context(), nil, nil, interrupts); err != nil {
		b.Fatal(err)
	}
	w.report()
}

// stopwatch takes the time from the proposal to the order to write.
type stopwatch struct {
	b      *testing.B
	mu     sync.Mutex
	began  time.Time
	took   []time.Duration
	rounds []time.Duration
}

func (w *stopwatch) watch(a protocol.Action) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch a := a.(type) {
	case protocol.Broadcast:
		switch a.Message.(type) {
		case protocol.Propose:
			w.began = time.Now()
		case protocol.StopAt:
			w.rounds = append(w.rounds, time.Since(w.began))
		}
	case protocol.Prepare:
		w.took = append(w.took, time.Since(w.began))
	}
}

// demand asks for one checkpoint after the other, then ends the job.
func (w *stopwatch) demand(store string, end func()) {
	defer end()
	s, err := image.OpenStore(vfs.OS{}, store)
	if err != nil {
		w.b.Error(err)
		return
	}
	j, err := s.Job("job")
	if err != nil {
		w.b.Error(err)
		return
	}
	for w.b.Loop() {
		client, err := wire.Contact(w.b.Context(), j)
		if err != nil {
			w.b.Error(err)
			return
		}
		_, _ = client.Checkpoint() // simulated ranks do not write
		client.Close()
	}
}

func (w *stopwatch) report() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, list := range map[string][]time.Duration{"coordination": w.took, "round": w.rounds} {
		if len(list) == 0 {
			continue
		}
		slices.Sort(list)
		at := func(q float64) float64 { return list[int(q*float64(len(list)-1))].Seconds() * 1e3 }
		w.b.ReportMetric(at(0.5), "p50-"+name+"-ms")
		w.b.ReportMetric(at(0.99), "p99-"+name+"-ms")
	}
}
