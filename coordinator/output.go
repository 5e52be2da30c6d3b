package coordinator

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// printed returns, by rank, the index of its last output, and where the last line of
// the file ends: behind it may be one that was cut by a crash, and had not been put
// out yet.
func printed(job *image.Job, np int) (last []uint64, end int64, err error) {
	last = make([]uint64, np)
	f, err := os.Open(filepath.Join(job.Dir(), outputName))
	if errors.Is(err, fs.ErrNotExist) {
		return last, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	end, err = readLines(f, func(line []byte) {
		var ev OutputEvent
		if json.Unmarshal(line, &ev) == nil && ev.Rank >= 0 && ev.Rank < np {
			last[ev.Rank] = max(last[ev.Rank], ev.Index)
		}
	})
	return last, end, err
}

// readLines passes all lines on that end with a newline, however long they are, and
// returns where the last of them ends.
func readLines(r io.Reader, do func(line []byte)) (end int64, err error) {
	for in := bufio.NewReader(r); ; {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		if err != nil {
			return end, err
		}
		do(line)
		end += int64(len(line))
	}
}

// cutOutput takes away what a crash has left behind the last line. What is written
// next would be part of it.
func cutOutput(job *image.Job, end int64) error {
	path := filepath.Join(job.Dir(), outputName)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.Size() > end {
		err = os.Truncate(path, end)
	}
	return err
}

// print puts an output out, having noted that it did. On a full disk it waits.
func (d *driver) print(a protocol.Print) error {
	d.backlog.lines = append(d.backlog.lines, &OutputEvent{Type: "output", Rank: a.Rank, Index: a.Index, Text: a.Text})
	if len(d.backlog.lines) > 1 {
		return nil // it takes its turn
	}
	return d.postpone("lines of output wait until they can be noted", d.noteOutput())
}

// noteOutput notes what waits for that, and puts it out.
func (d *driver) noteOutput() error {
	path := filepath.Join(d.job.Dir(), outputName)
	for len(d.backlog.lines) > 0 {
		ev := d.backlog.lines[0]
		end, err := appendLine(path, d.backlog.printed, append(encode(ev), '\n'))
		if err != nil {
			return &image.OpError{Op: "write", Path: path, Offset: -1, Err: err}
		}
		d.backlog.printed, d.backlog.lines = end, d.backlog.lines[1:]
		d.event(ev)
	}
	return nil
}

// endOutput does so a last time. A job that can be continued puts out again what has
// not been noted; of one that has completed, it is told all the same.
func (d *driver) endOutput() error {
	err := d.noteOutput()
	if err == nil || d.outcome.Result != protocol.Completed {
		return d.postpone("lines of output were not noted, and not shown", err)
	}
	d.out.Warn(fmt.Sprintf("%d lines of output are not noted, and a restart shows them again: %v", len(d.backlog.lines), err))
	for _, ev := range d.backlog.lines {
		d.event(ev)
	}
	d.backlog.lines = nil
	return nil
}

// appendLine writes a line at end, where the last one ends, durably, and returns
// where it ends itself. What is there already is of an attempt that failed.
func appendLine(path string, end int64, line []byte) (int64, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return end, err
	}
	if err = f.Truncate(end); err == nil {
		_, err = f.WriteAt(line, end)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		_ = f.Truncate(end) // if that fails too, the next attempt does it
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return end, err
	}
	return end + int64(len(line)), nil
}
