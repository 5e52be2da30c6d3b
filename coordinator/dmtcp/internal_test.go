package dmtcp

import (
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/dmtcp"
	"ckpt/internal/family"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/zones"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Tests of whole runs need these names.
const (
	EngineName = engineName
	Loopback   = loopback
)

var LastLine = lastLine

// WriteState writes the state of a job of another id.
func WriteState(j *image.Job, id string) error { return (&state{ID: id}).write(j) }

// Running returns the processes that the state of a job names.
func Running(j *image.Job) []family.Process {
	s, _ := readState(j)
	return s.Processes
}

// TestSharedFiles: before a restart, files in memory and files of the MPI library go, and
// all other files stay.
func TestSharedFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if strings.HasPrefix(dir, "/dev/shm/") {
		testkit.Skip(t, "temporary files outside /dev/shm")
	}
	e := &Engine{dir: &directory{root: dir}, state: state{Session: filepath.Join(dir, "mpi-1")}}
	process := &zones.Process{}
	for _, name := range []string{"/dev/shm/vader.1", "/dev/shm/vader.1", "/dev/shm/../../etc/passwd", "/usr/lib/libc.so.6", "[heap]",
		filepath.Join(e.state.Session, "smdataseg"), filepath.Join(dir, "data")} {
		process.Areas = append(process.Areas, zones.Area{Name: name})
	}
	list := e.sharedFiles(&dmtcp.Set{Images: []dmtcp.Image{{Process: process}}})
	want := []string{"/dev/shm/vader.1", filepath.Join(e.state.Session, "smdataseg")}
	if !slices.Equal(list, want) {
		t.Errorf("%q, want %q", list, want)
	}
	if err := os.Mkdir(e.state.Session, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(want[1], nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it has gone
		if err := e.dir.removeAll(want[1:]); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(want[1]); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestRemove: what a job has outside its store goes with it, unless a copy of the job runs there;
// what belongs to the original of a copy stays.
func TestRemove(t *testing.T) {
	t.Parallel()
	store, err := image.CreateStore(vfs.OS{}, filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.CreateJob("job", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(j.Dir(), engineName), 0o700); err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	for _, c := range []struct {
		name  string
		runs  bool
		stays bool
		want  error
	}{{name: sessionName(j)}, {name: "mpi-of-another", stays: true}, {name: sessionName(j), runs: true, stays: true, want: image.ErrInUse}} {
		s := state{Session: filepath.Join(tmp, c.name)}
		s.Segments = segmentsOf(s.Session)
		for _, dir := range []string{s.Session, s.Segments} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
		}
		if err := s.write(j); err != nil {
			t.Fatal(err)
		}
		if c.runs {
			held, err := s.hold()
			if err != nil {
				t.Fatal(err)
			}
			defer held.Close()
		}
		if err := Remove(j); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		for _, dir := range []string{s.Session, s.Segments} {
			if _, err := os.Stat(dir); (err == nil) != c.stays {
				t.Errorf("%s stays: %v, want %v", dir, err == nil, c.stays)
			}
		}
	}
}

// TestLeft: what a killed coordinator has left is ended where it runs. Another start of the
// machine, or another host, has other processes under these numbers.
func TestLeft(t *testing.T) {
	here, _ := wire.ThisHost()
	for boot, ends := range map[string]bool{here: true, "1" + here: false, "": false} {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p, _ := family.Find(cmd.Process.Pid)
		endLeft(&state{Boot: boot, Processes: []family.Process{p}})
		if p.Alive() == ends {
			t.Errorf("on host %q, here %q: ended %v", boot, here, !ends)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// TestWhole: what misses a rank, its command or any process of the beginning is no checkpoint.
func TestWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mark := filepath.Join(dir, markName)
	cmd := exec.Command("sh", "-c", "sleep 1000; true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	root, _ := family.Find(cmd.Process.Pid)
	defer family.Signal([]family.Process{root}, syscall.SIGKILL)
	var all []family.Process
	for len(all) < 2 { // until the shell has begun its command
		all = family.Descendants(root.PID)
	}
	shell, command := worker{root, 40000}, worker{all[1], 41000}
	a := &agent{e: &Engine{dir: &directory{root: dir}, state: state{Mark: mark}}}
	check := func(what, want string, peers ...worker) {
		t.Helper()
		err := a.whole(peers, len(peers))
		if got := fmt.Sprint(err); (err == nil) != (want == "") || !strings.Contains(got, want) && want != "" {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	check("all are there", "", command, shell)
	check("the shell alone", "command of the program has ended", shell)
	if err := os.WriteFile(mark+endingName, []byte("0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("its end", "is ending", command, shell)
	if err := os.Remove(mark + endingName); err != nil {
		t.Fatal(err)
	}
	family.Signal([]family.Process{command.Process}, syscall.SIGKILL)
	family.Await([]family.Process{command.Process}, testkit.Patience)
	check("a death", "has ended meanwhile", command, shell)
	a.ranks = []family.Process{command.Process}
	check("the death of a rank", "a rank, has ended", shell)
}

// TestStatusInMark: the program that has ended with an error has failed, whatever the program of
// DMTCP that restarted it exits with, and so has one that left no status.
func TestStatusInMark(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mark := filepath.Join(dir, markName)
	for text, want := range map[string]string{"3\n": "exited with status 3", "": "was killed by a command", "x": "was killed by a command"} {
		if err := os.WriteFile(mark, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a := &agent{e: &Engine{dir: &directory{root: dir}, state: state{Mark: mark}}, incarnation: incarnation{from: 1}}
		a.finish()
		if !a.quit || !strings.HasPrefix(a.cause, want) {
			t.Errorf("mark %q: %v, %q, want %q", text, a.quit, a.cause, want)
		}
	}
}

// TestLosing: a new program of MPICH is refused under a DMTCP whose processes open no log after exec,
// unless the user accepts any. A restart is not, nor another library, but both are warned of.
func TestLosing(t *testing.T) {
	dir := t.TempDir()
	for name, script := range map[string]string{
		"dmtcp_launch": `case $1 in --version) echo "dmtcp_launch (DMTCP) 5.0.0"; exit;; esac
mkdir $DMTCP_TMPDIR/of; for i in $LOGS; do echo >$DMTCP_TMPDIR/of/dmtcpworker.$i.log; done`,
		"dmtcp_coordinator": "", "dmtcp_command": "", "dmtcp_restart": "", "mpiexec.mpich": "", "mpiexec.openmpi": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, c := range []struct {
		logs, any, command string
		anew, refused      bool
		losing             bool
	}{
		{"1", "", "mpiexec.mpich", true, true, true},
		{"1", "any", "mpiexec.mpich", true, false, true},
		{"1", "", "mpiexec.mpich", false, false, true},
		{"1", "", "mpiexec.openmpi", true, false, true},
		{"1", "", "./a", true, false, false},
		{"1 2", "", "mpiexec.mpich", true, false, false},
	} {
		t.Setenv("LOGS", c.logs)
		t.Setenv(EnvAny, c.any)
		tools, err := FindFor(t.Context(), []string{c.command, "-n", "2", "./a"}, c.anew)
		if (err != nil) != c.refused || err == nil && tools.losing != c.losing {
			t.Errorf("%+v: %+v, %v", c, tools, err)
		}
	}
}
