package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"ckpt/cmd/ckpt/internal/metrics"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/vfs"
)

// A Change is the new state of a job, or a task, as the stream of events has it.
type Change struct {
	Store  string      `json:"store,omitempty"`
	Job    string      `json:"job,omitempty"`
	Status *job.Status `json:"status,omitempty"` // nil: the job is gone
	Task   *Task       `json:"task_now,omitempty"`
}

// How often the watcher looks at jobs that run, at the directories of all, and at those that the
// kernel says have changed. All looks at all jobs together take a two-hundredth of the time.
const (
	lookPause = 250 * time.Millisecond
	allPause  = time.Second
	allShare  = 200
	bellPause = 20 * time.Millisecond
	liveShare = 20
)

// A watcher keeps the states of all jobs while somebody listens. A store is its own database: the
// directory of a job changes when a run begins or ends, and its journal grows with each event.
type watcher struct {
	stores []storeRef

	mu        sync.Mutex
	seen      map[string]*seenJob
	unread    map[string]bool // stores that could not be read
	listeners map[chan Change]bool

	looking sync.Mutex // one look at a time
	nextAll time.Time
	bell    *bell
}

type seenJob struct {
	store, name string
	changed     time.Time // the directory of the job
	grown       int64     // the length of its journal
	status      *job.Status
	text        string // of the status, to tell news
}

func newWatcher(stores []storeRef) *watcher {
	return &watcher{stores: stores, seen: map[string]*seenJob{}, unread: map[string]bool{}, listeners: map[chan Change]bool{}, bell: newBell()}
}

// run looks again and again while there are listeners.
func (w *watcher) run(ctx context.Context) {
	go w.bell.listen()
	defer w.bell.close()
	for pause := lookPause; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
			pause = lookPause
			if w.heard() {
				began := time.Now()
				w.look(ctx, false)
				pause = max(lookPause, liveShare*time.Since(began))
			}
		case <-w.bell.wake:
			if w.heard() {
				time.Sleep(bellPause) // a commit changes several files
				w.lookAtChanged(ctx)
			}
		}
	}
}

func (w *watcher) heard() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.listeners) > 0
}

// look finds out what has changed, and tells the listeners. All has it look at all jobs.
func (w *watcher) look(ctx context.Context, all bool) {
	w.looking.Lock()
	defer w.looking.Unlock()
	began := time.Now()
	all = all || !began.Before(w.nextAll)
	for _, st := range w.stores {
		store, err := image.OpenStore(vfs.OS{}, st.Dir)
		if err == nil && all {
			err = w.lookAtAll(ctx, st.Name, store)
		}
		if err != nil || all {
			w.mu.Lock()
			w.unread[st.Name] = err != nil
			w.mu.Unlock()
		}
		for _, s := range w.known(st.Name) {
			if err != nil { // the store has gone, or cannot be read now: GET /api/stores says why
				w.forget(s)
			} else if !all && metrics.Live(s.status) {
				w.lookAt(ctx, store, s, false)
			}
		}
	}
	if all {
		w.nextAll = time.Now().Add(max(allPause, allShare*time.Since(began)))
	}
}

// lookAtChanged looks at the jobs whose directories the kernel says have changed.
func (w *watcher) lookAtChanged(ctx context.Context) {
	dirs, missed := w.bell.changed()
	if missed {
		w.look(ctx, true)
		return
	}
	w.looking.Lock()
	defer w.looking.Unlock()
	for _, st := range w.stores {
		store, err := image.OpenStore(vfs.OS{}, st.Dir)
		if err != nil {
			continue
		}
		for dir := range dirs {
			if name := filepath.Base(dir); filepath.Dir(dir) == jobsOf(st.Dir) && container.ValidJobName(name) {
				w.lookAt(ctx, store, w.note(st.Name, name), false)
				w.bell.watch(dir)
			}
		}
	}
}

// jobsOf is the directory of the jobs of a store.
func jobsOf(dir string) string { return filepath.Join(dir, "jobs") }

// note returns what is known of a job, of which nothing may be known.
func (w *watcher) note(store, name string) *seenJob {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := store + "/" + name
	if w.seen[key] == nil {
		w.seen[key] = &seenJob{store: store, name: name}
	}
	return w.seen[key]
}

func (w *watcher) known(store string) (list []*seenJob) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.seen {
		if s.store == store {
			list = append(list, s)
		}
	}
	return list
}

// reads reports whether the last look could read a store.
func (w *watcher) reads(store string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.unread[store]
}

func (w *watcher) lookAtAll(ctx context.Context, name string, store *image.Store) error {
	jobs := jobsOf(store.Dir())
	fsys, err := vfs.At(vfs.OS{}, jobs)
	if err != nil {
		return err
	}
	entries, err := fsys.ReadDir(jobs)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	w.bell.watch(jobs)
	places := make(chan struct{}, runtime.GOMAXPROCS(0))
	var looks sync.WaitGroup
	for _, e := range entries {
		n := e.Name()
		if !container.ValidJobName(n) {
			continue
		}
		there[n] = true
		w.bell.watch(filepath.Join(jobs, n)) // before the look, so that no change falls between
		places <- struct{}{}
		looks.Go(func() {
			defer func() { <-places }()
			w.lookAt(ctx, store, w.note(name, n), true)
		})
	}
	looks.Wait()
	for _, s := range w.known(name) {
		if !there[s.name] {
			w.forget(s)
		}
	}
	return nil
}

// lookAt looks at one job, unless its directory, or between two looks at all jobs its journal,
// says that it is as it was.
func (w *watcher) lookAt(ctx context.Context, store *image.Store, s *seenJob, all bool) {
	j, err := store.Job(s.name)
	if errors.Is(err, image.ErrJobNotFound) {
		w.forget(s)
		return
	}
	if err != nil {
		return
	}
	fi, err := j.FS().Stat(j.Dir())
	if err != nil {
		return
	}
	grown := int64(0)
	if journal, err := journalInfo(j); err == nil {
		grown = journal.Size()
	}
	tells := !fi.ModTime().IsZero() // an object storage does not say when a directory has changed
	if s.status != nil && (!metrics.Live(s.status) && tells || !all) && fi.ModTime().Equal(s.changed) && grown == s.grown {
		return
	}
	s.changed, s.grown = fi.ModTime(), grown
	status, err := wire.InspectJob(ctx, j)
	if err != nil {
		if errors.Is(err, image.ErrJobNotFound) || ctx.Err() != nil {
			return
		}
		status = &job.Status{Job: s.name, State: job.StateUnreadable, Mapping: job.Mapping{}, Failure: ui.OneLine(err.Error())}
	} else {
		status.Restarts = nil
	}
	text, _ := json.Marshal(status)
	w.mu.Lock()
	news := string(text) != s.text
	s.status, s.text = status, string(text)
	w.mu.Unlock()
	if news {
		w.tell(Change{Store: s.store, Job: s.name, Status: status})
	}
}

// journalInfo tells the length of a job's journal.
func journalInfo(j *image.Job) (os.FileInfo, error) {
	return j.FS().Stat(filepath.Join(j.Dir(), job.JournalName))
}

func (w *watcher) forget(s *seenJob) {
	w.mu.Lock()
	delete(w.seen, s.store+"/"+s.name)
	w.mu.Unlock()
	w.tell(Change{Store: s.store, Job: s.name})
}

// tell tells all listeners. It ends the stream of a slow one: the page begins a new stream, with
// all states.
func (w *watcher) tell(c Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.listeners {
		select {
		case ch <- c:
		default:
			delete(w.listeners, ch)
			close(ch)
		}
	}
}

// listen adds a listener, with what is known now.
func (w *watcher) listen() (ch chan Change, now []Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.seen {
		if s.status != nil {
			now = append(now, Change{Store: s.store, Job: s.name, Status: s.status})
		}
	}
	ch = make(chan Change, 1024)
	w.listeners[ch] = true
	return ch, now
}

func (w *watcher) leave(ch chan Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listeners[ch] {
		delete(w.listeners, ch)
		close(ch)
	}
}

// mostListeners bounds the streams.
const mostListeners = 200

// keepAlive is how often a stream without news says that it lives.
const keepAlive = 15 * time.Second

// events answers with a stream of server-sent events: first all jobs and tasks, then what changes.
func (s *server) events(w http.ResponseWriter, r *http.Request) {
	s.watch.mu.Lock()
	many := len(s.watch.listeners) >= mostListeners
	s.watch.mu.Unlock()
	if many {
		fail(w, http.StatusServiceUnavailable, fmt.Sprintf("%d streams are open", mostListeners), "close pages of this service")
		return
	}
	s.watch.look(r.Context(), false)
	s.watch.lookAtChanged(r.Context())
	ch, now := s.watch.listen()
	defer s.watch.leave(ch)
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // the deadline of the server is for the request, and a stream has no end
	put := func(text string) bool {
		_ = out.SetWriteDeadline(time.Now().Add(longestAnswer))
		_, err := io.WriteString(w, text)
		return err == nil
	}
	send := func(c Change) bool {
		if !s.seesChange(r.Context(), c) {
			return true
		}
		body, err := json.Marshal(c)
		if err != nil {
			return true
		}
		return put(fmt.Sprintf("data: %s\n\n", body))
	}
	for _, t := range s.tasks.all() {
		now = append(now, Change{Task: &t})
	}
	for _, c := range now {
		send(c)
	}
	put(": all\n\n")
	_ = out.Flush()
	quiet := time.NewTicker(keepAlive)
	defer quiet.Stop()
	for {
		alive := true
		select {
		case <-r.Context().Done():
			return
		case <-s.ctx.Done():
			return
		case <-quiet.C:
			alive = put(": alive\n\n")
		case c, open := <-ch:
			alive = open && send(c)
		}
		if !alive || out.Flush() != nil {
			return
		}
	}
}

// seesChange reports whether the sender of a request may see a change.
func (s *server) seesChange(ctx context.Context, c Change) bool {
	if c.Task != nil {
		return s.seesName(ctx, c.Task.Store)
	}
	return s.seesName(ctx, c.Store)
}

// history answers with the events of a job's journal, the newest MiB of them.
func (s *server) history(w http.ResponseWriter, r *http.Request) {
	_, dir, ok := s.storeOf(w, r)
	if !ok {
		return
	}
	j, err := jobIn(dir, r)
	list := []json.RawMessage{}
	if err == nil {
		err = job.ReadJournal(j, mostHistory, func(line []byte) {
			if json.Valid(line) { // the first may be cut
				list = append(list, present(line))
			}
		})
		if errors.Is(err, os.ErrNotExist) {
			err = nil // a job without a run
		}
	}
	if err != nil {
		problemOf(err, nil).write(w)
		return
	}
	respond(w, http.StatusOK, list)
}

// present is a line of a journal with the fields that this version has: since lines have a time,
// they have these.
func present(line []byte) json.RawMessage {
	var e job.CheckpointEvent
	if !bytes.Contains(line, []byte(`"time":`)) && json.Unmarshal(line, &e) == nil && e.Type == "checkpoint" {
		if now, err := json.Marshal(&e); err == nil {
			return now
		}
	}
	return append(json.RawMessage{}, line...)
}

// jobIn finds the job that a request names in a store.
func jobIn(dir string, r *http.Request) (*image.Job, error) {
	store, err := image.OpenStore(vfs.OS{}, dir)
	if err != nil {
		return nil, err
	}
	return store.Job(r.PathValue("job"))
}

const mostHistory = 1 << 20

// A storeRef is a store that the service serves, under a name of its own.
type storeRef struct {
	Name string `json:"store"`
	Dir  string `json:"directory"`
}

type storeState struct {
	storeRef
	Jobs   int    `json:"jobs"`
	Free   *int64 `json:"free_bytes,omitempty"` // nil: the storage has no end
	Reason string `json:"reason,omitempty"`     // why the store cannot be read
}

// freeSpace returns the free space of a store, or nil if its storage has no end.
func freeSpace(dir string) (*int64, error) {
	fsys, err := vfs.At(vfs.OS{}, dir)
	if err != nil {
		return nil, err
	}
	free, err := fsys.Free(filepath.Clean(dir))
	if err != nil || free == vfs.Unbounded {
		return nil, err
	}
	return &free, nil
}

func (s *server) listStores(w http.ResponseWriter, r *http.Request) {
	list := []storeState{}
	for _, st := range s.stores {
		if !s.sees(r.Context(), st.Dir) {
			continue
		}
		line := storeState{storeRef: st}
		store, err := image.OpenStore(vfs.OS{}, st.Dir)
		var names []string
		if err == nil {
			names, err = store.Jobs()
		}
		if err == nil {
			line.Free, err = freeSpace(st.Dir)
		}
		if line.Jobs = len(names); err != nil {
			line.Reason = ui.OneLine(err.Error())
		}
		list = append(list, line)
	}
	respond(w, http.StatusOK, list)
}
