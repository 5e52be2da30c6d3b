package replay

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ckpt/iotrace"
)

// ms makes a write of rank 0 from one millisecond to another.
func ms(rank int32, op iotrace.Op, from, to int64) iotrace.Event {
	e := iotrace.Event{Op: op, Rank: rank, File: rank, Peer: iotrace.None, Offset: from, Bytes: 1, Start: from * 1e6, End: to * 1e6}
	if op == iotrace.Barrier {
		e.File, e.Offset, e.Bytes = iotrace.None, iotrace.None, 0
	}
	return e
}

// TestGaps: with KeepGaps, the time between the operations of a rank is kept,
// whatever the operations themselves take; without, they follow at once. The clock
// is that of synctest: nothing here sleeps.
func TestGaps(t *testing.T) {
	tr := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: 0}, {Rank: 1}}, Files: []string{"a", "b"}, Events: []iotrace.Event{
		ms(0, iotrace.Write, 0, 10),
		ms(1, iotrace.Write, 5, 6),
		ms(0, iotrace.Write, 20, 21), // 10 after the end of the last
		ms(0, iotrace.Write, 30, 50), // 9 after the end of the last
		ms(0, iotrace.Write, 35, 36), // 5 after the beginning of the last, which goes on
		ms(0, iotrace.Write, 45, 46), // 9 after the end of the last
		ms(0, iotrace.Write, 60, 61), // 10 after the end of the long one
		ms(0, iotrace.Barrier, 70, 100),
		ms(1, iotrace.Barrier, 90, 100),
		ms(1, iotrace.Write, 101, 102),
		ms(0, iotrace.Write, 104, 105),
	}}
	// Every request takes 2 ms here.
	for _, c := range []struct {
		keep bool
		want []string
	}{
		{true, []string{"0 write 0-2", "1 write 5-7", "0 write 12-14", "0 write 23-25", "0 write 28-30", "0 write 39-41",
			// The long one took until 25 only, so that the last one is what it waits for.
			"0 write 41-43", "0 barrier 52-91", "1 barrier 91-91", "1 write 92-94", "0 write 95-97"}},
		{false, []string{"0 write 0-2", "1 write 0-2", "0 write 2-4", "0 write 4-6", "0 write 4-6", "0 write 6-8", "0 write 8-10", "0 barrier 10-10",
			"1 barrier 2-10", "0 write 10-12", "1 write 10-12"}},
	} {
		t.Run(fmt.Sprint(c.keep), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemFS()
				m.busy = func() { time.Sleep(2 * time.Millisecond) }
				kept, _ := chosen(tr)
				p, err := newPlan(context.Background(), kept)
				if err != nil {
					t.Fatal(err)
				}
				r := newRunning(p, &Options{Dir: "/", fs: m, clock: systemClock{}, KeepGaps: c.keep})
				if err := r.run(context.Background()); err != nil {
					t.Fatal(err)
				}
				if err := r.close(); err != nil {
					t.Fatal(err)
				}
				want, got := map[string]int{}, map[string]int{}
				for _, s := range c.want {
					want[s]++
				}
				for i := range p.events {
					o := p.op(int32(i))
					got[fmt.Sprintf("%d %s %d-%d", o.Rank, o.Op, o.begin/1e6, o.end/1e6)]++
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// A drowsyClock oversleeps by 3 ms.
type drowsyClock struct{ systemClock }

func (c drowsyClock) Sleep(ctx context.Context, d time.Duration) error {
	return c.systemClock.Sleep(ctx, d+3*time.Millisecond)
}

// TestOversleep: that sleeps last too long does not add up.
func TestOversleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: 0}}, Files: []string{"a"}}
		for i := range int64(9) {
			tr.Events = append(tr.Events, ms(0, iotrace.Write, 3*i, 3*i+1)) // 2 ms in between
		}
		p, err := newPlan(context.Background(), tr)
		if err != nil {
			t.Fatal(err)
		}
		r := newRunning(p, &Options{Dir: "/", fs: newMemFS(), clock: drowsyClock{}, KeepGaps: true})
		if err := r.run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := r.close(); err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, o := range p.planned { // writes take no time here: they are due every 2 ms
			got = append(got, o.begin/1e6)
		}
		if diff := cmp.Diff([]int64{0, 5, 5, 9, 9, 13, 13, 17, 17}, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestSleepEnds: a replay that keeps long gaps ends when it is interrupted.
func TestSleepEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: 0}}, Files: []string{"a"}, Events: []iotrace.Event{ms(0, iotrace.Write, 0, 1), ms(0, iotrace.Write, 1e9, 1e9+1)}}
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		m := newMemFS()
		if _, err := Run(ctx, tr, Options{Dir: "/", fs: m, KeepGaps: true}); !errors.Is(err, context.DeadlineExceeded) || len(m.names()) != 0 {
			t.Errorf("%v; %v is left", err, m)
		}
	})
}
