package coordinator

import (
	"errors"
	"os"
	"syscall"

	"ckpt/coordinator/mpi"
	"ckpt/internal/vfs"
)

// placeSegments makes the shared memory of each node, at once in its full size:
// a rank that ran out of it later would die of it.
func (g *group) placeSegments() error {
	if g.spec.Program != nil {
		return nil // its ranks share memory by themselves, or do not
	}
	if g.overNetwork() { // the ranks do, each on its host
		g.segments = make([]string, len(g.spec.Mapping))
		return nil
	}
	_, need, err := g.spec.Memory()
	if err != nil {
		return err
	}
	err = g.makeSegments(mpi.SegmentDir(need))
	if errors.Is(err, syscall.ENOSPC) && mpi.SegmentDir(need) != os.TempDir() {
		// Somebody else was quicker to take what there was.
		g.unlinkSegments()
		err = g.makeSegments(os.TempDir())
	}
	if err != nil {
		g.unlinkSegments()
	}
	return err
}

func (g *group) makeSegments(dir string) error {
	for node, ranks := range g.perNode() {
		if ranks == 0 {
			g.segments = append(g.segments, "")
			continue
		}
		path := g.d.socket.run.Segment(dir, g.id, g.incarnation, node)
		g.segments = append(g.segments, path)
		seg, err := mpi.OpenSegment(path, g.spec.Implementation, ranks)
		if err != nil {
			return err
		}
		if err := seg.Close(); err != nil {
			return err
		}
	}
	return nil
}

// segment is the path of the shared memory of a node, "" for a program.
func (g *group) segment(node int) string {
	if node < len(g.segments) {
		return g.segments[node]
	}
	return ""
}

// unlinkSegments removes the names of the shared memory: once all ranks have
// mapped it, it needs none, and nothing is left behind whoever dies.
func (g *group) unlinkSegments() {
	if !g.overNetwork() {
		for _, path := range g.segments {
			_ = vfs.OS{}.Remove(path)
		}
	}
	g.segments = nil
}
