package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/image/mount"
	"ckpt/zones/global"
)

func newMountCommand(g *ui.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "mount STORE DIR",
		Short: "Show a store as files that NumPy and others read",
		Long: `Mount a store on a directory, for reading, until ^C or SIGTERM:

  JOB/latest               a link to the newest checkpoint
  JOB/N/manifest.json      what checkpoint N consists of
  JOB/N/rank-R/NAME.npy    an array of a rank
  JOB/N/global/NAME.npy    an array of all ranks as one, without halos

numpy.load(FILE, mmap_mode='r') maps an array. Reading costs the extents that it
touches, and each byte is checked: a read of damage fails, and a line here names the file
and the offset. New checkpoints appear, and files that are open outlive a prune.
Checkpoints that only nodes have are not shown.

It needs /dev/fuse, and fusermount3 (package fuse3) unless root mounts.`,
		Example: `  ckpt mount ckpt-store /tmp/ckpt &
  python3 -c 'import numpy; print(numpy.load("/tmp/ckpt/heat/latest/global/t.npy", mmap_mode="r").shape)'`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			g.Store = args[0]
			store, err := g.OpenStore()
			if errors.Is(err, image.ErrNoStore) {
				return ui.AsNotFound(ui.WithHint(fmt.Errorf("%s is %w", args[0], image.ErrNoStore), "ckpt launch --store makes one; the first argument is the store, the second the directory"))
			}
			if err != nil {
				return err
			}
			m, err := mount.Browse(store, args[1], mount.BrowseOptions{Log: func(line string) { g.Warn("%s", line) }, Blocks: blocksOf})
			if err != nil {
				return MountHint(err, args[1])
			}
			return ServeMount(g, m, args[0], args[1])
		},
	}
}

// MountHint adds the remedy to an error of a mount on dir.
func MountHint(err error, dir string) error {
	switch {
	case errors.Is(err, mount.ErrNoFUSE):
		return ui.WithHint(err, "load the module fuse, and install fuse3; docs/MOUNT.md tells of ways without them")
	case errors.Is(err, mount.ErrTaken):
		return ui.WithHint(err, "end its ckpt, or fusermount3 -u "+dir)
	case errors.Is(err, mount.ErrHides):
		return ui.AsUsage(ui.WithHint(err, "mkdir a directory beside it"))
	case errors.Is(err, os.ErrNotExist):
		return ui.WithHint(err, "mkdir "+dir)
	}
	return err
}

// mounted tells that a mount is ready.
type mounted struct {
	Store string `json:"store"`
	Dir   string `json:"dir"`
}

// ServeMount says that a mount is ready, and waits until it is over or a signal ends it.
func ServeMount(g *ui.Globals, m *mount.Mount, shown, dir string) error {
	ready := mounted{shown, dir}
	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) { // nohup ignores SIGHUP
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	err := g.Show(ready, func() error { return g.Printf("%s is mounted on %s\n", ready.Store, ready.Dir) })
	if err != nil {
		_, _ = m.Unmount()
		return err
	}
	ctx, over := context.WithCancel(context.Background())
	go func() {
		m.Wait()
		over()
	}()
	select {
	case <-ctx.Done():
		return nil // fusermount3 -u
	case <-signals:
	}
	busy, err := m.Unmount()
	if err != nil {
		return err
	}
	if busy {
		g.Warn("programs have files of %s open: waiting for them, another ^C ends their reads with errors", m.Dir())
	}
	select {
	case <-ctx.Done():
	case <-signals:
	}
	return nil
}

// blocksOf tells which arrays the ranks of a simulated job hold in several blocks, and where.
func blocksOf(j *image.Job, m *image.Manifest) (names []string, held func(name string) ([]global.Held, error)) {
	spec, err := job.ReadSpec(j)
	if err != nil {
		return nil, nil
	}
	r, err := spec.Resolve()
	if err != nil || r.Program != nil || r.Origin != "" {
		return nil, nil
	}
	then := r.OnRanks(m.NP)
	inst, err := then.Evaluate()
	if err != nil {
		return nil, nil
	}
	for _, a := range inst.Arrays {
		if a.Blocks != nil {
			names = append(names, a.Name)
		}
	}
	return names, func(name string) ([]global.Held, error) { return r.BlocksOn(m.NP, name) }
}
