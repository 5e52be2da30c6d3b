package turns

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// mounted is a file system in which a directory is another device.
type mounted struct {
	vfs.FS
	at string
}

func (m mounted) Stat(name string) (fs.FileInfo, error) {
	if _, err := m.FS.Stat(name); err != nil {
		return nil, err
	}
	st := syscall.Stat_t{Dev: 1}
	if strings.HasPrefix(name, m.at) {
		st.Dev = 2
	}
	return statInfo{&st}, nil
}

// TestFindOnDevice looks for a controller above a mount point, where it is of another
// storage unit.
func TestFindOnDevice(t *testing.T) {
	disk := memfs.New()
	for _, dir := range []string{"/.ckpt-turns", "/mnt", "/mnt/store", "/other"} {
		if err := disk.Mkdir(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := durable.Replace(disk, "/.ckpt-turns/controller.json", mustEncode(t, Info{Version: version})); err != nil {
		t.Fatal(err)
	}
	if i, err := Find(mounted{disk, "/mnt"}, "/other/new"); err != nil || i.Dir != "/" {
		t.Errorf("found %+v, %v", i, err)
	}
	if i, err := Find(mounted{disk, "/mnt"}, "/mnt/store"); !errors.Is(err, ErrNone) {
		t.Errorf("found %+v, %v above a mount point", i, err)
	}
}

// TestFindThroughLink looks above the directory that a link leads to, also for one that
// is not there yet.
func TestFindThroughLink(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	link := filepath.Join(elsewhere, "link")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "store"), 0o700), os.Symlink(filepath.Join(dir, "store"), link)); err != nil {
		t.Fatal(err)
	}
	serve(t, dir, ServeOptions{})
	for _, at := range []string{link, filepath.Join(link, "new", "job")} {
		if i, err := Find(vfs.OS{}, at); err != nil || i.Dir != dir {
			t.Errorf("%s: found %+v, %v", at, i, err)
		}
	}
}
