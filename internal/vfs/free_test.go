package vfs

import (
	"math"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFreeOf: a file system without a size is not full, and one that tells of more than there
// can be is not either. Root also has what is kept for it.
func TestFreeOf(t *testing.T) {
	for name, c := range map[string]struct {
		of         unix.Statfs_t
		user, root int64
	}{
		"reserve": {unix.Statfs_t{Bsize: 4096, Blocks: 100, Bfree: 5}, 0, 5 * 4096},
		"full":    {unix.Statfs_t{Bsize: 4096, Blocks: 100}, 0, 0},
		"ramfs":   {unix.Statfs_t{Bsize: 4096}, Unbounded, Unbounded},
		"cloud":   {unix.Statfs_t{Bsize: 1 << 20, Blocks: math.MaxUint64, Bfree: math.MaxUint64 / 2, Bavail: math.MaxUint64 / 2}, Unbounded, Unbounded},
		"usual":   {unix.Statfs_t{Bsize: 512, Blocks: 100, Bfree: 60, Bavail: 50}, 25600, 30720},
	} {
		if user, root := freeOf(&c.of, false), freeOf(&c.of, true); user != c.user || root != c.root {
			t.Errorf("%s: %d for a user, %d for root; want %d and %d", name, user, root, c.user, c.root)
		}
	}
}
