package source_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ckpt/internal/testkit"
	"ckpt/zones"
	"ckpt/zones/dmtcptest"
	"ckpt/zones/source"
)

const mib = 1 << 20

// start runs a command until the test ends, and waits for its first line.
func start(t *testing.T, cmd *exec.Cmd) (in io.WriteCloser, out *bufio.Reader) {
	t.Helper()
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", cmd.Path, err)
		}
	})
	out = bufio.NewReader(pipe)
	ready(t, out)
	return in, out
}

func ready(t *testing.T, out *bufio.Reader) {
	t.Helper()
	if line, err := out.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the process says %q, %v", line, err)
	}
}

// near fails unless got is want, give or take a share of it.
func near(t *testing.T, what string, got, want int64, share float64) {
	t.Helper()
	off := float64(got-want) / float64(want)
	t.Logf("%s: %.2f MiB, want %.2f (%+.2f %%)", what, float64(got)/mib, float64(want)/mib, 100*off)
	if off < -share || off > share {
		t.Errorf("%s: %d bytes, want %d within %.0f %%", what, got, want, 100*share)
	}
}

// TestLiveProcess allocates known amounts in a real process and finds each in
// its zone within 1 %.
func TestLiveProcess(t *testing.T) {
	object := sharedObject(t)
	fi, err := os.Stat(object)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CKPT_TEST_CHILD="+object, "GOMAXPROCS=1", "GOGC=off")
	in, out := start(t, cmd)
	sizes := func() zones.Sizes {
		p, err := source.ReadLive(context.Background(), cmd.Process.Pid, source.LiveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		zones.DefaultRules().Classify(p)
		return p.Sizes()
	}
	before := sizes()
	if _, err := io.WriteString(in, "go on\n"); err != nil {
		t.Fatal(err)
	}
	ready(t, out)
	after := sizes()
	near(t, "data", after.Data-before.Data, source.GrowingHeap, 0.01)
	near(t, "shared", after.Shared-before.Shared, source.GrowingShared, 0.01)
	near(t, "library", after.Library-before.Library, fi.Size(), 0.01)
}

// sharedObject finds a large one.
func sharedObject(t *testing.T) string {
	for _, pattern := range []string{"/lib/*/libc.so.6", "/lib64/libc.so.6", "/usr/lib/libc.so.6"} {
		if names, _ := filepath.Glob(pattern); len(names) > 0 {
			name, err := filepath.EvalSymlinks(names[0])
			if err != nil {
				t.Fatal(err)
			}
			return name
		}
	}
	testkit.Skip(t, "libc.so.6")
	return ""
}

const (
	mpiHeap   = 100 * mib
	mpiStatic = 20 * mib
)

var mpiProgram = fmt.Sprintf(`
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define HEAP %dL
#define STATIC %dL
static char field[STATIC];
int main(int argc, char **argv) {
	int rank;
	char c;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	char *grid = malloc(HEAP);
	memset(grid, rank + 1, HEAP);
	memset(field, rank + 1, STATIC);
	double x = grid[rank] + field[rank], sum;
	MPI_Allreduce(&x, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0) { printf("ready\n"); fflush(stdout); while (read(0, &c, 1) > 0); }
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return sum < 0;
}
`, mpiHeap, mpiStatic)

// TestMPICH runs a program of 4 ranks under a real mpiexec.
func TestMPICH(t *testing.T) {
	testkit.All(t, "mpicc.mpich", "mpiexec.mpich")
	dir := t.TempDir()
	file, program := filepath.Join(dir, "grid.c"), filepath.Join(dir, "grid.A.4")
	if err := os.WriteFile(file, []byte("#include <unistd.h>\n"+mpiProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mpicc.mpich", "-O", "-o", program, file).CombinedOutput(); err != nil {
		t.Fatalf("mpicc: %v\n%s", err, out)
	}
	cmd := exec.Command("mpiexec.mpich", "-n", "4", program)
	start(t, cmd)
	ps, gone, err := source.Tree(context.Background(), cmd.Process.Pid, source.LiveOptions{})
	if err != nil || len(gone) > 0 {
		t.Fatal(err, gone)
	}
	for _, p := range ps {
		zones.DefaultRules().Classify(p)
	}
	source.Settle(ps)
	ranks := make(map[int]bool)
	for _, p := range ps {
		if p.Role != zones.RoleRank {
			continue
		}
		ranks[p.Rank] = true
		s := p.Sizes()
		near(t, fmt.Sprintf("data of rank %d", p.Rank), s.Data, mpiHeap+mpiStatic, 0.02)
		t.Logf("library %.2f MiB, shared %.2f MiB, companion %.2f MiB", float64(s.Library)/mib, float64(s.Shared)/mib, float64(p.Companion())/mib)
		if s.Shared+p.Companion() < mib || p.MPI != "mpich" || p.Name != "grid.A.4" {
			t.Errorf("rank %d: %q under %q with a shared zone of %d bytes", p.Rank, p.Name, p.MPI, s.Shared)
		}
	}
	c := source.Checkpoints(ps)
	if len(ranks) != 4 || !ranks[0] || !ranks[3] || len(c) != 1 || c[0].Ranks != 4 || c[0].Launchers == 0 {
		t.Errorf("ranks %v of %d processes; %+v", ranks, len(ps), c)
	}
}

func TestDMTCPDirectory(t *testing.T) {
	for _, openMPI := range []bool{false, true} {
		dir := t.TempDir()
		if err := dmtcptest.Job(4, dmtcptest.Options{Seed: 1, OpenMPI: openMPI, Nodes: 2}).WriteDir(dir); err != nil {
			t.Fatal(err)
		}
		r := source.Reader{Rules: zones.DefaultRules()}
		ps, err := r.Dir(context.Background(), dir)
		if err != nil {
			t.Fatal(err)
		}
		source.Settle(ps)
		cs := source.Checkpoints(ps)
		if len(cs) != 1 || cs[0].Ranks != 4 || cs[0].Launchers != 3 || cs[0].Missing != 0 {
			t.Fatalf("%d checkpoints: %+v", len(cs), cs)
		}
		c := cs[0]
		// Gstored is every file but the restart scripts.
		var want int64
		err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), "dmtcp_restart") {
				return err
			}
			fi, err := d.Info()
			want += fi.Size()
			return err
		})
		if err != nil || c.Gstored != want || c.Companions != 3 {
			t.Errorf("Gstored %d, want %d; %d files beside the images; %v", c.Gstored, want, c.Companions, err)
		}
		shared := c.Programs[0].Mean.Shared
		if hasSegment := shared > mib; hasSegment == openMPI {
			t.Errorf("a rank's image has %d bytes of zone shared; Open MPI: %v", shared, openMPI)
		}
		for _, p := range ps {
			if p.Role != zones.RoleRank {
				continue
			}
			s := p.Sizes()
			if got := s.Total() + p.Stored(zones.Runtime) + p.Stored(zones.Kernel) + p.Overhead; got != p.FileBytes {
				t.Errorf("%s: the zones add up to %d, the file is %d", p.Source, got, p.FileBytes)
			}
			if s.Data < mib || s.Library < mib || p.Stored(zones.Runtime) == 0 || p.Rank < 0 {
				t.Errorf("%s: %+v, runtime %d, rank %d", p.Source, s, p.Stored(zones.Runtime), p.Rank)
			}
		}
	}
}

func TestSettle(t *testing.T) {
	rank := func(name string, r int, mpi string) *zones.Process {
		return &zones.Process{Name: name, Role: zones.RoleRank, Rank: r, MPI: mpi}
	}
	ps := []*zones.Process{
		rank("wrapper", 0, ""), rank("app", 0, "mpich"), rank("helper", 0, ""), // the last is a child of the app
		rank("wrapper", 1, ""), rank("app", 1, "mpich"),
		rank("nested", 2, ""), rank("serial", 2, ""),
		rank("sleep", -1, ""),
		{Name: "mpiexec", Role: zones.RoleLauncher, Rank: -1},
	}
	source.Settle(ps)
	var got []string
	for _, p := range ps {
		got = append(got, string(p.Role))
	}
	if want := "other rank other other rank other rank other launcher"; strings.Join(got, " ") != want {
		t.Errorf("roles %v, want %s", got, want)
	}
	alone := []*zones.Process{rank("app", -1, "")}
	if source.Settle(alone); alone[0].Role != zones.RoleRank {
		t.Error("a single process is no rank")
	}
}

// packed returns a text under gzip.
func packed(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A saved smaps under gzip is the same process; one that is cut off, or damaged, is an
// error, and never a smaller process.
func TestPackedText(t *testing.T) {
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	r := source.Reader{Rules: zones.DefaultRules()}
	want, err := r.Text("smaps", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	whole := packed(t, text)
	got, err := r.File(context.Background(), write("rank0.smaps.gz", whole))
	if err != nil || len(got) != 1 || got[0].Image() != want.Image() || got[0].Role != want.Role {
		t.Fatalf("%v, %+v", err, got)
	}
	for name, b := range map[string][]byte{
		"the archive is cut":  whole[:len(whole)*2/3],
		"without its trailer": whole[:len(whole)-8],
		"half of its trailer": whole[:len(whole)-4],
		"the text was cut":    packed(t, text[:len(text)*2/3]),
		"checksum":            append(bytes.Clone(whole[:len(whole)-5]), whole[len(whole)-5]^1, 0, 0, 0, 0),
	} {
		_, err := r.File(context.Background(), write("bad.smaps.gz", b))
		var f *zones.FormatError
		if !errors.As(err, &f) || !strings.Contains(f.Reason, "cut off") && !strings.Contains(f.Reason, "damaged") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, b := range [][]byte{packed(t, []byte("some notes\n")), {0x1f, 0x8b, 8, 0}} {
		if _, err := r.File(context.Background(), write("notes.gz", b)); !errors.Is(err, source.ErrUnknown) {
			t.Errorf("another file under gzip: %v", err)
		}
	}
}

func TestUnknown(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notes")
	if err := os.WriteFile(name, []byte("bread, butter - milk\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := source.Reader{Rules: zones.DefaultRules()}
	if _, err := r.File(context.Background(), name); !errors.Is(err, source.ErrUnknown) {
		t.Errorf("a text: %v", err)
	}
	if _, err := r.Dir(context.Background(), filepath.Dir(name)); err == nil {
		t.Error("a directory without images is read")
	}
}
