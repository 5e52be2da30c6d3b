package exec_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"ckpt/image/exec"
	"ckpt/image/plan"
)

// A step is a pull or a write. No byte is pulled or written twice, so a step
// happens once in a plan.
type step struct {
	write         bool
	from          int // rank, or file
	key           int // of a pull
	offset, bytes int64
}

func (s step) String() string {
	op := "pull"
	if s.write {
		op = "write"
	}
	return fmt.Sprintf("%s %d:%d+%d", op, s.from, s.offset/page, s.bytes/page)
}

func compareSteps(a, b step) int {
	if a.write != b.write {
		return map[bool]int{true: -1, false: 1}[a.write]
	}
	return cmp.Or(a.from-b.from, a.key-b.key, cmp.Compare(a.offset, b.offset), cmp.Compare(a.bytes, b.bytes))
}

// A gate holds every step up until the test lets it go. Within a synctest bubble,
// after synctest.Wait, what it holds is all that is in progress.
type gate struct {
	job *job

	mu      sync.Mutex
	waiting map[step]chan error
	arrived int
}

func newGate(j *job) *gate { return &gate{job: j, waiting: make(map[step]chan error)} }

func (g *gate) pass(ctx context.Context, s step) error {
	c := make(chan error, 1)
	g.mu.Lock()
	g.waiting[s] = c
	g.arrived++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		delete(g.waiting, s)
		g.mu.Unlock()
	}()
	select {
	case err := <-c:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gate) Pull(ctx context.Context, from int, ranges []exec.Range) error {
	for _, r := range ranges {
		if err := g.pass(ctx, step{from: from, key: r.Key, offset: r.Offset, bytes: int64(len(r.P))}); err != nil {
			return err
		}
	}
	return g.job.Pull(ctx, from, ranges)
}

// write is for disk.before. A write does not end before it is done, whatever
// becomes of the context.
func (g *gate) write(file int, offset, n int64) error {
	return g.pass(context.Background(), step{write: true, from: file, offset: offset, bytes: n})
}

// held returns what is in progress, in order.
func (g *gate) held() []step {
	g.mu.Lock()
	defer g.mu.Unlock()
	var steps []step
	for s := range g.waiting {
		steps = append(steps, s)
	}
	slices.SortFunc(steps, compareSteps)
	return steps
}

// release ends a step.
func (g *gate) release(s step, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting[s] <- err
}

// A model says what must be in progress. The work of a writer is a sequence of
// stages; a stage consists of threads, each of which has steps to do one after the
// other; and a stage begins when the one before it is over.
type model struct {
	turns   bool
	writers [][]stage
}

type (
	thread []step
	stage  []thread
)

func newModel(p *plan.Plan) *model {
	m := &model{turns: !p.Settings.P1}
	for _, w := range p.Writers {
		var stages []stage
		var last thread // writes of the round before
		for r := range p.WriterPlan(w.Rank) {
			gathers, writes := gatherThreads(p, r), writeThread(r)
			if p.Settings.P3 {
				stages = append(stages, append(gathers, last))
				last = writes
			} else {
				stages = append(stages, gathers, stage{writes})
			}
		}
		m.writers = append(m.writers, append(stages, stage{last}))
	}
	m.settle()
	return m
}

func gatherThreads(p *plan.Plan, r plan.Round) stage {
	var threads stage
	from := -1
	for _, g := range r.Gathers {
		if g.Buffer == plan.InPlace {
			continue
		}
		if from < 0 || p.Settings.P2 && g.From != from {
			threads = append(threads, nil)
		}
		from = g.From
		last := &threads[len(threads)-1]
		*last = append(*last, step{from: g.From, key: g.Key, offset: g.Offset, bytes: g.Bytes})
	}
	return threads
}

// writeThread is for memory without neighbours, where each part is one write.
func writeThread(r plan.Round) (steps thread) {
	for _, w := range r.Writes {
		at := w.Offset
		for _, part := range w.Parts {
			steps = append(steps, step{write: true, from: w.File, offset: at, bytes: part.Bytes})
			at += part.Bytes
		}
	}
	return steps
}

// active returns the stages that are going on.
func (m *model) active() (stages []stage) {
	for _, w := range m.writers {
		if len(w) == 0 {
			continue
		}
		stages = append(stages, w[0])
		if m.turns {
			break
		}
	}
	return stages
}

// settle drops the stages that are over.
func (m *model) settle() {
	for i, w := range m.writers {
		for len(w) > 0 && !slices.ContainsFunc(w[0], func(t thread) bool { return len(t) > 0 }) {
			w = w[1:]
		}
		m.writers[i] = w
	}
}

// inProgress returns the steps that must have begun and not ended, in order.
func (m *model) inProgress() []step {
	var steps []step
	for _, s := range m.active() {
		for _, t := range s {
			if len(t) > 0 {
				steps = append(steps, t[0])
			}
		}
	}
	slices.SortFunc(steps, compareSteps)
	return steps
}

// end ends a step that is in progress.
func (m *model) end(done step) {
	for _, s := range m.active() {
		for i, t := range s {
			if len(t) > 0 && t[0] == done {
				s[i] = t[1:]
			}
		}
	}
	m.settle()
}
