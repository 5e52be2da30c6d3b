package images

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// deafFS is a file system that answers nothing about some names.
type deafFS struct {
	vfs.Buffered
	deaf func(op, name string) bool
	err  error
}

func (d deafFS) hear(op, name string) error {
	if d.deaf(op, name) {
		return &fs.PathError{Op: op, Path: name, Err: d.err}
	}
	return nil
}

func (d deafFS) Open(name string) (vfs.File, error) {
	if err := d.hear("open", name); err != nil {
		return nil, err
	}
	return d.FS.Open(name)
}

func (d deafFS) Stat(name string) (fs.FileInfo, error) {
	if err := d.hear("stat", name); err != nil {
		return nil, err
	}
	return d.FS.Stat(name)
}

func (d deafFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := d.hear("list", name); err != nil {
		return nil, err
	}
	return d.FS.ReadDir(name)
}

// TestUnreadable: verify and list name a job that cannot be read, for whatever reason and
// wherever, go on with the others, and do not end well.
func TestUnreadable(t *testing.T) {
	disk := memfs.New()
	store, err := image.CreateStore(disk, "/s")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		j, err := store.CreateJob(name, []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Unlock(); err != nil {
			t.Fatal(err)
		}
	}
	job := "/s/jobs/b"
	for where, deaf := range map[string]func(op, name string) bool{
		"job":         func(_, name string) bool { return name == job || strings.HasPrefix(name, job+"/") },
		"directory":   func(op, name string) bool { return op == "list" && name == job },
		"description": func(_, name string) bool { return name == filepath.Join(job, "job") },
		"content":     func(op, name string) bool { return op == "open" && name == filepath.Join(job, "job") },
	} {
		for _, reason := range []syscall.Errno{syscall.EACCES, syscall.EIO, syscall.ESTALE} {
			t.Run(where+"/"+reason.Error(), func(t *testing.T) {
				store, err := image.OpenStore(deafFS{vfs.Through(disk), deaf, reason}, "/s")
				if err != nil {
					t.Fatal(err)
				}
				for what, walk := range map[string]func(g *ui.Globals) error{
					"verify": func(g *ui.Globals) error { return verifyStore(t.Context(), g, store, nil, "") },
					"list":   func(g *ui.Globals) error { return listJobs(t.Context(), g, store, orders["name"]) },
				} {
					var out bytes.Buffer
					g := &ui.Globals{Streams: ui.Streams{Out: &out, Err: io.Discard}, JSON: true}
					err := walk(g)
					if ui.ExitCode(err) == ui.ExitDone || !strings.Contains(err.Error(), job) {
						t.Errorf("%s ends with %v", what, err)
					}
					if !strings.Contains(out.String(), `"job": "b"`) {
						t.Errorf("%s does not name the job:\n%s", what, out.String())
					}
					if what == "list" && (!strings.Contains(out.String(), `"job": "a"`) || !strings.Contains(out.String(), `"job": "c"`)) {
						t.Errorf("%s leaves others out:\n%s", what, out.String())
					}
				}
			})
		}
	}
	if err := verifyStore(t.Context(), &ui.Globals{Streams: ui.Streams{Out: io.Discard, Err: io.Discard}, JSON: true}, store, []string{"d"}, ""); !errors.Is(err, image.ErrJobNotFound) {
		t.Errorf("a job that is not there: %v", err)
	}
}
