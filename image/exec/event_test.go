package exec_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ckpt/image/exec"
	"ckpt/image/plan"
)

// slow takes some time for each pull, in the time of a bubble, which costs none.
type slow struct {
	*job
	pull time.Duration
}

func (s slow) Pull(ctx context.Context, from int, ranges []exec.Range) error {
	time.Sleep(s.pull)
	return s.job.Pull(ctx, from, ranges)
}

// trace runs a writer in a bubble and returns what happened in each second.
func trace(t *testing.T, p *plan.Plan, j *job, pull, write time.Duration) (string, exec.Stats) {
	var mu sync.Mutex
	var events []exec.Event
	var stats exec.Stats
	var start time.Time
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(p, true)
		d.before = func(int, int64, int64) error { time.Sleep(write); return nil }
		start = time.Now()
		var err error
		stats, err = exec.Run(context.Background(), p, 0, exec.Options{
			Own: j.own(0), Pull: slow{j, pull}, Files: d.open(0), Direct: true,
			Observe: func(e exec.Event) {
				mu.Lock()
				defer mu.Unlock()
				events = append(events, e)
			},
		})
		if err == nil {
			err = d.check(j)
		}
		if err != nil {
			t.Error(err)
		}
	})
	slices.SortStableFunc(events, func(a, b exec.Event) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Op, b.Op), cmp.Compare(a.From, b.From))
	})
	var lines []string
	for _, e := range events {
		line := fmt.Sprintf("%.0f-%.0f %s round %d buffer %d", e.Start.Sub(start).Seconds(), e.End.Sub(start).Seconds(), e.Op, e.Round, e.Buffer)
		switch e.Op {
		case exec.Gather:
			line += fmt.Sprintf(" rank %d: %d+%d", e.From, e.Offset/page, e.Bytes/page)
		case exec.Write:
			line += fmt.Sprintf(": %d+%d", e.Offset/page, e.Bytes/page)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n"), stats
}

func TestTrace(t *testing.T) {
	sources := ranks(3, 2)
	for _, test := range []struct {
		name        string
		settings    plan.Settings
		odd         bool
		pull, write int
		want        string
		stats       exec.Stats
	}{
		{"slow write", plan.Settings{P2: true, P3: true, Buffer: 3 * page}, false, 1, 2, `
0-1 gather round 0 buffer 0 rank 1: 0+1
1-2 gather round 1 buffer 1 rank 1: 1+1
1-2 gather round 1 buffer 1 rank 2: 0+2
1-3 write round 0 buffer -1: 0+2
2-5 wait-write round 1 buffer 1
3-5 write round 0 buffer 0: 2+1
5-7 write round 1 buffer 1: 3+3`,
			exec.Stats{
				Rounds: 2, Pulls: 3, Writes: 3, Bytes: 6 * page, Pulled: 4 * page, BufferBytes: 6 * page,
			}},
		{"slow gather", plan.Settings{P3: true, Buffer: 3 * page}, true, 2, 1, `
0-2 gather round 0 buffer 0 rank 1: 0+1
2-4 gather round 1 buffer 1 rank 1: 1+1
2-3 write round 0 buffer 0: 0+2
3-4 write round 0 buffer 0: 2+1
4-6 gather round 1 buffer 1 rank 2: 0+2
4-6 wait-gather round 0 buffer 0
6-7 write round 1 buffer 1: 3+3`,
			exec.Stats{
				Rounds: 2, Pulls: 3, Writes: 3, Bytes: 6 * page, Pulled: 4 * page, Aligned: 2 * page, BufferBytes: 6 * page,
			}},
		{"one buffer", plan.Settings{P2: true, Buffer: 6 * page}, false, 3, 1, `
0-3 gather round 0 buffer 0 rank 1: 0+2
0-3 gather round 0 buffer 0 rank 2: 0+2
3-4 write round 0 buffer -1: 0+2
4-5 write round 0 buffer 0: 2+4`,
			exec.Stats{
				Rounds: 1, Pulls: 2, Writes: 2, Bytes: 6 * page, Pulled: 4 * page, BufferBytes: 6 * page,
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.settings.Layout = plan.Aggregated
			p := mustPlan(t, sources, test.settings)
			got, stats := trace(t, p, newJob(sources, test.odd), time.Duration(test.pull)*time.Second, time.Duration(test.write)*time.Second)
			if want := strings.TrimSpace(test.want); got != want {
				t.Errorf("%s\nwant\n%s", got, want)
			}
			if stats != test.stats {
				t.Errorf("%+v, want\n%+v", stats, test.stats)
			}
		})
	}
}
