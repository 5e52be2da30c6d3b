package image

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
	"ckpt/zones"
)

const (
	testJob = "bt.S.2"

	extentBytes = 256 << 10 // of one extent, unless an option says otherwise
)

// overheadOf returns the bytes of header, index and trailer of a file.
func overheadOf(t *testing.T, j *Job, f container.File) int64 {
	t.Helper()
	b, err := durable.ReadFile(j.fs, filepath.Join(j.dir, f.Path), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	length := binary.LittleEndian.Uint64(b[len(b)-container.BlockSize+24:])
	return zones.PageRound(int64(length)) + 2*container.BlockSize // without the copy of the index
}

// region makes a region of n bytes whose content follows from seed.
func region(name string, zone zones.Zone, n int64, seed uint64) zones.Region {
	mem := vfs.Aligned(int(zones.PageRound(n)))
	golden := mem[:min(n, 2*zones.PageSize)] // as in the golden files
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(len(name))}).Read(golden)
	noise(mem[len(golden):n], seed<<8|uint64(len(name)))
	return zones.Region{Name: name, Zone: zone, Elem: zones.Float64, Size: n, Mem: mem}
}

// noise fills memory with bytes that follow from seed and do not compress.
func noise(b []byte, seed uint64) {
	rng := rand.NewPCG(seed, 1)
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, rng.Uint64())
	}
	for i := range b {
		b[i] = byte(rng.Uint64())
	}
}

// empty returns regions like those given, without their content.
func empty(regions []zones.Region) []zones.Region {
	out := slices.Clone(regions)
	for i := range out {
		out[i].Mem = vfs.Aligned(len(out[i].Mem))
	}
	return out
}

func sameMemory(path string, got, want []zones.Region) error {
	for i := range want {
		if !bytes.Equal(got[i].Mem, want[i].Mem) {
			return fmt.Errorf("%s: region %q does not hold what was written", path, want[i].Name)
		}
	}
	return nil
}

// rankRegions is the memory of a rank at a checkpoint.
func rankRegions(number, rank int) []zones.Region {
	return []zones.Region{
		region("u", zones.Data, 5000, uint64(number*10+rank)),
		region("rhs", zones.Data, int64(100+rank), uint64(number*10+rank)),
		region("cb", zones.IOBuffer, 0, 0),
	}
}

// deltaRegions is the memory of a rank that changes little: its first region
// never does.
func deltaRegions(number int) []zones.Region {
	return []zones.Region{
		region("fixed", zones.Data, 2*zones.PageSize, 1),
		region("moving", zones.Data, 10, uint64(number)),
	}
}

func sharedRegions(number int) []zones.Region {
	return []zones.Region{region("queues", zones.Shared, 3000, uint64(number))}
}

func libraryRegions() []zones.Region {
	return []zones.Region{region("a.out", zones.Library, 4097, 99)}
}

// wantRegions returns what the container file must hold.
func wantRegions(f container.File) []zones.Region {
	number := f.Number()
	switch {
	case f.Kind == container.KindLibrary:
		return libraryRegions()
	case f.Kind == container.KindShared:
		return sharedRegions(number)
	case f.Ranks[0] == deltaRank:
		return deltaRegions(number)
	}
	return rankRegions(number, f.Ranks[0])
}

// deltaRank is the rank whose later images refer to its first one.
const deltaRank = 1

// A taker takes the checkpoints of the test job: rank 0 with an image each
// time, rank 1 with an image whose unchanged extents lie in that of the
// checkpoint base, the shared segment of node 0 and the library, which is
// stored once.
type taker struct {
	fs      vfs.FS
	job     *Job
	library *container.File
	base    *container.File
}

func (k *taker) take(number int) (*Manifest, error) {
	tx, err := k.job.Begin(number)
	if err != nil {
		return nil, err
	}
	m, err := k.write(tx)
	if err == nil {
		err = tx.Commit(context.Background(), m)
	}
	if err != nil {
		return nil, errors.Join(err, tx.Abort())
	}
	k.keep(m)
	return m, nil
}

func (k *taker) next() (int, error) {
	n, err := k.job.Latest()
	return n + 1, err
}

// forget forgets the files that are no longer there.
func (k *taker) forget() {
	for _, f := range []**container.File{&k.library, &k.base} {
		if *f != nil {
			if _, err := k.fs.Stat(filepath.Join(k.job.dir, (*f).Path)); err != nil {
				*f = nil
			}
		}
	}
}

// keep remembers the files that later checkpoints use.
func (k *taker) keep(m *Manifest) {
	for _, f := range m.Files {
		switch {
		case f.Kind == container.KindLibrary:
			k.library = &f
		case f.Kind == container.KindRank && f.Ranks[0] == deltaRank && k.base == nil:
			k.base = &f
		}
	}
}

func (k *taker) write(tx *Tx) (*Manifest, error) {
	m := testManifest(tx.number)
	one := func(name string, h container.Header, ranks []int, regions []zones.Region) error {
		h.Job, h.Number = testJob, tx.number
		info, err := container.Write(context.Background(), k.fs, name, h, regions, container.WriteOptions{Depth: 1, ExtentBytes: 8192, History: container.NewHistory()})
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(k.job.Dir(), name)
		m.Files = append(m.Files, container.File{Path: rel, Kind: h.Kind, Ranks: ranks, Node: h.Node, Bytes: info.Bytes, IndexBlake3: info.IndexBlake3})
		return nil
	}
	if err := one(tx.RankPath(0), container.Header{Kind: container.KindRank}, []int{0}, rankRegions(tx.number, 0)); err != nil {
		return nil, err
	}
	h := container.Header{Kind: container.KindRank, Rank: deltaRank}
	if k.base == nil {
		if err := one(tx.RankPath(deltaRank), h, []int{deltaRank}, deltaRegions(tx.number)); err != nil {
			return nil, err
		}
	} else {
		h.Job, h.Number = testJob, tx.number
		f, err := writeDelta(k.fs, tx.RankPath(deltaRank), h, deltaRegions(tx.number), k.job)
		if err != nil {
			return nil, err
		}
		m.Files = append(m.Files, f)
	}
	if err := one(tx.SharedPath(0), container.Header{Kind: container.KindShared, Rank: -1}, []int{0, 1}, sharedRegions(tx.number)); err != nil {
		return nil, err
	}
	if k.library != nil {
		m.Files = append(m.Files, *k.library)
	} else if err := one(tx.LibraryPath(), container.Header{Kind: container.KindLibrary, Rank: -1, Node: -1}, []int{0, 1}, libraryRegions()); err != nil {
		return nil, err
	}
	for rank := range 2 {
		m.Ranks = append(m.Ranks, Rank{
			Rank: rank, Zones: zones.Sizes{Library: 4097, Data: 5100, Shared: 3000},
			File: m.Files[rank].Path, Shared: m.Files[2].Path, Library: m.Files[3].Path,
			Coordination: 0.001, Management: 0.002, Storage: 0.25, Pause: 0.253,
		})
		m.Bytes = m.Bytes.Plus(m.Ranks[rank].Zones)
	}
	return m, nil
}

// writeDelta writes an image whose first region, which never changes, lies in a
// file that the latest checkpoint has or refers to.
func writeDelta(fsys vfs.FS, name string, h container.Header, regions []zones.Region, j *Job) (container.File, error) {
	latest, err := j.Latest()
	if err != nil {
		return container.File{}, err
	}
	m, err := j.Manifest(latest)
	if err != nil {
		return container.File{}, err
	}
	history := container.NewHistory()
	if err := j.Recall(history, m, m.Files[deltaRank].Path, rankIn(m.Files[deltaRank])); err != nil {
		return container.File{}, err
	}
	info, err := container.Write(context.Background(), fsys, name, h, regions, container.WriteOptions{Depth: 1, ExtentBytes: 8192, History: history, Base: m.Number})
	if err != nil {
		return container.File{}, err
	}
	rel, _ := filepath.Rel(j.dir, name)
	return container.File{Path: rel, Kind: container.KindRank, Ranks: []int{h.Rank}, Node: h.Node, Bytes: info.Bytes, IndexBlake3: info.IndexBlake3}, nil
}

func testManifest(number int) *Manifest {
	return &Manifest{
		App: "bt.S.2", NP: 2, MPI: "mpich", Mode: "coordinated",
		Iteration: int64(number * 10), Created: time.Date(2026, 1, 2, 3, 4, number, 0, time.UTC),
		Mapping: []int{2},
		Latency: Latency{Coordination: 0.001, Management: 0.002, Storage: 0.25, Total: 0.253},
		Library: &Library{Name: "a.out", Bytes: 4097, Blake3: strings.Repeat("5a", 32)},
		Pause:   0.253,
	}
}

// newJob makes a store with the test job.
func newJob(t testing.TB, fsys vfs.FS, dir string) *taker {
	t.Helper()
	s, err := CreateStore(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.CreateJob(testJob, []byte("{}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return &taker{fs: fsys, job: j}
}

// memJob makes a store with the test job in memory.
func memJob(t testing.TB) *taker {
	t.Helper()
	return newJob(t, memfs.New(), "/store")
}

// checkCheckpoint checks that checkpoint n is what taker took, to the last
// byte.
func checkCheckpoint(j *Job, n int) error {
	ctx := context.Background()
	m, err := j.Manifest(n)
	if err != nil {
		return err
	}
	rep, err := j.Verify(ctx, n, nil)
	if err != nil {
		return err
	}
	if len(rep.Damage) > 0 {
		return fmt.Errorf("checkpoint %d: %v", n, rep.Damage)
	}
	if len(m.Files) != 4 || m.Iteration != int64(n*10) {
		return fmt.Errorf("checkpoint %d: manifest is not the one committed", n)
	}
	for _, f := range m.Files {
		want := wantRegions(f)
		got := empty(want)
		if err := j.Load(ctx, m, f.Path, rankIn(f), got, container.LoadOptions{}); err != nil {
			return err
		}
		if err := sameMemory(f.Path, got, want); err != nil {
			return err
		}
	}
	return nil
}

// rankIn returns a rank whose regions a file holds.
func rankIn(f container.File) int {
	if len(f.Ranks) == 0 {
		return 0
	}
	return f.Ranks[0]
}

// checkNoDebris checks that every file in the numbered directories belongs to a
// committed checkpoint.
func checkNoDebris(j *Job) error {
	used, err := needed(j)
	if err != nil {
		return err
	}
	return walk(j.fs, j.dir, "", func(rel string, dir, isEmpty bool) error {
		switch {
		case rel == specName || rel == lockName || rel == catalogName || dir && !isEmpty || used[rel]:
			return nil
		}
		return fmt.Errorf("debris: %s", rel)
	})
}

// needed lists the files that the committed checkpoints need, from their manifests
// and indexes alone.
func needed(j *Job) (map[string]bool, error) {
	entries, err := j.fs.ReadDir(j.dir)
	if err != nil {
		return nil, err
	}
	files := make(map[string]bool)
	for _, e := range entries {
		n, ok := container.ParseNumber(e.Name())
		if !ok {
			continue
		}
		m, err := j.Manifest(n)
		if errors.Is(err, ErrCheckpointNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		paths, err := j.pathsOf(m)
		if err != nil {
			return nil, err
		}
		for _, p := range append(paths, path.Join(container.FormatNumber(n), manifestName)) {
			files[p] = true
		}
	}
	return files, nil
}

func walk(fsys vfs.FS, root, rel string, visit func(rel string, dir, isEmpty bool) error) error {
	entries, err := fsys.ReadDir(filepath.Join(root, rel))
	if err != nil {
		return err
	}
	for _, e := range entries {
		sub := path.Join(rel, e.Name())
		isEmpty := false
		if e.IsDir() {
			list, err := fsys.ReadDir(filepath.Join(root, sub))
			if err != nil {
				return err
			}
			isEmpty = len(list) == 0
		}
		if err := visit(sub, e.IsDir(), isEmpty); err != nil {
			return err
		}
		if e.IsDir() {
			if err := walk(fsys, root, sub, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// reopen opens the test job as the next coordinator does.
func reopen(fsys vfs.FS, dir string) (*taker, error) {
	s, err := OpenStore(fsys, dir)
	if err != nil {
		return nil, err
	}
	j, err := s.Job(testJob)
	if err != nil {
		return nil, err
	}
	if err := j.Lock(); err != nil {
		return nil, err
	}
	k := &taker{fs: fsys, job: j}
	n, err := j.Latest()
	if err != nil || n == 0 {
		return k, err
	}
	m, err := j.Manifest(n)
	if err != nil {
		return nil, err
	}
	k.keep(m)
	// A delta is no base for another: its own base is.
	k.base = nil
	return k, nil
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
