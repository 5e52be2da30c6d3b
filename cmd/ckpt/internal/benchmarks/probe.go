package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"ckpt/image/plan"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// A probing is probes of a directory in progress. A probe writes as package container does:
// several writers, each with some requests under way, into files of their own or into one that
// all share, around the page cache or through it, and syncs at the end. Further probes create,
// rename, remove and sync small files.
type probing struct {
	time     time.Duration // of all probes together
	maxBytes int64         // in files at a time, and at most half of the free space
	seed     uint64        // of the order of the probes, and of those that are held out
	writers  int           // of further probes, of small files, where these are more than usual
	progress func(share float64)
	now      func() time.Time

	ctx   context.Context
	fs    vfs.FS
	dir   string // of the probes
	data  []byte // that is written
	res   *probed
	files int // names given so far
}

// A probeKind says what a probe does.
type probeKind string

// The kinds of probes.
const (
	probeWrite   probeKind = "write"    // each writer creates or opens a file, writes its requests and syncs
	probeSync    probeKind = "sync"     // each writer rewrites a page of a file and syncs it
	probeCreate  probeKind = "create"   // each writer creates files
	probeRename  probeKind = "rename"   // each writer renames them
	probeRemove  probeKind = "remove"   // each writer removes them
	probeSyncDir probeKind = "sync-dir" // a file is created and its directory synced
)

// A probe is a measurement, and what it found.
type probe struct {
	Kind    probeKind `json:"probe_kind"`
	Writers int       `json:"writers"`
	// Requests counts what one writer does: requests of Request bytes, or files for
	// other kinds than Write.
	Requests int   `json:"requests"`
	Request  int64 `json:"request_bytes"`
	Depth    int   `json:"depth"`    // requests of a writer that are under way
	Shared   bool  `json:"one_file"` // one file for all writers
	Direct   bool  `json:"direct"`   // around the page cache
	HeldOut  bool  `json:"held_out"`
	// Seconds are the times of the rounds, from the beginning to the end of the last
	// writer.
	Seconds []float64 `json:"round_times_s"`
	// Median and Predicted are seconds; Predicted, which the description gives, is 0 if the
	// probe is no write.
	Median    float64 `json:"median_s"`
	Predicted float64 `json:"predicted_s"`
}

// Bytes returns what the probe writes.
func (p *probe) Bytes() int64 { return int64(p.Writers) * int64(p.Requests) * p.Request }

// String names the probe.
func (p *probe) String() string {
	if p.Kind != probeWrite {
		return fmt.Sprintf("%s, %d × %d", p.Kind, p.Writers, p.Requests)
	}
	file, way := "own files", "buffered"
	if p.Shared {
		file = "one file"
	}
	if p.Direct {
		way = "direct"
	}
	return fmt.Sprintf("%d × %d × %d KiB, %s, %s, depth %d", p.Writers, p.Requests, p.Request>>10, file, way, p.Depth)
}

// least is the least space that probes make sense in.
const least = 4 << 20

// run measures a directory. All probes take turns, in an order drawn anew for each round. It
// begins no probe that the time left is too short for, once each was measured, and exceeds
// twice the time only as long as a fit would have too few probes. All files lie in one new
// directory, which it removes. An error that says that the storage is full answers to
// durable.ErrStorageFull.
func (r *probing) run(ctx context.Context, fsys vfs.FS, dir string) (res *probed, err error) {
	r.ctx, r.fs, r.res = ctx, fsys, &probed{Dir: dir, Direct: true}
	if r.time <= 0 || r.maxBytes < least {
		return nil, fmt.Errorf("probes need a time and at least %d bytes, not %v and %d", least, r.time, r.maxBytes)
	}
	free, err := fsys.Free(dir)
	if err != nil {
		return nil, durable.Op("probe", dir, -1, err)
	}
	most := min(r.maxBytes, free/2)
	if most < least {
		return nil, durable.Op("probe", dir, -1, syscall.ENOSPC)
	}
	if err := r.enter(dir); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.leave()) }()
	r.data = noise(min(dataBytes, most))
	if err := r.rounds(most); err != nil {
		return nil, err
	}
	return r.res, nil
}

// dataBytes is the length of the noise that probes write.
const dataBytes = 32 << 20

// noise returns bytes that no storage packs.
func noise(n int64) []byte {
	b := vfs.Aligned(int(n))
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// enter makes the directory of the probes.
func (r *probing) enter(dir string) error {
	for range 100 {
		r.dir = filepath.Join(dir, fmt.Sprintf("ckpt-probe-%08x", rand.Uint32()))
		err := r.fs.Mkdir(r.dir)
		if !errors.Is(err, fs.ErrExist) {
			return durable.Op("make", r.dir, -1, err)
		}
	}
	return durable.Op("make", r.dir, -1, fs.ErrExist)
}

// leave removes the directory with all that is in it.
func (r *probing) leave() error {
	entries, err := r.fs.ReadDir(r.dir)
	if err != nil {
		return durable.Op("list", r.dir, -1, err)
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, r.remove(filepath.Join(r.dir, e.Name())))
	}
	return errors.Join(append(errs, r.remove(r.dir))...)
}

func (r *probing) remove(name string) error {
	if err := r.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return durable.Op("remove", name, -1, err)
	}
	return nil
}

// rounds measures all probes in turns, until the time is over. The first round is
// whole, unless it takes more than twice the time and a fit is possible.
func (r *probing) rounds(most int64) error {
	begin := r.now()
	if err := r.tryDirect(); err != nil {
		return err
	}
	size, err := r.size(most)
	if err != nil {
		return err
	}
	r.res.Probes = probeList(size, most, r.res.Direct, r.writers)
	for i := range r.res.Probes {
		r.res.Most = max(r.res.Most, r.res.Probes[i].Bytes())
	}
	rng := rand.New(rand.NewPCG(r.seed, 17))
	r.holdOut(rng)
	for over := false; !over; {
		for _, i := range rng.Perm(len(r.res.Probes)) {
			p := &r.res.Probes[i]
			spent := r.now().Sub(begin)
			left := r.time - spent
			if over = len(p.Seconds) > 0 && left.Seconds() < medianOf(p.Seconds) || spent > 2*r.time && r.enough(); over {
				break
			}
			if err := r.probe(p); err != nil {
				return err
			}
			if r.progress != nil {
				r.progress(min(1, r.now().Sub(begin).Seconds()/r.time.Seconds()))
			}
		}
		if !over {
			r.res.Rounds++
		}
	}
	r.finish(begin)
	return nil
}

// fewest is how many probes a fit needs.
const fewest = 8

// enough reports whether a fit is possible.
func (r *probing) enough() bool {
	n := 0
	for i := range r.res.Probes {
		if p := &r.res.Probes[i]; r.res.fits(p) && len(p.Seconds) > 0 {
			n++
		}
	}
	return n >= fewest
}

// fits reports whether a fit may use a probe.
func (r *probed) fits(p *probe) bool {
	return p.Kind == probeWrite && p.Direct == r.Direct && !p.HeldOut
}

// finish drops probes that were never measured, and says so.
func (r *probing) finish(begin time.Time) {
	all := len(r.res.Probes)
	r.res.Probes = slices.DeleteFunc(r.res.Probes, func(p probe) bool { return len(p.Seconds) == 0 })
	for i := range r.res.Probes {
		r.res.Probes[i].Median = medianOf(r.res.Probes[i].Seconds)
	}
	r.res.Took = r.now().Sub(begin).Seconds()
	r.res.Unknown = append(r.res.Unknown, unknown(r.res.Most)...)
	if r.writers > r.res.crowd() {
		r.res.Unknown = append(r.res.Unknown, fmt.Sprintf("%d writers: the time or the space was too short", r.writers))
	}
	if n := all - len(r.res.Probes); n > 0 {
		r.res.Unknown = append(r.res.Unknown, fmt.Sprintf("%d of %d probes: the time was too short", n, all))
	}
	if !r.res.Direct {
		r.res.Unknown = append(r.res.Unknown, "direct writes: the file system takes none")
	}
}

// unknown is what no probe of one host can find out.
func unknown(most int64) []string {
	return []string{
		"locks: one client never waits for the lock of another host",
		"the network between hosts, and what other hosts do to the storage meanwhile",
		"the number of servers and targets: the description has one of each",
		fmt.Sprintf("caches of the storage that hold more than %d MiB", most>>20),
	}
}

// holdOut draws the probes that no fit may use: a quarter of those that write.
func (r *probing) holdOut(rng *rand.Rand) {
	var writes []int
	for i := range r.res.Probes {
		if r.res.Probes[i].Kind == probeWrite {
			writes = append(writes, i)
		}
	}
	rng.Shuffle(len(writes), func(i, k int) { writes[i], writes[k] = writes[k], writes[i] })
	for _, i := range writes[:len(writes)/4] {
		r.res.Probes[i].HeldOut = true
	}
}

// depth is how many requests of a writer package container has under way.
const depth = 4

// roundsWanted is how many rounds shall fit into the time, at the rate measured first.
const roundsWanted = 8

// usualWriters is how many writers probes have at most; mostWriters, how many may be asked for.
const usualWriters, mostWriters = 16, 4096

// probeList returns the probes, of which the large write size bytes each, and a crowd of writers
// small files.
func probeList(size, most int64, direct bool, crowd int) []probe {
	const small = 2 << 20
	counts := []int{1, 2, 4, 8, usualWriters}
	if crowd > usualWriters {
		counts = append(counts, crowd)
	}
	ways := []bool{false}
	if direct {
		ways = []bool{true, false}
	}
	var probes []probe
	add := func(p probe, bytes int64) {
		p.Requests = int(max(1, min(bytes, most)/int64(p.Writers)/p.Request))
		if p.Kind = probeWrite; p.Bytes() <= most {
			probes = append(probes, p)
		}
	}
	for _, way := range ways {
		// One request after the other: the latency of a request.
		for _, request := range []int64{plan.PageSize, 64 << 10, 1 << 20} {
			add(probe{Writers: 1, Request: request, Depth: 1, Direct: way}, min(32*request, size))
		}
		for _, writers := range counts {
			for _, shared := range []bool{false, true} {
				if shared && writers == 1 || direct && !way && (shared || writers%3 != 1) {
					continue // where direct writes work, package container makes no others
				}
				p := probe{Writers: writers, Depth: depth, Shared: shared, Direct: way}
				p.Request = 256 << 10
				add(p, max(small, int64(writers)*p.Request))
				if writers > usualWriters {
					continue // no large files
				}
				p.Request = 1 << 20
				add(p, size)
				p.Request = plan.WriteBytes
				add(p, max(size, int64(writers)*p.Request))
			}
		}
	}
	for _, writers := range []int{1, 4, 16} {
		probes = append(probes, probe{Kind: probeSync, Writers: writers, Requests: 2, Request: plan.PageSize, Depth: 1})
	}
	for _, kind := range []probeKind{probeCreate, probeRename, probeRemove} {
		probes = append(probes, probe{Kind: kind, Writers: 1, Requests: 64, Depth: 1}, probe{Kind: kind, Writers: 8, Requests: 16, Depth: 1})
	}
	return append(probes, probe{Kind: probeSyncDir, Writers: 1, Requests: 4, Depth: 1})
}

// tryDirect finds out whether the file system takes direct I/O.
func (r *probing) tryDirect() error {
	w, err := r.open(r.name(), true, true)
	if err == nil {
		_, err = w.WriteAt(r.data[:plan.PageSize], 0)
		err = r.closed(w, err)
	}
	if vfs.NotDirect(err) {
		r.res.Direct, err = false, nil
	}
	return r.cleared(err)
}

// size returns how many bytes the large probes write, so that some rounds fit into the
// time: from the rate of a first write.
func (r *probing) size(most int64) (int64, error) {
	p := probe{Kind: probeWrite, Writers: 1, Requests: int(min(16<<20, most) / (1 << 20)), Request: 1 << 20, Depth: depth, Direct: r.res.Direct}
	for range 2 {
		if err := r.probe(&p); err != nil {
			return 0, err
		}
	}
	rate := float64(p.Bytes()) / max(p.Seconds[1], 1e-6)
	count := float64(len(probeList(16<<20, most, r.res.Direct, r.writers)))
	size := int64(rate * r.time.Seconds() / roundsWanted / count)
	return min(max(size, 4<<20), most, 128<<20) &^ (1<<20 - 1), nil
}
