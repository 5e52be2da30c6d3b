package container

import (
	"context"
	"fmt"
	"slices"
	"time"

	"ckpt/image/exec"
	"ckpt/image/plan"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/iotrace"
	"ckpt/zones"
)

// A Group is what the ranks that write a checkpoint into common files have agreed
// on. All of them call WriteGroup with the same, but for Rank.
type Group struct {
	// Settings say who writes what; the layout is Aggregated or Shared.
	Settings plan.Settings
	// Ranks are all ranks and their nodes, in order, without pieces.
	Ranks []plan.Source
	Rank  int // the caller
	// Paths are those of the files, which exist and are empty: GroupFiles says how
	// many.
	Paths   []string
	Network Network
	// Buffers, if not nil, keeps the collective buffers for the next checkpoint.
	Buffers *exec.Buffers
}

// A Network connects the ranks of a Group while they write.
type Network interface {
	// Puller fetches bytes from what the other ranks serve.
	exec.Puller
	// Serve answers the pulls of others from piece, as of the next Exchange. Piece
	// may be called by several goroutines, and may wait.
	Serve(piece func(ctx context.Context, key int) ([]byte, error))
	// Exchange hands over some bytes, and returns when all ranks have: with those
	// of each rank, in the order of Group.Ranks. They belong to the network.
	Exchange(ctx context.Context, mine []byte) ([][]byte, error)
}

// GroupInfo describes what a rank has written together with others.
type GroupInfo struct {
	File string // the file that holds the regions of this rank
	// Closed are the files that this rank has completed. Their Zones are empty.
	Closed []FileInfo
	Zones  zones.Sizes // of the regions as the program asked for them
	Waves  int         // how many times the ranks exchanged sizes
	Stats  exec.Stats
	// ManagementTime is what was spent on agreeing, on planning and on indexes,
	// StorageTime the rest.
	ManagementTime, StorageTime time.Duration
}

// GroupFiles returns how many files a group writes. An error is about the
// settings, a *plan.SettingError where one of them is to blame.
func GroupFiles(settings plan.Settings, ranks []plan.Source) (int, error) {
	_, files, err := groupSettings(settings, ranks)
	return files, err
}

// groupSettings returns the settings as they take effect.
func groupSettings(settings plan.Settings, ranks []plan.Source) (plan.Settings, int, error) {
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
	turnKey    = -2 // a byte, when it has written its part of the wave
)

// WriteGroup writes the regions of a rank, together with all other ranks of g,
// and returns when what this rank has written is durable. The checkpoint is when
// all ranks have returned. The memory of the regions must not change meanwhile.
//
// The ranks proceed in waves. In each a rank encodes as much as its staging
// memory holds, of g.Settings.Buffer bytes; what is stored as it is needs none,
// so that without a codec there is one wave. The ranks then tell each other their
// sizes, from which each computes the same plan; a prefix sum gives every rank
// its place. What the plan says is carried out by package exec.
//
// The files are the caller's to remove after an error. Every rank has to be told
// of the error of another, by its ctx: it waits for it otherwise.
func WriteGroup(ctx context.Context, fsys vfs.FS, g Group, h Header, regions []zones.Region, opt WriteOptions) (GroupInfo, error) {
	w, err := newGroupWriter(fsys, g, h, regions, opt)
	if err != nil {
		return GroupInfo{}, err
	}
	err = w.run(ctx)
	if cerr := w.close(); err == nil {
		err = cerr
	}
	if err != nil {
		return GroupInfo{}, err
	}
	return w.info, nil
}

// groupWriter carries out the part of one rank.
type groupWriter struct {
	*writer
	g     Group
	fs    vfs.FS
	me    int // position among g.Ranks
	start time.Time
	info  GroupInfo
	waves int

	encoders []*chunkEncoder
	stages   [][]byte // free staging buffers
	staged   [][]byte // those that the wave uses
	most     int      // staging buffers there may be
	next     int      // chunk to encode
	dealt    int      // chunks of the program's memory that were written
	region   int      // the last one of which something was stored; -1 none
	pieces   []groupPiece
	stored   []groupChunk

	ends    []int64 // of the files, as of the waves before
	closers []int   // rank that completes each file
	mine    int     // the file with this rank's regions
	files   map[int]vfs.File
	order   []int // of the files opened
}

// groupPiece is a run of memory that is stored in one place.
type groupPiece struct {
	mem   []byte
	align bool // begins a region
}

// groupChunk is where the stored bytes of a chunk are.
type groupChunk struct {
	chunk
	piece int
	off   int64
}

func newGroupWriter(fsys vfs.FS, g Group, h Header, regions []zones.Region, opt WriteOptions) (*groupWriter, error) {
	fail := func(err error) (*groupWriter, error) { return nil, durable.Op("write", h.Job, -1, err) }
	start := time.Now()
	settings, files, err := groupSettings(g.Settings, g.Ranks)
	if err != nil {
		return fail(err)
	}
	g.Settings = settings
	me := slices.IndexFunc(g.Ranks, func(s plan.Source) bool { return s.Rank == g.Rank })
	if files != len(g.Paths) || me < 0 {
		return fail(fmt.Errorf("rank %d of %d ranks is to write %d files, the settings make %d", g.Rank, len(g.Ranks), len(g.Paths), files))
	}
	h.Rank, h.Node = -1, -1
	inner, err := newWriter(g.Paths[0], h, regions, opt)
	if err != nil {
		return fail(err)
	}
	for i := range inner.index.regions {
		inner.index.regions[i].rank = int32(g.Rank)
	}
	inner.chunks = chunksOfRegions(inner.index.extents)
	_, canWriteDirect := fsys.(vfs.DirectWriter)
	inner.direct = canWriteDirect && !opt.Buffered
	if g.Buffers == nil {
		g.Buffers = new(exec.Buffers)
	}
	w := &groupWriter{writer: inner, g: g, fs: fsys, me: me, start: start, region: -1, ends: make([]int64, files), files: make(map[int]vfs.File)}
	w.most = max(int(g.Settings.Buffer/stageBytes), inner.opt.Depth)
	for worker := range inner.opt.Depth {
		w.encoders = append(w.encoders, &chunkEncoder{w: inner, encoder: opt.Codec.encoder(worker)})
	}
	for _, r := range regions {
		w.info.Zones.Add(r.Zone, r.Size)
	}
	return w, nil
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

func (w *groupWriter) run(ctx context.Context) error {
	w.begin()
	for more := true; more; w.waves++ {
		var err error
		if more, err = w.wave(ctx); err != nil {
			return err
		}
	}
	w.info.Waves = w.waves
	return w.finish(ctx)
}

// exchange is that of the network, with its result checked.
func (w *groupWriter) exchange(ctx context.Context, mine []byte) ([][]byte, error) {
	t := w.opt.Trace.steps()
	start := t.now()
	all, err := w.g.Network.Exchange(ctx, mine)
	t.record(iotrace.Barrier, 0, iotrace.None, int64(len(mine)), start)
	if err == nil && len(all) != len(w.g.Ranks) {
		err = fmt.Errorf("%d of %d ranks have told what they write", len(all), len(w.g.Ranks))
	}
	return all, durable.Op("write", w.path, -1, err)
}
