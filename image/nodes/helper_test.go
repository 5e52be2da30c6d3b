package nodes

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
	"ckpt/zones"
)

const testJob = "bt.S.4"

var testSpec = []byte("{}\n")

// A world is a small job: its nodes, each with a disk of its own, and its store.
type world struct {
	setting Setting
	nodeOf  []int
	disks   []vfs.FS // of the nodes; nil: cannot be reached
	storage vfs.FS
	tier    *Tier
	store   *image.Job
}

// mapping returns the number of ranks on each node.
func (w *world) mapping() []int {
	list := make([]int, len(w.disks))
	for _, n := range w.nodeOf {
		list[n]++
	}
	return list
}

func scheme(t testing.TB, text string) Scheme {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newWorld returns a job with so many nodes and ranks on each.
func newWorld(t testing.TB, protection string, nodes, ranks int) *world {
	t.Helper()
	w := &world{setting: Setting{Dir: "/nvme/{node}", Protect: scheme(t, protection), Drain: Drain{Mode: DrainBehind}}, storage: memfs.New()}
	for n := range nodes {
		w.disks = append(w.disks, memfs.New())
		for range ranks {
			w.nodeOf = append(w.nodeOf, n)
		}
	}
	if err := w.createStore(); err != nil {
		t.Fatal(err)
	}
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	return w
}

// createStore makes the job in the store, with its lock.
func (w *world) createStore() error {
	s, err := image.CreateStore(w.storage, "/store")
	if err == nil {
		w.store, err = s.CreateJob(testJob, testSpec)
	}
	return err
}

// open opens the tier, as a new life of the coordinator does.
func (w *world) open() (err error) {
	var nodes []Node
	for n, disk := range w.disks {
		nodes = append(nodes, Node{ID: n, FS: disk, Dir: w.setting.NodeDir(n)})
	}
	w.tier, err = Open(testJob, testSpec, w.setting, w.nodeOf, nodes)
	return err
}

// large is the iteration from which on the files of ranks have several units of a code.
const large = 1 << 20

// memory returns what a rank holds at an iteration. Ranks differ in size.
func memory(iteration, rank int) []zones.Region {
	n := int64(3*zones.PageSize + rank*zones.PageSize + 100)
	if iteration >= large {
		n += 4 * UnitBytes
	}
	mem := vfs.Aligned(int(zones.PageRound(n)))
	_, _ = rand.NewChaCha8([32]byte{byte(iteration), byte(iteration >> 8), byte(rank), 1}).Read(mem[:n])
	return []zones.Region{{Name: "u", Zone: zones.Data, Elem: zones.Float64, Size: n, Mem: mem}}
}

// write has all ranks write version number, taken at an iteration, and returns its
// manifest.
func (w *world) write(ctx context.Context, number, iteration int) (*image.Manifest, error) {
	for n := range w.disks {
		if err := w.tier.Prepare(n, number); err != nil {
			return nil, err
		}
	}
	m := &image.Manifest{Job: testJob, App: testJob, NP: len(w.nodeOf), MPI: "own", Mode: "coordinated", Number: number,
		Iteration: int64(iteration), Created: time.Unix(int64(iteration), 0).UTC(), Mapping: w.mapping(), Tier: w.tier.Describe(nil)}
	if err := w.writeRanks(ctx, m, iteration); err != nil {
		return nil, err
	}
	return m, nil
}

// writeRank writes the file of a rank.
func (w *world) writeRank(ctx context.Context, number, iteration, rank int, sinks []Sink) (container.File, error) {
	copies, err := w.tier.Copies(number, rank)
	if err != nil {
		return container.File{}, err
	}
	out, err := w.tier.Writer(ctx, number, rank, append(sinks, copies...)...)
	if err != nil {
		return container.File{}, err
	}
	node := w.nodeOf[rank]
	h := container.Header{Job: testJob, Number: number, Kind: container.KindRank, Rank: rank, Node: node}
	info, err := container.Write(ctx, out.FS(), out.Path(), h, memory(iteration, rank), container.WriteOptions{Depth: 1, ExtentBytes: 8192})
	if err == nil {
		err = out.Finish(ctx)
	}
	if err != nil {
		_ = out.Abort()
		return container.File{}, err
	}
	return container.File{Path: RankFile(number, rank), Kind: container.KindRank, Ranks: []int{rank}, Node: node,
		Bytes: info.Bytes, IndexBlake3: info.IndexBlake3}, nil
}

// drain copies a version into the store, as the ranks and the coordinator do.
func (w *world) drain(ctx context.Context, m *image.Manifest) error {
	tx, err := w.store.BeginApart(m.Number)
	if err != nil {
		return err
	}
	for _, r := range m.Ranks {
		f, _ := fileOf(m, r.Rank)
		from, err := w.tier.Job(w.nodeOf[r.Rank])
		if err == nil {
			_, err = DrainFile(ctx, from, f, w.store.FS(), tx.RankPath(r.Rank), DrainOptions{})
		}
		if err != nil {
			_ = tx.Abort()
			return err
		}
	}
	again := *m
	return tx.Commit(ctx, &again)
}

// check says whether a job has, for a rank, what was written at an iteration.
func check(ctx context.Context, j *image.Job, m *image.Manifest, rank int) error {
	f, _ := fileOf(m, rank)
	want := memory(int(m.Iteration), rank)
	got := slices.Clone(want)
	got[0].Mem = vfs.Aligned(len(want[0].Mem))
	if err := j.Place().Load(ctx, f, rank, got, container.LoadOptions{}); err != nil {
		return err
	}
	if !bytes.Equal(got[0].Mem, want[0].Mem) {
		return fmt.Errorf("%s does not hold what rank %d had at iteration %d", filepath.Join(j.Dir(), f.Path), rank, m.Iteration)
	}
	return nil
}

// recovered has all ranks recover a version, and says what is wrong with it.
func (w *world) recovered(ctx context.Context, m *image.Manifest) ([]Source, error) {
	var sources []Source
	for rank, node := range w.nodeOf {
		from, err := w.tier.Recover(ctx, m, rank)
		if err != nil {
			return sources, err
		}
		sources = append(sources, from.Source)
		j, err := w.tier.Job(node)
		if err == nil {
			err = check(ctx, j, m, rank)
		}
		if err != nil {
			return sources, err
		}
	}
	return sources, nil
}

// soundOn reports whether a version has all that protects it, as findings say.
func soundOn(list []Finding) bool {
	return !slices.ContainsFunc(list, func(f Finding) bool { return f.Condition != Sound && !f.Restored })
}
