package nodes

import (
	"context"
	"path/filepath"

	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// A Writer takes the file of a rank: onto the rank's own node, and to what protects it.
type Writer struct {
	job  *image.Job
	path string
	tee  *Teed
}

// Writer returns one for a rank's file of version number, whose directory Prepare has
// made. All that is written goes to the sinks as well.
func (t *Tier) Writer(ctx context.Context, number, rank int, sinks ...Sink) (*Writer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	j, err := t.look(t.topology.NodeOf[rank])
	if err != nil {
		return nil, err
	}
	path := j.FilePath(RankFile(number, rank))
	return &Writer{job: j, path: path, tee: Tee(j.FS(), path, sinks...)}, nil
}

// Copies returns the sinks that make the copies of a rank's file on its partners, as its
// protection asks for; none if it is protected otherwise or not at all.
func (t *Tier) Copies(number, rank int) ([]Sink, error) {
	var sinks []Sink
	for _, n := range copiesOf(t.setting.Protect, t.topology, rank) {
		j, err := t.look(n)
		if err != nil {
			return nil, err
		}
		sinks = append(sinks, Copy(j.FS(), j.FilePath(RankFile(number, rank))))
	}
	return sinks, nil
}

// FS returns the file system to write the file to.
func (w *Writer) FS() vfs.FS { return w.tee }

// Path returns where the file belongs.
func (w *Writer) Path() string { return w.path }

// Finish waits until the file and what protects it are durable. It comes after the file
// has been written.
func (w *Writer) Finish(ctx context.Context) error {
	if err := w.tee.Wait(ctx); err != nil {
		return err
	}
	dir := filepath.Dir(w.path)
	return durable.Op("sync", dir, -1, w.job.FS().SyncDir(dir))
}

// Abort removes the file, as far as it is there, and ends the sinks that have not ended.
func (w *Writer) Abort() error {
	w.tee.Abort()
	return durable.Remove(w.job.FS(), w.path)
}
