package vfs_test

import (
	"testing"

	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// TestConformance holds every file system to the same promises.
func TestConformance(t *testing.T) {
	for name, make := range map[string]func(t *testing.T) (vfs.FS, string){
		"OS": func(t *testing.T) (vfs.FS, string) { return vfs.OS{}, t.TempDir() },
		"Beneath": func(t *testing.T) (vfs.FS, string) {
			dir := t.TempDir()
			return vfs.NewBeneath(dir), dir
		},
		"memfs":   func(*testing.T) (vfs.FS, string) { return memfs.New(), "/" },
		"faultfs": func(*testing.T) (vfs.FS, string) { return memfs.WithFault(memfs.New(), memfs.Fault{}), "/" },
	} {
		t.Run(name, func(t *testing.T) {
			fsys, root := make(t)
			testkit.Conform(t, fsys, root)
		})
	}
}
