package container

import (
	"context"
	"fmt"
	"time"

	"ckpt/image/exec"
	"ckpt/image/plan"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/iotrace"
	"ckpt/zones"
)

// A Joint is what the ranks that write shared or aggregated files have agreed on. All
// of them call WriteJoint with the same, but for Rank.
type Joint struct {
	// Settings say who writes what; the layout is Aggregated or Shared.
	Settings plan.Settings
	// Ranks are all ranks and their nodes, in order, without pieces.
	Ranks []plan.Source
	Rank  int // the caller
	// Paths are those of the files, which exist and are empty: JointFiles says how
	// many.
	Paths   []string
	Network Network
	// Buffers, if not nil, keeps the collective buffers for the next checkpoint.
	Buffers *exec.Buffers
}

// A Network connects the ranks of a Joint while they write.
type Network interface {
	// Puller fetches bytes from what the other ranks serve.
	exec.Puller
	// Serve answers the pulls of others from piece, as of the next Exchange. Piece
	// may be called by several goroutines, and may wait.
	Serve(piece func(ctx context.Context, key int) ([]byte, error))
	// Exchange hands over some bytes, and returns when all ranks have: with those
	// of each rank, in the order of Joint.Ranks. They belong to the network.
	Exchange(ctx context.Context, mine []byte) ([][]byte, error)
}

// JointInfo describes what a rank has written together with others.
type JointInfo struct {
	File string // the file that holds the regions of this rank
	// Closed are the files that this rank has completed. Their Zones are empty.
	Closed []FileInfo
	Zones  zones.Sizes // of the regions as the program asked for them
	Rounds int         // how many times the ranks exchanged sizes
	Stats  exec.Stats
	// ManagementTime is what was spent on agreeing, on planning and on indexes,
	// StorageTime the rest.
	ManagementTime, StorageTime time.Duration
}

// JointFiles returns how many files the ranks write. An error is about the
// settings, a *plan.SettingError where one of them is to blame.
func JointFiles(settings plan.Settings, ranks []plan.Source) (int, error) {
	_, files, err := jointSettings(settings, ranks)
	return files, err
}

// jointSettings returns the settings as they take effect.
func jointSettings(settings plan.Settings, ranks []plan.Source) (plan.Settings, int, error) {
	settings.Header = BlockSize
	p, err := plan.New(ranks, settings)
	if err != nil {
		return settings, 0, err
	}
	return p.Settings, len(p.Files), nil
}

// What a rank serves besides its pieces, whose keys count from 0.
const (
	recordsKey = -1 // its part of the index
	turnKey    = -2 // a byte, when it has written its part of the round
)

// WriteJoint writes the regions of a rank, together with all other ranks of j, and
// returns when what this rank has written is durable. The checkpoint is when all ranks
// have returned. The memory of the regions must not change meanwhile.
//
// The files are the caller's to remove after an error. Every rank has to be told
// of the error of another, by its ctx: it waits for it otherwise.
func WriteJoint(ctx context.Context, fsys vfs.FS, j Joint, h Header, regions []zones.Region, opt WriteOptions) (JointInfo, error) {
	h.Rank, h.Node = -1, -1
	w, err := newWriter(fsys, j, h, int32(j.Rank), regions, opt)
	if err != nil {
		return JointInfo{}, durable.Op("write", h.Job, -1, err)
	}
	_, canWriteDirect := fsys.(vfs.DirectWriter)
	w.direct = canWriteDirect && !opt.Buffered
	w.chunks = chunksOfRegions(w.index.extents)
	err = w.together(ctx)
	for _, o := range w.outputs {
		if o == nil {
			continue
		}
		if cerr := o.close(nil); err == nil {
			err = cerr
		}
	}
	if err != nil {
		return JointInfo{}, err
	}
	return w.info, nil
}

// together writes the part of this rank in the files of all.
func (w *writer) together(ctx context.Context) error {
	if err := w.run(ctx); err != nil {
		return err
	}
	tails, digest, err := w.agreeOnIndexes(ctx)
	if err != nil {
		return err
	}
	for i, t := range tails {
		if t != nil {
			if err := w.complete(i, t); err != nil {
				return err
			}
		}
	}
	return w.end(digest)
}

// chunksOfRegions groups extents into chunks that do not cross regions, for each
// region begins at a stripe.
func chunksOfRegions(extents []extentRec) []chunk {
	var chunks []chunk
	for first := 0; first < len(extents); {
		last := first + 1
		for last < len(extents) && extents[last].region == extents[first].region {
			last++
		}
		for _, c := range chunksOfMemory(extents[first:last]) {
			chunks = append(chunks, chunk{c.first + first, c.last + first, c.n})
		}
		first = last
	}
	return chunks
}

// output returns a file, which it opens once.
func (w *writer) output(i int) (*output, error) {
	if w.outputs[i] != nil {
		return w.outputs[i], nil
	}
	o, err := openOutput(w.fs, w.joint.Paths[i], w.opt.Trace.of(w.joint.Paths[i]), w.opt.Buffered)
	if err == nil {
		w.outputs[i] = o
	}
	return o, err
}

// exchange is that of the network, with its result checked.
func (w *writer) exchange(ctx context.Context, mine []byte) ([][]byte, error) {
	t := w.opt.Trace.steps()
	start := t.now()
	all, err := w.joint.Network.Exchange(ctx, mine)
	t.record(iotrace.Barrier, 0, iotrace.None, int64(len(mine)), start)
	if err == nil && len(all) != len(w.joint.Ranks) {
		err = fmt.Errorf("%d of %d ranks have told what they write", len(all), len(w.joint.Ranks))
	}
	return all, durable.Op("write", w.path, -1, err)
}
