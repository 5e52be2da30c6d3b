package filecache

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// TestCacheIsABigArray compares a cached file with an array of bytes: writers on all
// nodes at the same time, each with stripes of its own, and then all the others read;
// syncs, closing, opening and recovery in between.
func TestCacheIsABigArray(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		nodes := rapid.IntRange(1, 5).Draw(rt, "nodes")
		size := int64(rapid.IntRange(1, 20_000).Draw(rt, "size"))
		l := Levels{
			Records:  rapid.Bool().Draw(rt, "records"),
			Replicas: rapid.IntRange(0, min(2, nodes-1)).Draw(rt, "replicas"),
			Versions: rapid.Bool().Draw(rt, "versions"),
			// Syncs are forced now and then.
			JournalBytes: int64(rapid.SampledFrom([]int{0, 3000}).Draw(rt, "journal")),
		}
		processes := rapid.SliceOfN(rapid.IntRange(0, nodes-1), 1, 6).Draw(rt, "processes")
		c, _ := cluster(nodes)
		opt := Options{Create: true, Size: size, Levels: l, Processes: processes}
		a := &array{want: make([]byte, size), seed: rapid.Uint64().Draw(rt, "seed")}
		f, err := c.Open(background, "x", opt)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { f.Abandon() }()
		for i := range rapid.IntRange(1, 8).Draw(rt, "steps") {
			if err := a.round(f, i); err != nil {
				rt.Fatal(err)
			}
			switch rapid.SampledFrom([]string{"go on", "sync", "reopen", "recover"}).Draw(rt, "then") {
			case "sync":
				err = together(f, func(p *Process) error { return p.Sync(background) })
			case "reopen":
				if err = together(f, func(p *Process) error { return p.Close(background) }); err == nil {
					f, err = c.Open(background, "x", opt)
				}
			case "recover":
				if l.Versions && !l.Records && l.Replicas == 0 {
					break // it goes back
				}
				if err = f.Abandon(); err == nil {
					f, _, err = c.Recover(background, "x", Options{})
				}
			}
			if err == nil {
				err = together(f, func(p *Process) error {
					got, err := contents(p)
					if err == nil {
						err = same(got, a.want)
					}
					return err
				})
			}
			if err != nil {
				rt.Fatal(err)
			}
		}
	})
}

type array struct {
	mu   sync.Mutex
	want []byte
	seed uint64
}

// round has all processes write and read at the same time. The bytes of a process are
// those in every so many stripes.
func (a *array) round(f *File, round int) error {
	stripe := max(len(a.want)/(3*len(f.processes)), 1)
	return together(f, func(p *Process) error {
		rng := rand.New(rand.NewPCG(a.seed, uint64(round*100+p.rank)))
		for range 4 {
			from := (rng.IntN(3)*len(f.processes) + p.rank) * stripe
			if from >= len(a.want) {
				continue
			}
			off := from + rng.IntN(min(stripe, len(a.want)-from))
			b := random(rng.Uint64(), min(1+rng.IntN(stripe), from+stripe-off, len(a.want)-off))
			if _, err := p.WriteAt(b, int64(off)); err != nil {
				return err
			}
			a.mu.Lock()
			copy(a.want[off:], b)
			a.mu.Unlock()
			got := make([]byte, len(b))
			if _, err := p.ReadAt(got, int64(off)); err != nil {
				return err
			}
			if err := same(got, b); err != nil {
				return fmt.Errorf("own write of %d bytes at %d: %w", len(b), off, err)
			}
		}
		return nil
	})
}
