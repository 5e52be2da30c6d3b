package coordinator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/turns"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/vfs"
)

// libraryPath is the file whose content is the library zone, "" for a program, which has
// none.
func (g *group) libraryPath() string {
	if g.spec.Program != nil {
		return ""
	}
	return LibraryFile
}

// findLibrary sees to it that the checkpoint under way has a library zone.
func (g *group) findLibrary(number int) {
	g.reuse, g.storing = nil, nil
	if !g.spec.LibraryOnce || g.spec.Program != nil || g.spec.SavesArrays() {
		return
	}
	if g.reuse = g.libraryFile(); g.reuse != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &libraryWrite{cancel: cancel, done: make(chan struct{})}
	var trace *container.Tracing
	if g.recorded != nil {
		trace = g.recorded.OfCoordinator(number)
	}
	g.storing = w
	g.d.helpers.Go(func() {
		defer close(w.done)
		w.file, w.waited, w.err = g.d.writeLibrary(ctx, number, trace)
	})
}

// dropLibrary ends the writing, if it goes on.
func (g *group) dropLibrary() {
	if g.storing != nil {
		g.storing.cancel()
		<-g.storing.done
		g.storing = nil
	}
}

func (d *driver) writeLibrary(ctx context.Context, number int, trace *container.Tracing) (container.File, time.Duration, error) {
	mem := mpi.NewMemory()
	if err := mem.MapLibrary(job.LibraryRegion, LibraryFile); err != nil {
		return container.File{}, 0, err
	}
	var f container.File
	b := turns.Burst{Kind: turns.Checkpoint, File: job.LibraryRegion, Bytes: d.library.bytes}
	told, err := inTurn(ctx, d.turns.client, d.job.FS(), b, func(through vfs.FS) (err error) {
		f, err = d.job.WriteLibrary(ctx, through, number, mem.Regions(), container.WriteOptions{Codec: container.NewCodec(d.spec.Codec, 0), Trace: trace})
		return err
	})
	return f, told.Waited, errors.Join(err, mem.Close())
}

// addLibrary enters the library zone into a manifest, once it is stored.
func addLibrary(m *image.Manifest, reuse *container.File, w *libraryWrite) error {
	if w != nil {
		<-w.done
		if w.err != nil {
			return w.err
		}
		reuse = &w.file
	}
	if reuse == nil {
		return nil // every rank has its own
	}
	m.Files = append(m.Files, *reuse)
	for i := range m.Ranks {
		m.Ranks[i].Library = reuse.Path
	}
	return nil
}

// waitLibrary is addLibrary, and returns for how long the commit waited because the library
// zone waited for its turn, after the writes of the ranks had theirs.
func waitLibrary(m *image.Manifest, reuse *container.File, w *libraryWrite) (late time.Duration, err error) {
	began := time.Now()
	err = addLibrary(m, reuse, w)
	if w == nil {
		return 0, err
	}
	return min(time.Since(began), max(0, w.waited-seconds(m.TurnWait))), err
}

// libraryFile finds the library zone in an earlier checkpoint of the job. One
// that this run has not written itself is verified before it is relied on.
func (g *group) libraryFile() *container.File {
	numbers, err := g.job.Checkpoints()
	if err != nil {
		return nil
	}
	for _, n := range slices.Backward(numbers) {
		m, err := g.job.Manifest(n)
		if err != nil || m.Library == nil || m.Library.Blake3 != g.library.digest {
			continue
		}
		i := slices.IndexFunc(m.Files, func(f container.File) bool { return f.Kind == container.KindLibrary })
		if i < 0 {
			continue
		}
		f := m.Files[i]
		if g.d.trusted != f.Path {
			if err := g.job.Check(context.Background(), m, []string{f.Path}); err != nil {
				g.d.out.Warn(fmt.Sprintf("the library zone is stored anew: %v", err))
				continue
			}
			g.d.trusted = f.Path
		} else if _, err := os.Stat(filepath.Join(g.job.Dir(), f.Path)); err != nil {
			g.d.out.Warn(fmt.Sprintf("the library zone is stored anew: %v", err))
			continue
		}
		return &f
	}
	return nil
}
