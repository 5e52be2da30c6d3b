package image

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
)

// A lazyDisk does not wait for the disk: it fills a store that is then measured on
// the file system of the machine.
type lazyDisk struct{ vfs.OS }

func (lazyDisk) SyncDir(string) error { return nil }
func (d lazyDisk) Create(name string) (vfs.File, error) {
	f, err := d.OS.Create(name)
	return lazyFile{f}, err
}

func (lazyDisk) CreateDirect(string) (vfs.File, error)    { return nil, errNoDirect }
func (lazyDisk) OpenWriteDirect(string) (vfs.File, error) { return nil, errNoDirect }

var errNoDirect = fmt.Errorf("no O_DIRECT: %w", errors.ErrUnsupported)

type lazyFile struct{ vfs.File }

func (lazyFile) Sync() error { return nil }

// keptJob makes a job that keeps so many checkpoints on the file system of the
// machine.
func keptJob(b *testing.B, kept int) *taker {
	b.Helper()
	dir := b.TempDir()
	k := newJob(b, lazyDisk{}, dir)
	for n := 1; n <= kept; n++ {
		if n%15 == 1 {
			k.base, k.library = nil, nil
		}
		if _, err := k.take(n); err != nil {
			b.Fatal(err)
		}
	}
	if err := k.job.Unlock(); err != nil {
		b.Fatal(err)
	}
	real, err := reopen(vfs.OS{}, dir)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := real.job.Sweep(); err != nil {
		b.Fatal(err)
	}
	return real
}

// counts are how many checkpoints or jobs there are. To make the most takes minutes.
func counts() []int {
	if !testkit.Nightly() {
		return []int{10, 1000}
	}
	return []int{10, 1000, 10_000}
}

// BenchmarkKept measures what a job pays for the checkpoints that it keeps: prune
// takes one back and commits another, so that their number stays.
func BenchmarkKept(b *testing.B) {
	for _, kept := range counts() {
		b.Run(fmt.Sprintf("kept=%d", kept), func(b *testing.B) {
			k := keptJob(b, kept)
			again := func(b *testing.B) *taker {
				b.Helper()
				if err := k.job.Unlock(); err != nil {
					b.Fatal(err)
				}
				var err error
				if k, err = reopen(vfs.OS{}, filepath.Dir(filepath.Dir(k.job.dir))); err != nil {
					b.Fatal(err)
				}
				return k
			}
			b.Run("commit", func(b *testing.B) {
				for b.Loop() {
					n, err := k.next()
					if err != nil {
						b.Fatal(err)
					}
					tx, err := k.job.Begin(n)
					if err != nil {
						b.Fatal(err)
					}
					m, err := k.write(tx)
					if err == nil {
						err = tx.Commit(context.Background(), m)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
			if _, _, err := again(b).job.Prune(kept); err != nil {
				b.Fatal(err)
			}
			b.Run("open", func(b *testing.B) {
				for b.Loop() {
					if _, err := again(b).job.Sweep(); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run("prune", func(b *testing.B) {
				left := kept
				for b.Loop() {
					b.StopTimer()
					if left < kept/2+1 {
						b.Fatalf("too many: use -benchtime %dx", kept/2-1)
					}
					left--
					b.StartTimer()
					if removed, _, err := again(b).job.Prune(left); err != nil || len(removed) != 1 {
						b.Fatal(removed, err)
					}
				}
			})
			b.Run("list", func(b *testing.B) {
				rows := 0
				for b.Loop() {
					list, err := k.job.Summaries(0)
					if err != nil {
						b.Fatal(err)
					}
					rows = len(list)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
			})
		})
	}
}
