package mpi

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"ckpt/internal/testkit"
	"ckpt/zones"
)

func TestSegmentBytesMatchMeasurements(t *testing.T) {
	// León 2022, Table 5.1, SHMEM, MiB. Rows equal to Eq. 3.11 are left out:
	// they are computed; 4 ranks is a point of its fit.
	for _, row := range []struct {
		implementation Implementation
		ranks          int
		mib            float64
	}{
		{MPICH, 4, 42.45}, {MPICH, 16, 105.01}, {MPICH, 25, 163.57}, {MPICH, 36, 248.97}, {MPICH, 49, 369.27}, {MPICH, 64, 534.54},
		{OpenMPI, 4, 91.14}, {OpenMPI, 16, 90.10}, {OpenMPI, 25, 90.10}, {OpenMPI, 36, 90.11}, {OpenMPI, 49, 90.11},
		{OpenMPI, 64, 98.27},
	} {
		got := float64(SegmentBytes(row.implementation, row.ranks)) / mib
		if e := got/row.mib - 1; math.Abs(e) > 0.012 {
			t.Errorf("%v with %d ranks: %.2f MiB, measured %.2f: %+.1f %%", row.implementation, row.ranks, got, row.mib, 100*e)
		} else {
			t.Logf("%v with %d ranks: %.2f MiB, measured %.2f: %+.2f %%", row.implementation, row.ranks, got, row.mib, 100*e)
		}
	}
	for _, bad := range []int64{SegmentBytes(0, 4), SegmentBytes(MPICH, 0), SegmentBytes(OpenMPI, -1), SegmentBytes(MPICH, maxNodeRanks+1)} {
		if bad != 0 {
			t.Errorf("a shape that does not exist has %d bytes", bad)
		}
	}
}

// A checkpoint stores a drained segment without the bytes of old messages. Put back, it
// is a segment as good as new.
func TestDrained(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenSegment(filepath.Join(dir, "used"), MPICH, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := int64(HeaderBytes); i < s.geo.total; i += 1000 {
		s.mem[i] = 1
	}
	r := s.Drained()
	if r.Size != s.geo.total || r.Name != s.Region().Name || r.Zone != zones.Shared {
		t.Fatalf("%s of %d bytes in zone %v, want the whole segment", r.Name, r.Size, r.Zone)
	}
	saved := make([]byte, r.Size)
	copy(saved, r.Mem)
	for i, b := range saved[HeaderBytes:] {
		if b != 0 {
			t.Fatalf("byte %d of the old messages is saved", HeaderBytes+i)
		}
	}
	restored := filepath.Join(dir, "restored")
	if err := os.WriteFile(restored, saved, 0o600); err != nil {
		t.Fatal(err)
	}
	fresh, err := OpenSegment(restored, MPICH, 4)
	if err != nil {
		t.Fatalf("what is saved is no segment: %v", err)
	}
	fresh.Close()
}

func TestGeometry(t *testing.T) {
	for _, f := range []Implementation{MPICH, OpenMPI} {
		for n := 1; n <= maxNodeRanks; n++ {
			g := newGeometry(f, n)
			switch {
			case g.stateOff+int64(n*g.cells*stateBytes) > g.ringOff,
				g.cellOff+int64(n)*int64(g.cells)*g.cellBytes > g.total,
				g.total%zones.PageSize != 0, g.ringOff%zones.PageSize != 0, g.cellOff%zones.PageSize != 0,
				g.ringBytes < openMPIMinRing, g.ringBytes > maxRing, (g.ringBytes-ringHead)%recordAlign != 0,
				g.cells < 16, int64(g.cells)*g.cellBytes > maxPool:
				t.Fatalf("%v with %d ranks: %+v", f, n, g)
			}
		}
	}
}

func TestParseImplementation(t *testing.T) {
	for _, f := range []Implementation{MPICH, OpenMPI} {
		if got, err := ParseImplementation(f.String()); got != f || err != nil {
			t.Errorf("%v: got %v, %v", f, got, err)
		}
	}
	if _, err := ParseImplementation("mvapich"); err == nil {
		t.Error("an unknown implementation is taken")
	}
}

func TestOpenSegmentRaces(t *testing.T) {
	dir := shmDir(t)
	for round := range 10 {
		path := filepath.Join(dir, fmt.Sprint(round))
		segs := make([]*Segment, 8)
		var wg sync.WaitGroup
		for i := range segs {
			wg.Go(func() {
				s, err := OpenSegment(path, OpenMPI, len(segs))
				if err != nil {
					t.Errorf("open %d: %v", i, err)
					return
				}
				// The mark must survive whoever opens later.
				s.mem[s.geo.total-1-int64(i)] = byte(i + 1)
				segs[i] = s
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		for i, s := range segs {
			for j := range segs {
				if got := s.mem[s.geo.total-1-int64(j)]; got != byte(j+1) {
					t.Errorf("round %d: mapping %d sees %d for %d", round, i, got, j)
				}
			}
			if err := quiescent(s); err != nil {
				t.Error(err)
			}
			if r := s.Region(); r.Zone != zones.Shared || r.Name != "segment" || r.Size != SegmentBytes(OpenMPI, 8) || int64(len(r.Mem)) != zones.PageRound(r.Size) {
				t.Errorf("region %q %v %d", r.Name, r.Zone, r.Size)
			}
		}
		for _, s := range segs {
			if err := errors.Join(s.Unlink(), s.Close(), s.Close()); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestOpenSegmentRefuses(t *testing.T) {
	dir := shmDir(t)
	path := filepath.Join(dir, "segment")
	make4 := func(t *testing.T) {
		s, err := OpenSegment(path, OpenMPI, 4)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	poke := func(off int64, b ...byte) func(*testing.T) {
		return func(t *testing.T) {
			make4(t)
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt(b, off); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, test := range []struct {
		name    string
		prepare func(*testing.T)
		ranks   int
		want    string
	}{
		{"other ranks, same size", make4, 5, "made for openmpi with 4 ranks"},
		{"other size", func(t *testing.T) { make4(t); os.Truncate(path, 100) }, 4, "100 bytes long"},
		{"magic", poke(0, 'X'), 4, "magic"},
		{"field", poke(20, 0xff), 4, "checksum"},
		{"past the fields", poke(100, 1), 4, "not zero"},
		{"mode", func(t *testing.T) { make4(t); os.Chmod(path, 0o644) }, 4, "lets others in"},
		{"link", func(t *testing.T) { os.Symlink(filepath.Join(dir, "elsewhere"), path) }, 4, "too many levels"},
		{"directory", func(t *testing.T) { os.Mkdir(path, 0o700) }, 4, "is a directory"},
		{"no ranks", func(*testing.T) {}, 0, "ranks"},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer os.Remove(path)
			test.prepare(t)
			s, err := OpenSegment(path, OpenMPI, test.ranks)
			if err == nil {
				s.Close()
				t.Fatal("it was opened")
			}
			var se *SegmentError
			if !errors.As(err, &se) || se.Path != path || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %q does not say %q", err, test.want)
			}
		})
	}
}

// A rank killed while it prepared the file leaves it sized and without header.
func TestOpenSegmentHalfMade(t *testing.T) {
	reserving(t)
	path := filepath.Join(shmDir(t), "segment")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, SegmentBytes(MPICH, 2)); err != nil {
		t.Fatal(err)
	}
	s, err := OpenSegment(path, MPICH, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Blocks*512 < s.geo.total-s.geo.ringOff+HeaderBytes || st.Blocks*512 > s.geo.total/2 {
		t.Errorf("%d bytes are reserved, %v, want the used ones", st.Blocks*512, err)
	}
}

func TestOpenSegmentNoSpace(t *testing.T) {
	reserving(t)
	dir := SegmentDir(0)
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	// A disk would be filled before it is found to be too small.
	if dir != "/dev/shm" || uint64(SegmentBytes(MPICH, maxNodeRanks)) < st.Blocks*uint64(st.Bsize) {
		testkit.Skip(t, dir+" in memory, smaller than the largest segment")
	}
	if got := SegmentDir(SegmentBytes(MPICH, maxNodeRanks)); got != os.TempDir() {
		t.Errorf("a terabyte goes to %s", got)
	}
	path := filepath.Join(shmDir(t), "segment")
	_, err := OpenSegment(path, MPICH, maxNodeRanks)
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EFBIG) {
		t.Fatalf("error %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 0 {
		t.Errorf("what was reserved is not given back: %v, %v", info.Size(), err)
	}
}

func TestMemory(t *testing.T) {
	m := NewMemory()
	u, err := m.Alloc("u", zones.Data, zones.Float64, 10000)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range u {
		if b != 0 {
			t.Fatal("memory is not zero")
		}
	}
	u[9999] = 7
	if _, err := m.Alloc("empty", zones.IOBuffer, zones.Bytes, 0); err != nil {
		t.Fatal(err)
	}
	if err := m.MapLibrary("exe", "/proc/self/exe"); err != nil {
		t.Fatal(err)
	}
	seg, err := OpenSegment(filepath.Join(shmDir(t), "segment"), OpenMPI, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer seg.Close()
	m.AddShared(seg)

	exe, err := os.Stat("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	got := m.Sizes()
	if want := (zones.Sizes{Library: got.Library, Data: 10000, Shared: SegmentBytes(OpenMPI, 1)}); got != want {
		t.Errorf("sizes %+v, want %+v", got, want)
	}
	// A process has less of its binary in memory than the file, which
	// also has symbols and debug information, but surely its code.
	if got.Library <= exe.Size()/4 || got.Library >= exe.Size() {
		t.Errorf("library zone of %d bytes, the binary has %d", got.Library, exe.Size())
	}
	var names []string
	for _, r := range m.Regions() {
		names = append(names, r.Name)
		if int64(len(r.Mem)) != zones.PageRound(r.Size) {
			t.Errorf("%s: %d bytes of memory for %d", r.Name, len(r.Mem), r.Size)
		}
	}
	if got := strings.Join(names, " "); got != "u empty exe segment" {
		t.Errorf("regions %s", got)
	}
	if got := string(m.Regions()[2].Mem[1:4]); got != "ELF" {
		t.Errorf("the library begins with %q", got)
	}
	if m.Regions()[0].Mem[9999] != 7 {
		t.Error("the region is not the memory that was given out")
	}

	for _, test := range []struct {
		want string
		err  error
	}{
		{`"u" of 8 bytes: the name`, second(m.Alloc("u", zones.Data, zones.Bytes, 8))},
		{`"neg" of -1 bytes`, second(m.Alloc("neg", zones.Data, zones.Bytes, -1))},
		{"size is out of range", second(m.Alloc("huge", zones.Data, zones.Bytes, math.MaxInt64))},
		{`"much" of 1152921504606846976 bytes: map`, second(m.Alloc("much", zones.Data, zones.Bytes, 1<<60))},
		{"not a zone", second(m.Alloc("z", zones.Zone(9), zones.Bytes, 1))},
		{"not an element type", second(m.Alloc("z", zones.Data, zones.Elem(math.MaxUint8), 1))},
		{"the name is taken", m.MapLibrary("exe", "/proc/self/exe")},
		{"no such file", m.MapLibrary("lib", filepath.Join(t.TempDir(), "none"))},
		{"not a regular file", m.MapLibrary("lib", "/dev/null")},
	} {
		if test.err == nil || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("error %v does not say %s", test.err, test.want)
		}
	}
	if err := errors.Join(m.Close(), m.Close()); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestJoinMakesNoFile: a rank that comes too late for its segment leaves no file behind.
func TestJoinMakesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "segment")
	if seg, err := JoinSegment(path, MPICH, 2); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, %v", seg, err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the rank made a file: %v", err)
	}
	made, err := OpenSegment(path, MPICH, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	joined, err := JoinSegment(path, MPICH, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := joined.Close(); err != nil {
		t.Error(err)
	}
}
