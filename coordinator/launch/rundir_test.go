package launch

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"ckpt/coordinator/wire"
	"ckpt/internal/family"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
)

// TestRundirs makes and removes the directories of many runs at the same time, each of
// which sweeps those of dead runs.
func TestRundirs(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	var runs sync.WaitGroup
	for range 8 {
		runs.Go(func() {
			for range 100 {
				r, err := NewRunDir(tmp, 2)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Stat(r.Scratch(1)); err != nil {
					t.Error(err)
				}
				if err := r.Remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	runs.Wait()
}

// TestRemoveTakesSegments: a run that ends while ranks are starting leaves no segment
// behind, and touches none of another run.
func TestRemoveTakesSegments(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	shm := t.TempDir()
	mine, err := NewRunDir(shm, 1)
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewRunDir(shm, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Remove()
	paths := []string{mine.Segment(shm, 0, 2, 0), mine.Segment(os.TempDir(), 0, 3, 0), other.Segment(shm, 0, 2, 0)}
	for _, p := range paths {
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := mine.Remove(); err != nil {
		t.Fatal(err)
	}
	for i, p := range paths {
		if _, err := os.Stat(p); (err == nil) != (i == 2) {
			t.Errorf("%s: %v", p, err)
		}
	}
}

// TestMend: the directory of a run is made again, whatever has gone of it, and the sweep of
// another run still leaves it alone. Cleaners that respect locks find it locked.
func TestMend(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	r, err := NewRunDir(t.TempDir(), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Remove()
	base := filepath.Dir(r.Path)
	for _, gone := range []string{r.Scratch(1), r.Path, base, os.TempDir()} {
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
		if err := r.Mend(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(r.Scratch(1)); err != nil {
			t.Errorf("without %s: %v", gone, err)
		}
		other, err := NewRunDir(t.TempDir(), 1)
		if err != nil && gone != os.TempDir() {
			t.Fatal(err)
		}
		if err == nil {
			other.Remove()
		}
		if _, err := HoldDir(r.Path); !errors.Is(err, vfs.ErrLocked) {
			t.Errorf("without %s the lock is free: %v", gone, err)
		}
	}
}

// TestForeignBase: what others have put where the directory of all runs is to be, nobody
// uses. There is another name.
func TestForeignBase(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"file":  func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"link":  func(path string) error { return os.Symlink(t.TempDir(), path) },
		"open":  func(path string) error { return errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o777)) },
		"other": func(path string) error { return errors.Join(os.Mkdir(path, 0o700), os.Chown(path, 12345, -1)) },
	} {
		tmp := t.TempDir()
		t.Setenv("TMPDIR", tmp)
		base, err := runBase(tmp)
		if err != nil {
			t.Fatal(err)
		}
		for _, squatted := range []string{base, base + "-1", base + "-2", base + "-3"} {
			if err := errors.Join(os.RemoveAll(squatted), put(squatted)); err != nil {
				testkit.All(t, "root") // gives files away
				t.Fatalf("%s: %v", name, err)
			}
			r, err := NewRunDir(tmp, 1)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if dir := filepath.Dir(r.Path); dir == squatted || !private(dir) {
				t.Errorf("%s: the run is in %s", name, dir)
			}
			if err := r.Remove(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestSweep removes what a killed run has left, and nothing of a run of an earlier version,
// nor what is of no run.
func TestSweep(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	base, err := runBase(tmp)
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(base, name) }
	for _, name := range []string{"0123456789ab", "abcdefabcdef", "mpi-0123456789ab"} {
		if err := os.MkdirAll(filepath.Join(at(name), "node-0"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	l, err := disk.Lock(filepath.Join(at("abcdefabcdef"), runLock))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := NewRunDir(tmp, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Remove()
	for name, stays := range map[string]bool{"0123456789ab": false, "abcdefabcdef": true, "mpi-0123456789ab": true} {
		if _, err := os.Stat(at(name)); (err == nil) != stays {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSweepEndsOrphans: a rank whose launcher died with its coordinator ends when the next run
// begins. A rank that has a launcher goes on, and so does a rank of a run that lives.
func TestSweepEndsOrphans(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	alive, err := NewRunDir(t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Remove()
	dead := filepath.Join(filepath.Dir(alive.Path), "0123456789ab")
	if err := os.Mkdir(dead, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "never"), 0o600); err != nil {
		t.Fatal(err)
	}
	proxy := filepath.Join(dir, "hydra_proxy")
	// The rank gives its number itself: a process that becomes another program cannot be seen for a moment.
	if err := os.WriteFile(proxy, []byte("#!/bin/sh\nsh -c 'echo $$; exec 1>&-; read line <never' &\nexec 1>&-\ntest $1 = lost || wait\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	var ranks []family.Process
	for _, of := range []struct{ name, run string }{{"lost", dead}, {"kept", dead}, {"lost", alive.Path}} {
		cmd := exec.Command(proxy, of.name)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HYDI_CONTROL_FD=3", wire.EnvSocket+"=unix:"+socketIn(of.run))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 32)
		n, _ := out.Read(b)
		pid, _ := strconv.Atoi(strings.TrimSpace(string(b[:n])))
		rank, ok := family.Find(pid)
		if !ok {
			t.Fatalf("%s has no rank: %q", of.name, b[:n])
		}
		t.Cleanup(func() {
			family.Signal([]family.Process{rank}, syscall.SIGKILL)
			_ = cmd.Wait()
		})
		if of.name == "lost" {
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
		}
		if lost := LostLauncher(rank); lost != (of.name == "lost") {
			t.Errorf("%s has lost its launcher: %t", of.name, lost)
		}
		ranks = append(ranks, rank)
	}
	other, err := NewRunDir(t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Remove()
	if !family.Await(ranks[:1], testkit.Patience) {
		t.Error("the rank of the dead run goes on")
	}
	for i, rank := range ranks[1:] {
		if !rank.Alive() {
			t.Errorf("rank %d has ended", i+1)
		}
	}
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of the dead run: %v", err)
	}
}

// TestSweepEarlier: what is left of a run before ends, and what the program has left behind does not.
func TestSweepEarlier(t *testing.T) {
	run := &ProgramRun{Incarnation: 2, token: wire.EnvToken + "=" + t.TempDir()}
	var left []family.Process
	for _, incarnation := range []string{"1", "2"} {
		cmd := exec.Command("sh", "-c", "echo; read line")
		cmd.Env = append(os.Environ(), run.token, wire.EnvIncarnation+"="+incarnation)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_, _ = out.Read(make([]byte, 1)) // it runs
		p, _ := family.Find(cmd.Process.Pid)
		left = append(left, p)
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	run.SweepEarlier()
	if left[0].Alive() || !left[1].Alive() {
		t.Errorf("run 1 is alive: %t, run 2: %t", left[0].Alive(), left[1].Alive())
	}
	run.Sweep()
	if left[1].Alive() {
		t.Error("run 2 is alive")
	}
}
