package container

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"ckpt/image/exec"
	"ckpt/image/plan"
	"ckpt/internal/durable"
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
