package mount

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/zones"
	"ckpt/zones/global"
)

const rows, columns = 600, 500 // of u, in two ranks

// u is the value of a cell at a checkpoint.
func u(number, i, j int) byte { return byte(number*101 + i*7 + j*13) }

// take commits a checkpoint of two ranks that hold u, a byte a cell, with a halo of a row.
func take(t *testing.T, job *image.Job, number int) {
	t.Helper()
	tx, err := job.Begin(number)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Abort()
	m := &image.Manifest{App: "test", NP: 2, MPI: "mpich", Mode: "coordinated", Mapping: []int{2}}
	for rank := range 2 {
		part := global.Part{Elem: 1, Axes: []global.Stretch{
			{Cells: rows, First: int64(rank) * rows / 2, Count: rows / 2, Halo: 1}, {Cells: columns, Count: columns}}}
		mem := vfs.Aligned(int(zones.PageRound(part.Cells())))
		for at := range (rows/2 + 2) * columns {
			i := rank*rows/2 + at/columns - 1
			mem[at] = u(number, i, at%columns)
			if rank == 0 && at/columns == rows/2+1 {
				mem[at] = 0 // a stale halo
			}
		}
		regions := []zones.Region{{Name: "u", Zone: zones.Data, Elem: zones.Int8, Mem: mem, Size: part.Cells()},
			{Name: "a/b%", Zone: zones.Data, Elem: zones.Float64, Mem: mem[:4096], Size: 80}}
		header := container.Header{Job: job.Name(), Number: number, Rank: rank, Kind: container.KindRank}
		info, err := container.Write(context.Background(), job.FS(), tx.RankPath(rank), header, regions, container.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		path := container.JobPath(info.Path)
		m.Files = append(m.Files, container.File{Path: path, Kind: container.KindRank, Ranks: []int{rank}, Bytes: info.Bytes, Holes: info.Holes, IndexBlake3: info.IndexBlake3})
		m.Ranks = append(m.Ranks, image.Rank{Rank: rank, File: path, Zones: info.Zones, Global: []image.GlobalPart{{Region: "u", Part: part}}})
	}
	if err := tx.Commit(context.Background(), m); err != nil {
		t.Fatal(err)
	}
}

// browse mounts a store with one job of so many checkpoints.
func browse(t *testing.T, checkpoints int) (job *image.Job, dir string, lines chan string) {
	t.Helper()
	testkit.All(t, "fuse")
	store, err := image.CreateStore(vfs.OS{}, filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	if job, err = store.CreateJob("heat", nil); err != nil {
		t.Fatal(err)
	}
	for n := range checkpoints {
		take(t, job, n+1)
	}
	lines, dir = make(chan string, 100), t.TempDir()
	m, err := Browse(store, dir, BrowseOptions{Log: func(line string) { lines <- line }})
	if err == nil {
		err = m.here()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := m.Unmount(); err != nil {
			t.Error(err)
		}
		m.Wait()
	})
	return job, dir, lines
}

// whole is u.npy of all ranks.
func whole(number int) []byte {
	b := image.NPYHeader(zones.Int8, []int64{rows, columns})
	for i := range rows {
		for j := range columns {
			b = append(b, u(number, i, j))
		}
	}
	return b
}

// TestBrowse reads a store through a mount: as a whole, at any place, while checkpoints come and
// go, and beside damage.
func TestBrowse(t *testing.T) {
	job, dir, lines := browse(t, 1)
	first := filepath.Join(dir, "heat", "1")
	if got, err := os.ReadFile(filepath.Join(first, "global", "u.npy")); err != nil || !bytes.Equal(got, whole(1)) {
		t.Fatalf("u.npy has %d bytes, and differs from the array: %v", len(got), err)
	}
	got, err := os.ReadFile(filepath.Join(first, "rank-1", "u.npy"))
	if want := append(image.NPYHeader(zones.Int8, []int64{(rows/2 + 2) * columns}), whole(1)[128+(rows/2-1)*columns:]...); err != nil || !bytes.Equal(got[:len(want)], want) {
		t.Fatalf("the array of rank 1 is another one: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(first, "rank-0", "a%2Fb%25.npy")); err != nil || len(b) != 128+80 {
		t.Errorf("%d bytes of a name with a slash: %v", len(b), err)
	}
	if b, err := os.ReadFile(filepath.Join(first, "manifest.json")); err != nil || !bytes.Contains(b, []byte(`"number": 1`)) {
		t.Errorf("manifest.json: %s, %v", b, err)
	}
	if err := os.WriteFile(filepath.Join(first, "rank-0", "u.npy"), nil, 0o600); !errors.Is(err, syscall.EROFS) && !errors.Is(err, syscall.EACCES) {
		t.Errorf("a write: %v", err)
	}
	open, err := os.Open(filepath.Join(first, "global", "u.npy"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	take(t, job, 2)
	if to, err := os.Readlink(filepath.Join(dir, "heat", "latest")); err != nil || to != "2" {
		t.Errorf("latest leads to %q: %v", to, err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "heat", "latest", "global", "u.npy")); err != nil || !bytes.Equal(got, whole(2)) {
		t.Errorf("the new checkpoint reads otherwise: %v", err)
	}
	if _, _, err := job.Prune(1); err != nil {
		t.Fatal(err)
	}
	for _, off := range []int64{0, 127, 5 << 10, 128 + rows/2*columns - 3, 128 + rows*columns - 10} {
		b := make([]byte, 10)
		if _, err := open.ReadAt(b, off); err != nil || !bytes.Equal(b, whole(1)[off:off+10]) {
			t.Errorf("a pruned array that is open, at %d: %v, %v", off, b, err)
		}
	}
	entries, _ := os.ReadDir(filepath.Join(dir, "heat"))
	if names := fmt.Sprint(entries); !strings.Contains(names, "2/") || strings.Contains(names, "1/") {
		t.Errorf("the job lists %s", names)
	}
	damage(t, job, filepath.Join(dir, "heat", "2"), lines)
}

// damage flips a byte of rank 1's array in the store.
func damage(t *testing.T, job *image.Job, mounted string, lines chan string) {
	t.Helper()
	take(t, job, 3)
	mounted = filepath.Join(filepath.Dir(mounted), "3")
	name := filepath.Join(job.NumberDir(3), "rank-1.img")
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	f.ReadAt(b, 5000)
	b[0] ^= 1
	f.WriteAt(b, 5000)
	if _, err := os.ReadFile(filepath.Join(mounted, "rank-1", "u.npy")); !errors.Is(err, syscall.EIO) {
		t.Errorf("damage reads as %v, want EIO", err)
	}
	if line := <-lines; !strings.Contains(line, "heat/3/rank-1/u.npy: ") || !strings.Contains(line, "rank-1.img") || !strings.Contains(line, "4096") {
		t.Errorf("line %q names no file and offset", line)
	}
	if _, err := os.ReadFile(filepath.Join(mounted, "rank-0", "u.npy")); err != nil {
		t.Errorf("the rank beside the damage: %v", err)
	}
}

// TestNumPy has NumPy map the array of all ranks.
func TestNumPy(t *testing.T) {
	testkit.All(t, "fuse", "numpy")
	_, dir, _ := browse(t, 1)
	out, err := exec.Command("/usr/bin/python3", "-c", `
import numpy, sys
u = numpy.load(sys.argv[1], mmap_mode='r')
print(u.shape, u.dtype, u.flags.writeable, int(u[::-1][0:300:7, 3].astype(int).sum()))`, filepath.Join(dir, "heat/latest/global/u.npy")).CombinedOutput()
	sum := 0
	for k := 0; k < 300; k += 7 {
		sum += int(int8(u(1, rows-1-k, 3)))
	}
	if want := fmt.Sprintf("(600, 500) int8 False %d\n", sum); err != nil || string(out) != want {
		t.Errorf("%s, want %s: %v", out, want, err)
	}
}

// TestTaken: a directory is mounted once, and only where there is one.
func TestTaken(t *testing.T) {
	job, dir, _ := browse(t, 0)
	if _, err := Browse(job.Store(), dir, BrowseOptions{}); !errors.Is(err, ErrTaken) {
		t.Errorf("mounted twice: %v", err)
	}
	for _, bad := range []string{filepath.Join(dir, "none"), filepath.Join(job.Dir(), "job")} {
		if m, err := Browse(job.Store(), bad, BrowseOptions{}); err == nil {
			m.Unmount()
			t.Errorf("%s was mounted on", bad)
		}
	}
}
