package metrics

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ckpt/image"
	"ckpt/internal/vfs"
)

// TestFile: a file of metrics is there while the job is, in one piece and for all to read. On a
// full disk the old one stays, and the user hears of it once.
func TestFile(t *testing.T) {
	dir, full, told := t.TempDir(), false, 0
	store := filepath.Join(dir, "golden")
	if err := os.CopyFS(store, os.DirFS("../../../../testdata/stores/per-rank")); err != nil {
		t.Fatal(err)
	}
	f := &File{FS: vfs.OS{}, Path: filepath.Join(dir, "job.prom"), Store: store, Every: time.Millisecond,
		Warn: func(error) { told++ },
		Replace: func(path string, text []byte) error {
			if full {
				return syscall.ENOSPC
			}
			return Replace(path, text)
		}}
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	f.write(t.Context(), "nosuch")
	if _, err := os.Stat(f.Path); told != 1 || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a job that is not there: %v, told %d times", err, told)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	f.Keep(ended, "job")
	text, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`ckpt_job_running{store="golden",job="job"} 0`, `ckpt_checkpoints_total{store="golden",job="job",outcome="committed"} `} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if fi, _ := os.Stat(f.Path); fi.Mode().Perm() != 0o644 {
		t.Errorf("the file has the mode %v", fi.Mode())
	}
	full = true
	f.write(t.Context(), "job")
	f.write(t.Context(), "job")
	if again, _ := os.ReadFile(f.Path); told != 2 || string(again) != string(text) {
		t.Errorf("on a full disk the user hears %d times, and the file is\n%s", told, again)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 2 {
		t.Errorf("files are left: %v", entries)
	}
	f.Path = filepath.Join(dir, "nosuch", "job.prom")
	if f.Check() == nil {
		t.Error("a directory that is not there was accepted")
	}
}

// TestTallyOfAnother: the sums of a job that was launched under the name of one that was removed are
// its own, also if its journal is longer.
func TestTallyOfAnother(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "golden")
	if err := os.CopyFS(dir, os.DirFS("../../../../testdata/stores/per-rank")); err != nil {
		t.Fatal(err)
	}
	store, err := image.OpenStore(vfs.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.Job("job")
	if err != nil {
		t.Fatal(err)
	}
	journal := func(stored string) {
		if err := os.WriteFile(filepath.Join(dir, "jobs/job/history.jsonl"), []byte(strings.Repeat(`{"type":"checkpoint","stored_bytes":`+stored+"}\n", len(stored))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var tally Tally
	begin := time.Unix(1_700_000_000, 0)
	journal("10")
	for range 2 {
		if tally.Update(j, begin); tally.committed != 2 || tally.stored != 20 {
			t.Errorf("%d checkpoints of %d bytes", tally.committed, tally.stored)
		}
	}
	journal("100")
	if tally.Update(j, begin.Add(time.Hour)); tally.committed != 3 || tally.stored != 300 {
		t.Errorf("the other job: %d checkpoints of %d bytes", tally.committed, tally.stored)
	}
}

// TestDestination: the file that links lead to is written, also one that is not there yet. Devices,
// directories, pipes and sockets are refused, and stay.
func TestDestination(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{os.WriteFile(at("file"), []byte("old\n"), 0o600), os.Mkdir(at("dir"), 0o700), syscall.Mkfifo(at("pipe"), 0o600), syscall.Mknod(at("socket"), syscall.S_IFSOCK|0o600, 0), os.Symlink("file", at("link")),
		os.Symlink(at("link"), at("links")), os.Symlink("dir/later", at("ahead")), os.Symlink("b", at("a")), os.Symlink("a", at("b")), os.Symlink("/dev/null", at("null"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"/dev/null", at("null"), at("dir"), at("pipe"), at("socket"), at("a")} {
		before, _ := os.Lstat(name)
		if err := (&File{Path: name}).Check(); err == nil {
			t.Errorf("%s is accepted for metrics", name)
		}
		if Replace(name, nil) == nil || AppendTo(name)(nil) == nil {
			t.Errorf("%s is written", name)
		}
		if after, err := os.Lstat(name); err != nil || after.Mode() != before.Mode() {
			t.Errorf("%s is now %v, %v", name, after, err)
		}
	}
	for _, name := range []string{"links", "ahead", "file"} {
		if err := errors.Join((&File{Path: at(name)}).Check(), Replace(at(name), []byte(name+"\n")), AppendTo(at(name))([]byte("more\n"))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if fi, _ := os.Lstat(at(name)); fi.Mode().IsRegular() != (name == "file") {
			t.Errorf("%s has become %v", name, fi.Mode())
		}
		if text, err := os.ReadFile(at(name)); string(text) != name+"\nmore\n" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if fi, err := os.Lstat(at("dir/later")); err != nil || !fi.Mode().IsRegular() {
		t.Errorf("the link to a file that was not there leads to %v, %v", fi, err)
	}
}
