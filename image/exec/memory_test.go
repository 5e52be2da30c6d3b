package exec_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"ckpt/image/exec"
	"ckpt/image/plan"
)

// allocated returns how many bytes f allocates.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// A writer has one buffer, two with P3, and none if nothing goes through them,
// for however many rounds. The next call takes them over.
func TestMemory(t *testing.T) {
	const buffer = 64 * page
	const little = buffer / 4 // for everything else
	sources := ranks(3, 16*buffer/page)
	for _, test := range []struct {
		layout      plan.Layout
		p3, odd     bool
		wantBuffers int
	}{
		{plan.Aggregated, false, false, 1},
		{plan.Aggregated, true, false, 2},
		{plan.Aggregated, false, true, 1},
		{plan.Aggregated, true, true, 2},
		{plan.PerRank, true, false, 0},
		{plan.PerRank, false, true, 1},
		{plan.PerRank, true, true, 1}, // nothing is gathered meanwhile
	} {
		t.Run(fmt.Sprintf("%s/p3=%t/odd=%t", test.layout, test.p3, test.odd), func(t *testing.T) {
			p := mustPlan(t, sources, plan.Settings{Layout: test.layout, Buffer: buffer, P2: true, P3: test.p3, P1: true})
			j := newJob(sources, test.odd)
			d := newDisk(p, true)
			var buffers exec.Buffers
			run := func() {
				opt := exec.Options{Own: j.own(0), Pull: j, Files: d.open(0), Direct: true, Buffers: &buffers}
				stats, err := exec.Run(context.Background(), p, 0, opt)
				if err != nil || stats.BufferBytes != int64(test.wantBuffers)*buffer {
					t.Errorf("%+v, %v", stats, err)
				}
				clear(d.opened)
			}
			got := allocated(run)
			if n, bytes := buffers.Held(); n != test.wantBuffers || bytes != int64(n)*buffer {
				t.Errorf("%d buffers of %d bytes together, want %d", n, bytes, test.wantBuffers)
			}
			if most := int64(test.wantBuffers)*(buffer+page) + little; got > most {
				t.Errorf("%d bytes allocated, want at most %d", got, most)
			}
			if got := allocated(run); got > little {
				t.Errorf("%d bytes allocated by the second call", got)
			}
			if d.problem != nil {
				t.Error(d.problem)
			}
		})
	}
}

// Buffers are as large as necessary, and those that are too small do not stay
// beside those that are not.
func TestBufferSize(t *testing.T) {
	var buffers exec.Buffers
	for _, test := range []struct{ pages, buffer, want int64 }{
		{4, 100, 8}, // the whole checkpoint
		{40, 20, 20},
		{40, 10, 20}, // the one that is there
		{40, 30, 30},
	} {
		sources := ranks(2, test.pages)
		p := mustPlan(t, sources, plan.Settings{Layout: plan.Aggregated, Buffer: test.buffer * page})
		j := newJob(sources, false)
		d := newDisk(p, false)
		_, err := exec.Run(context.Background(), p, 0, exec.Options{Own: j.own(0), Pull: j, Files: d.open(0), Buffers: &buffers})
		if err == nil {
			err = d.check(j)
		}
		if err != nil {
			t.Error(err)
		}
		if n, bytes := buffers.Held(); n != 1 || bytes != test.want*page {
			t.Errorf("%+v: %d buffers, %d pages", test, n, bytes/page)
		}
	}
}

// watched is a Turn with a witness.
type watched struct {
	*relay
	done func()
}

func (w watched) Done(writer int) {
	w.done()
	w.relay.Done(writer)
}

// A writer has given its memory back when the next one gets its turn.
func TestMemoryInTurn(t *testing.T) {
	sources := ranks(4, 4)
	p := mustPlan(t, sources, plan.Settings{Layout: plan.Aggregated, Aggregators: 2, P3: true, Buffer: 2 * page})
	j := newJob(sources, false)
	d := newDisk(p, false)
	buffers := new(exec.Buffers)
	turn := watched{newRelay(), func() {
		if n, _ := buffers.Held(); n != 2 {
			t.Errorf("%d buffers, want 2", n)
		}
	}}
	for _, w := range p.Writers {
		_, err := exec.Run(context.Background(), p, w.Rank, exec.Options{
			Own: j.own(w.Rank), Pull: j, Files: d.open(w.Rank), Turn: turn, Buffers: buffers,
		})
		if err != nil {
			t.Error(err)
		}
	}
	if err := d.check(j); err != nil {
		t.Error(err)
	}
}
