package container

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"ckpt/image/exec"
	"ckpt/image/plan"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// A Joint is what the ranks that write files together have agreed on: the same for all, but for
// Rank.
type Joint struct {
	// Settings say who writes what; the layout is Aggregated or Shared.
	Settings plan.Settings
	// Ranks are all ranks and their nodes, in order, without pieces.
	Ranks []plan.Source
	Rank  int // the caller
	// Paths are the files, which exist and are empty; JointFiles says how many.
	Paths   []string
	Network Network
	// Buffers, if not nil, keeps the collective buffers for the next checkpoint.
	Buffers *exec.Buffers
}

// A Network connects the ranks of a Joint while they write.
type Network interface {
	// Puller fetches bytes from what the other ranks serve.
	exec.Puller
	// Serve answers pulls of others from piece, as of the next Exchange. Several goroutines
	// call piece, which may wait.
	Serve(piece func(ctx context.Context, key int) ([]byte, error))
	// Exchange hands over some bytes, and returns the bytes of each rank, in the order of
	// Joint.Ranks, when all have. They belong to the network.
	Exchange(ctx context.Context, mine []byte) ([][]byte, error)
}

// JointInfo describes what a rank has written together with others.
type JointInfo struct {
	File string // the file that holds the regions of this rank
	// Closed are the files that this rank has completed. Their Zones are empty.
	Closed []FileInfo
	Zones  zones.Sizes // of the regions as the program asked for them
	Rounds int         // how many times the ranks exchanged sizes
	// ManagementTime was spent on agreeing, planning and indexes, StorageTime on the rest.
	ManagementTime, StorageTime time.Duration
}

// JointFiles returns how many files the ranks write. It fails with a *plan.SettingError where a
// setting is to blame.
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

// Keys of what a rank serves besides its pieces, whose keys count from 0.
const (
	recordsKey = -1 // its part of the index
	turnKey    = -2 // a byte, when it has written its part of the round
)

// agreeOnIndexes makes the indexes of the files that this rank completes, out of the records of
// the ranks in them, and returns the digest of its own file.
func (w *writer) agreeOnIndexes(ctx context.Context) (tails []*tail, digest [32]byte, err error) {
	begin := time.Now()
	w.index.refer(w.holders)
	records := w.index.records()
	w.joint.Network.Serve(func(_ context.Context, key int) ([]byte, error) {
		if key != recordsKey {
			return nil, fmt.Errorf("there is no piece %d", key)
		}
		return records, nil
	})
	// With its records, each rank tells in which file it is.
	head := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(w.mine)), uint64(len(records)))
	all, err := w.exchange(ctx, head)
	if err != nil {
		return nil, digest, err
	}
	tails = make([]*tail, len(w.closers))
	var told []byte
	for i, closer := range w.closers {
		if closer != w.joint.Rank {
			continue
		}
		if tails[i], err = w.tailOf(ctx, i, all); err != nil {
			return nil, digest, err
		}
		told = binary.AppendUvarint(told, uint64(i))
		told = append(told, tails[i].trailer.digest[:]...)
	}
	// Once all have told, our records are needed no more.
	if all, err = w.exchange(ctx, told); err != nil {
		return nil, digest, err
	}
	digest, err = w.digestOf(all)
	w.indexing += time.Since(begin)
	return tails, digest, err
}

// tailOf fetches the records of the ranks of a file and makes its index.
func (w *writer) tailOf(ctx context.Context, file int, heads [][]byte) (*tail, error) {
	x := index{header: w.index.header}
	refs := make(map[string]uint32)
	for i, head := range heads {
		f, n := binary.Uvarint(head)
		if n <= 0 {
			return nil, w.confused(i)
		}
		length, m := binary.Uvarint(head[n:])
		if m <= 0 || length > maxIndex {
			return nil, w.confused(i)
		}
		if int(f) != file {
			continue
		}
		b := make([]byte, length)
		if i == w.me {
			b = w.index.records()
		} else if err := w.pull(ctx, w.joint.Ranks[i].Rank, exec.Range{Key: recordsKey, P: b}); err != nil {
			return nil, durable.Op("gather", w.joint.Paths[file], -1, err)
		}
		part, err := decodeRecords(b)
		if err != nil {
			return nil, durable.Op("gather", w.joint.Paths[file], -1, fmt.Errorf("records of rank %d: %w", w.joint.Ranks[i].Rank, err))
		}
		x.merge(part, refs)
	}
	if n := x.encodedLen(); n > maxIndex {
		return nil, durable.Op("write", w.joint.Paths[file], -1,
			fmt.Errorf("the index of the ranks in it would be %d bytes long, at most %d are allowed: use more aggregators", n, maxIndex))
	}
	// Records of other ranks are checked before they are written.
	err := x.checkNames()
	if err == nil {
		err = x.checkCover()
	}
	if err == nil {
		err = x.checkPayload(w.ends[file], w.joint.Settings.Layout == plan.Shared)
	}
	if err != nil {
		return nil, durable.Op("write", w.joint.Paths[file], -1, err)
	}
	return x.tail(w.ends[file]), nil
}

func (w *writer) pull(ctx context.Context, from int, r exec.Range) error {
	return w.joint.Network.Pull(ctx, from, []exec.Range{r})
}

// digestOf finds the digest of the file that this rank is in.
func (w *writer) digestOf(all [][]byte) (d [32]byte, err error) {
	for i, b := range all {
		for len(b) > 0 {
			f, n := binary.Uvarint(b)
			if n <= 0 || len(b) < n+len(d) {
				return d, w.confused(i)
			}
			if int(f) == w.mine {
				return [32]byte(b[n:]), nil
			}
			b = b[n+len(d):]
		}
	}
	return d, durable.Op("write", w.joint.Paths[w.mine], -1, fmt.Errorf("rank %d has not completed it", w.closers[w.mine]))
}

// records is what a rank hands to the one that writes the index: its part, after the numbers of
// records.
func (x *index) records() []byte {
	b := binary.AppendUvarint(nil, uint64(len(x.regions)))
	b = binary.AppendUvarint(b, uint64(len(x.files)))
	b = binary.AppendUvarint(b, uint64(len(x.extents)))
	return append(b, x.encode()...)
}

func decodeRecords(b []byte) (*index, error) {
	var counts [3]int64
	for i := range counts {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > maxIndex {
			return nil, errBlock("they end early")
		}
		counts[i], b = int64(v), b[n:]
	}
	if (counts[0]+counts[1])*regionFixed+counts[2]*extentSize > int64(len(b)) {
		return nil, errBlock("they end early")
	}
	d := decoder{b: b}
	x := d.records(counts[0], counts[1], counts[2])
	return x, d.err
}

// merge appends the part of a rank. Refs has the numbers of the files of x.
func (x *index) merge(part *index, refs map[string]uint32) {
	first := uint32(len(x.regions))
	x.regions = append(x.regions, part.regions...)
	number := make([]uint32, len(part.files)+1)
	for i, f := range part.files {
		k, ok := refs[f.path]
		if !ok {
			x.files = append(x.files, f)
			k = uint32(len(x.files))
			refs[f.path] = k
		}
		number[i+1] = k
	}
	for _, e := range part.extents {
		e.region += first
		if int(e.fileRef) < len(number) {
			e.fileRef = number[e.fileRef]
		}
		x.extents = append(x.extents, e)
	}
}

// A JointSource is the file of a rank that goes into files of several.
type JointSource struct {
	Place Place
	File  File // without a path: the rank stores nothing
	// Again says where the file is sound, after an error there. It may be nil, and is asked once.
	Again func(ctx context.Context, err error) (Place, error)
	Base  *Base // nil: what is stored is complete
	// Pace is as in CopyOptions.
	Pace func(ctx context.Context, n int) error
}

// CopyJoint is WriteJoint of the file of a rank, which refers to no other. Its extents are copied
// as they are stored, and checked.
func CopyJoint(ctx context.Context, s JointSource, to vfs.FS, j Joint, h Header) (JointInfo, error) {
	h.Rank, h.Node = -1, -1
	w, err := newWriter(to, j, h, int32(j.Rank), nil, WriteOptions{})
	if err != nil {
		return JointInfo{}, durable.Op("write", h.Job, -1, err)
	}
	in := &jointReader{JointSource: s, ctx: ctx}
	defer in.close()
	w.sumsLater, w.stored = false, in.stored
	if s.File.Path != "" {
		if err := in.fill(w); err != nil {
			return JointInfo{}, err
		}
	}
	return w.shared(ctx)
}

// A jointReader reads the extents of a JointSource, for several goroutines.
type jointReader struct {
	JointSource
	ctx  context.Context
	mu   sync.Mutex
	from []*container // the last one is read
}

func (r *jointReader) close() {
	for _, c := range r.from {
		c.Close()
	}
}

// fill has the writer write what the file has, and the base has not.
func (r *jointReader) fill(w *writer) error {
	c, err := r.Place.complete(r.File)
	if err == nil {
		r.from = append(r.from, c)
	} else if c, err = r.other(nil, err); err != nil {
		return err
	}
	var had *past
	oldest := 0
	if b, known := r.Base, NewHistory(); b != nil && known.Recall(b.Place, b.File, b.Number, w.joint.Rank) == nil {
		had, oldest = known.of(b.Number), b.Oldest
	}
	w.index.regions, w.index.extents = c.index.regions, slices.Clone(c.index.extents)
	w.holders = make([]*poolFile, len(w.index.extents))
	for _, rec := range w.index.regions {
		w.regions = append(w.regions, zones.Region{Name: rec.name, Zone: rec.zone, Elem: rec.elem, Size: rec.size})
		w.info.Zones.Add(rec.zone, rec.size)
	}
	for i, e := range w.index.extents {
		if at, ok := had.same(w.index.regions[e.region], e, oldest); ok && e.codec != codecZero {
			w.refer(i, at)
		}
	}
	return nil
}

// stored reads the stored bytes of an extent.
func (r *jointReader) stored(e *extentRec, b []byte) error {
	if r.Pace != nil {
		if err := r.Pace(r.ctx, len(b)); err != nil {
			return durable.Op("copy", r.File.Path, -1, err)
		}
	}
	r.mu.Lock()
	c := r.from[len(r.from)-1]
	r.mu.Unlock()
	err := c.stored(e, b)
	if err == nil || r.ctx.Err() != nil {
		return err
	}
	if c, err = r.other(c, err); err != nil {
		return err
	}
	return c.stored(e, b)
}

// other returns the file to read after an error of one; another goroutine may have asked for it.
func (r *jointReader) other(was *container, err error) (*container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.from); n > 0 && r.from[n-1] != was {
		return r.from[n-1], nil
	}
	again := r.Again
	if again == nil {
		return nil, err
	}
	r.Again = nil
	place, err := again(r.ctx, err)
	if err != nil {
		return nil, err
	}
	c, err := place.complete(r.File)
	if err != nil {
		return nil, err
	}
	r.from = append(r.from, c)
	return c, nil
}

// A Table connects the ranks of a Joint that one process writes for all of them.
type Table struct {
	mu     sync.Mutex
	ranks  []plan.Source
	round  *tableRound
	pieces map[int]func(context.Context, int) ([]byte, error)
}

// A tableRound is what the ranks tell each other at one time.
type tableRound struct {
	told [][]byte
	left int
	full chan struct{}
}

// NewTable makes a table for ranks in the order of Joint.Ranks.
func NewTable(ranks []plan.Source) *Table {
	t := &Table{ranks: ranks, pieces: make(map[int]func(context.Context, int) ([]byte, error))}
	t.round = t.next()
	return t
}

func (t *Table) next() *tableRound {
	return &tableRound{told: make([][]byte, len(t.ranks)), left: len(t.ranks), full: make(chan struct{})}
}

// Seat returns the network as a rank sees it.
func (t *Table) Seat(rank int) Network { return &seat{t, rank} }

type seat struct {
	*Table
	rank int
}

func (s *seat) Serve(piece func(context.Context, int) ([]byte, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pieces[s.rank] = piece
}

func (s *seat) Exchange(ctx context.Context, mine []byte) ([][]byte, error) {
	s.mu.Lock()
	r := s.round
	r.told[slices.IndexFunc(s.ranks, func(at plan.Source) bool { return at.Rank == s.rank })] = slices.Clone(mine)
	if r.left--; r.left == 0 {
		close(r.full)
		s.round = s.next()
	}
	s.mu.Unlock()
	select {
	case <-r.full:
		return r.told, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *seat) Pull(ctx context.Context, from int, ranges []exec.Range) error {
	s.mu.Lock()
	piece := s.pieces[from]
	s.mu.Unlock()
	for _, r := range ranges {
		b, err := piece(ctx, r.Key)
		if err != nil {
			return err
		}
		if r.Offset > int64(len(b)) || copy(r.P, b[r.Offset:]) < len(r.P) {
			return fmt.Errorf("piece %d of rank %d has %d bytes", r.Key, from, len(b))
		}
	}
	return nil
}
