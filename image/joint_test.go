package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"ckpt/image/codec"
	"ckpt/image/container"
	"ckpt/image/exec"
	"ckpt/image/plan"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
	"ckpt/zones"
)

// localNet connects ranks that are goroutines.
type localNet struct {
	mu     sync.Mutex
	cond   sync.Cond
	round  int
	given  int
	shares [][]byte // of the round that is being gathered
	all    [][]byte // of the last one
	serve  []func(context.Context, int) ([]byte, error)
}

func newLocalNet(ranks int) *localNet {
	n := &localNet{shares: make([][]byte, ranks), serve: make([]func(context.Context, int) ([]byte, error), ranks)}
	n.cond.L = &n.mu
	return n
}

// of returns the network as rank sees it.
func (n *localNet) of(rank int, w *writes) container.Network { return &localEnd{n, rank, w} }

type localEnd struct {
	*localNet
	rank   int
	writes *writes // nil: pulls are not recorded
}

func (e *localEnd) Serve(piece func(context.Context, int) ([]byte, error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.serve[e.rank] = piece
}

func (e *localEnd) Exchange(ctx context.Context, mine []byte) ([][]byte, error) {
	defer context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.cond.Broadcast()
	})()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shares[e.rank] = bytes.Clone(mine)
	round := e.round
	if e.given++; e.given == len(e.shares) {
		e.all, e.given, e.shares = e.shares, 0, make([][]byte, len(e.shares))
		e.round++
		e.cond.Broadcast()
	}
	for e.round == round {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e.cond.Wait()
	}
	return e.all, nil
}

func (e *localEnd) Pull(ctx context.Context, from int, ranges []exec.Range) error {
	for _, r := range ranges {
		e.mu.Lock()
		serve := e.serve[from]
		if e.writes != nil && r.Key >= 0 {
			e.writes.pulls = append(e.writes.pulls, pulled{e.rank, from, r.Key, r.Offset, int64(len(r.P))})
		}
		e.mu.Unlock()
		b, err := serve(ctx, r.Key)
		if err == nil && copy(r.P, b[min(r.Offset, int64(len(b))):]) < len(r.P) {
			err = errors.New("piece is too short")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writes records which rank has written, and pulled, which bytes.
type writes struct {
	mu    sync.Mutex
	list  []written
	pulls []pulled
}

type written struct {
	rank   int
	file   string
	off, n int64
}

// of returns fsys as rank uses it.
func (w *writes) of(rank int, fsys vfs.FS) vfs.FS { return &watchedFS{vfs.Through(fsys), w, rank} }

type watchedFS struct {
	vfs.Buffered
	w    *writes
	rank int
}

type watchedFile struct {
	vfs.Plain
	fs   *watchedFS
	name string
}

func (f *watchedFS) Create(name string) (vfs.File, error) {
	in, err := f.FS.Create(name)
	return watchedFile{vfs.Only(in), f, filepath.Base(name)}, err
}

func (f *watchedFS) OpenWrite(name string) (vfs.File, error) {
	in, err := f.FS.OpenWrite(name)
	return watchedFile{vfs.Only(in), f, filepath.Base(name)}, err
}

func (f watchedFile) WriteAt(b []byte, off int64) (int, error) {
	w := f.fs.w
	w.mu.Lock()
	w.list = append(w.list, written{f.fs.rank, f.name, off, int64(len(b))})
	w.mu.Unlock()
	return f.File.WriteAt(b, off)
}

// check checks that every byte of a file was written once at most and, with
// stripes, every stripe by one rank.
func (w *writes) check(stripe int64) error {
	slices.SortFunc(w.list, func(a, b written) int {
		if a.file != b.file {
			return bytes.Compare([]byte(a.file), []byte(b.file))
		}
		return int(a.off - b.off)
	})
	owner := make(map[string]int)
	for i, x := range w.list {
		if i > 0 && w.list[i-1].file == x.file && w.list[i-1].off+w.list[i-1].n > x.off {
			return fmt.Errorf("%+v and %+v overlap", w.list[i-1], x)
		}
		if stripe == 0 {
			continue
		}
		for s := x.off / stripe; s*stripe < x.off+x.n; s++ {
			key := fmt.Sprint(x.file, s)
			if r, ok := owner[key]; ok && r != x.rank {
				return fmt.Errorf("stripe %d of %s was written by ranks %d and %d", s, x.file, r, x.rank)
			}
			owner[key] = x.rank
		}
	}
	return nil
}

// groupJob writes checkpoints of a job of several ranks.
type groupJob struct {
	fs       vfs.FS
	job      *Job
	settings plan.Settings
	ranks    []plan.Source
	codec    codec.Setting
	history  []*container.History // by rank; nil: every checkpoint is complete
	depth    int
	staging  int64 // bytes of each rank; 0 none
	writes   *writes
	trace    *container.Tracing                          // of the transaction
	tune     func(rank int, opt *container.WriteOptions) // nil: nothing more is set
}

func newGroupJob(t interface{ Fatal(...any) }, ranks []plan.Source, s plan.Settings, setting codec.Setting, incremental bool) *groupJob {
	fsys := memfs.New()
	store, err := CreateStore(fsys, "/store")
	if err != nil {
		t.Fatal(err)
	}
	g := &groupJob{fs: fsys, settings: s, ranks: ranks, codec: setting}
	if g.job, err = store.CreateJob(testJob, nil); err != nil {
		t.Fatal(err)
	}
	if incremental {
		for range ranks {
			g.history = append(g.history, container.NewHistory())
		}
	}
	return g
}

// take commits a checkpoint of the memory of all ranks.
func (g *groupJob) take(ctx context.Context, number, base int, memory [][]zones.Region) (*Manifest, error) {
	tx, err := g.job.Begin(number)
	if err != nil {
		return nil, err
	}
	defer tx.Abort()
	tx.Trace = g.trace
	m := testManifest(number)
	m.NP, m.Mapping, m.Library = len(g.ranks), nil, nil
	g.writes = &writes{}
	var infos []container.JointInfo
	if infos, err = g.write(ctx, tx, number, base, memory); err != nil {
		return nil, err
	}
	return m, g.commit(ctx, tx, m, infos)
}

// commit enters what the ranks have written.
func (g *groupJob) commit(ctx context.Context, tx *Tx, m *Manifest, infos []container.JointInfo) error {
	kind := container.KindAggregated
	if g.settings.Layout == plan.Shared {
		kind = container.KindJob
	}
	files := make(map[string]int)
	for _, info := range infos {
		for _, c := range info.Closed {
			files[c.Path] = len(m.Files)
			m.Files = append(m.Files, container.File{Path: container.JobPath(c.Path), Kind: kind, Node: -1, Bytes: c.Bytes, Holes: c.Holes, IndexBlake3: c.IndexBlake3})
		}
	}
	for i, info := range infos {
		f := &m.Files[files[info.File]]
		f.Ranks = append(f.Ranks, i)
		m.Ranks = append(m.Ranks, Rank{Rank: i, Node: g.ranks[i].Node, Zones: info.Zones, File: f.Path})
	}
	return tx.Commit(ctx, m)
}

func (g *groupJob) write(ctx context.Context, tx *Tx, number, base int, memory [][]zones.Region) ([]container.JointInfo, error) {
	n, err := container.JointFiles(g.settings, g.ranks)
	if err != nil {
		return nil, err
	}
	paths, err := tx.CreateJoint(g.settings.Layout, n)
	if err != nil {
		return nil, err
	}
	kind := container.KindAggregated
	if g.settings.Layout == plan.Shared {
		kind = container.KindJob
	}
	net := newLocalNet(len(g.ranks))
	infos := make([]container.JointInfo, len(g.ranks))
	workers, ctx := errgroup.WithContext(ctx)
	for i := range g.ranks {
		opt := container.WriteOptions{Codec: container.NewCodec(g.codec, 0), Base: base, Depth: g.depth}
		if g.history != nil {
			opt.History = g.history[i]
		}
		if g.staging > 0 {
			// As soon as it may, the program changes everything.
			opt.Staging = container.NewStaging(vfs.Aligned(int(g.staging)))
			opt.Captured = func() { scramble(memory[i]) }
		}
		if g.tune != nil {
			g.tune(i, &opt)
		}
		group := container.Joint{Settings: g.settings, Ranks: g.ranks, Rank: i, Paths: paths, Network: net.of(i, g.writes)}
		workers.Go(func() (err error) {
			infos[i], err = container.WriteJoint(ctx, g.writes.of(i, g.fs), group, container.Header{Job: testJob, Number: number, Kind: kind}, memory[i], opt)
			return err
		})
	}
	return infos, workers.Wait()
}

// check checks that checkpoint m holds the memory, zone by zone too.
func (g *groupJob) check(m *Manifest, memory [][]zones.Region) error {
	ctx := context.Background()
	rep, err := g.job.Verify(ctx, m.Number, nil)
	if err != nil || len(rep.Damage) > 0 {
		return fmt.Errorf("verify: %v, %w", rep.Damage, err)
	}
	for i, r := range m.Ranks {
		got := empty(memory[i])
		if err := g.job.Load(ctx, m, r.File, i, got, container.LoadOptions{}); err != nil {
			return err
		}
		if err := sameMemory(r.File, got, memory[i]); err != nil {
			return fmt.Errorf("rank %d: %w", i, err)
		}
		if err := checkExtract(g.job, m, i, memory[i]); err != nil {
			return err
		}
		for _, z := range zones.All() {
			want := slices.DeleteFunc(slices.Clone(memory[i]), func(r zones.Region) bool { return r.Zone != z })
			got := empty(want)
			if err := g.job.Load(ctx, m, r.File, i, got, container.LoadOptions{}); err != nil {
				return err
			}
			if err := sameMemory(r.File, got, want); err != nil {
				return fmt.Errorf("rank %d, %v: %w", i, z, err)
			}
		}
	}
	return nil
}

func scramble(regions []zones.Region) {
	for _, r := range regions {
		for i := range r.Mem {
			r.Mem[i] ^= 0x5a
		}
	}
}

// copyOf returns the same regions with memory of their own.
func copyOf(memory [][]zones.Region) [][]zones.Region {
	out := make([][]zones.Region, len(memory))
	for i, regions := range memory {
		out[i] = empty(regions)
		for k, r := range regions {
			copy(out[i][k].Mem, r.Mem)
		}
	}
	return out
}

func genRanks(t *rapid.T) []plan.Source {
	n := rapid.IntRange(1, 7).Draw(t, "ranks")
	nodes := rapid.IntRange(1, n).Draw(t, "nodes")
	ranks := make([]plan.Source, n)
	for i := range ranks {
		ranks[i] = plan.Source{Rank: i, Node: i * nodes / n}
	}
	return ranks
}

// genGroupSettings draws settings that differ in all but what determines the
// shared file.
func genGroupSettings(t *rapid.T, layout plan.Layout, stripe int64, ranks int) plan.Settings {
	s := plan.Settings{Layout: layout, StripeSize: stripe,
		Strategy:    rapid.SampledFrom([]plan.Strategy{plan.TwoPhase, plan.TwoPhase, plan.Dynamic, plan.Static, plan.Individual}).Draw(t, "strategy"),
		StripeCount: rapid.IntRange(1, 5).Draw(t, "stripe count"),
		P1:          rapid.Bool().Draw(t, "p1"), P2: rapid.Bool().Draw(t, "p2"), P3: rapid.Bool().Draw(t, "p3"), P4: rapid.Bool().Draw(t, "p4"),
		Aggregators: rapid.IntRange(plan.Auto, ranks).Draw(t, "aggregators"),
		Buffer:      stripe + zones.PageSize*rapid.Int64Range(0, 40).Draw(t, "buffer"),
	}
	s.FirstOST = rapid.IntRange(0, s.StripeCount-1).Draw(t, "first ost")
	if s.Layout == plan.Shared && s.Strategy == plan.TwoPhase && s.Aggregators > s.StripeCount {
		if s.P4 {
			s.Aggregators -= s.Aggregators % s.StripeCount
		} else {
			s.Aggregators = s.StripeCount
		}
	}
	return s
}

// change changes some of the memory, as computing does.
func change(t *rapid.T, memory [][]zones.Region) {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed of changes"), 1))
	for _, regions := range memory {
		for _, r := range regions {
			if len(r.Mem) == 0 || rng.IntN(3) == 0 {
				continue
			}
			at := rng.IntN(len(r.Mem))
			b := r.Mem[at:min(len(r.Mem), at+rng.IntN(9000))]
			switch rng.IntN(3) {
			case 0:
				clear(b)
			default:
				for i := range b {
					b[i] = byte(rng.Uint32())
				}
			}
		}
	}
}

// TestGroupAnySettings checks that whatever the settings, a checkpoint restores
// what was there, that every byte is written once and every stripe by one rank,
// and that the shared file without compression is always the same.
func TestGroupAnySettings(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		ranks := genRanks(t)
		layout := rapid.SampledFrom([]plan.Layout{plan.Aggregated, plan.Shared}).Draw(t, "layout")
		stripe := 64 << 10 * rapid.Int64Range(1, 3).Draw(t, "stripe")
		setting := rapid.SampledFrom([]codec.Setting{codec.UseNone, codec.UseNone, codec.UseAuto, codec.UseGzip, codec.UseZstd, codec.UseS2}).Draw(t, "codec")
		incremental := rapid.Bool().Draw(t, "incremental")
		memory := make([][]zones.Region, len(ranks))
		for i := range memory {
			memory[i] = genRegions(t)
		}
		s := genGroupSettings(t, layout, stripe, len(ranks))
		g := newGroupJob(t, ranks, s, setting, incremental)
		g.depth = rapid.IntRange(1, 4).Draw(t, "depth")
		g.staging = zones.PageSize * rapid.SampledFrom([]int64{0, 0, 1, 20, 1000, 10000}).Draw(t, "staging")
		// Another run of the same job, with the usual settings.
		other := newGroupJob(t, ranks, plan.Settings{Layout: layout, StripeSize: stripe, P1: true, P2: true}, setting, incremental)
		for number := range rapid.IntRange(1, 3).Draw(t, "checkpoints") {
			was := copyOf(memory)
			m, err := g.take(ctx, number+1, number, memory)
			if err != nil {
				t.Fatal(err)
			}
			memory = was
			owned := stripe
			if layout != plan.Shared || s.Strategy == plan.Individual {
				owned = 0
			}
			if err := g.writes.check(owned); err != nil {
				t.Fatal(err)
			}
			if err := g.check(m, memory); err != nil {
				t.Fatal(err)
			}
			if setting == codec.UseNone && layout == plan.Shared {
				if _, err := other.take(ctx, number+1, number, memory); err != nil {
					t.Fatal(err)
				}
				name := filepath.Join("/store/jobs", testJob, m.Files[0].Path)
				if !bytes.Equal(fileBytes(t, g.fs, name), fileBytes(t, other.fs, name)) {
					t.Fatalf("checkpoint %d: the shared file depends on the settings", number+1)
				}
			}
			change(t, memory)
		}
	})
}

func fileBytes(t *rapid.T, fsys vfs.FS, name string) []byte {
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, n)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}
