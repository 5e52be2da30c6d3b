package coordinator

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"syscall"

	"ckpt/coordinator/protocol"
	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
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

// An outputFile is where lines of output are noted before they are shown. Behind the last
// line it has spaces: room for the numbers of the last lines when the disk is full.
type outputFile struct {
	fs   vfs.FS
	path string
	end  int64 // of the last line
	size int64
}

// outputReserve is the least room behind the last line.
const outputReserve = 4096

// openOutput returns the file of a job and, by rank, the index of its last output. Behind
// the last line may be one that was cut by a crash, and had not been put out yet.
func openOutput(fsys vfs.FS, job *image.Job, np int) (last []uint64, o outputFile, err error) {
	last = make([]uint64, np)
	o = outputFile{fs: fsys, path: filepath.Join(job.Dir(), outputName)}
	f, err := fsys.Open(o.path)
	if errors.Is(err, fs.ErrNotExist) {
		return last, o, nil
	}
	if err != nil {
		return nil, o, err
	}
	defer f.Close()
	if o.size, err = f.Size(); err != nil {
		return nil, o, err
	}
	o.end, err = readLines(io.NewSectionReader(f, 0, o.size), func(line []byte) {
		var ev OutputEvent
		if json.Unmarshal(line, &ev) == nil && ev.Rank >= 0 && ev.Rank < np {
			last[ev.Rank] = max(last[ev.Rank], ev.Index)
		}
	})
	return last, o, err
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
	for len(d.backlog.lines) > 0 {
		ev := d.backlog.lines[0]
		noted, err := d.output.add(append(encode(ev), '\n'))
		if noted {
			d.backlog.lines = d.backlog.lines[1:]
			d.event(ev)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// endOutput does so a last time. A job that can be continued puts out again what has
// not been noted. A job that has completed shows its lines all the same, and notes their
// numbers in the room kept for that.
func (d *driver) endOutput() error {
	err := d.noteOutput()
	if err == nil || d.outcome.Result != protocol.Completed {
		return d.postpone("lines of output were not noted, and not shown", err)
	}
	what := "are noted by their numbers only"
	if _, serr := d.output.put(numbersOf(d.backlog.lines)); serr != nil {
		what = "are not noted, and a restart shows them again"
	}
	d.out.Warn(fmt.Sprintf("%d lines of output %s: %v", len(d.backlog.lines), what, err))
	for _, ev := range d.backlog.lines {
		d.event(ev)
	}
	d.backlog.lines = nil
	return nil
}

// numbersOf returns lines that only say how far the output of each rank has come.
func numbersOf(lines []*OutputEvent) (b []byte) {
	last := make(map[int]uint64)
	for _, ev := range lines {
		last[ev.Rank] = ev.Index
	}
	for _, rank := range slices.Sorted(maps.Keys(last)) {
		b = append(append(b, encode(OutputEvent{Type: "output", Rank: rank, Index: last[rank]})...), '\n')
	}
	return b
}

// add writes a line behind the last one, durably, and keeps room for more. It reports
// whether the line is there: that can be so although there is an error.
func (o *outputFile) add(line []byte) (noted bool, err error) {
	if err := o.reserve(len(line)); err != nil {
		return false, err
	}
	return o.put(line)
}

// reserve makes room for a line of n bytes, and for the numbers of the last lines.
func (o *outputFile) reserve(n int) error {
	if o.size-o.end >= int64(n)+outputReserve {
		return nil
	}
	size := o.end + int64(n) + 2*outputReserve
	_, err := o.write(o.size, spaces(size-o.size))
	if err == nil {
		o.size = size
	}
	return err
}

// put writes lines into the room that there is. If that fails, it takes them away again:
// the next run does not show lines that are in the file. Lines that it cannot take away
// count as noted.
func (o *outputFile) put(lines []byte) (noted bool, err error) {
	if int64(len(lines)) > o.size-o.end {
		return false, &durable.OpError{Op: "write", Path: o.path, Offset: o.end, Err: syscall.ENOSPC}
	}
	written, err := o.write(o.end, lines)
	if err != nil {
		if removed, _ := o.write(o.end, spaces(int64(len(lines)))); removed || !written {
			return false, err
		}
	}
	o.end += int64(len(lines))
	return true, err
}

// cut takes away what a crash has left behind the last line.
func (o *outputFile) cut() error {
	if o.size == o.end {
		return nil
	}
	_, err := o.write(o.end, spaces(o.size-o.end))
	return err
}

// write writes durably. An error after written leaves open whether the bytes are durable.
// An error of close does not: they have been synced by then.
func (o *outputFile) write(at int64, b []byte) (written bool, err error) {
	f, err := o.open()
	if err != nil {
		return false, &durable.OpError{Op: "write", Path: o.path, Offset: -1, Err: err}
	}
	defer f.Close()
	if _, err := f.WriteAt(b, at); err != nil {
		return false, &durable.OpError{Op: "write", Path: o.path, Offset: -1, Err: err}
	}
	if err := f.Sync(); err != nil {
		return true, &durable.OpError{Op: "sync", Path: o.path, Offset: -1, Err: err}
	}
	return true, nil
}

func (o *outputFile) open() (vfs.File, error) {
	f, err := o.fs.OpenWrite(o.path)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	return o.fs.Create(o.path)
}

func spaces(n int64) []byte { return bytes.Repeat([]byte{' '}, int(n)) }
