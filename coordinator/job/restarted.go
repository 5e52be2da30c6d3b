package job

import (
	"encoding/json"
	"io"
	"path/filepath"

	"ckpt/image"
	"ckpt/internal/durable"
)

// A RestartedEvent says what a restart cost: of the ranks that a failure took back, or of
// all ranks when a user restarted the job. It comes when the ranks are where they were
// before, or cannot get there any more. Times are in seconds, sizes in bytes.
type RestartedEvent struct {
	Type   string `json:"type"` // "restarted"
	Failed bool   `json:"after_failure"`
	Of     []int  `json:"of,omitempty"` // which ranks, with several groups
	Ranks  int    `json:"ranks"`
	Groups int    `json:"group_count"`
	From   []int  `json:"from_checkpoints"`
	// Seconds is from the failure, or the start of the run, until all ranks compute. Read
	// of it was reading images, in the slowest rank, and Log reading message logs.
	Seconds   float64 `json:"restart_s"`
	Read      float64 `json:"image_read_s"`
	ReadBytes int64   `json:"image_read_bytes"` // unpacked, of all ranks
	Log       float64 `json:"log_read_s"`
	LogBytes  int64   `json:"log_read_bytes"`
	// TurnWait is the part of Seconds in which the slowest rank waited for other jobs before it
	// could read.
	TurnWait float64 `json:"turn_wait_s,omitempty"`
	// Repeated iterations add up over the ranks. LostWork is the time from the checkpoint to
	// the failure, 0 if that is not known, and Replay the time until all ranks were where
	// they had been, nil if they never were.
	Repeated int      `json:"repeated_iterations"`
	LostWork float64  `json:"lost_work_s,omitempty"`
	Replay   *float64 `json:"replay_s,omitempty"`
}

// newestBytes is how much of the end of a journal is read for its newest events.
const newestBytes = 256 << 10

// NewestRestarts returns the last restarts in the end of a job's journal, at most so many.
// It returns what it can read of a missing or damaged journal.
func NewestRestarts(j *image.Job, most int) []RestartedEvent {
	list := newest[RestartedEvent](j, "restarted")
	return list[max(0, len(list)-most):]
}

// newest returns the events of a type in the end of a job's journal.
func newest[T any](j *image.Job, kind string) []T {
	f, err := j.FS().Open(filepath.Join(j.Dir(), journalName))
	if err != nil {
		return nil
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil
	}
	var list []T
	begin := max(0, size-newestBytes) // a line that is cut is no event
	_, _ = durable.ReadLines(io.NewSectionReader(f, begin, size-begin), func(line []byte) {
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
