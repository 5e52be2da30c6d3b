package coordinator

import (
	"bufio"
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"ckpt/coordinator/mpi"
	"ckpt/coordinator/protocol"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/image/vfs"
)

// BenchmarkBarrierProcesses measures coordination with 64 rank processes of a
// job that computes: from the proposal until all ranks stand at a boundary with
// their channels drained. Most of it is waiting for the end of an iteration.
func BenchmarkBarrierProcesses(b *testing.B) {
	s := job(b, "ring.S.64", 2)
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
	s := NewSpec(inst)
	s.Iterations = 1 << 30
	if s.Mapping, err = EvenMapping(ranks, 64); err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	store, err := image.CreateStore(vfs.OS{}, dir)
	if err != nil {
		b.Fatal(err)
	}
	j, err := store.CreateJob("job", []byte("{}"))
	if err != nil {
		b.Fatal(err)
	}
	w := &stopwatch{b: b}
	interrupts := make(chan struct{}, 2)
	rec := &recorder{t: b, on: func(ev any) {
		if _, ok := ev.(*StartEvent); ok {
			go w.demand(dir, func() { interrupts <- struct{}{}; interrupts <- struct{}{} })
		}
	}}
	d := newDriver(s, j, dir, s.Mapping, libraryID{}, protocol.DefaultLimits, rec)
	d.launcher = &simulated{}
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
		switch a.Message.Kind {
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
		client, err := Contact(w.b.Context(), j.Dir())
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

// simulated launches ranks that are only connections.
type simulated struct{}

type simulatedRank struct {
	conn net.Conn
	over chan struct{}
	once sync.Once
}

func (r *simulatedRank) kill()                 { r.once.Do(func() { r.conn.Close() }) }
func (r *simulatedRank) done() <-chan struct{} { return r.over }
func (r *simulatedRank) pid() int              { return 0 }

func (s *simulated) start(r rankStart, ended func(string)) (process, error) {
	conn, err := dialCoordinator(context.Background(), r.socket)
	if err != nil {
		return nil, err
	}
	p := &simulatedRank{conn: conn, over: make(chan struct{})}
	go func() {
		p.serve(r)
		p.kill()
		close(p.over)
		ended("left")
	}()
	return p, nil
}

func (p *simulatedRank) serve(r rankStart) {
	if greet(p.conn, greeting{Token: r.token, Role: roleRank, Rank: r.rank, Gen: r.gen}) != nil {
		return
	}
	tell := func(m protocol.Message) {
		m.Rank = r.rank
		if frame, err := protocol.AppendFrame(nil, m); err == nil {
			_, _ = p.conn.Write(frame)
		}
	}
	tell(protocol.Message{Kind: protocol.Hello})
	member := protocol.NewMember(r.rank, 0)
	peers := []protocol.Count{{Peer: 0, N: 1}, {Peer: r.rank, N: 1}}
	in := bufio.NewReader(p.conn)
	for beat := time.Now(); ; {
		m, err := protocol.ReadFrame(in)
		if err != nil {
			return
		}
		events := []protocol.MemberEvent{protocol.Received{Message: m}}
		switch m.Kind {
		case protocol.Welcome:
			tell(protocol.Message{Kind: protocol.Ready})
		case protocol.StopAt: // ends its iteration right away
			events = append(events, protocol.Reached{Iter: member.Iteration(), Counts: peers})
		case protocol.Drain:
			events = append(events, protocol.DrainDone{})
		case protocol.Write:
			events = append(events, protocol.WriteEnded{Text: "simulated"})
		}
		for _, ev := range events {
			for _, a := range member.Step(ev) {
				switch a := a.(type) {
				case protocol.Tell:
					tell(a.Message)
				case protocol.Leave:
					return
				}
			}
		}
		if time.Since(beat) > time.Second {
			beat = time.Now()
			tell(protocol.Message{Kind: protocol.Beat})
		}
	}
}
