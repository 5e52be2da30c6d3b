package job

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"

	"ckpt/image"
)

// The history of a job is a file of JSON lines beside its checkpoints: the
// events of all its runs, as launch and restart print them with --json. It is
// where the time of a commit is kept, which the manifest cannot contain. It is
// a convenience: nothing depends on it, and a full disk may cut it short.
const journalName = "history.jsonl"

// A Journal adds to a history. An event that is not there whole, because the
// disk was full or the coordinator was killed, does not take the next one with it:
// that begins on a line of its own.
type Journal struct {
	file *os.File // nil: there is none
	torn bool     // the last line is not whole
}

func OpenJournal(dir string) Journal {
	f, err := os.OpenFile(filepath.Join(dir, journalName), os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return Journal{}
	}
	last := []byte{'\n'}
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		_, _ = f.ReadAt(last, info.Size()-1)
	}
	return Journal{f, last[0] != '\n'}
}

func (h *Journal) Add(ev any) {
	line, err := json.Marshal(ev)
	if err != nil || h.file == nil {
		return
	}
	if h.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := h.file.Write(append(line, '\n'))
	if n > 0 {
		h.torn = err != nil
	}
}

func (h *Journal) Close() {
	if h.file != nil {
		_ = h.file.Close()
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
	f, err := os.Open(filepath.Join(job.Dir(), journalName))
	if err != nil {
		return h
	}
	defer f.Close()
	if last > 0 {
		// A line that is cut is no event.
		_, _ = f.Seek(-int64(last)*tailBytes, io.SeekEnd) // or the file is shorter
	}
	_, _ = readLines(f, func(line []byte) {
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
		ev.Latency, ev.Pause = told.Latency, told.Pause
	}
	return ev
}
