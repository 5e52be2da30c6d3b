package source

import (
	"os"
	"path/filepath"
	"testing"

	"ckpt/zones"
)

func TestMeasureNames(t *testing.T) {
	for m, name := range measureNames {
		if got, err := ParseMeasure(name); err != nil || got != Measure(m) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := ParseMeasure("guess"); err == nil {
		t.Error("guess is no measure")
	}
}

func TestApply(t *testing.T) {
	const rw = zones.Read | zones.Write
	area := func(name string, shared bool, prot zones.Prot, resident, dirty, occupied int64) zones.Area {
		return zones.Area{Start: 1 << 32, End: 1<<32 + 4*mib, Name: name, Shared: shared, Prot: prot,
			Resident: resident, Dirty: dirty, Occupied: occupied}
	}
	const m4, k8 = 4 * mib, 8 * kib
	for _, c := range []struct {
		what string
		area zones.Area
		want [5]int64 // by measure
	}{
		{"anonymous", area("", false, rw, mib, mib, mib), [5]int64{mib + 3*4*kib, mib, m4, mib, mib}},
		{"anonymous, of maps", area("", false, rw, -1, -1, -1), [5]int64{m4 + k8, m4, m4, m4, m4}},
		{"reserved, of maps", area("", false, 0, -1, -1, -1), [5]int64{k8, 0, m4, 0, 0}},
		{"stack", area("[stack]", false, rw, mib/2, mib/2, mib/2), [5]int64{mib + 3*4*kib, mib / 2, m4, mib / 2, mib / 2}},
		{"text", area("/lib/libc.so.6", false, zones.Read|zones.Exec, mib, 0, 0), [5]int64{m4 + 4*kib, 0, m4, mib, 0}},
		{"text, of maps", area("/lib/libc.so.6", false, zones.Read|zones.Exec, -1, -1, -1), [5]int64{m4 + 4*kib, 0, m4, 0, 0}},
		{"upgraded library", area("/lib/libc.so.6 (deleted)", false, zones.Read, mib, 0, 0), [5]int64{m4 + k8, 0, m4, mib, 0}},
		{"segment", area("/dev/shm/mpich_shar_tmp (deleted)", true, rw, mib, mib, mib), [5]int64{m4 + k8, mib, m4, mib, mib}},
		{"shared anonymous", area("/dev/zero (deleted)", true, rw, mib, mib, mib), [5]int64{mib + 3*4*kib, mib, m4, mib, mib}},
		{"untouched shared anonymous", area("/dev/zero (deleted)", true, rw, 0, 0, 0), [5]int64{k8, 0, m4, 0, 0}},
		{"shared anonymous, of maps", area("/dev/zero (deleted)", true, rw, -1, -1, -1), [5]int64{m4 + k8, m4, m4, m4, m4}},
		{"segment, of maps", area("/SYSV0052e2c1 (deleted)", true, rw, -1, -1, -1), [5]int64{m4 + k8, m4, m4, m4, m4}},
		{"kept file", area("/dev/shm/vader_segment.node1", true, rw, mib, mib, mib), [5]int64{0, 0, m4, mib, mib}},
		{"device", area("/dev/dri/card0", true, rw, 0, 0, 0), [5]int64{0, 0, m4, 0, 0}},
		{"name service", area("/run/nscd/dbZ", true, zones.Read, 0, 0, 0), [5]int64{4 * kib, 0, m4, 0, 0}},
		{"vdso", area("[vdso]", false, zones.Read, 8*kib, 0, 0), [5]int64{0, 0, 0, 0, 0}},
	} {
		p := &zones.Process{Areas: []zones.Area{c.area}}
		for m, want := range c.want {
			Measure(m).Apply(p)
			a := p.Areas[0]
			if a.Stored != want {
				t.Errorf("%s of %s: %d, want %d", measureNames[m], c.what, a.Stored, want)
			}
			if a.Companion != (Measure(m) == DMTCP && c.what == "kept file") {
				t.Errorf("%s of %s: companion %v", measureNames[m], c.what, a.Companion)
			}
			overhead := int64(0)
			if Measure(m) == DMTCP {
				overhead = 12 * kib
			}
			if p.Overhead != overhead {
				t.Errorf("%s: overhead %d", measureNames[m], p.Overhead)
			}
		}
	}
}

func TestCRIUStoresSegmentOnce(t *testing.T) {
	a := zones.Area{Start: 1 << 20, End: 2 << 20, Shared: true, Name: "/dev/zero (deleted)", Inode: 5, Prot: zones.Read, Resident: mib}
	b := a
	b.Start, b.End = 3<<20, 4<<20
	other := b
	other.Start, other.End, other.Offset = 5<<20, 6<<20, mib
	p := &zones.Process{Areas: []zones.Area{a, b, other}}
	CRIU.Apply(p)
	if got := p.Image(); got != 2*mib {
		t.Errorf("%d bytes", got)
	}
}

// The length of a file bounds what is stored of it, unless it may be written.
func TestLookAtFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, size int) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("root/lib/a\nb.so", 5000)
	write("map_files/70000000-70004000", 9000) // of a file that is out of reach
	const at = 0x70000000
	areas := []zones.Area{
		{Start: 0x10000, End: 0x14000, Name: `/lib/a\012b.so`, Prot: zones.Read},
		{Start: 0x14000, End: 0x18000, Name: `/lib/a\012b.so`, Prot: zones.Read, Offset: 4096},
		{Start: 0x18000, End: 0x1c000, Name: `/lib/a\012b.so`, Prot: zones.Read, Offset: 8192},
		{Start: 0x1c000, End: 0x20000, Name: `/lib/a\012b.so`, Prot: zones.Read | zones.Write},
		{Start: at, End: at + 0x4000, Name: "/elsewhere/c.so", Prot: zones.Read},
		{Start: at + 0x4000, End: at + 0x8000, Name: "/gone.so", Prot: zones.Read},
		{Start: at + 0x8000, End: at + 0xc000, Name: "/gone", Prot: zones.Read, Shared: true},
	}
	known, err := look(t.Context(), dir, areas, DMTCP)
	if err != nil {
		t.Fatal(err)
	}
	p := &zones.Process{Areas: areas}
	DMTCP.apply(p, known)
	// The third mapping lies behind the end; DMTCP then takes it whole.
	for i, want := range []int64{4096 + 5000, 4096 + 904, 4096 + 16384, 4096 + 16384, 4096 + 9000, 8192 + 16384, 8192 + 16384} {
		if p.Areas[i].Stored != want {
			t.Errorf("%s at %d: %d stored, want %d", areas[i].Name, areas[i].Offset, p.Areas[i].Stored, want)
		}
	}
}
