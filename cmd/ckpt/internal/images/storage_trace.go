package images

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/mount"
	"ckpt/iotrace"
)

// A mountTrace records the requests of a mount as a trace.
type mountTrace struct {
	file     *os.File
	rec      *iotrace.Recorder
	at, node string
	programs mount.Programs
	unsaid   atomic.Int64 // requests of mapped files, whose process the kernel does not say
}

// newMountTrace begins a trace. The file grows while programs work: after a kill -9, ckpt trace
// --lenient reads it up to there.
func newMountTrace(name, dir, at string) (*mountTrace, error) {
	at, err := filepath.Abs(at)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
	if err == nil {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == unix.EWOULDBLOCK {
			err = ui.WithHint(fmt.Errorf("trace %s: another mount writes it", name), "name a trace for each mount")
		} else if err == nil || errors.Is(err, errors.ErrUnsupported) {
			if err = f.Truncate(0); err != nil && errors.Is(err, unix.EINVAL) {
				err = nil // a device or a pipe has no length
			}
		}
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		return nil, ui.OutputError(err)
	}
	node, _ := os.Hostname()
	return &mountTrace{file: f, at: at, node: node,
		rec: iotrace.NewRecorder(f, iotrace.Meta{Job: filepath.Base(dir), Source: "ckpt storage mount"})}, nil
}

// Close ends the trace. The error says that events are lost.
func (t *mountTrace) Close() error {
	if n := t.unsaid.Load(); n > 0 {
		t.rec.Warn(iotrace.Warning{Code: "mapped-files", Text: "writes of mapped files that stand under the process that opened the file", Count: n})
	}
	return errors.Join(t.rec.Close(), t.file.Close())
}

// Done records a request. One that failed has moved nothing, and is left out.
func (t *mountTrace) Done(r *mount.Request, began, ended time.Time) {
	if r.Errno != 0 {
		return
	}
	if moves := r.Op == mount.Read || r.Op == mount.Write; moves && r.Caller.Pid == 0 {
		t.unsaid.Add(1)
	}
	p := t.programs.Of(r)
	rank := p.Rank
	if rank < 0 {
		rank = p.Process
	}
	e := iotrace.Event{Op: traceOps[r.Op], Create: r.Create, Rank: t.rec.Rank(iotrace.Rank{Rank: rank, Node: t.node}), File: t.rec.File(t.path(r.Name)),
		Peer: iotrace.None, Offset: iotrace.None, Bytes: r.Bytes, Start: t.rec.Since(began), End: t.rec.Since(ended)}
	switch r.Op {
	case mount.Read, mount.Write:
		e.Offset = r.Offset
	case mount.Rename:
		t.rec.Renamed(iotrace.Renaming{From: e.File, To: t.rec.File(t.path(r.To)), At: e.End})
	}
	t.rec.Record(e)
}

func (t *mountTrace) path(name string) string { return filepath.Join(t.at, name) }

// traceOps are the operations of requests in a trace.
var traceOps = map[mount.Op]iotrace.Op{mount.Open: iotrace.Open, mount.Read: iotrace.Read, mount.Write: iotrace.Write, mount.Sync: iotrace.Sync,
	mount.Truncate: iotrace.Truncate, mount.Rename: iotrace.Rename, mount.Unlink: iotrace.Unlink, mount.Close: iotrace.Close}

// traced has a mount record its requests, and returns the end of the trace.
func (f *storageMountFlags) traced(o *mount.StorageOptions, dir, at string) (end func(error) error, err error) {
	if f.trace == "" {
		return func(err error) error { return err }, nil
	}
	t, err := newMountTrace(f.trace, dir, at)
	if err != nil {
		return nil, err
	}
	o.Watch = t
	return func(err error) error {
		if lost := t.Close(); lost != nil {
			return errors.Join(err, ui.OutputError(fmt.Errorf("trace %s: %w", f.trace, lost)))
		}
		return err
	}, nil
}
