package coordinator

import (
	"testing"

	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/internal/vfs"
)

// TestStatusOfRestart restarts a job that has completed. From when its ranks compute,
// what the store tells of the run before is not how this one ends: if its
// coordinator is killed, the job was interrupted.
func TestStatusOfRestart(t *testing.T) {
	notRaced(t)
	for _, mode := range []job.Mode{job.Coordinated, job.Uncoordinated} {
		t.Run(string(mode), func(t *testing.T) {
			s := short(t, "ring.S.4", mode, "")
			s.Schedule.Every = 4
			want, _, opt := mustLaunch(t, s, Options{})
			describe := func() *job.Status {
				store, err := image.OpenStore(vfs.OS{}, opt.Store)
				if err != nil {
					t.Fatal(err)
				}
				st, err := job.Describe(store, opt.Job)
				if err != nil {
					t.Fatal(err)
				}
				return st
			}
			if st := describe(); st.State != job.StateCompleted || st.Digest != want.Digest || st.Iteration != s.Iterations {
				t.Fatalf("completed: %+v", st)
			}
			rec := &recorder{t: t}
			rec.on = func(ev any) {
				if _, ok := ev.(*StartEvent); !ok {
					return
				}
				if st := describe(); st.State != job.StateInterrupted || st.Digest != "" || st.Iteration == s.Iterations {
					t.Errorf("if it were killed: %+v", st)
				}
			}
			opt.Observer = rec
			if _, err := Restart(t.Context(), RestartOptions{Options: opt}); err != nil {
				t.Fatal(err)
			}
			if st := describe(); st.State != job.StateCompleted || st.Digest != want.Digest || len(eventsOf[*StartEvent](rec)) == 0 {
				t.Errorf("completed again: %+v", st)
			}
		})
	}
}
