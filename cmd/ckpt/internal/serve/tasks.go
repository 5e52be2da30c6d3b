package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image"
)

// A Task is work that takes longer than a request should.
type Task struct {
	ID        string    `json:"task"`
	Operation string    `json:"operation"`
	Store     string    `json:"store,omitempty"`
	Job       string    `json:"job,omitempty"`
	State     string    `json:"task_state"`
	Started   time.Time `json:"started"`
	Ended     time.Time `json:"ended,omitzero"`
	// Of the work, in bytes of files, as far as the command tells.
	Done  int64 `json:"done_bytes"`
	Total int64 `json:"total_bytes"`
	// PID is the process of a job that the task has started.
	PID      int      `json:"pid,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Result   any      `json:"result,omitempty"`
	Problem  *problem `json:"problem,omitempty"`
}

// The states of a task.
const (
	taskRunning   = "running"
	taskDone      = "done"
	taskFailed    = "failed"
	taskCancelled = "cancelled"
)

// mostRunning bounds the tasks of a kind at one time, so that those that read, those that change
// jobs, and launched jobs do not wait for each other. mostEnded bounds those that are remembered.
const (
	mostRunning = 16
	mostEnded   = 200
)

// tasks are all tasks of a service, the oldest first.
type tasks struct {
	changed func(Task)
	mu      sync.Mutex
	list    []*task
	next    int
	work    sync.WaitGroup // of this process; a job goes on without the service
}

type task struct {
	Task
	of     *operation
	cancel context.CancelFunc
}

// add begins a task, and tells of it. It returns nil if too many of its kind run.
func (t *tasks) add(first Task, of *operation, cancel context.CancelFunc) *task {
	k := t.begin(first, of, cancel)
	if k != nil {
		t.update(k, func(*Task) {})
	}
	return k
}

func (t *tasks) begin(first Task, of *operation, cancel context.CancelFunc) *task {
	t.mu.Lock()
	defer t.mu.Unlock()
	running, ended := 0, 0
	for _, k := range t.list {
		if k.State != taskRunning {
			ended++
		} else if k.of.right == of.right && k.of.how == of.how {
			running++
		}
	}
	if running >= mostRunning {
		return nil
	}
	if ended > mostEnded {
		oldest := slices.IndexFunc(t.list, func(k *task) bool { return k.State != taskRunning })
		t.list = slices.Delete(t.list, oldest, oldest+1)
	}
	t.next++
	first.ID, first.State, first.Started = fmt.Sprint(t.next), taskRunning, time.Now().UTC().Truncate(time.Millisecond)
	k := &task{first, of, cancel}
	t.list = append(t.list, k)
	return k
}

// update changes a task, and tells of it.
func (t *tasks) update(k *task, change func(*Task)) {
	t.mu.Lock()
	change(&k.Task)
	now := k.Task
	t.mu.Unlock()
	t.changed(now)
}

// end notes how a task ended.
func (t *tasks) end(k *task, result any, told []string, err error) {
	t.update(k, func(k *Task) {
		k.Ended, k.Warnings, k.Result = time.Now().UTC().Truncate(time.Millisecond), told, result
		switch {
		case err == nil:
			k.State, k.Done = taskDone, k.Total
		case errors.Is(err, context.Canceled), errors.Is(err, ui.ErrInterrupted):
			k.State = taskCancelled
		default:
			k.State, k.Problem = taskFailed, problemOf(err, nil)
		}
	})
}

func (t *tasks) all() []Task {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := []Task{}
	for _, k := range t.list {
		list = append(list, k.Task)
	}
	return list
}

func (t *tasks) find(id string) *task {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.list, func(k *task) bool { return k.ID == id })
	if i < 0 {
		return nil
	}
	return t.list[i]
}

// begin starts the task of an operation, and answers with the task.
func (s *server) begin(w http.ResponseWriter, o *operation, store string, list map[string][]string, args []string) {
	ctx, cancel := context.WithCancel(s.ctx)
	first := Task{Operation: o.id(), Store: store}
	if v := list["job"]; len(v) == 1 {
		first.Job = v[0]
	}
	k := s.tasks.add(first, o, cancel)
	if k == nil {
		cancel()
		w.Header().Set("Retry-After", "5")
		fail(w, http.StatusTooManyRequests, fmt.Sprintf("%d tasks of this kind are running", mostRunning), "wait for one, or cancel one with DELETE /api/tasks/TASK")
		return
	}
	if o.how == detach {
		if err := s.start(ctx, k, args); err != nil {
			cancel()
			s.tasks.end(k, nil, nil, err)
			problemOf(err, nil).write(w)
			return
		}
	} else {
		s.tasks.work.Go(func() {
			defer cancel()
			told := time.Now()
			result, said, err := s.call(ctx, args, func(_ string, done, total int64) {
				if now := time.Now(); now.Sub(told) >= taskPause {
					told = now
					s.tasks.update(k, func(k *Task) { k.Done, k.Total = done, total })
				}
			})
			s.tasks.end(k, result, said, err)
		})
	}
	s.tasks.mu.Lock()
	now := k.Task
	s.tasks.mu.Unlock()
	w.Header().Set("Location", "/api/tasks/"+now.ID)
	respond(w, http.StatusAccepted, now)
}

// taskPause is the time between two events about the progress of a task.
const taskPause = 200 * time.Millisecond

// start runs a job in a process of its own session: the end of the service, and ^C in its
// terminal, are no end of the job. To cancel the task is to stop the job after a last checkpoint.
func (s *server) start(ctx context.Context, k *task, args []string) error {
	said, err := os.CreateTemp("", "ckpt-serve-")
	if err != nil {
		return err
	}
	if err := os.Remove(said.Name()); err != nil {
		said.Close()
		return err
	}
	self, err := os.Executable()
	if err != nil {
		said.Close()
		return err
	}
	cmd := exec.Command(self, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { // which mean the service
		return strings.HasPrefix(v, "NOTIFY_SOCKET=") || strings.HasPrefix(v, "WATCHDOG_") || strings.HasPrefix(v, "LISTEN_")
	})
	cmd.Stderr, cmd.SysProcAttr = said, &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		said.Close()
		return err
	}
	s.tasks.update(k, func(k *Task) { k.PID = cmd.Process.Pid })
	ended := make(chan struct{})
	go func() {
		defer said.Close()
		err := cmd.Wait()
		close(ended)
		told, err := endOf(ctx, err, said)
		s.tasks.end(k, nil, told, err)
		k.cancel()
	}()
	go func() {
		select {
		case <-ended:
		case <-ctx.Done():
			if s.ctx.Err() == nil {
				_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
			}
		}
	}()
	return nil
}

// A processError is how the process of a job ended, as it says with --json.
type processError struct {
	Text   string `json:"error"`
	Remedy string `json:"hint"`
	Code   int    `json:"code"`
}

func (e *processError) Error() string { return e.Text }
func (e *processError) Hint() string  { return e.Remedy }
func (e *processError) Unwrap() error { return ui.CommandStatus(e.Code) }

// Is knows errors that have a status of HTTP, and no exit status, of their own: the process says
// their words.
func (e *processError) Is(err error) bool {
	return (err == image.ErrJobExists || err == os.ErrPermission) && strings.Contains(e.Text, err.Error())
}

// endOf is the error of a process that has ended, or what it told if its job is to be continued.
func endOf(ctx context.Context, err error, said *os.File) (told []string, _ error) {
	exit := (*exec.ExitError)(nil)
	if err == nil || !errors.As(err, &exit) {
		return nil, err
	}
	if ctx.Err() != nil && exit.ExitCode() == ui.ExitRequeue {
		return nil, context.Canceled
	}
	b := make([]byte, mostWarnings)
	size, _ := said.Seek(0, 2)
	n, _ := said.ReadAt(b, max(0, size-mostWarnings))
	text := strings.TrimSpace(string(b[:n]))
	e := &processError{}
	if json.Unmarshal([]byte(text[strings.LastIndex(text, "\n")+1:]), e) != nil || e.Text == "" { // it did not come to its last line
		e = &processError{Text: cmp.Or(text, exit.Error()), Code: cmp.Or(max(exit.ExitCode(), 0), ui.ExitRuntime)}
	}
	if e.Code == ui.ExitRequeue { // its walltime or a batch system has stopped it
		return []string{e.Text, e.Remedy}, nil
	}
	return nil, e
}

// listTasks, showTask and cancelTask answer requests about tasks.
func (s *server) listTasks(w http.ResponseWriter, r *http.Request) {
	respond(w, http.StatusOK, slices.DeleteFunc(s.tasks.all(), func(k Task) bool { return !s.seesName(r.Context(), k.Store) }))
}

func (s *server) showTask(w http.ResponseWriter, r *http.Request) {
	if k := s.taskOf(w, r); k != nil {
		s.tasks.mu.Lock()
		now := k.Task
		s.tasks.mu.Unlock()
		respond(w, http.StatusOK, now)
	}
}

func (s *server) cancelTask(w http.ResponseWriter, r *http.Request) {
	if k := s.taskOf(w, r); k != nil {
		needs(k.of.right, func(w http.ResponseWriter, r *http.Request) {
			k.cancel()
			s.showTask(w, r)
		})(w, r)
	}
}

func (s *server) taskOf(w http.ResponseWriter, r *http.Request) *task {
	k := s.tasks.find(r.PathValue("task"))
	if k == nil || !s.seesName(r.Context(), k.Store) {
		fail(w, http.StatusNotFound, fmt.Sprintf("there is no task %.80q", r.PathValue("task")), "GET /api/tasks lists the tasks; the service forgets them when it ends")
		return nil
	}
	return k
}
