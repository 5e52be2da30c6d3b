package job

import (
	"encoding/json"
	"io"
	"path/filepath"
	"sync"
	"time"

	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/zones"
)

// The history of a job is a file of JSON lines beside its checkpoints: the events of all its
// runs, as launch and restart print them with --json, each with its moment. It keeps the time of
// a commit, which the manifest cannot contain. Nothing depends on it, and a full disk may cut it
// short. Lines of earlier versions have no moment.

// JournalName is the history of a job, in its directory.
const JournalName = "history.jsonl"

// A Journal adds to it. Without a file, as its zero value is, it drops events.
type Journal struct {
	lines *durable.Journal
	queue *journalQueue // nil: events are written at once
}

func OpenJournal(job *image.Job) Journal {
	lines, err := durable.OpenJournal(job.FS(), filepath.Join(job.Dir(), JournalName))
	if err != nil {
		return Journal{}
	}
	return Journal{lines: lines}
}

func (j *Journal) Add(ev any) {
	line, err := json.Marshal(ev)
	if n := len(line); err == nil && n > 2 && line[n-1] == '}' {
		line = time.Now().UTC().AppendFormat(line[:n-1], `,"time":"2006-01-02T15:04:05.000Z07:00"}`)
	}
	switch {
	case err != nil || j.lines == nil:
	case j.queue != nil:
		j.queue.add(line)
	default:
		_ = j.lines.Add(line)
	}
}

func (j *Journal) Close() {
	if j.queue != nil {
		j.queue.close()
	}
	if j.lines != nil {
		_ = j.lines.Close()
	}
}

type Events map[int]CheckpointEvent

// tailBytes is how much of the end of a history is read for each of the newest checkpoints: an
// event has some 500 bytes, and there are others between.
const tailBytes = 4 << 10

// ReadEvents reads the events of a job's checkpoints from its history; with last > 0 only from
// its end, for the newest so many. It returns what it can read of a missing or damaged history.
func ReadEvents(job *image.Job, last int) Events {
	h := Events{}
	_ = ReadJournal(job, int64(last)*tailBytes, func(line []byte) {
		var ev CheckpointEvent
		if json.Unmarshal(line, &ev) == nil && ev.Type == "checkpoint" {
			h[ev.Number] = ev
		}
	})
	return h
}

// ReadJournal passes the lines of a job's journal on, only of its last bytes if tail is over
// 0. The first of these may be cut.
func ReadJournal(job *image.Job, tail int64, take func(line []byte)) error {
	f, err := job.FS().Open(filepath.Join(job.Dir(), JournalName))
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	begin := int64(0)
	if tail > 0 {
		begin = max(0, size-tail)
	}
	_, err = durable.ReadLines(io.NewSectionReader(f, begin, size-begin), take)
	return err
}

// Describe describes a committed checkpoint: as its manifest tells, with the times of the
// history, which include the commit.
func (h Events) Describe(s image.Summary) *CheckpointEvent {
	ev := DescribeCheckpoint(s)
	// The number alone does not make it the same checkpoint.
	if told, ok := h[s.Number]; ok && told.Iteration == ev.Iteration && told.StoredBytes == ev.StoredBytes &&
		told.Latency.Total >= ev.Latency.Total {
		ev.Latency, ev.Pause, ev.TurnWait = told.Latency, told.Pause, told.TurnWait
	}
	return ev
}

// Behind has Add return at once: a goroutine writes the events in their order, and only Close
// waits for a store that does not answer.
func (j *Journal) Behind() {
	if j.lines == nil || j.queue != nil {
		return
	}
	q := &journalQueue{lines: j.lines}
	q.more = sync.NewCond(&q.mu)
	q.over.Go(q.write)
	j.queue = q
}

type journalQueue struct {
	lines   *durable.Journal
	mu      sync.Mutex
	more    *sync.Cond
	waiting [][]byte
	closed  bool
	over    sync.WaitGroup
}

// maxWaiting bounds the events that wait for a store that does not answer.
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

// DescribeCheckpoint describes a committed checkpoint by its manifest.
func DescribeCheckpoint(s image.Summary) *CheckpointEvent {
	var log image.LogStats
	if s.Log != nil {
		log = *s.Log
	}
	return &CheckpointEvent{Type: "checkpoint", Job: s.Job, Number: s.Number, Iteration: int(s.Iteration), Ranks: s.Ranks, Of: s.Of,
		LogBytes: log.Bytes, LogFsyncs: log.Fsyncs, LogSeconds: log.Seconds,
		Zones: s.Bytes, Memory: s.Memory, StoredBytes: s.StoredBytes, Files: s.Files, Latency: s.Latency, Pause: s.Pause, TurnWait: s.TurnWait}
}

// A Risk says what was at risk until a state was safe on the level that the job asks for, in
// seconds; absent if it is not safe yet.
type Risk struct {
	// Lag is the durability lag: from the time at which the ranks stopped in that state.
	Lag float64 `json:"lag_s,omitempty"`
	// AtRisk is the work since the state before that was safe.
	AtRisk float64 `json:"at_risk_s,omitempty"`
}

// A CheckpointEvent describes a committed checkpoint. Times are in seconds, sizes in bytes.
type CheckpointEvent struct {
	Type        string       `json:"type"` // "checkpoint"
	Job         string       `json:"job"`
	Number      int          `json:"number"`
	Iteration   int          `json:"iteration"`
	Ranks       int          `json:"ranks"`
	Of          []int        `json:"of,omitempty"`     // which ranks, unless all
	Zones       zones.Sizes  `json:"zones"`            // of an image of each rank, added up
	Memory      *zones.Sizes `json:"memory,omitempty"` // with the segment once for each node, the library once
	StoredBytes int64        `json:"stored_bytes"`     // added to the store
	Files       int          `json:"files"`            // added to the store, the manifest included
	// StorageLevel is local or protected if it went to directories of the nodes, and is not in
	// the store yet.
	StorageLevel string        `json:"storage_level,omitempty"`
	Latency      image.Latency `json:"latency_s"`
	Pause        float64       `json:"pause_s"` // how long the application stood still
	// TurnWait is how long its writes waited for other jobs on the same storage: a part of the
	// total latency beside the three, and of the pause if the application waited for the writes.
	TurnWait float64 `json:"turn_wait_s,omitempty"`
	Risk
	// Of the messages logged since the checkpoint before: bytes, fsyncs, and the seconds that the
	// ranks spent in these, together.
	LogBytes   int64   `json:"log_bytes,omitempty"`
	LogFsyncs  int64   `json:"log_fsyncs,omitempty"`
	LogSeconds float64 `json:"log_s,omitempty"`
}

// Costs returns what the checkpoint itself cost: latency and pause without the wait for other
// jobs. Async says that the application computed while it was written.
func (e *CheckpointEvent) Costs(async bool) (latency, pause float64) {
	latency, pause = max(0, e.Latency.Total-e.TurnWait), e.Pause
	if !async {
		pause = max(0, pause-e.TurnWait)
	}
	return latency, pause
}

// UnmarshalJSON also reads lines of earlier versions, whose zones are in the field bytes.
func (e *CheckpointEvent) UnmarshalJSON(b []byte) error {
	type plain CheckpointEvent
	old := struct {
		*plain
		Bytes *zones.Sizes `json:"bytes"`
	}{plain: (*plain)(e)}
	if err := json.Unmarshal(b, &old); err != nil {
		return err
	}
	if old.Bytes != nil {
		e.Zones = *old.Bytes
	}
	return nil
}

// A RestartedEvent says what a restart cost, of the ranks that a failure took back, or of all
// ranks when a user restarted the job. It comes when the ranks are where they were before, or
// cannot get there any more. Times are in seconds, sizes in bytes.
type RestartedEvent struct {
	Type   string `json:"type"` // "restarted"
	Failed bool   `json:"after_failure"`
	Of     []int  `json:"of,omitempty"` // which ranks, with several groups
	Ranks  int    `json:"ranks"`
	Groups int    `json:"group_count"`
	From   []int  `json:"from_checkpoints"`
	// Seconds lasts from the failure, or the start of the run, until all ranks compute. In it,
	// Read was the reading of images in the slowest rank, and Log the reading of message logs.
	Seconds   float64 `json:"restart_s"`
	Read      float64 `json:"image_read_s"`
	ReadBytes int64   `json:"image_read_bytes"` // unpacked, of all ranks
	Log       float64 `json:"log_read_s"`
	LogBytes  int64   `json:"log_read_bytes"`
	// TurnWait is the part of Seconds in which the slowest rank waited for other jobs before it
	// could read.
	TurnWait float64 `json:"turn_wait_s,omitempty"`
	// Repeated iterations add up over the ranks. LostWork is the time from the checkpoint to the
	// failure, 0 if unknown, and Replay the time until all ranks were where they had been, nil if
	// they never were.
	Repeated int      `json:"repeated_iterations"`
	LostWork float64  `json:"lost_work_s,omitempty"`
	Replay   *float64 `json:"replay_s,omitempty"`
}

// newestBytes is how much of the end of a journal is searched for its newest events.
const newestBytes = 256 << 10

// NewestRestarts returns the last restarts in the end of a job's journal, at most so many, as far
// as it can be read.
func NewestRestarts(j *image.Job, most int) []RestartedEvent {
	list := newest[RestartedEvent](j, "restarted")
	return list[max(0, len(list)-most):]
}

// newest returns the events of a type in the end of a job's journal.
func newest[T any](j *image.Job, kind string) (list []T) {
	_ = ReadJournal(j, newestBytes, func(line []byte) {
		var ev struct {
			Type string `json:"type"`
		}
		var full T
		if json.Unmarshal(line, &ev) == nil && ev.Type == kind && json.Unmarshal(line, &full) == nil {
			list = append(list, full)
		}
	})
	return list
}
