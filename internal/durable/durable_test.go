package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

const name = "/file"

var before, after = []byte("before\n"), bytes.Repeat([]byte("after\n"), 2000)

// disk returns a file system with the old file, durably.
func disk(t *testing.T) *memfs.FS {
	t.Helper()
	m := memfs.New()
	if err := Replace(m, name, before); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestReplaceFails fails each operation in each way: the old file or the new
// one is there, the new one if Replace reports success, no temporary file
// stays, and the next Replace succeeds.
func TestReplaceFails(t *testing.T) {
	for _, replace := range []func(vfs.FS, string, []byte) error{Replace, ReplaceUnsynced} {
		count := memfs.WithFault(disk(t), memfs.Fault{})
		if err := replace(count, name, after); err != nil {
			t.Fatal(err)
		}
		for at := 1; at <= len(count.Ops()); at++ {
			for _, fault := range []memfs.Fault{{Err: syscall.EIO}, {Err: syscall.ENOSPC, Short: true}, {Short: true}} {
				fault.At = at
				m := disk(t)
				f := memfs.WithFault(m, fault)
				err := replace(f, name, after)
				op := f.Ops()[at-1]
				got, rerr := ReadFile(m, name, 1<<20)
				if rerr != nil || !bytes.Equal(got, before) && !bytes.Equal(got, after) || err == nil && !bytes.Equal(got, after) {
					t.Errorf("%s %s fails with %v: error %v, then read %d bytes, %v", op.Name, op.Path, fault.Err, err, len(got), rerr)
				}
				if err != nil && fault.Err == syscall.ENOSPC && op.Name == "write" && !errors.Is(err, ErrStorageFull) {
					t.Errorf("%s %s: %v is not ErrStorageFull", op.Name, op.Path, err)
				}
				if _, serr := m.Stat(name + TempSuffix); serr == nil {
					t.Errorf("%s %s fails: the temporary file stays", op.Name, op.Path)
				}
				if err := replace(m, name, after); err != nil {
					t.Errorf("after %s %s failed: %v", op.Name, op.Path, err)
				}
			}
		}
	}
}

// TestReplaceCrash loses power after each operation: the old file is there or
// the new one, and the new one once Replace has returned.
func TestReplaceCrash(t *testing.T) {
	m := disk(t)
	done := false
	states := make(map[string]bool)
	check := func(op, path string) {
		for i := range 40 {
			crash := memfs.Crash{Seed: uint64(i)}
			if i < 2 {
				crash.Mode = []memfs.Mode{memfs.Lost, memfs.Kept}[i]
			}
			clone := m.CrashClone(crash)
			states[clone.Digest()] = true
			got, err := ReadFile(clone, name, 1<<20)
			if err != nil || !bytes.Equal(got, after) && (done || !bytes.Equal(got, before)) {
				t.Fatalf("after %s %s: read %d bytes, %v", op, path, len(got), err)
			}
			if err := Replace(clone, name, after); err != nil {
				t.Fatalf("after %s %s: %v", op, path, err)
			}
		}
	}
	m.AfterOp = check
	if err := Replace(m, name, after); err != nil {
		t.Fatal(err)
	}
	done = true
	check("all", name)
	if len(states) < 5 {
		t.Errorf("only %d states", len(states))
	}
}

// linesOf reads the sound lines of a journal.
func linesOf(t *testing.T, fsys vfs.FS) (lines []string) {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadLines(io.NewSectionReader(f, 0, size), func(line []byte) {
		if text := strings.TrimSpace(string(line)); strings.HasSuffix(text, ".") {
			lines = append(lines, text)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return lines
}

// TestJournalFails fails each operation of a journal that one process opens
// and adds to, and another opens and continues: every line that Add reported
// written is there, whole, in order.
func TestJournalFails(t *testing.T) {
	run := func(fsys vfs.FS) (written []string) {
		for process := range 2 {
			j, err := OpenJournal(fsys, name)
			if err != nil {
				continue
			}
			for i := range 4 {
				line := fmt.Sprintf("line %d of %d%s.", i, process, strings.Repeat(" and more", 3-i))
				if j.Add([]byte(line)) == nil {
					written = append(written, line)
				}
			}
			j.Close()
		}
		return written
	}
	count := memfs.WithFault(memfs.New(), memfs.Fault{})
	if got := len(run(count)); got != 8 {
		t.Fatalf("%d lines without a fault", got)
	}
	for at := 1; at <= len(count.Ops()); at++ {
		for _, fault := range []memfs.Fault{{Err: syscall.EIO}, {Err: syscall.ENOSPC, Short: true}, {Short: true}} {
			fault.At = at
			m := memfs.New()
			f := memfs.WithFault(m, fault)
			written := run(f)
			if got := linesOf(t, m); !slices.Equal(got, written) || len(written) < 4 {
				t.Errorf("%v fails with %v: lines %q, want %q", f.Ops()[at-1], fault.Err, got, written)
			}
		}
	}
}

// TestJournalTorn continues a journal that a crash has cut anywhere: the lines
// before the cut stay, and later lines are whole.
func TestJournalTorn(t *testing.T) {
	whole := "one.\ntwo.\nthree.\n"
	for cut := range len(whole) + 1 {
		m := memfs.New()
		if err := Replace(m, name, []byte(whole[:cut])); err != nil {
			t.Fatal(err)
		}
		j, err := OpenJournal(m, name)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(j.Add([]byte("four.")), j.Add([]byte("five.")), j.Close()); err != nil {
			t.Fatal(err)
		}
		got := linesOf(t, m)
		if n := strings.Count(whole[:cut], "\n"); len(got) < n+2 || !slices.Equal(got[len(got)-2:], []string{"four.", "five."}) ||
			!slices.Equal(got[:n], []string{"one.", "two.", "three."}[:n]) {
			t.Errorf("cut at %d: %q", cut, got)
		}
	}
}

// TestMkdirAgain fails each operation of Mkdir: a later one that succeeds is durable.
func TestMkdirAgain(t *testing.T) {
	for at := 1; at <= 2; at++ {
		m := memfs.New()
		if err := Mkdir(memfs.WithFault(m, memfs.Fault{At: at, Err: syscall.EIO}), "/dir"); err == nil {
			t.Fatalf("operation %d failed, and Mkdir did not", at)
		}
		if err := Mkdir(m, "/dir"); err != nil {
			t.Fatal(err)
		}
		if _, err := m.CrashClone(memfs.Crash{Mode: memfs.Lost}).Stat("/dir"); err != nil {
			t.Errorf("operation %d failed: %v", at, err)
		}
	}
}

func TestReadFileRefuses(t *testing.T) {
	m := disk(t)
	var damage *DamageError
	if _, err := ReadFile(m, name, 3); !errors.As(err, &damage) {
		t.Errorf("a file over the limit: %v", err)
	}
	if _, err := ReadFile(m, "/none", 3); err == nil {
		t.Error("a missing file was read")
	}
}

// TestSealed refuses each file that differs in a byte, or is cut.
func TestSealed(t *testing.T) {
	m := memfs.New()
	want := map[string]int{"node": 3}
	if err := ReplaceSealed(m, name, want); err != nil {
		t.Fatal(err)
	}
	var got map[string]int
	if err := ReadSealed(m, name, 100, &got); err != nil || !maps.Equal(got, want) {
		t.Errorf("read %v, %v", got, err)
	}
	whole, err := ReadFile(m, name, 100)
	if err != nil || string(whole) != "{\"node\":3}\n5ffbb5c0\n" {
		t.Errorf("the file is %q, %v", whole, err)
	}
	damage := (*DamageError)(nil)
	for i := range whole {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 1
		for _, b := range [][]byte{flipped, whole[:i]} {
			if err := Replace(m, name, b); err != nil {
				t.Fatal(err)
			}
			if err := ReadSealed(m, name, 100, &got); !errors.As(err, &damage) {
				t.Errorf("%q: %v", b, err)
			}
		}
	}
}
