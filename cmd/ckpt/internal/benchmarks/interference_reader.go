package benchmarks

import (
	"context"
	"errors"
	"io"
	"os/user"
	"time"

	"ckpt/coordinator/turns"
	"ckpt/internal/vfs"
)

// A reader reads a file again and again, as a program does that looks at results while jobs
// write theirs. Each time is a burst of its own.
type reader struct {
	fsys   vfs.FS
	name   string
	size   int64
	client *turns.Client
	buf    []byte
}

const (
	// readerPiece is what the reader's sizes are multiples of.
	readerPiece = 64 << 10
	// readerBuffer is what it reads at a time.
	readerBuffer = 1 << 20
	// readerPause is how long it thinks before it reads a file.
	readerPause = 200 * time.Millisecond
	// readerFiles is how many files it reads at least.
	readerFiles = 5
)

// newReader makes the file.
func newReader(fsys vfs.FS, dir, name string, size int64) (*reader, error) {
	r := &reader{fsys: fsys, name: name, size: size, buf: vfs.Aligned(readerBuffer)}
	who := turns.Who{App: "reader"}
	if u, err := user.Current(); err == nil {
		who.User = u.Username
	}
	f, err := vfs.OS{}.Create(name)
	if err != nil {
		return nil, err
	}
	for off := int64(0); off < size && err == nil; off += readerBuffer {
		_, err = f.WriteAt(r.buf[:min(readerBuffer, size-off)], off)
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	r.client = turns.NewClient(dir, who, turns.ClientOptions{})
	return r, nil
}

// read reads the file once, and returns how long that took, the wait for a turn included.
func (r *reader) read() (took time.Duration, err error) {
	begin := time.Now()
	turn := r.client.Begin(turns.Burst{Kind: turns.Command, File: r.name, Bytes: r.size})
	defer func() {
		turn.End()
		took = time.Since(begin)
	}()
	f, err := openAround(turn.FS(r.fsys), r.name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for off := int64(0); off < r.size; off += readerBuffer {
		if _, err := f.ReadAt(r.buf[:min(readerBuffer, r.size-off)], off); err != nil && err != io.EOF {
			return 0, err
		}
	}
	return 0, nil
}

// openAround opens a file around the page cache if that works, which tmpfs for one does not.
func openAround(fsys vfs.FS, name string) (vfs.File, error) {
	if do, ok := fsys.(vfs.DirectOpener); ok {
		if f, err := do.OpenDirect(name); err == nil {
			return f, nil
		}
	}
	return fsys.Open(name)
}

// A reading is what a reader did while something else was going on.
type reading struct {
	times []float64 // seconds of each file that it began meanwhile
	end   time.Time
	err   error
}

// during reads until busy is closed, and then until it has read readerFiles.
func (r *reader) during(ctx context.Context, busy <-chan struct{}) (found reading) {
	for n := 0; ; n++ {
		select {
		case <-time.After(readerPause):
		case <-ctx.Done():
			found.err = ctx.Err()
			return found
		}
		over := false
		select {
		case <-busy:
			over = true
		default:
		}
		if over && n >= readerFiles {
			return found
		}
		took, err := r.read()
		if err != nil {
			found.err = err
			return found
		}
		found.end = time.Now()
		if !over {
			found.times = append(found.times, took.Seconds())
		}
	}
}

func (r *reader) close() { r.client.Close() }
