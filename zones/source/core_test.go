package source

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"debug/elf"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"ckpt/zones"

	"github.com/google/go-cmp/cmp"
)

func read(b []byte) (*zones.Process, error) {
	return readCore(context.Background(), "core", bytes.NewReader(b), int64(len(b)))
}

func mustRead(t *testing.T, f *file) *zones.Process {
	t.Helper()
	p, err := read(f.bytes())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCore(t *testing.T) {
	f := sample("HOME=/root", "PMI_RANK=3", "PMI_SIZE=4")
	b := f.bytes()
	if !isCore(b[:18]) {
		t.Error("not recognised as a core")
	}
	p, err := read(b)
	if err != nil {
		t.Fatal(err)
	}
	const exe, lib = "/opt/npb/bt.A.4", "/usr/lib/libmpich.so.12"
	want := &zones.Process{
		Source: "core", Format: zones.FormatCore, Name: "bt.A.4", Exe: exe, PID: 4711, Rank: 3, JobRanks: 4,
		FileBytes: int64(len(b)), Unpacked: int64(len(b)),
		Areas: []zones.Area{
			{Start: exeAt, End: exeAt + 0x8000, Prot: rx, Name: exe, Stored: page},
			{Start: exeAt + 0x9000, End: exeAt + 0xa000, Prot: rw, Name: exe, Offset: 8 * page, Stored: page},
			{Start: exeAt + 0xa000, End: exeAt + 0xc000, Prot: rw, Stored: 2 * page},
			{Start: heapAt, End: heapAt + 0x3000, Prot: rw, Name: "[heap]", Stored: 3 * page},
			{Start: shmAt, End: shmAt + 0x4000, Prot: rw, Name: "/dev/shm/mpich_shar_tmpQ (deleted)", Shared: true, Stored: 4 * page},
			{Start: libAt, End: libAt + 0x10000, Prot: rx, Name: lib, Offset: 2 * page},
			{Start: libAt + 0x10000, End: libAt + 0x11000, Prot: rw, Name: lib, Offset: 0x12 * page, Stored: page},
			{Start: libAt + 0x20000, End: libAt + 0x21000, Prot: rw, Stored: page},
			{Start: libAt + 0x21000, End: libAt + 0x31000},
			{Start: vvarAt, End: vvarAt + 0x4000, Prot: r, Name: "[vvar]", Stored: 4 * page},
			{Start: vvarAt + 0x4000, End: vvarAt + 0x6000, Prot: r, Name: "[vvar]", Stored: 2 * page},
			{Start: vvarAt + 0x6000, End: vvarAt + 0x8000, Prot: rx, Name: "[vdso]", Stored: 2 * page},
			{Start: stackAt, End: stackTo, Prot: rw, Name: "[stack]", Stored: 0x22 * page},
			{Start: 0xffffffffff600000, End: 0xffffffffff601000, Prot: x, Name: "[vsyscall]", Stored: page},
		},
	}
	want.Overhead = int64(len(b))
	for i := range want.Areas {
		a := &want.Areas[i]
		a.Resident, a.Dirty, a.Occupied = -1, -1, -1
		want.Overhead -= a.Stored
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
	if p.Image() != p.FileBytes {
		t.Errorf("areas and overhead are %d bytes, the file %d", p.Image(), p.FileBytes)
	}
}

func TestReadRank(t *testing.T) {
	for _, c := range []struct {
		env  []string
		want int
	}{
		{nil, -1},
		{[]string{"SLURM_PROCID=0", "PMI_RANK=12"}, 12},
		{[]string{"PMIX_RANK=7", "OMPI_COMM_WORLD_RANK=6"}, 6},
		{[]string{"PMIX_RANK=7"}, 7},
		{[]string{"PMI_RANK=x", "SLURM_PROCID=2"}, 2},
		{[]string{"PMI_RANK=-1"}, -1},
		{[]string{"PMI_RANK=99999999999999999999"}, -1},
		{[]string{"NOT_PMI_RANK=3", "PMI_RANKS=3"}, -1},
		{[]string{"PMI_RANK="}, -1},
		{[]string{"PMI_RANK=5", "PMI_RANK=6"}, 6},
	} {
		if p := mustRead(t, sample(c.env...)); p.Rank != c.want {
			t.Errorf("%q: rank %d, want %d", c.env, p.Rank, c.want)
		}
	}
	// Without the upper end of the stack there is no environment.
	f := sample("PMI_RANK=3")
	stack := &f.areas[len(f.areas)-2]
	stack.contents = stack.contents[:len(stack.contents)-page]
	if p := mustRead(t, f); p.Rank != -1 {
		t.Errorf("rank %d of a stack that is cut off", p.Rank)
	}
	// A large stack is searched at its end only.
	f = sample("PMI_RANK=3")
	stack = &f.areas[len(f.areas)-2]
	stack.start -= 1 << 20
	stack.contents = append(stackOf(1<<20, "OMPI_COMM_WORLD_RANK=9"), stack.contents...)
	if p := mustRead(t, f); p.Rank != 3 {
		t.Errorf("rank %d of a large stack", p.Rank)
	}
}

// named returns the start of the area with a name, or 0.
func named(p *zones.Process, name string) uint64 {
	for _, a := range p.Areas {
		if a.Name == name {
			return a.Start
		}
	}
	return 0
}

func TestReadStack(t *testing.T) {
	// Without the auxiliary vector the stack pointer of the first thread counts.
	f := sample()
	f.notes = []note{status(4711, stackTo-0x1000), status(4712, libAt+0x20800)}
	if p := mustRead(t, f); named(p, "[stack]") != stackAt || p.PID != 4711 || p.Name != "" {
		t.Errorf("stack at %x, pid %d, name %q", named(p, "[stack]"), p.PID, p.Name)
	}
	// It is not a file, nor outside of all areas.
	for _, sp := range []uint64{0, libAt - 8, exeAt + 0x9100} {
		f.notes = []note{status(4711, sp), sample().notes[4]}
		if p := mustRead(t, f); named(p, "[stack]") != 0 {
			t.Errorf("stack pointer %x: stack at %x", sp, named(p, "[stack]"))
		}
	}
	// Each machine keeps it in another register.
	for machine, register := range map[elf.Machine]int{elf.EM_AARCH64: 31, elf.EM_RISCV: 2, elf.EM_PPC64: 1, elf.EM_LOONGARCH: 0} {
		f := sample()
		desc := make([]byte, 112+34*8)
		le.PutUint64(desc[112+8*register:], stackTo-64)
		f.machine, f.notes = machine, []note{{"CORE", elf.NT_PRSTATUS, desc}}
		want := uint64(stackAt)
		if register == 0 { // not known
			want = 0
		}
		if p := mustRead(t, f); named(p, "[stack]") != want || named(p, "[vsyscall]") != 0 {
			t.Errorf("%v: stack at %x, vsyscall at %x", machine, named(p, "[stack]"), named(p, "[vsyscall]"))
		}
	}
}

func TestReadHeap(t *testing.T) {
	const heap = 3 // its index in the sample
	for _, c := range []struct {
		what   string
		change func(f *file)
		want   uint64
	}{
		{"executable heap", func(f *file) { f.areas[heap].prot = rw | x }, 0},
		{"too far away", func(f *file) {
			f.areas[heap].start, f.areas[heap].end = 0x570000000000, 0x570000003000
		}, 0},
		{"no gap", func(f *file) {
			f.areas[heap].start, f.areas[heap].end = exeAt+0xc000, exeAt+0xf000
		}, 0}, // part of the uninitialized data, for all that is known
		{"no uninitialized data", func(f *file) { f.areas = append(f.areas[:2:2], f.areas[3:]...) }, heapAt},
		{"other memory before it", func(f *file) {
			f.areas[2] = area{exeAt + 0xb000, exeAt + 0xc000, r, make([]byte, page)}
		}, 0},
		{"no list of files", func(f *file) { f.notes = f.notes[:4] }, 0},
		{"nothing above the program", func(f *file) { f.areas = f.areas[:2] }, 0},
	} {
		f := sample()
		c.change(f)
		if p := mustRead(t, f); named(p, "[heap]") != c.want {
			t.Errorf("%s: heap at %x, want %x", c.what, named(p, "[heap]"), c.want)
		}
	}
}

func TestReadExecutable(t *testing.T) {
	// The text is not in the file at all, as gcore may leave it out.
	f := sample()
	f.areas = f.areas[1:]
	if p := mustRead(t, f); p.Exe != "/opt/npb/bt.A.4" || named(p, "[heap]") != heapAt {
		t.Errorf("program %q, heap at %x", p.Exe, named(p, "[heap]"))
	}
	// By the name of the process, of which the kernel keeps 15 bytes.
	f = sample()
	f.notes = []note{info(1, "a_very_long_program"), files(
		mapped{libAt, libAt + 0x10000, 0, "/usr/lib/libmpich.so.12"},
		mapped{exeAt, exeAt + 0x8000, 0, "/opt/a_very_long_program (deleted)"})}
	if p := mustRead(t, f); p.Exe != "/opt/a_very_long_program" || p.Name != "a_very_long_program" {
		t.Errorf("program %q, %q", p.Exe, p.Name)
	}
	// Not at all.
	f.notes = f.notes[:1]
	if p := mustRead(t, f); p.Exe != "" || p.Name != "a_very_long_pro" {
		t.Errorf("program %q, %q", p.Exe, p.Name)
	}
}

// A segment that spans several mappings is divided, and its contents with it.
func TestReadDividesSegments(t *testing.T) {
	f := &file{
		areas: []area{{0x10000, 0x18000, rw, filled(0x5800)}, {0x20000, 0x21000, r, nil}},
		notes: []note{files(
			mapped{0x8000, 0x11000, 1, "/a"},         // begins before the segment
			mapped{0x12000, 0x14000, 5, "/memfd:b"},  // within it
			mapped{0x16000, 0x30000, 0, "/SYSV0001"}, // goes on in the next
		)},
	}
	p := mustRead(t, f)
	want := []zones.Area{
		{Start: 0x10000, End: 0x11000, Prot: rw, Name: "/a", Offset: page + 0x8000, Stored: 0x1000},
		{Start: 0x11000, End: 0x12000, Prot: rw, Stored: 0x1000},
		{Start: 0x12000, End: 0x14000, Prot: rw, Name: "/memfd:b", Shared: true, Offset: 5 * page, Stored: 0x2000},
		{Start: 0x14000, End: 0x16000, Prot: rw, Stored: 0x1800},
		{Start: 0x16000, End: 0x18000, Prot: rw, Name: "/SYSV0001", Shared: true},
		{Start: 0x20000, End: 0x21000, Prot: r, Name: "/SYSV0001", Shared: true, Offset: 0xa000},
	}
	for i := range want {
		want[i].Resident, want[i].Dirty, want[i].Occupied = -1, -1, -1
	}
	if diff := cmp.Diff(want, p.Areas); diff != "" {
		t.Error(diff)
	}
	if p.Image() != p.FileBytes {
		t.Errorf("%d bytes of %d", p.Image(), p.FileBytes)
	}
}

// More than 65,535 program headers do not fit into their field.
func TestReadManyAreas(t *testing.T) {
	f := &file{extended: true}
	for i := range uint64(70000) {
		f.areas = append(f.areas, area{start: i * 2 * page, end: (i*2 + 1) * page, prot: rw})
	}
	if p := mustRead(t, f); len(p.Areas) != 70000 {
		t.Errorf("%d areas", len(p.Areas))
	}
}

func TestReadUnordered(t *testing.T) {
	f := sample()
	f.areas[0], f.areas[7] = f.areas[7], f.areas[0]
	got, want := mustRead(t, f), mustRead(t, sample())
	if diff := cmp.Diff(want.Areas, got.Areas); diff != "" {
		t.Error(diff)
	}
}

func TestReadEmptySegment(t *testing.T) {
	f := sample()
	n := len(mustRead(t, f).Areas)
	f.areas = append(f.areas, area{start: 0x1000, end: 0x1000, prot: r})
	if p := mustRead(t, f); len(p.Areas) != n {
		t.Errorf("%d areas, want %d", len(p.Areas), n)
	}
}

func TestIsCore(t *testing.T) {
	b := sample().bytes()
	for _, c := range []struct {
		what string
		head []byte
		want bool
	}{
		{"core", b, true},
		{"17 bytes", b[:17], false},
		{"nothing", nil, false},
		{"program", change(sample(), 16, 2), false},
		{"big-endian core", change(sample(), 5, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4), true},
		{"text", []byte("55d6d9924000-55d6d9926000 r--p"), false},
	} {
		if got := isCore(c.head); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

func TestReadFails(t *testing.T) {
	cause := errors.New("disk on fire")
	size := int64(len(sample().bytes()))
	if _, err := readCore(t.Context(), "core", failing{cause}, size); !errors.Is(err, cause) {
		t.Errorf("a reader that fails: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := readCore(ctx, "core", bytes.NewReader(sample().bytes()), size); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	// The file was cut between the question for its size and now.
	b := sample().bytes()
	_, err := readCore(t.Context(), "core", bytes.NewReader(b[:100]), size)
	var f *zones.FormatError
	if !errors.As(err, &f) || f.Offset != 100 || !strings.Contains(f.Reason, "the file ends here") {
		t.Errorf("a file that shrank: %v", err)
	}
}

type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

var _ io.ReaderAt = failing{}

// TestCoreZeros: memory that was never used is no data, whatever its protection seems to be:
// gdb writes a reserve without access as readable zeros.
func TestCoreZeros(t *testing.T) {
	mixed := append(make([]byte, 2*page), filled(page+100)...)
	f := &file{
		areas: []area{
			{0x10000, 0x18000, rw, append(mixed, make([]byte, 0x8000-len(mixed))...)},
			{0x20000, 0x20000 + 1<<21, r, make([]byte, 1<<21)}, // a reserve
			{0x800000, 0x800000 + 2*page, rw, make([]byte, 2*page)},
			{0x900000, 0x900000 + page, r, make([]byte, page)}, // of a file: as its file has it
		},
		notes: []note{files(mapped{0x900000, 0x901000, 0, "/lib.so"})},
	}
	p := mustRead(t, f)
	var got []int64
	for _, a := range p.Areas {
		got = append(got, a.Stored)
	}
	if want := []int64{2 * page, 0, 0, page}; !slices.Equal(got, want) {
		t.Errorf("areas with %d bytes, want %d", got, want)
	}
	if p.Overhead <= 0 || p.Overhead > 1000 {
		t.Errorf("%d bytes of headers", p.Overhead)
	}
}

// TestPackedCore: a packed core is the same process, and a cut one an error of the file.
func TestPackedCore(t *testing.T) {
	unpack := func(r io.Reader) (io.ReadCloser, bool) {
		buf := bufio.NewReader(r)
		if head, _ := buf.Peek(2); !bytes.Equal(head, gzipMagic) {
			return io.NopCloser(buf), false
		}
		z, err := gzip.NewReader(buf)
		if err != nil {
			return io.NopCloser(iotest.ErrReader(err)), true
		}
		return z, true
	}
	r := Reader{Rules: zones.DefaultRules(), Unpack: unpack}
	f := &file{areas: []area{{0x10000, 0x400000, rw, make([]byte, 0x3f0000)}, {0x800000, 0x810000, rw, filled(0x10000)}}}
	dir := t.TempDir()
	plain, packed, cut := filepath.Join(dir, "core"), filepath.Join(dir, "core.gz"), filepath.Join(dir, "cut.gz")
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write(f.bytes()); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{plain: f.bytes(), packed: z.Bytes(), cut: z.Bytes()[:z.Len()/2]} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := r.File(t.Context(), plain)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.File(t.Context(), packed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[0].Areas, got[0].Areas); diff != "" || got[0].FileBytes != int64(z.Len()) {
		t.Error(diff, got[0].FileBytes)
	}
	var fe *zones.FormatError
	if _, err := r.File(t.Context(), cut); !errors.As(err, &fe) || !strings.Contains(fe.Reason, "the packed file is damaged") {
		t.Errorf("a cut core: %v", err)
	}
}
