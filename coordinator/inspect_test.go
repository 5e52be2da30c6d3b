package coordinator

import (
	"bufio"
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/vfs"
)

// TestStatusOfRestart restarts a job that has completed. From when its ranks compute,
// what the store tells of the run before is not how this one ends: if its
// coordinator is killed, the job was interrupted.
func TestStatusOfRestart(t *testing.T) {
	notRaced(t)
	t.Parallel()
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

// TestStatusWhileItEnds asks a job whose coordinator ends without answering, or answers
// once and ends. The job ran, or has completed; it was never interrupted.
func TestStatusWhileItEnds(t *testing.T) {
	t.Parallel()
	_, _, opt := mustLaunch(t, short(t, "ring.S.4", job.Coordinated, ""), Options{})
	store, err := image.OpenStore(vfs.OS{}, opt.Store)
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.Job(opt.Job)
	if err != nil {
		t.Fatal(err)
	}
	for answers, want := range []string{job.StateCompleted, job.StateRunning} {
		job.ForgetEnding(j)
		var server *answering
		served, closed := make(chan bool), make(chan bool)
		asked := 0
		server, err := answer(j, func(c wire.Command, replies chan<- wire.Reply) {
			if asked++; asked <= answers {
				replies <- wire.Reply{Status: &wire.Status{Job: opt.Job, Since: time.Now()}}
				return
			}
			job.RecordEnding(j, job.StateCompleted, "", nil, job.NewBeginning(), nil)
			go func() {
				defer close(closed)
				<-served
				server.close()
			}()
		})
		if err != nil {
			t.Fatal(err)
		}
		close(served)
		s, err := wire.Inspect(t.Context(), store, opt.Job)
		if err != nil || s.State != want {
			t.Errorf("%d answers: %+v, %v, want it %s", answers, s, err, want)
		}
		if asked > answers {
			<-closed
		} else {
			server.close()
		}
	}
}

// An answering coordinator has no job.
type answering struct {
	launch.Socket
	job     *image.Job
	end     context.CancelFunc
	serving sync.WaitGroup
}

func answer(j *image.Job, obey func(wire.Command, chan<- wire.Reply)) (*answering, error) {
	ctx, end := context.WithCancel(context.Background())
	s := &answering{job: j, end: end}
	if err := s.Open("unix", "", 1); err != nil {
		return nil, err
	}
	serve := func(conn net.Conn) {
		defer conn.Close()
		defer context.AfterFunc(ctx, func() {
			_, _ = conn.SetReadDeadline(time.Now()), conn.SetWriteDeadline(time.Now().Add(time.Second))
		})()
		r := bufio.NewReaderSize(conn, wire.GreetingLimit)
		if _, err := wire.ReadGreeting(conn, r, s.Token); err == nil {
			answerCommands(conn, r, ctx.Done(), new(sync.RWMutex), obey)
		}
	}
	s.serving.Go(func() {
		wire.AcceptAll(s.Listener, func(conn net.Conn) { s.serving.Go(func() { serve(conn) }) }, time.Minute, func(error) {})
	})
	return s, s.Announce(j)
}

// close ends all connections, after it has passed on the answers that were given.
func (s *answering) close() {
	s.end()
	s.Listener.Close()
	s.serving.Wait()
	s.Socket.Close()
	s.Remove(s.job)
}
