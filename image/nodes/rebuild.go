package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// ParityOf returns what the manifest of a version says of a parity file of a set.
func ParityOf(number int, set Set, info ParityInfo) image.Parity {
	return image.Parity{Path: ParityFile(number, info.Set, info.Index), Set: info.Set, Index: info.Index,
		Node: set.Nodes[info.Index], Bytes: info.Bytes, Blake3: info.Digest}
}

// ParityID returns which parity file of a version one is, as its encoder takes it.
func (t *Tier) ParityID(number int, set Set, index int) ParityID {
	return ParityID{Job: t.name, Checkpoint: number, Set: set, Index: index}
}

// Encoder returns what makes a parity file of a version on its node, whose directory
// Prepare has made.
func (t *Tier) Encoder(number int, set Set, index int) (*Encoder, error) {
	j, err := t.look(set.Nodes[index])
	if err != nil {
		return nil, err
	}
	return NewEncoder(j.FS(), j.FilePath(ParityFile(number, set.ID, index)), t.ParityID(number, set, index))
}

// Sets returns the sets of ranks whose files are coded together, of ranks that take
// checkpoints together: all of them for nil.
func (t *Tier) Sets(ranks []int) []Set {
	top := t.topology
	top.Ranks = ranks
	return t.setting.Protect.Sets(top)
}

// setsOf returns those under which a version was written.
func setsOf(m *image.Manifest) []Set {
	s, err := schemeOf(m)
	if err != nil || !s.Coded() {
		return nil
	}
	return s.Sets(topologyOf(m))
}

// A rest is what is left of the files of a set and of their parity.
type rest struct {
	tier   *Tier
	m      *image.Manifest
	set    Set
	data   []vfs.File // of members, by position; nil: lost
	parity []*Parity
	nodes  []int // that something is read from
	passed []error
}

// rebuild makes the file out of what is left of its set.
func (r *recovery) rebuild(ctx context.Context) (bool, error) {
	set, member, ok := SetOf(setsOf(r.m), rankOf(r.m, r.file.Path))
	if !ok {
		return false, nil
	}
	// A look at all of each member takes as long as rebuilding. So it is taken only if
	// the file does not become what it was.
	for _, all := range []bool{false, true} {
		left := &rest{tier: r.tier, m: r.m, set: set}
		err := r.fromRest(ctx, left, member, all)
		left.close()
		if err == nil {
			return r.found(FromParity, left.nodes...)
		}
		if target := (*targetError)(nil); errors.As(err, &target) {
			return false, err
		}
		if all || errors.Is(err, ErrTooMany) {
			for _, err := range append(left.passed, err) {
				r.from.Passed = append(r.from.Passed, fmt.Errorf("set %d: %w", set.ID, err))
			}
			return false, nil
		}
	}
	return false, nil
}

// Rebuilt makes the file of a rank again out of what is left of its set, somewhere else than on a
// node. A reader has to check it.
func (t *Tier) Rebuilt(ctx context.Context, m *image.Manifest, rank int, out io.WriterAt) error {
	set, member, ok := SetOf(setsOf(m), rank)
	if !ok {
		return fmt.Errorf("rank %d of version %d: %w", rank, m.Number, ErrNotHere)
	}
	left := &rest{tier: t, m: m, set: set}
	defer left.close()
	left.open(ctx, member, true)
	_, err := Rebuild(ctx, set, member, left.sources(), out)
	return err
}

// fromRest makes the file out of a rest, and checks it.
func (r *recovery) fromRest(ctx context.Context, left *rest, member int, all bool) error {
	left.open(ctx, member, all)
	return r.replace(func(tmp string) error {
		out, err := vfs.CreateAround(r.own.FS(), tmp, false)
		if err != nil {
			return durable.Op("create", tmp, -1, err)
		}
		size, err := Rebuild(ctx, left.set, member, left.sources(), named{out, tmp})
		if err == nil && size != r.file.Bytes {
			err = durable.Damaged(tmp, min(size, r.file.Bytes), "parity is of a file of %d bytes, want %d", size, r.file.Bytes)
		}
		if err == nil {
			err = durable.Op("sync", tmp, -1, out.Sync())
		}
		if cerr := out.Close(); err == nil {
			err = durable.Op("close", tmp, -1, cerr)
		}
		if err == nil {
			again := r.file
			again.Path += durable.TempSuffix
			err = r.own.Place().Same(ctx, again, nil)
		}
		if err != nil {
			_ = durable.Remove(r.own.FS(), tmp) // the first error counts
		}
		return err
	})
}

// named gives errors of writes the name of the file.
type named struct {
	io.WriterAt
	path string
}

func (n named) WriteAt(b []byte, off int64) (int, error) {
	if err := durable.WriteAt(n.WriterAt, n.path, b, off); err != nil {
		return 0, err
	}
	return len(b), nil
}

// open finds what is left of a set but for a member; all says that files of members are
// read before they are believed. Units of parity are checked as they are read.
func (s *rest) open(ctx context.Context, but int, all bool) {
	s.data, s.parity = make([]vfs.File, len(s.set.Members)), make([]*Parity, len(s.set.Members))
	for i, rank := range s.set.Members {
		f, ok := fileOf(s.m, rank)
		if i == but || !ok {
			continue
		}
		if node, file := s.member(ctx, f, all); file != nil {
			s.data[i] = file
			s.nodes = append(s.nodes, node)
		}
	}
	for _, p := range s.m.Tier.Parities {
		if p.Set != s.set.ID || p.Index >= len(s.parity) {
			continue
		}
		if node, parity := s.parityFile(p); parity != nil {
			s.parity[p.Index] = parity
			s.nodes = append(s.nodes, node)
		}
	}
	slices.Sort(s.nodes)
	s.nodes = slices.Compact(s.nodes)
}

// member opens the file of a member, on the first node that has it.
func (s *rest) member(ctx context.Context, f container.File, all bool) (int, vfs.File) {
	for _, node := range s.tier.placesOf(s.m, f.Path) {
		j, err := s.tier.look(node)
		if err != nil {
			s.pass(node, err)
			continue
		}
		if _, err = j.FS().Stat(j.FilePath(f.Path)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if all {
			err = j.Place().Same(ctx, f, nil)
		} else {
			_, err = j.Place().References(f, true)
		}
		var file vfs.File
		if err == nil {
			file, err = j.FS().Open(j.FilePath(f.Path))
		}
		if err == nil {
			return node, file
		}
		s.pass(node, err)
	}
	return 0, nil
}

// parityFile opens a parity file, on the first node that has it.
func (s *rest) parityFile(p image.Parity) (int, *Parity) {
	for _, node := range s.tier.placesOf(s.m, p.Path) {
		j, err := s.tier.look(node)
		if err != nil {
			continue // it has been noted
		}
		name := j.FilePath(p.Path)
		if _, err = j.FS().Stat(name); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		parity, err := openParity(j.FS(), name, p)
		if err == nil {
			return node, parity
		}
		s.pass(node, err)
	}
	return 0, nil
}

// openParity opens a parity file and checks that it is the one that a manifest means.
func openParity(fsys vfs.FS, name string, p image.Parity) (*Parity, error) {
	parity, err := OpenParity(fsys, name)
	if err != nil {
		return nil, err
	}
	if is := parity.Info(); is.Digest != p.Blake3 && p.Blake3 != "" || is.Set != p.Set || is.Index != p.Index {
		parity.Close()
		return nil, durable.Damaged(name, 0, "it is not the parity in the manifest (digest %.8s…, want %.8s…)", is.Digest, p.Blake3)
	}
	return parity, nil
}

func (s *rest) pass(node int, err error) { s.passed = append(s.passed, nodeError(node, err)) }

func (s *rest) sources() Sources {
	return Sources{
		Data: func(member int) io.ReaderAt {
			if s.data[member] == nil {
				return nil
			}
			return s.data[member]
		},
		Parity: func(index int) *Parity { return s.parity[index] },
	}
}

func (s *rest) close() {
	for i := range s.data {
		if s.data[i] != nil {
			s.data[i].Close()
		}
		if s.parity[i] != nil {
			s.parity[i].Close()
		}
	}
}

// recompute makes a parity file again, out of the files of all members.
func (t *Tier) recompute(ctx context.Context, m *image.Manifest, p image.Parity) error {
	sets := setsOf(m)
	i := slices.IndexFunc(sets, func(s Set) bool { return s.ID == p.Set })
	if i < 0 || p.Index >= len(sets[i].Members) {
		return fmt.Errorf("the version has no parity %d of set %d", p.Index, p.Set)
	}
	left := &rest{tier: t, m: m, set: sets[i]}
	defer left.close()
	left.open(ctx, -1, true)
	sizes := make([]int64, len(left.set.Members))
	for k, rank := range left.set.Members {
		f, ok := fileOf(m, rank)
		if !ok {
			continue
		}
		if sizes[k] = f.Bytes; left.data[k] == nil {
			return fmt.Errorf("rank %d of set %d has no sound file: %w", rank, p.Set, errors.Join(append(left.passed, ErrNotHere)...))
		}
	}
	j, err := t.place(p.Node)
	if err != nil {
		return err
	}
	return replaceFile(j, p.Path, func(tmp string) error {
		info, err := Recompute(ctx, j.FS(), tmp, t.ParityID(m.Number, left.set, p.Index), sizes, left.sources().Data)
		if err == nil && p.Blake3 != "" && info.Digest != p.Blake3 {
			err = errors.Join(durable.Damaged(tmp, 0, "parity of the files is not the one in the manifest"), durable.Remove(j.FS(), tmp))
		}
		return err
	})
}

// replaceFile has write make a file of a version under another name, and puts it in place,
// durably. Errors of the node that it goes to are targetErrors.
func replaceFile(j *image.Job, path string, write func(tmp string) error) error {
	fsys, name := j.FS(), j.FilePath(path)
	dir, tmp := filepath.Dir(name), name+durable.TempSuffix
	failed := func(op, path string, err error) error { return &targetError{durable.Op(op, path, -1, err)} }
	number, _ := container.PathNumber(path)
	if err := makeDir(j, number); err != nil {
		return failed("create", dir, err)
	}
	if err := durable.Remove(fsys, tmp); err != nil {
		return failed("remove", tmp, err)
	}
	if err := write(tmp); err != nil {
		if op := (*durable.OpError)(nil); errors.As(err, &op) && op.Path == tmp {
			return failed("write", tmp, err)
		}
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return errors.Join(failed("rename", tmp, err), fsys.Remove(tmp))
	}
	if err := fsys.SyncDir(dir); err != nil {
		return failed("sync", dir, err)
	}
	return nil
}
