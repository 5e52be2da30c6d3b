package mount

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"golang.org/x/sys/unix"

	"ckpt/image/iosched/live"
	"ckpt/internal/testkit"
)

// BenchmarkStorage compares the bandwidth of mounts with the bandwidth of their directory, in rounds that begin
// with another one each time: the metrics are medians of the ratios in one round, with intervals of 95 %.
//
//	go test ./image/mount -run '^$' -bench Storage -benchtime 15x
func BenchmarkStorage(b *testing.B) {
	testkit.All(b, "fuse")
	under := b.TempDir()
	ways := []string{"bare", "loopback", "none", "mlf", "seen"}
	dirs := map[string]string{"bare": under}
	u, err := live.New("disk", "mlf", live.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer u.Close()
	for way, o := range map[string]StorageOptions{"none": {}, "mlf": {Gate: &door{unit: u}}, "seen": {Watch: watched{}}} {
		dirs[way] = b.TempDir()
		m, err := Storage(under, dirs[way], o)
		if err == nil {
			err = m.here()
		}
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _, _ = m.Unmount(); m.Wait() }()
	}
	dirs["loopback"] = b.TempDir()
	root, err := fs.NewLoopbackRoot(under)
	if err != nil {
		b.Fatal(err)
	}
	second := time.Second
	o := &fs.Options{EntryTimeout: &second, AttrTimeout: &second, NullPermissions: true}
	o.MaxWrite, o.MaxReadAhead, o.DirectMount, o.DisableSplice = maxRequest, maxRequest, true, true
	plain, err := fs.Mount(dirs["loopback"], root, o)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = plain.Unmount() }()
	const size, small = 64 << 20, 4 << 10
	big := make([]byte, 1<<20)
	for _, work := range []struct {
		name string
		do   func(f *os.File) error
	}{
		{"write", func(f *os.File) error {
			for off := 0; off < size; off += len(big) {
				if _, err := f.WriteAt(big, int64(off)); err != nil {
					return err
				}
			}
			return f.Sync()
		}},
		{"read", func(f *os.File) error {
			for off := 0; off < size; off += len(big) {
				if _, err := f.ReadAt(big, int64(off)); err != nil {
					return err
				}
			}
			return nil
		}},
		{"random-write", func(f *os.File) error {
			for range 4096 {
				if _, err := f.WriteAt(big[:small], rand.Int64N(size/small)*small); err != nil {
					return err
				}
			}
			return f.Sync()
		}},
		{"random-read", func(f *os.File) error {
			for range 4096 {
				if _, err := f.ReadAt(big[:small], rand.Int64N(size/small)*small); err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		b.Run(work.name, func(b *testing.B) {
			ratios := map[string][]float64{}
			for round := range b.N {
				times := map[string]float64{}
				for i := range ways {
					way := ways[(round+i)%len(ways)]
					f, err := os.OpenFile(filepath.Join(dirs[way], "file"), os.O_RDWR|os.O_CREATE, 0o600)
					if err != nil {
						b.Fatal(err)
					}
					if strings.Contains(work.name, "read") { // from the disk
						_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
						if d, err := os.Open(filepath.Join(under, "file")); err == nil {
							_ = unix.Fadvise(int(d.Fd()), 0, 0, unix.FADV_DONTNEED)
							d.Close()
						}
					}
					began := time.Now()
					if err := work.do(f); err != nil {
						b.Fatal(err)
					}
					times[way] = time.Since(began).Seconds()
					f.Close()
				}
				for _, way := range ways[1:] {
					ratios[way+"/bare"] = append(ratios[way+"/bare"], times["bare"]/times[way])
				}
				ratios["none/loopback"] = append(ratios["none/loopback"], times["loopback"]/times["none"])
			}
			report(b, ratios)
		})
	}
}

// report reports medians. The interval of each is from one number to another, as a binomial distribution
// says; of fewer than six it is all of them, and holds less than 95 %.
func report(b *testing.B, lists map[string][]float64) {
	for name, list := range lists {
		slices.Sort(list)
		n, out := len(list), 0
		chance := math.Pow(0.5, float64(n)) // that so many are below the median
		for sum := chance; sum <= 0.025 && out < n/2; sum += chance {
			out++
			chance *= float64(n-out+1) / float64(out)
		}
		out = max(out-1, 0)
		b.ReportMetric((list[(n-1)/2]+list[n/2])/2, name)
		b.ReportMetric(list[out], name+"-low")
		b.ReportMetric(list[n-1-out], name+"-high")
	}
}
