package coordinator

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol/channel"
	"ckpt/internal/testkit"
)

// TestRestarted kills a rank in jobs of all modes. A restart is reported once, with the
// ranks that went back, what they read and how long that took of the whole; and the job's
// measurements have it.
func TestRestarted(t *testing.T) {
	t.Parallel()
	type restarted struct {
		mode  job.Mode
		log   channel.Kind
		of    []int
		image bool // some rank reads an image
	}
	for _, c := range testkit.Some(3, []restarted{
		{job.Coordinated, channel.None, nil, true},
		{job.Semi, channel.Receiver, []int{2, 3}, true},
		{job.Uncoordinated, channel.Receiver, []int{2}, true},
		{job.Uncoordinated, channel.Optimistic, []int{2}, true},
		{job.Uncoordinated, channel.None, []int{0, 1, 2, 3}, false},
	}...) {
		t.Run(fmt.Sprintf("%s %v", c.mode, c.log), func(t *testing.T) {
			s := newSpec(t, "bt.S.4", 2)
			s.Iterations, s.Schedule.Every, s.Mode, s.AutoRestart = 40, 9, c.mode, true
			if c.mode != job.Coordinated {
				s.Log = c.log.String()
			}
			r, rec, opt := mustLaunch(t, s, Options{Failures: []launch.Failure{{Rank: 2, Node: -1, Iter: 30}}})
			events := eventsOf[*job.RestartedEvent](rec)
			if len(events) != 1 {
				t.Fatalf("%d restarts were reported, want 1", len(events))
			}
			ev := events[0]
			if !ev.Failed || !slices.Equal(ev.Of, c.of) || ev.Ranks != r.Restarts[0] || ev.Groups != len(ev.From) || ev.Repeated != r.WorkLost[0] {
				t.Errorf("%+v; the result has %v ranks and %v iterations", ev, r.Restarts, r.WorkLost)
			}
			if ev.Seconds != r.Recovery[0] || max(ev.Read, ev.Log) >= ev.Seconds || c.image != (ev.ReadBytes > 0 && ev.Read > 0) {
				t.Errorf("%+v; the result has %v s", ev, r.Recovery)
			}
			if ev.Repeated > 0 && (ev.Replay == nil || *ev.Replay <= 0 || ev.LostWork <= 0) {
				t.Errorf("%+v: nothing was repeated", ev)
			}
			if logs := c.mode != job.Coordinated && c.log != channel.None; logs != (ev.LogBytes > 0) {
				t.Errorf("%d bytes of logs were read", ev.LogBytes)
			}
			run := measureRun(t, opt)
			if len(run.Restarts) != 1 || !reflect.DeepEqual(run.Restarts[0], ev.Restart()) {
				t.Errorf("measured %+v, want %+v", run.Restarts, ev)
			}
			if (run.Logs != nil) != (c.mode != job.Coordinated) {
				t.Errorf("measured logs %+v", run.Logs)
			}
		})
	}
}

// TestRestartedByUser restarts a job that was stopped. Its measurements add up the logs of
// both runs, as far as checkpoints bound them.
func TestRestartedByUser(t *testing.T) {
	t.Parallel()
	for _, mode := range []job.Mode{job.Coordinated, job.Semi} {
		t.Run(string(mode), func(t *testing.T) {
			s := newSpec(t, "bt.S.4", 2)
			s.Iterations, s.Schedule.Every, s.Mode = 20, 4, mode
			interrupts := make(chan struct{}, 1)
			stop := func(ev any) {
				if _, ok := ev.(*job.CheckpointEvent); ok {
					select {
					case interrupts <- struct{}{}:
					default:
					}
				}
			}
			_, first, opt := mustLaunch(t, s, Options{Interrupts: interrupts, Observer: &recorder{t: t, on: stop}})
			if n := len(eventsOf[*job.RestartedEvent](first)); n != 0 {
				t.Errorf("a launch reported %d restarts", n)
			}
			rec := &recorder{t: t}
			opt.Interrupts, opt.Observer = nil, rec
			if _, err := Restart(t.Context(), RestartOptions{Options: opt}); err != nil {
				t.Fatal(err)
			}
			events := eventsOf[*job.RestartedEvent](rec)
			if len(events) != 1 {
				t.Fatalf("%d restarts were reported, want 1", len(events))
			}
			groups := 1
			if mode == job.Semi {
				groups = 2
			}
			if ev := events[0]; ev.Failed || ev.Ranks != 4 || ev.Groups != groups || ev.ReadBytes <= 0 || ev.Seconds <= 0 || ev.Repeated != 0 || ev.Replay != nil {
				t.Errorf("%+v", ev)
			}
			run := measureRun(t, opt)
			if len(run.Restarts) != 1 || run.Restarts[0].Failed {
				t.Errorf("measured %+v", run.Restarts)
			}
			if mode == job.Semi && !(math.Abs(float64(run.Logs.Bytes)-run.Logs.Iterations*128640) < 128640) {
				t.Errorf("logged %+v, want 128640 bytes in an iteration, but for messages that came early", run.Logs)
			}
		})
	}
}
