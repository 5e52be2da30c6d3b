package job

import (
	"encoding/json"
	"io"
	"path/filepath"
	"sync"

	"ckpt/image"
	"ckpt/internal/durable"
)

// The history of a job is a file of JSON lines beside its checkpoints: the
// events of all its runs, as launch and restart print them with --json. It is
// where the time of a commit is kept, which the manifest cannot contain. It is
// a convenience: nothing depends on it, and a full disk may cut it short.
const journalName = "history.jsonl"

// A Journal adds to it. Its zero value drops events, as one does that cannot be opened.
type Journal struct {
	lines *durable.Journal
	queue *journalQueue // nil: events are written at once
}

// OpenJournal opens the journal of a job.
func OpenJournal(job *image.Job) Journal {
	lines, err := durable.OpenJournal(job.FS(), filepath.Join(job.Dir(), journalName))
	if err != nil {
		return Journal{}
	}
	return Journal{lines: lines}
}

// Add adds an event.
func (j *Journal) Add(ev any) {
	line, err := json.Marshal(ev)
	switch {
	case err != nil || j.lines == nil:
	case j.queue != nil:
		j.queue.add(line)
	default:
		_ = j.lines.Add(line)
	}
}

// Close closes the file.
func (j *Journal) Close() {
	if j.queue != nil {
		j.queue.close()
	}
	if j.lines != nil {
		_ = j.lines.Close()
	}
}

// Events completes descriptions of checkpoints from the history of their job.
type Events map[int]CheckpointEvent

// tailBytes is how much of the end of a history is read for each of the newest
// checkpoints: an event has some 500 bytes, and there are others between.
const tailBytes = 4 << 10

// ReadEvents reads the events of a job's checkpoints from its history; with last > 0
// only from its end, for the newest so many. It returns what it can read of a missing
// or damaged history.
func ReadEvents(job *image.Job, last int) Events {
	h := Events{}
	f, err := job.FS().Open(filepath.Join(job.Dir(), journalName))
	if err != nil {
		return h
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return h
	}
	begin := int64(0)
	if last > 0 {
		begin = max(0, size-int64(last)*tailBytes) // a line that is cut is no event
	}
	_, _ = durable.ReadLines(io.NewSectionReader(f, begin, size-begin), func(line []byte) {
		var ev CheckpointEvent
		if json.Unmarshal(line, &ev) == nil && ev.Type == "checkpoint" {
			h[ev.Number] = ev
		}
	})
	return h
}

// Describe describes a committed checkpoint: as its manifest tells, with the
// times of the history, which include the commit.
func (h Events) Describe(s image.Summary) *CheckpointEvent {
	ev := DescribeCheckpoint(s)
	// The number alone does not make it the same checkpoint.
	if told, ok := h[s.Number]; ok && told.Iteration == ev.Iteration && told.StoredBytes == ev.StoredBytes &&
		told.Latency.Total >= ev.Latency.Total {
		ev.Latency, ev.Pause, ev.TurnWait = told.Latency, told.Pause, told.TurnWait
	}
	return ev
}

// Behind has Add return at once: the events are written in their order by a goroutine of
// their own, until Close. A store that does not answer holds nobody up but Close.
func (j *Journal) Behind() {
	if j.lines == nil || j.queue != nil {
		return
	}
	q := &journalQueue{lines: j.lines}
	q.more = sync.NewCond(&q.mu)
	q.over.Go(q.write)
	j.queue = q
}

// A journalQueue is what is still to be written.
type journalQueue struct {
	lines   *durable.Journal
	mu      sync.Mutex
	more    *sync.Cond
	waiting [][]byte
	closed  bool
	over    sync.WaitGroup
}

// maxWaiting is how many events wait for a store that does not answer, at most.
const maxWaiting = 1 << 14

func (q *journalQueue) add(line []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) < maxWaiting {
		q.waiting = append(q.waiting, line)
		q.more.Signal()
	}
}

func (q *journalQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.more.Signal()
	q.mu.Unlock()
	q.over.Wait()
}

func (q *journalQueue) write() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for len(q.waiting) == 0 && !q.closed {
			q.more.Wait()
		}
		if len(q.waiting) == 0 {
			return
		}
		lines := q.waiting
		q.waiting = nil
		q.mu.Unlock()
		for _, line := range lines {
			_ = q.lines.Add(line)
		}
		q.mu.Lock()
	}
}
