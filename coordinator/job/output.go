package job

import (
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
	"time"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/iotrace"
)

// An OutputEvent is a line that a rank has put out to the world, once.
type OutputEvent struct {
	Type  string `json:"type"` // "output"
	Rank  int    `json:"rank"`
	Index uint64 `json:"index"` // counts from 1 in each rank
	Text  string `json:"text"`
}

// headType marks the line that says whose the file is. Earlier versions wrote no such line.
const headType = "job"

type outputHead struct {
	Type string `json:"type"` // headType
	digestMember
}

// An Output notes lines of output before they are shown. Its first line says whose they are.
// Behind the last line it has spaces: room for the numbers of the last lines when the disk is
// full.
type Output struct {
	fs   vfs.FS
	path string
	head []byte // line that says whose the file is
	end  int64  // of the last line
	size int64
	// named says that the name of the file is durable.
	named bool
	open  bool // the last line has no end
}

// outputReserve is the least room behind the last line.
const outputReserve = 4096

// OpenOutput returns the file of a job and, by rank, the index of its last output. Behind the
// last line may be one that a crash has cut before it was shown. It fails with a
// durable.DamageError if a line is not as it was written.
func OpenOutput(job *image.Job, np int) (last []uint64, o Output, err error) {
	last = make([]uint64, np)
	o = Output{fs: job.FS(), path: filepath.Join(job.Dir(), outputName)}
	d, err := digestOf(job)
	if err != nil {
		return nil, o, err
	}
	o.head = lineOf(outputHead{headType, d})
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
	wrong := int64(-1) // where a line begins that is not as it was written
	var owner digestMember
	take := func(line []byte) bool {
		var ev struct {
			OutputEvent
			digestMember
		}
		ok := json.Unmarshal(line, &ev) == nil && (durable.IsSealedLine(line) || !bytes.Contains(line, []byte(sealMark)))
		if ok && ev.Type == headType {
			owner = ev.digestMember
			return true
		}
		if ok && ev.Rank >= 0 && ev.Rank < np {
			last[ev.Rank] = max(last[ev.Rank], ev.Index)
		}
		return ok
	}
	at, torn := int64(0), false
	o.end, err = durable.ReadLines(io.NewSectionReader(f, 0, o.size), func(line []byte) {
		text := bytes.TrimSuffix(line, []byte("\n"))
		torn = false
		if len(bytes.Trim(text, blanks)) > 0 && !take(text) && wrong < 0 {
			wrong, torn = at, isTorn(line, at)
		}
		at += int64(len(line))
	})
	if err == nil {
		err = o.findCut(f, take)
	}
	if err == nil && wrong >= 0 && !torn {
		err = durable.Damaged(o.path, wrong, "the line is not as it was written")
	}
	if err == nil {
		err = owner.check(job, o.path)
	}
	return last, o, err
}

// sealMark is in lines with a checksum; earlier versions wrote lines without.
const sealMark = `,"crc32c":`

// blanks are what a crash leaves where nothing was written.
const blanks = " \x00"

// isTorn reports whether a crash has kept whole blocks of a last line from the disk: the line had
// not been shown.
func isTorn(line []byte, at int64) bool {
	const block = 512
	for len(line) > 0 {
		n := min(int64(len(line)), block-at%block)
		if len(bytes.Trim(line[:n], blanks)) == 0 {
			return true
		}
		line, at = line[n:], at+n
	}
	return false
}

// findCut looks behind the last line that ends, for one that is whole but for its end.
func (o *Output) findCut(f vfs.File, take func(line []byte) bool) error {
	rest := make([]byte, o.size-o.end)
	if len(rest) == 0 {
		return nil
	}
	if err := durable.ReadAt(f, o.path, rest, o.end); err != nil {
		return err
	}
	rest = bytes.TrimRight(rest, blanks)
	for _, line := range [][]byte{rest, rest[:max(0, len(rest)-1)]} {
		if durable.IsSealedLine(line) && take(line) {
			o.end += int64(len(line))
			o.open = true
			return nil
		}
	}
	return nil
}

func lineOf(ev any) []byte { return append(durable.SealLine(Encode(ev)), '\n') }

// NumbersOf returns lines that only say how far the output of each rank is.
func NumbersOf(lines []*OutputEvent) (b []byte) {
	last := make(map[int]uint64)
	for _, ev := range lines {
		last[ev.Rank] = ev.Index
	}
	for _, rank := range slices.Sorted(maps.Keys(last)) {
		b = append(b, lineOf(OutputEvent{Type: "output", Rank: rank, Index: last[rank]})...)
	}
	return b
}

// Add writes a line behind the last one, durably, and keeps room for more. Noted says that the
// line is there, perhaps in spite of an error.
func (o *Output) Add(ev *OutputEvent) (noted bool, err error) {
	line := lineOf(*ev)
	if o.end == 0 {
		line = slices.Concat(o.head, line)
	}
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

// Put writes lines into the room that there is. If that fails, it takes them away again, since
// the next run does not show lines that are in the file. Lines that stay count as noted.
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

// Cut takes away what a crash has left behind the last line, and ends that line.
func (o *Output) Cut() error {
	rest := spaces(o.size - o.end)
	if o.open {
		rest = append([]byte{'\n'}, rest[:max(0, len(rest)-1)]...)
	}
	if len(rest) == 0 {
		return nil
	}
	_, err := o.write(o.end, rest)
	if err == nil && o.open {
		o.open = false
		o.end++
		o.size = max(o.size, o.end)
	}
	return err
}

// write writes durably. After an error, written says that the bytes may be durable all the same.
func (o *Output) write(at int64, b []byte) (written bool, err error) {
	f, err := o.file()
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

func (o *Output) file() (vfs.File, error) {
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

// TracePath is the trace of a checkpoint: what ranks and coordinator did to write it.
func TracePath(job *image.Job, number int) string {
	return filepath.Join(job.Dir(), "traces", fmt.Sprintf("%04d.trace", number))
}

// RestartTracePath is the trace of the last restart: what the ranks read.
func RestartTracePath(job *image.Job) string {
	return filepath.Join(job.Dir(), "traces", "restart.trace")
}

func DropTrace(job *image.Job, number int) {
	path := TracePath(job, number)
	if durable.Remove(job.FS(), path) == nil {
		_ = job.FS().Remove(filepath.Dir(path)) // if it is empty
	}
}

// A Recording is the trace of one process for one checkpoint, in memory.
type Recording struct {
	buf bytes.Buffer
	rec *iotrace.Recorder
}

func NewRecording(job string) *Recording {
	r := new(Recording)
	// Microseconds, so that all ranks count from whole ones.
	now := time.Now()
	r.rec = iotrace.NewRecorder(&r.buf, iotrace.Meta{Job: job, Source: "ckpt",
		Origin: now.Add(-time.Duration(now.Nanosecond() % 1000)), Tick: time.Microsecond})
	return r
}

func (r *Recording) OfRank(rank, node, number int) *container.Tracing {
	return &container.Tracing{Recorder: r.rec, Rank: r.rec.Rank(container.TraceRank(rank, node)), Checkpoint: number}
}

func (r *Recording) OfCoordinator(number int) *container.Tracing {
	return &container.Tracing{Recorder: r.rec, Rank: r.rec.Rank(iotrace.Rank{Rank: iotrace.None, Node: "coordinator"}), Checkpoint: number}
}

// Waited records that all ranks have waited since then for a slot on the nodes.
func (r *Recording) Waited(job *image.Job, number int, since time.Time) {
	r.OfCoordinator(number).Waited(ManifestPath(job, number), since, time.Now())
}

func (r *Recording) End() ([]byte, error) {
	err := r.rec.Close()
	return r.buf.Bytes(), err
}

// WriteTrace merges the recordings of all processes into a trace, TracePath or RestartTracePath.
func WriteTrace(job *image.Job, path string, recordings [][]byte) error {
	var traces []*iotrace.Trace
	for _, b := range recordings {
		if len(b) == 0 {
			continue
		}
		t, _, err := iotrace.Import(bytes.NewReader(b), iotrace.Options{})
		if err != nil {
			return err
		}
		t.Sort()
		traces = append(traces, t)
	}
	all, err := iotrace.Merge(traces...)
	if err != nil {
		return err
	}
	if err := job.FS().Mkdir(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	var out bytes.Buffer
	if err := iotrace.WriteTrace(&out, all); err != nil {
		return err
	}
	return durable.ReplaceUnsynced(job.FS(), path, out.Bytes())
}
