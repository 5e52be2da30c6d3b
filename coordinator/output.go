package coordinator

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"ckpt/coordinator/protocol"
	"ckpt/image"
)

// An OutputEvent is a line that a rank has put out to the world, once.
type OutputEvent struct {
	Type  string `json:"type"` // "output"
	Rank  int    `json:"rank"`
	Index uint64 `json:"index"` // counts from 1 in each rank
	Text  string `json:"text"`
}

// logState tells the user of a message log that has failed: the rank waits for it,
// and tries again and again.
func (d *driver) logState(m protocol.Message) {
	if m.Text == "" {
		delete(d.logWaits, m.Rank)
		d.out.Warn(fmt.Sprintf("the message log of rank %d is in order again", m.Rank))
		return
	}
	err := bodyError(m.Body, m.Text)
	d.logWaits[m.Rank] = err
	d.out.Warn(fmt.Sprintf("rank %d waits for its message log: %v", m.Rank, err))
	d.stopIfFull(err)
}

// printed returns, by rank, the index of its last output.
func printed(job *image.Job, np int) ([]uint64, error) {
	last := make([]uint64, np)
	f, err := os.Open(filepath.Join(job.Dir(), outputName))
	if errors.Is(err, fs.ErrNotExist) {
		return last, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var ev OutputEvent
		// A line that was cut by a crash had not been put out yet.
		if json.Unmarshal(lines.Bytes(), &ev) == nil && ev.Rank >= 0 && ev.Rank < np {
			last[ev.Rank] = max(last[ev.Rank], ev.Index)
		}
	}
	return last, nil
}

// print puts an output out, having noted that it did.
func (d *driver) print(a protocol.Print) error {
	ev := &OutputEvent{Type: "output", Rank: a.Rank, Index: a.Index, Text: a.Text}
	f, err := os.OpenFile(filepath.Join(d.job.Dir(), outputName), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(encode(ev), '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	d.event(ev)
	return nil
}
