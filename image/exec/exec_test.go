package exec_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"ckpt/image/exec"
	"ckpt/image/plan"

	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"
)

var layouts = []plan.Layout{plan.PerRank, plan.Aggregated, plan.Shared}

// separately runs every rank with what it would have as a process of its own.
func separately(p *plan.Plan, j *job, d *disk, opt exec.Options) (sum exec.Stats, err error) {
	turn := newRelay()
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(context.Background())
	for _, s := range j.sources {
		opt := opt
		opt.Own, opt.Files, opt.Turn, opt.Direct = j.own(s.Rank), d.open(s.Rank), turn, d.direct
		g.Go(func() error {
			st, err := exec.Run(ctx, p, s.Rank, opt)
			mu.Lock()
			defer mu.Unlock()
			sum.Rounds += st.Rounds
			sum.Pulls += st.Pulls
			sum.Bytes += st.Bytes
			sum.Pulled += st.Pulled
			return err
		})
	}
	return sum, g.Wait()
}

// relay is a Turn that counts.
type relay struct {
	mu   sync.Mutex
	done int
	next chan struct{} // closed when done changes
}

func newRelay() *relay { return &relay{next: make(chan struct{})} }

func (r *relay) Wait(ctx context.Context, writer int) error {
	for {
		r.mu.Lock()
		done, next := r.done, r.next
		r.mu.Unlock()
		if done == writer {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *relay) Done(writer int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if writer != r.done {
		panic("not its turn")
	}
	r.done++
	close(r.next)
	r.next = make(chan struct{})
}

// Whatever the job and the settings, what plan promises is what happens.
func TestEverythingIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sources, p := genPlan(t, layouts...)
		j := newJob(sources, rapid.Bool().Draw(t, "odd"))
		d := newDisk(p, rapid.Bool().Draw(t, "direct"))
		buffers := new(exec.Buffers)
		var stats exec.Stats
		var err error
		depth := 0 // of writers whose memory is their own
		if rapid.Bool().Draw(t, "all") {
			stats, err = exec.All(context.Background(), p, j.of, exec.AllOptions{
				Files: d.open(everybody), Direct: d.direct, Pull: j, Buffers: buffers,
			})
		} else {
			depth = rapid.IntRange(0, 4).Draw(t, "depth")
			stats, err = separately(p, j, d, exec.Options{Pull: j, Buffers: buffers, Depth: depth, Join: rapid.Bool().Draw(t, "join")})
		}
		for _, err := range []error{err, d.check(j), d.checkStripes()} {
			if err != nil {
				t.Fatal(err)
			}
		}

		s := p.Summary()
		if stats.Bytes != s.Bytes || stats.Pulled != s.SameNodeBytes+s.OtherNodeBytes || stats.Rounds != s.Rounds {
			t.Fatalf("stats %+v, planned %+v", stats, s.Work)
		}
		if stats.Pulls > s.Gathers {
			t.Fatalf("%d pulls for %d gathers", stats.Pulls, s.Gathers)
		}
		n, bytes := buffers.Held()
		most := len(p.Writers)
		if !p.Settings.P1 {
			most = 1
		}
		switch {
		case p.Settings.Strategy == plan.Individual:
			most *= max(1, depth)
		case p.Settings.P3:
			most *= 2
		}
		if n > most || bytes > int64(n)*p.Settings.Buffer {
			t.Fatalf("%d buffers of %d bytes together, want at most %d of %d each", n, bytes, most, p.Settings.Buffer)
		}
	})
}

// The shared file depends on what is in it and on how it is laid out, not on how
// it came about.
func TestSameFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sources, where := genSources(t), genPlace(t)
		j := newJob(sources, false)
		var first []byte
		for range 4 {
			p, err := plan.New(sources, genSettings(t, sources, where, plan.Shared))
			if err != nil {
				t.Fatal(err)
			}
			d := newDisk(p, false)
			if _, err := exec.All(context.Background(), p, j.of, exec.AllOptions{Files: d.open(everybody)}); err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = d.files[0].data
			}
			if !bytes.Equal(first, d.files[0].data) {
				t.Fatalf("another file with %+v", p.Settings)
			}
		}
	})
}

// Ranks that write nothing need nothing.
func TestNoWriter(t *testing.T) {
	p := mustPlan(t, ranks(4, 2), plan.Settings{Layout: plan.Aggregated, Aggregators: 1})
	for _, rank := range []int{1, 3, 99} {
		stats, err := exec.Run(context.Background(), p, rank, exec.Options{})
		if err != nil || stats != (exec.Stats{}) {
			t.Errorf("rank %d: %+v, %v", rank, stats, err)
		}
	}
}

func TestMissingOptions(t *testing.T) {
	sources := ranks(4, 2)
	j := newJob(sources, false)
	p := mustPlan(t, sources, plan.Settings{Layout: plan.Aggregated, Aggregators: 2})
	d := newDisk(p, false)
	full := func() exec.Options {
		return exec.Options{Own: j.own(0), Pull: j, Files: d.open(0), Turn: newRelay()}
	}
	for name, take := range map[string]func(*exec.Options){
		"Own":   func(o *exec.Options) { o.Own = nil },
		"Pull":  func(o *exec.Options) { o.Pull = nil },
		"Files": func(o *exec.Options) { o.Files = nil },
		"Turn":  func(o *exec.Options) { o.Turn = nil },
	} {
		o := full()
		take(&o)
		if _, err := exec.Run(context.Background(), p, 0, o); err == nil {
			t.Errorf("without %s: no error", name)
		}
	}
	if _, err := exec.Run(context.Background(), p, 0, full()); err != nil {
		t.Errorf("with all: %v", err)
	}
	if _, err := exec.All(context.Background(), p, j.of, exec.AllOptions{}); err == nil {
		t.Error("all without Files: no error")
	}
}

// Memory that is shorter than the plan has it must not be written half.
func TestPieceTooShort(t *testing.T) {
	sources := ranks(2, 4)
	p := mustPlan(t, sources, plan.Settings{Layout: plan.Aggregated})
	for _, rank := range []int{0, 1} {
		j := newJob(sources, false)
		j.memory[rank][0] = j.memory[rank][0][:3*page]
		d := newDisk(p, false)
		_, err := exec.All(context.Background(), p, j.of, exec.AllOptions{Files: d.open(everybody)})
		var e *exec.Error
		if !errors.As(err, &e) || e.Op != exec.Gather || e.From != rank || e.Bytes != 4*page {
			t.Errorf("rank %d: %v", rank, err)
		}
		if d.files[0].written[0] > 0 {
			t.Errorf("rank %d: something was written", rank)
		}
	}
}

// Own pieces that lie side by side in memory as in the file are one write.
func TestAdjacentPieces(t *testing.T) {
	sources := []plan.Source{{Pieces: []plan.Piece{{Key: 1, Bytes: page}, {Key: 2, Bytes: page}, {Key: 7, Bytes: page}}}}
	p := mustPlan(t, sources, plan.Settings{})
	j := newJob(sources, false)
	memory := place(3*page, false)
	for i, key := range []int{1, 2, 7} {
		copy(memory[i*page:], j.of(0, key))
	}
	j.memory[0] = map[int][]byte{
		1: memory[:page:page], // the caller lets nobody beyond
		2: memory[page : 2*page],
		7: memory[2*page:],
	}
	d := newDisk(p, false)
	stats, err := exec.Run(context.Background(), p, 0, exec.Options{Own: j.own(0), Files: d.open(0)})
	if err == nil {
		err = d.check(j)
	}
	if err != nil || stats.Writes != 2 {
		t.Errorf("%d writes, want 2; %v", stats.Writes, err)
	}
}

// Bytes that go through the buffer for their alignment are one write too. Only
// direct I/O needs that.
func TestAlignedTogether(t *testing.T) {
	sources := []plan.Source{{Pieces: []plan.Piece{{Key: 1, Bytes: page}, {Key: 2, Bytes: 2 * page}}}}
	p := mustPlan(t, sources, plan.Settings{})
	j := newJob(sources, true)
	for _, test := range []struct {
		direct                 bool
		writes, aligned, bytes int64
	}{
		{false, 2, 0, 0},
		{true, 1, 3 * page, 3 * page},
	} {
		d := newDisk(p, test.direct)
		stats, err := exec.Run(context.Background(), p, 0, exec.Options{Own: j.own(0), Files: d.open(0), Direct: test.direct})
		if err == nil {
			err = d.check(j)
		}
		if err != nil || stats.Writes != test.writes || stats.Aligned != test.aligned || stats.BufferBytes != test.bytes {
			t.Errorf("%+v: %+v, %v", test, stats, err)
		}
	}
}
