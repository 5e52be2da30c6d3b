package rank

import (
	"errors"
	"os"
	"syscall"

	"ckpt/coordinator/launch"
	"ckpt/coordinator/mpi"
	"ckpt/internal/vfs"
)

// A hostDir is what a rank of a job on several hosts has on its own: a directory to run in
// and, if it is the first of its node, the shared memory.
type hostDir struct {
	run *launch.RunDir
	// placed tells the coordinator where the shared memory is.
	placed func(path string)
}

// enterHost makes a directory on this host, which the coordinator may not see, and changes
// to it.
func enterHost(placed func(string)) (*hostDir, error) {
	// The variable may come from the host of the coordinator, and name a directory there.
	if fi, err := os.Stat(os.TempDir()); err != nil || !fi.IsDir() {
		if err := os.Unsetenv("TMPDIR"); err != nil {
			return nil, err
		}
	}
	run, err := launch.NewRunDir(mpi.SegmentDir(0), 1)
	if err != nil {
		return nil, &launch.TempError{Err: err}
	}
	if err := os.Chdir(run.Scratch(0)); err != nil {
		return nil, errors.Join(err, run.Remove())
	}
	return &hostDir{run, placed}, nil
}

// leave removes the directory.
func (h *hostDir) leave() {
	if h != nil {
		_ = h.run.Remove() // the next run on this host sweeps
	}
}

// segment opens the shared memory of the node. On several hosts its first rank makes it.
func (s *state) openSegment(here *hostDir) (*mpi.Segment, error) {
	if here == nil || !s.cfg.Leads {
		return mpi.JoinSegment(s.cfg.Segment, s.spec.Implementation, s.cfg.Sharing)
	}
	dir := mpi.SegmentDir(mpi.SegmentBytes(s.spec.Implementation, s.cfg.Sharing))
	seg, err := here.make(s, dir)
	if errors.Is(err, syscall.ENOSPC) && dir != os.TempDir() {
		seg, err = here.make(s, os.TempDir()) // somebody else was quicker to take what there was
	}
	return seg, err
}

func (h *hostDir) make(s *state, dir string) (*mpi.Segment, error) {
	path := h.run.Segment(dir, s.spec.GroupOf[s.rank], 0, s.node)
	seg, err := mpi.OpenSegment(path, s.spec.Implementation, s.cfg.Sharing)
	if err != nil {
		_ = vfs.OS{}.Remove(path)
		return nil, err
	}
	h.placed(path)
	return seg, nil
}

// guardHost has this process end when the host of the coordinator cannot be reached, before
// the coordinator declares it dead: it might compute on beside the rank that is started in
// its place.
func (r *process) guardHost() error { return r.link.SetPatience(r.cfg.Silence * 3 / 4) }
