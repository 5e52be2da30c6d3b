package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"syscall"

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

// An Output is where lines of output are noted before they are shown. Behind the last
// line it has spaces: room for the numbers of the last lines when the disk is full.
type Output struct {
	fs   vfs.FS
	path string
	end  int64 // of the last line
	size int64
	// named says that the name of the file is durable.
	named bool
}

// outputReserve is the least room behind the last line.
const outputReserve = 4096

// OpenOutput returns the file of a job and, by rank, the index of its last output. Behind
// the last line may be one that was cut by a crash, and had not been put out yet.
func OpenOutput(job *image.Job, np int) (last []uint64, o Output, err error) {
	last = make([]uint64, np)
	o = Output{fs: job.FS(), path: filepath.Join(job.Dir(), outputName)}
	f, err := o.fs.Open(o.path)
	if errors.Is(err, fs.ErrNotExist) {
		return last, o, nil
	}
	if err != nil {
		return nil, o, durable.Op("open", o.path, -1, err)
	}
	defer f.Close()
	if o.size, err = f.Size(); err != nil {
		return nil, o, durable.Op("read", o.path, -1, err)
	}
	o.end, err = durable.ReadLines(io.NewSectionReader(f, 0, o.size), func(line []byte) {
		var ev OutputEvent
		if json.Unmarshal(line, &ev) == nil && ev.Rank >= 0 && ev.Rank < np {
			last[ev.Rank] = max(last[ev.Rank], ev.Index)
		}
	})
	return last, o, err
}

// NumbersOf returns lines that only say how far the output of each rank has come.
func NumbersOf(lines []*OutputEvent) (b []byte) {
	last := make(map[int]uint64)
	for _, ev := range lines {
		last[ev.Rank] = ev.Index
	}
	for _, rank := range slices.Sorted(maps.Keys(last)) {
		b = append(append(b, Encode(OutputEvent{Type: "output", Rank: rank, Index: last[rank]})...), '\n')
	}
	return b
}

// Add writes a line behind the last one, durably, and keeps room for more. It reports
// whether the line is there: that can be so although there is an error.
func (o *Output) Add(line []byte) (noted bool, err error) {
	if err := o.Reserve(len(line)); err != nil {
		return false, err
	}
	return o.Put(line)
}

// Reserve makes room for a line of n bytes, and for the numbers of the last lines.
func (o *Output) Reserve(n int) error {
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

// Put writes lines into the room that there is. If that fails, it takes them away again:
// the next run does not show lines that are in the file. Lines that it cannot take away
// count as noted.
func (o *Output) Put(lines []byte) (noted bool, err error) {
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

// Cut takes away what a crash has left behind the last line.
func (o *Output) Cut() error {
	if o.size == o.end {
		return nil
	}
	_, err := o.write(o.end, spaces(o.size-o.end))
	return err
}

// write writes durably. An error after written leaves open whether the bytes are durable.
// An error of close does not: they have been synced by then.
func (o *Output) write(at int64, b []byte) (written bool, err error) {
	f, err := o.open()
	if err != nil {
		return false, &durable.OpError{Op: "write", Path: o.path, Offset: -1, Err: err}
	}
	defer f.Close()
	if err := durable.WriteAt(f, o.path, b, at); err != nil {
		return false, err
	}
	if err := f.Sync(); err != nil {
		return true, durable.Op("sync", o.path, -1, err)
	}
	return true, nil
}

// open opens the file, and makes its name durable before the first line.
func (o *Output) open() (vfs.File, error) {
	f, err := o.fs.OpenWrite(o.path)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = o.fs.Create(o.path)
	}
	if err != nil || o.named {
		return f, err
	}
	if err := o.fs.SyncDir(filepath.Dir(o.path)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	o.named = true
	return f, nil
}

func spaces(n int64) []byte { return bytes.Repeat([]byte{' '}, int(n)) }

const (
	outputName = "output.jsonl"
)
