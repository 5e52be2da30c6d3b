package job

import (
	"encoding/json"
	"io"
	"path/filepath"

	"ckpt/dataset"
	"ckpt/image"
	"ckpt/internal/durable"
)

// readCosts returns what the message logs of a job cost, nil without groups, and its
// restarts, as far as the journal knows them.
func readCosts(j *image.Job, spec *Resolved) (*dataset.JobLogs, []dataset.JobRestart) {
	c := &costReader{np: float64(spec.NP), last: make(map[int]int), known: true}
	if f, err := j.FS().Open(filepath.Join(j.Dir(), journalName)); err == nil {
		defer f.Close()
		if size, err := f.Size(); err == nil {
			_, _ = durable.ReadLines(io.NewSectionReader(f, 0, size), c.line)
		}
	}
	if !spec.Several() {
		return nil, c.restarts
	}
	return &c.logs, c.restarts
}

// A costReader adds up the costs of logs, line by line of a journal.
type costReader struct {
	np       float64
	last     map[int]int // by the first rank of a group, the iteration of its newest checkpoint
	known    bool        // a group without a checkpoint began at iteration 0, with an empty log
	started  bool        // a run was seen
	logs     dataset.JobLogs
	restarts []dataset.JobRestart
}

func (c *costReader) line(line []byte) {
	var kind struct {
		Type      string `json:"type"`
		Iteration int    `json:"iteration"`
	}
	if json.Unmarshal(line, &kind) != nil {
		return
	}
	switch kind.Type {
	case "start":
		// A restart replays logs even where it begins at iteration 0.
		c.begin(kind.Iteration == 0 && !c.started)
		c.started = true
	case "recovery":
		// Ranks that went back log nothing that they replay.
		c.begin(false)
	case "checkpoint":
		c.checkpoint(line)
	case "restarted":
		var ev RestartedEvent
		if json.Unmarshal(line, &ev) == nil && ev.Ranks > 0 {
			c.restarts = append(c.restarts, ev.Restart())
		}
	}
}

func (c *costReader) begin(known bool) {
	clear(c.last)
	c.known = known
}

// checkpoint adds what the ranks of a group logged since the checkpoint before.
func (c *costReader) checkpoint(line []byte) {
	var ev CheckpointEvent
	if json.Unmarshal(line, &ev) != nil || len(ev.Of) == 0 {
		return
	}
	before, ok := c.last[ev.Of[0]]
	c.last[ev.Of[0]] = ev.Iteration
	if !ok && !c.known || ev.Iteration <= before {
		return
	}
	c.logs.Iterations += float64((ev.Iteration-before)*ev.Ranks) / c.np
	c.logs.Bytes += ev.LogBytes
	c.logs.Commits += ev.LogFsyncs
	c.logs.Seconds += ev.LogSeconds
}

// Restart returns the event as a measurement. How long the storage was with other jobs is no
// part of what a restart costs.
func (e *RestartedEvent) Restart() dataset.JobRestart {
	return dataset.JobRestart{Failed: e.Failed, Groups: e.Groups, Ranks: e.Ranks, TotalS: max(0, e.Seconds-e.TurnWait), ReadS: e.Read, LogS: e.Log,
		ReadBytes: e.ReadBytes, LogBytes: e.LogBytes, LostIterations: float64(e.Repeated) / float64(e.Ranks), LostS: e.LostWork, ReplayS: e.Replay}
}
