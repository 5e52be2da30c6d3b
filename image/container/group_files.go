package container

import (
	"context"
	"encoding/hex"
	"errors"
	"syscall"

	"ckpt/image/exec"
	"ckpt/image/plan"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/iotrace"
)

// file opens a file, once.
func (w *groupWriter) file(i int) (vfs.File, error) {
	if f, ok := w.files[i]; ok {
		return f, nil
	}
	t := w.opt.Trace.of(w.g.Paths[i])
	start := t.now()
	f, err := vfs.File(nil), errors.ErrUnsupported
	if dw, ok := w.fs.(vfs.DirectWriter); ok && !w.opt.Buffered {
		f, err = dw.OpenWriteDirect(w.g.Paths[i])
	}
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		f, err = w.fs.OpenWrite(w.g.Paths[i])
	}
	if err != nil {
		return nil, durable.Op("open", w.g.Paths[i], -1, err)
	}
	t.opened(false, start)
	w.files[i] = f
	w.order = append(w.order, i)
	return f, nil
}

// close closes all files.
func (w *groupWriter) close() error {
	var errs []error
	for _, i := range w.order {
		t := w.opt.Trace.of(w.g.Paths[i])
		start := t.now()
		errs = append(errs, durable.Op("close", w.g.Paths[i], -1, w.files[i].Close()))
		t.record(iotrace.Close, 0, iotrace.None, 0, start)
	}
	return errors.Join(errs...)
}

// named makes an error of exec one that names the file.
func (w *groupWriter) named(err error) error {
	e, ok := errors.AsType[*exec.Error](err)
	if !ok {
		return durable.Op("write", w.path, -1, err)
	}
	if e.Op == exec.Write || e.Op == exec.Open {
		return durable.Op(string(e.Op), w.g.Paths[e.File], w.ends[e.File]+e.Offset, e.Err)
	}
	return durable.Op(string(e.Op), w.path, -1, err)
}

// displaced is a file whose offsets count from somewhere in it.
type displaced struct {
	vfs.File
	by int64
}

func (d displaced) WriteAt(b []byte, off int64) (int, error) { return d.File.WriteAt(b, off+d.by) }

// turns lets the writers of a wave work one after the other: who waits pulls a
// byte from the one before, who serves it when it is done.
type turns struct {
	network Network
	plan    *plan.Plan
	done    chan struct{}
}

func (t *turns) Wait(ctx context.Context, writer int) error {
	if writer == 0 {
		return nil
	}
	return t.network.Pull(ctx, t.plan.Writers[writer-1].Rank, turnKey, 0, make([]byte, 1))
}

func (t *turns) Done(int) { close(t.done) }

// hexDigest words a digest as manifests do.
func hexDigest(d [32]byte) string { return hex.EncodeToString(d[:]) }
