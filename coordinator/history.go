package coordinator

import (
	"encoding/json"
	"os"
	"path/filepath"

	"ckpt/image"
)

// The history of a job is a file of JSON lines beside its checkpoints: the
// events of all its runs, as launch and restart print them with --json. It is
// where the time of a commit is kept, which the manifest cannot contain. It is
// a convenience: nothing depends on it, and a full disk may cut it short.
const historyName = "history.jsonl"

// event tells the observer and the history.
func (d *driver) event(ev any) {
	d.out.Event(ev)
	d.history.add(ev)
}

// A historyWriter adds to a history. An event that is not there whole, because the
// disk was full or the coordinator was killed, does not take the next one with it:
// that begins on a line of its own.
type historyWriter struct {
	file *os.File // nil: there is none
	torn bool     // the last line is not whole
}

func openHistory(dir string) historyWriter {
	f, err := os.OpenFile(filepath.Join(dir, historyName), os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return historyWriter{}
	}
	last := []byte{'\n'}
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		_, _ = f.ReadAt(last, info.Size()-1)
	}
	return historyWriter{f, last[0] != '\n'}
}

func (h *historyWriter) add(ev any) {
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

func (h *historyWriter) close() {
	if h.file != nil {
		_ = h.file.Close()
	}
}

// History completes descriptions of checkpoints from the history of their job.
type History map[int]CheckpointEvent

// ReadHistory reads what the history of a job says of its checkpoints. Of a
// missing or damaged one it is what can be read.
func ReadHistory(job *image.Job) History {
	h := History{}
	f, err := os.Open(filepath.Join(job.Dir(), historyName))
	if err != nil {
		return h
	}
	defer f.Close()
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
func (h History) Describe(s image.Summary) *CheckpointEvent {
	ev := describeCheckpoint(s)
	// The number alone does not make it the same checkpoint.
	if told, ok := h[s.Number]; ok && told.Iteration == ev.Iteration && told.StoredBytes == ev.StoredBytes &&
		told.Latency.Total >= ev.Latency.Total {
		ev.Latency, ev.Pause = told.Latency, told.Pause
	}
	return ev
}
