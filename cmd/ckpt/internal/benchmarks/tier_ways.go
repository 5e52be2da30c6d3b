package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// A tierBench compares ways to keep checkpoints on nodes with each other, and with a plain
// store. Ranks are goroutines, and the directories of all nodes are reached from here.
type tierBench struct {
	Ranks  int         `json:"ranks"`
	Nodes  int         `json:"nodes"`
	Bytes  int64       `json:"bytes"` // of a checkpoint
	Rounds int         `json:"bench_rounds"`
	Ways   []*tierWay  `json:"tier_way_list"`
	Ratios []tierRatio `json:"tier_ratio_list"`

	durable.Scratch `json:"-"`
	local           string // directory of each node, with {node} for its number
	store           string // directory on the storage of the store
	progress        func(int64)
	now             func() float64 // seconds since some moment
	topology        nodes.Topology
	job             string
	mem             []byte
	number          int // of the newest version
}

// A tierWay is a way to keep checkpoints, with a time for each round.
type tierWay struct {
	Name    string `json:"way"`
	Bytes   int64  `json:"bytes"`         // of a checkpoint
	Written int64  `json:"written_bytes"` // with what protects it
	// Redundancy is the bytes that protect the checkpoint, by its own bytes.
	Redundancy float64   `json:"redundancy_share"`
	Saves      []float64 `json:"save_times_s"`
	Save       float64   `json:"median_save_s"`
	SaveRate   float64   `json:"save_bytes_per_s"`
	Reads      []float64 `json:"read_times_s"` // of all files, on the node of each
	Read       float64   `json:"median_read_s"`
	ReadRate   float64   `json:"reading_bytes_per_s"`
	// Recovered are the bytes of the files that the lost node had.
	Recovered  int64     `json:"recovered_bytes"`
	Recoveries []float64 `json:"recovery_times_s"`
	Recovery   *float64  `json:"median_recovery_s"` // null if nothing was left

	scheme nodes.Scheme
	each   int64 // bytes of a rank
	twice  bool
	store  bool
}

// The ways that are measured beside the schemes.
const (
	wayLocal = "local"       // on the rank's own node only
	wayTwice = "local twice" // the same, and once again: what a copy costs at least on one disk
	wayHalf  = "local half"  // with half the bytes
	wayStore = "store"
)

// begin places the ranks on nodes in blocks, as a job does, and lists the ways.
func (b *tierBench) begin(each int64, schemes []nodes.Scheme) error {
	if b.Ranks < 1 || b.Nodes < 1 || b.Ranks < b.Nodes || each < zones.PageSize || b.Rounds < 1 {
		return fmt.Errorf("cannot measure %d ranks with %d bytes each on %d nodes in %d rounds", b.Ranks, each, b.Nodes, b.Rounds)
	}
	b.Bytes, b.job = int64(b.Ranks)*each, "bench-"+image.NewID()[:8]
	for r := range b.Ranks {
		b.topology.NodeOf = append(b.topology.NodeOf, r*b.Nodes/b.Ranks)
	}
	b.Ways = []*tierWay{{Name: wayLocal, each: each}}
	for _, s := range schemes {
		if err := s.Fits(b.topology); err != nil {
			return err
		}
		if s.Kind() != nodes.None {
			b.Ways = append(b.Ways, &tierWay{Name: s.String(), scheme: s, each: each})
		}
	}
	b.Ways = append(b.Ways, &tierWay{Name: wayTwice, each: each, twice: true},
		&tierWay{Name: wayHalf, each: zones.PageRound(each / 2)}, &tierWay{Name: wayStore, each: each, store: true})
	for _, w := range b.Ways {
		w.Bytes, w.Recoveries = int64(b.Ranks)*w.each, []float64{}
	}
	return nil
}

// total returns the bytes that progress is told in all.
func (b *tierBench) total() (n int64) {
	for _, w := range b.Ways {
		n += 2 * w.Bytes
	}
	return n * int64(b.Rounds)
}

// run measures. It fails with durable.ErrStorageFull before it writes anything if the space
// does not suffice, and removes all that it wrote.
func (b *tierBench) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, b.Remove()) }()
	for n := range b.Nodes {
		if err := b.Mkdir(b.nodeDir(n)); err != nil {
			return err
		}
	}
	if err := b.Mkdir(b.storeDir()); err != nil {
		return err
	}
	if err := b.space(); err != nil {
		return err
	}
	// Each rank begins at another page, so that ranks differ.
	b.mem = noise(b.Bytes/int64(b.Ranks) + int64(b.Ranks)*zones.PageSize)
	err = inTurns(b.Rounds, len(b.Ways), func(_, i int) error {
		if err := b.round(ctx, b.Ways[i]); err != nil {
			return fmt.Errorf("%s: %w", b.Ways[i].Name, err)
		}
		return nil
	})
	if err == nil {
		b.summarise()
	}
	return err
}

// nodeDir returns the directory of the measurement on a node.
func (b *tierBench) nodeDir(node int) string {
	return filepath.Join((&nodes.Setting{Dir: b.local}).NodeDir(node), "ckpt-"+b.job)
}

func (b *tierBench) storeDir() string { return filepath.Join(b.store, "ckpt-"+b.job) }

// slack is what headers, indexes and directories of a rank's file take.
const slack = 64 << 10

// space checks that each way has space. Directories with as much space free are taken to be
// on one disk.
func (b *tierBench) space() error {
	const unit = 64 << 20 // others write meanwhile
	free := make(map[int64][]string)
	for _, dir := range b.Dirs {
		n, err := b.FS.Free(dir)
		if err != nil {
			return err
		}
		free[n/unit] = append(free[n/unit], dir)
	}
	for n, dirs := range free {
		for _, w := range b.Ways {
			if have, need := n*unit, b.takes(w, dirs); have < need {
				return fmt.Errorf("%w: %s takes %d MiB in %s, where %d MiB are free", durable.ErrStorageFull, w.Name, need>>20, dirs[0], have>>20)
			}
		}
	}
	return nil
}

// takes returns the bytes that a way puts into some directories.
func (b *tierBench) takes(w *tierWay, dirs []string) int64 {
	all := float64(w.each+slack) * float64(b.Ranks)
	stores := 0
	if slices.Contains(dirs, b.storeDir()) {
		stores = 1
	}
	if w.store {
		return int64(all) * int64(stores)
	}
	copies := 1 + float64(w.scheme.Strength())/float64(w.scheme.Nodes()-w.scheme.Strength())
	if w.twice {
		copies = 2
	}
	// A node whose files are recovered has some of them twice for a while.
	return int64(1.1 * copies * all / float64(b.Nodes) * float64(len(dirs)-stores))
}

// A keeper saves a checkpoint in one way, and has it again.
type keeper struct {
	save func() (*image.Manifest, error)
	// reader returns the job that the ranks of a node read.
	reader func(node int) (*image.Job, error)
	// back readies a node that lost its directory, and returns what brings the file of a
	// rank back.
	back func(node int) (func(m *image.Manifest, rank int) error, error)
}

// round saves a checkpoint in one way, reads it, loses a node, brings its files back, and
// removes all.
func (b *tierBench) round(ctx context.Context, w *tierWay) error {
	b.number++
	open := b.onNodes
	if w.store {
		open = b.inStore
	}
	k, err := open(ctx, w)
	if err != nil {
		return err
	}
	begin := b.now()
	m, err := k.save()
	if err != nil {
		return err
	}
	w.Saves = append(w.Saves, b.now()-begin)
	if w.Written, err = b.Size(b.Dirs...); err != nil {
		return err
	}
	begin = b.now()
	err = b.all(func(rank int) error {
		j, err := k.reader(b.topology.NodeOf[rank])
		if err == nil {
			err = j.Check(ctx, m, []string{m.Ranks[rank].File})
		}
		b.progress(m.Files[rank].Bytes)
		return err
	})
	if err != nil {
		return err
	}
	w.Reads = append(w.Reads, b.now()-begin)
	if err := b.lose(w, k, m); err != nil {
		return err
	}
	for _, dir := range b.Dirs {
		err = errors.Join(err, b.Empty(dir))
	}
	return err
}

// lose loses the last node, whose ranks end the sets, and brings their files back.
func (b *tierBench) lose(w *tierWay, k *keeper, m *image.Manifest) error {
	node := b.Nodes - 1
	if !w.store {
		if err := b.Empty(b.nodeDir(node)); err != nil {
			return err
		}
	}
	begin := b.now()
	back, err := k.back(node)
	if err != nil {
		return err
	}
	w.Recovered = 0
	var g errgroup.Group
	for rank, on := range b.topology.NodeOf {
		if on == node {
			w.Recovered += m.Files[rank].Bytes
			g.Go(func() error { return back(m, rank) })
		}
	}
	err = g.Wait()
	if !w.store && w.scheme.Kind() == nodes.None {
		if w.Recovered = 0; err == nil {
			return fmt.Errorf("the files of node %d came back from nowhere", node)
		}
		if errors.Is(err, nodes.ErrNotHere) {
			return nil
		}
	}
	if err == nil {
		w.Recoveries = append(w.Recoveries, b.now()-begin)
	}
	return err
}

// all calls do for all ranks at once.
func (b *tierBench) all(do func(rank int) error) error {
	var g errgroup.Group
	for rank := range b.Ranks {
		g.Go(func() error { return do(rank) })
	}
	return g.Wait()
}

// write writes the file of a rank.
func (b *tierBench) write(ctx context.Context, w *tierWay, fsys vfs.FS, path string, rank int, told func(int64)) (container.File, error) {
	node := b.topology.NodeOf[rank]
	mem := b.mem[rank*zones.PageSize:][:w.each]
	info, err := container.Write(ctx, fsys, path, container.Header{Job: b.job, Number: b.number, Rank: rank, Node: node, Kind: container.KindRank},
		[]zones.Region{{Name: "u", Zone: zones.Data, Elem: zones.Float64, Size: w.each, Mem: mem}}, container.WriteOptions{Progress: told})
	return container.File{Path: nodes.RankFile(b.number, rank), Kind: container.KindRank, Ranks: []int{rank}, Node: node,
		Bytes: info.Bytes, IndexBlake3: info.IndexBlake3}, err
}

// manifest writes the files of all ranks, and describes the checkpoint.
func (b *tierBench) manifest(w *tierWay, write func(rank int) (container.File, error)) (*image.Manifest, error) {
	m := &image.Manifest{Job: b.job, App: "bench", NP: b.Ranks, Number: b.number, Created: time.Now().UTC(),
		Mapping: make([]int, b.Nodes), Files: make([]container.File, b.Ranks)}
	err := b.all(func(rank int) (err error) {
		m.Files[rank], err = write(rank)
		return err
	})
	for rank, f := range m.Files {
		m.Ranks = append(m.Ranks, image.Rank{Rank: rank, Node: f.Node, Zones: zones.Sizes{Data: w.each}, File: f.Path})
		m.Mapping[f.Node]++
		m.Bytes.Data += w.each
	}
	return m, err
}

// inStore keeps checkpoints in a store.
func (b *tierBench) inStore(ctx context.Context, w *tierWay) (*keeper, error) {
	store, err := image.CreateStore(b.FS, b.storeDir())
	if err != nil {
		return nil, err
	}
	j, err := store.CreateJob(b.job, nil)
	if err != nil {
		return nil, err
	}
	k := &keeper{reader: func(int) (*image.Job, error) { return j, nil }}
	k.save = func() (m *image.Manifest, err error) {
		defer func() { err = errors.Join(err, j.Unlock()) }()
		tx, err := j.Begin(b.number)
		if err != nil {
			return nil, err
		}
		defer tx.Abort()
		m, err = b.manifest(w, func(rank int) (container.File, error) {
			return b.write(ctx, w, b.FS, tx.RankPath(rank), rank, b.progress)
		})
		if err == nil {
			err = tx.Commit(ctx, m)
		}
		return m, err
	}
	k.back = func(int) (func(*image.Manifest, int) error, error) {
		return func(m *image.Manifest, rank int) error { return j.Check(ctx, m, []string{m.Ranks[rank].File}) }, nil
	}
	return k, nil
}

// onNodes keeps checkpoints in the directories of the nodes, under the scheme of a way.
func (b *tierBench) onNodes(ctx context.Context, w *tierWay) (*keeper, error) {
	setting := nodes.Setting{Dir: filepath.Join(b.local, "ckpt-"+b.job), Protect: w.scheme, Drain: nodes.Drain{Mode: nodes.DrainNone}}
	list := make([]nodes.Node, b.Nodes)
	for i := range list {
		list[i] = nodes.Node{ID: i, FS: b.FS, Dir: b.nodeDir(i)}
	}
	tier, err := nodes.Open(b.job, nil, setting, b.topology.NodeOf, list)
	if err != nil {
		return nil, err
	}
	return &keeper{
		reader: tier.Job,
		save:   func() (*image.Manifest, error) { return b.saveOnNodes(ctx, tier, w) },
		back: func(node int) (func(*image.Manifest, int) error, error) {
			return func(m *image.Manifest, rank int) error {
				_, err := tier.Recover(ctx, m, rank)
				return err
			}, tier.Ready(node)
		},
	}, nil
}

// saveOnNodes writes a version with what protects it, until it is committed.
func (b *tierBench) saveOnNodes(ctx context.Context, tier *nodes.Tier, w *tierWay) (*image.Manifest, error) {
	for n := range b.Nodes {
		if err := tier.Prepare(n, b.number); err != nil {
			return nil, err
		}
	}
	p, err := b.protect(tier, w.scheme)
	if err != nil {
		p.abort()
		return nil, err
	}
	m, err := b.manifest(w, func(rank int) (container.File, error) {
		f, err := b.writeThrough(ctx, tier, w, p.sinks[rank], rank)
		if err != nil {
			p.abort() // others wait for what this rank contributes
		}
		return f, err
	})
	if err != nil {
		return nil, err
	}
	m.Tier = tier.Describe(nil)
	m.Tier.Parities = p.parities(b.number)
	return m, tier.Commit(ctx, m)
}

// writeThrough writes the file of a rank, and what protects it.
func (b *tierBench) writeThrough(ctx context.Context, tier *nodes.Tier, w *tierWay, sinks []nodes.Sink, rank int) (container.File, error) {
	out, err := tier.Writer(ctx, b.number, rank, sinks...)
	if err != nil {
		return container.File{}, err
	}
	f, err := b.write(ctx, w, out.FS(), out.Path(), rank, b.progress)
	if err == nil {
		err = out.Finish(ctx)
	}
	if err != nil {
		return f, errors.Join(err, out.Abort())
	}
	if w.twice {
		_, err = b.write(ctx, w, b.FS, out.Path()+".again", rank, nil)
	}
	return f, err
}

// A protection keeps the redundancy of one version.
type protection struct {
	sinks    [][]nodes.Sink // of each rank
	sets     []nodes.Set
	coded    []*nodes.Contribution // of the first member of each set
	encoders []*nodes.Encoder
}

// protect makes the sinks of all ranks: copies on partners, or an encoder on each node of
// each set.
func (b *tierBench) protect(tier *nodes.Tier, scheme nodes.Scheme) (*protection, error) {
	p := &protection{sinks: make([][]nodes.Sink, b.Ranks), sets: scheme.Sets(b.topology)}
	for rank := range p.sinks {
		for _, n := range scheme.Partners(b.topology, rank) {
			j, err := tier.Job(n)
			if err != nil {
				return p, err
			}
			p.sinks[rank] = append(p.sinks[rank], nodes.Copy(j.FS(), j.FilePath(nodes.RankFile(b.number, rank))))
		}
	}
	for _, set := range p.sets {
		if err := p.code(b, tier, set); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p *protection) code(b *tierBench, tier *nodes.Tier, set nodes.Set) error {
	encoders := make([]*nodes.Encoder, len(set.Nodes))
	for i, node := range set.Nodes {
		j, err := tier.Job(node)
		if err != nil {
			return err
		}
		id := nodes.ParityID{Job: b.job, Checkpoint: b.number, Set: set, Index: i}
		if encoders[i], err = nodes.NewEncoder(j.FS(), j.FilePath(nodes.ParityFile(b.number, set.ID, i)), id); err != nil {
			return err
		}
		p.encoders = append(p.encoders, encoders[i])
	}
	first := true
	for member, rank := range set.Members {
		if rank < 0 {
			continue
		}
		holders := make(map[int]nodes.Contributor)
		for _, h := range set.Holders() {
			holders[h] = encoders[h].Contributor(member)
		}
		c, err := nodes.Coded(set, member, holders)
		if err != nil {
			return err
		}
		if first {
			p.coded = append(p.coded, c)
		}
		p.sinks[rank], first = []nodes.Sink{c}, false
	}
	return nil
}

// abort ends encoders that wait for a rank that failed.
func (p *protection) abort() {
	for _, e := range p.encoders {
		e.Abort(errors.New("the run ended"))
	}
}

// parities lists the parity files for the manifest.
func (p *protection) parities(number int) (list []image.Parity) {
	for _, c := range p.coded {
		for _, f := range c.Files() {
			list = append(list, image.Parity{Path: nodes.ParityFile(number, f.Set, f.Index), Set: f.Set, Index: f.Index,
				Node: p.sets[f.Set].Nodes[f.Index], Bytes: f.Bytes, Blake3: f.Digest})
		}
	}
	return list
}
