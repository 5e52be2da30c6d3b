package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
	"ckpt/zones"
)

// A way is one that is measured: a scheme of protection, or the store.
type way struct {
	name   string
	scheme nodes.Scheme
	bytes  int64 // of each rank
	twice  bool
	store  bool

	written   int64
	recovered int64
	lostAll   bool
	save      []float64 // seconds, one for each round
	restore   []float64
	recovery  []float64
}

// round saves a checkpoint in one way, reads it, loses a node, brings the part of that back,
// and removes all.
func (b *bench) round(ctx context.Context, w *way) error {
	b.number++
	if w.store {
		return b.storeRound(ctx, w)
	}
	tier, err := b.tier(w)
	if err != nil {
		return err
	}
	begin := b.o.Now()
	m, err := b.save(ctx, tier, w)
	if err != nil {
		return err
	}
	w.save = append(w.save, b.o.Now()-begin)
	if w.written, err = b.size(b.dirs()...); err != nil {
		return err
	}
	begin = b.o.Now()
	if err := b.each(func(rank int) error { return b.read(ctx, tier, m, rank) }); err != nil {
		return err
	}
	w.restore = append(w.restore, b.o.Now()-begin)
	if err := b.recover(ctx, tier, w, m); err != nil {
		return err
	}
	for n := range b.o.Nodes {
		if err := b.empty(b.nodeDir(n)); err != nil {
			return err
		}
	}
	return nil
}

// tier opens the directories of the nodes for a way.
func (b *bench) tier(w *way) (*nodes.Tier, error) {
	setting := b.setting
	setting.Protect = w.scheme
	setting.Dir = filepath.Join(setting.Dir, "ckpt-"+b.job)
	list := make([]nodes.Node, b.o.Nodes)
	for i := range list {
		list[i] = nodes.Node{ID: i, FS: b.o.FS, Dir: b.nodeDir(i)}
	}
	return nodes.Open(b.job, nil, setting, b.topology.NodeOf, list)
}

// each calls do for all ranks at once.
func (b *bench) each(do func(rank int) error) error {
	var g errgroup.Group
	for rank := range b.o.Ranks {
		g.Go(func() error { return do(rank) })
	}
	return g.Wait()
}

// regions returns the memory of a rank.
func (b *bench) regions(rank int, bytes int64) []zones.Region {
	return []zones.Region{{Name: "u", Zone: zones.Data, Elem: zones.Float64, Size: bytes, Mem: b.memory(rank, bytes)}}
}

func (b *bench) header(rank int) container.Header {
	return container.Header{Job: b.job, Number: b.number, Rank: rank, Node: b.topology.NodeOf[rank], Kind: container.KindRank}
}

// entry returns what the manifest says of the file of a rank.
func entry(path string, rank, node int, info container.FileInfo) container.File {
	return container.File{Path: path, Kind: container.KindRank, Ranks: []int{rank}, Node: node, Bytes: info.Bytes, IndexBlake3: info.IndexBlake3}
}

// manifest returns that of a checkpoint with these files, one for each rank.
func (b *bench) manifest(files []container.File, bytes int64) *image.Manifest {
	m := &image.Manifest{Job: b.job, App: "bench", NP: b.o.Ranks, Number: b.number, Created: time.Now().UTC(), Mapping: make([]int, b.o.Nodes), Files: files}
	for rank, f := range files {
		sizes := zones.Sizes{Data: bytes}
		m.Ranks = append(m.Ranks, image.Rank{Rank: rank, Node: f.Node, Zones: sizes, File: f.Path})
		m.Mapping[f.Node]++
		m.Bytes.Data += bytes
	}
	return m
}

// save writes a version with what protects it, until it is committed.
func (b *bench) save(ctx context.Context, tier *nodes.Tier, w *way) (*image.Manifest, error) {
	for n := range b.o.Nodes {
		if err := tier.Prepare(n, b.number); err != nil {
			return nil, err
		}
	}
	p, err := b.protection(tier, w)
	if err != nil {
		p.abort()
		return nil, err
	}
	files := make([]container.File, b.o.Ranks)
	err = b.each(func(rank int) (err error) {
		if files[rank], err = b.write(ctx, tier, w, p, rank); err != nil {
			p.abort() // others wait for what this rank contributes
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	m := b.manifest(files, w.bytes)
	m.Tier = tier.Describe(nil)
	m.Tier.Parities = p.parities()
	return m, tier.Commit(ctx, m)
}

// write writes the file of a rank.
func (b *bench) write(ctx context.Context, tier *nodes.Tier, w *way, p *protection, rank int) (container.File, error) {
	out, err := tier.Writer(ctx, b.number, rank, p.sinks[rank]...)
	if err != nil {
		return container.File{}, err
	}
	o := container.WriteOptions{Progress: b.o.Progress}
	info, err := container.Write(ctx, out.FS(), out.Path(), b.header(rank), b.regions(rank, w.bytes), o)
	if err == nil {
		err = out.Finish(ctx)
	}
	if err != nil {
		return container.File{}, errors.Join(err, out.Abort())
	}
	if w.twice {
		_, err = container.Write(ctx, b.o.FS, out.Path()+".again", b.header(rank), b.regions(rank, w.bytes), container.WriteOptions{})
	}
	return entry(nodes.RankFile(b.number, rank), rank, b.topology.NodeOf[rank], info), err
}

// read reads and checks the file of a rank on its own node.
func (b *bench) read(ctx context.Context, tier *nodes.Tier, m *image.Manifest, rank int) error {
	j, err := tier.Job(b.topology.NodeOf[rank])
	if err != nil {
		return err
	}
	if err := j.Check(ctx, m, []string{m.Ranks[rank].File}); err != nil {
		return err
	}
	b.o.Progress(m.Files[rank].Bytes)
	return nil
}

// recover loses a node with its directory, and brings the files of its ranks back.
func (b *bench) recover(ctx context.Context, tier *nodes.Tier, w *way, m *image.Manifest) error {
	node := b.lost()
	if err := b.empty(b.nodeDir(node)); err != nil {
		return err
	}
	begin := b.o.Now()
	if err := tier.Ready(node); err != nil {
		return err
	}
	ranks := b.ranksOn(node)
	var g errgroup.Group
	for _, rank := range ranks {
		g.Go(func() error { _, err := tier.Recover(ctx, m, rank); return err })
	}
	err := g.Wait()
	switch {
	case w.scheme.Kind() == nodes.None && errors.Is(err, nodes.ErrNotHere):
		w.lostAll = true
		return nil
	case w.scheme.Kind() == nodes.None && err == nil:
		return fmt.Errorf("the files of node %d came back from nowhere", node)
	case err != nil:
		return err
	}
	w.recovery = append(w.recovery, b.o.Now()-begin)
	w.recovered = 0
	for _, rank := range ranks {
		w.recovered += m.Files[rank].Bytes
	}
	return nil
}

// storeRound is round for the store. After the loss of a node its ranks read their files
// in the store.
func (b *bench) storeRound(ctx context.Context, w *way) error {
	store, err := image.CreateStore(b.o.FS, b.storeDir())
	if err != nil {
		return err
	}
	j, err := store.CreateJob(b.job, nil)
	if err != nil {
		return err
	}
	begin := b.o.Now()
	m, err := b.commit(ctx, j, w)
	err = errors.Join(err, j.Unlock())
	if err != nil {
		return err
	}
	w.save = append(w.save, b.o.Now()-begin)
	if w.written, err = b.size(b.storeDir()); err != nil {
		return err
	}
	begin = b.o.Now()
	if err := b.each(func(rank int) error {
		defer b.o.Progress(m.Files[rank].Bytes)
		return j.Check(ctx, m, []string{m.Ranks[rank].File})
	}); err != nil {
		return err
	}
	w.restore = append(w.restore, b.o.Now()-begin)
	begin = b.o.Now()
	w.recovered = 0
	for _, rank := range b.ranksOn(b.lost()) {
		w.recovered += m.Files[rank].Bytes
	}
	var g errgroup.Group
	for _, rank := range b.ranksOn(b.lost()) {
		g.Go(func() error { return j.Check(ctx, m, []string{m.Ranks[rank].File}) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	w.recovery = append(w.recovery, b.o.Now()-begin)
	return b.empty(b.storeDir())
}

// commit writes a checkpoint into a store.
func (b *bench) commit(ctx context.Context, j *image.Job, w *way) (*image.Manifest, error) {
	tx, err := j.Begin(b.number)
	if err != nil {
		return nil, err
	}
	defer tx.Abort()
	files := make([]container.File, b.o.Ranks)
	err = b.each(func(rank int) error {
		info, err := container.Write(ctx, b.o.FS, tx.RankPath(rank), b.header(rank), b.regions(rank, w.bytes), container.WriteOptions{Progress: b.o.Progress})
		files[rank] = entry(nodes.RankFile(b.number, rank), rank, b.topology.NodeOf[rank], info)
		return err
	})
	if err != nil {
		return nil, err
	}
	m := b.manifest(files, w.bytes)
	return m, tx.Commit(ctx, m)
}

// empty removes what is in a directory.
func (b *bench) empty(dir string) error {
	return errors.Join(durable.RemoveAll(b.o.FS, dir), durable.Mkdir(b.o.FS, dir))
}

// size returns the bytes of all files below some directories.
func (b *bench) size(dirs ...string) (n int64, err error) {
	for _, dir := range dirs {
		entries, err := b.o.FS.ReadDir(dir)
		if err != nil {
			return 0, err
		}
		for _, e := range entries {
			name := filepath.Join(dir, e.Name())
			if e.IsDir() {
				below, err := b.size(name)
				if err != nil {
					return 0, err
				}
				n += below
				continue
			}
			fi, err := b.o.FS.Stat(name)
			if err != nil {
				return 0, err
			}
			n += fi.Size()
		}
	}
	return n, nil
}
