package source

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckpt/zones"
	"ckpt/zones/dmtcptest"
)

func TestRead(t *testing.T) {
	im := mixed()
	b := im.Bytes()
	want := &zones.Process{
		Source: "image", Format: zones.FormatDMTCP, Name: "bt.A.4", Exe: "/opt/job/bin/bt.A.4",
		PID: 43000, Host: "7f0101", Group: "7f0101-40000-669fffff#1", Peers: 6, Rank: 3,
		FileBytes: int64(len(b)), Unpacked: int64(len(b)), Overhead: 3 * 4096,
	}
	for i, stored := range []struct{ bytes, runs, occupied int64 }{
		{4096 + 5001, 0, -1},
		{4096 + 12288, 0, -1},
		{4096 + 12288, 0, -1},
		{4096, 0, 0},
		{4*4096 + 12288, 2, 12288},
		{2 * 4096, 0, 0},
		{2*4096 + 12288, 1, 12288},
		{3*4096 + 20<<10, 1, 20 << 10},
	} {
		a := im.Areas[i]
		want.Areas = append(want.Areas, zones.Area{
			Start: a.Start, End: a.End, Prot: a.Prot, Shared: a.Flags&1 != 0, Name: a.Name, Offset: a.Offset,
			Device: a.Device, Inode: a.Inode, Stored: stored.bytes, Runs: int(stored.runs),
			Resident: -1, Dirty: -1, Occupied: stored.occupied,
		})
	}
	for _, r := range readers {
		in, size := r.open(t, b)
		got, err := ReadImage(context.Background(), "image", in, size)
		if err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
		if got.Image() != got.Unpacked {
			t.Errorf("%s: areas and overhead are %d bytes of %d", r.name, got.Image(), got.Unpacked)
		}
		if strings.HasPrefix(r.name, "gzip") {
			if want := int64(len(compressed(t, b))); got.FileBytes != want {
				t.Errorf("%s: file of %d bytes, want %d", r.name, got.FileBytes, want)
			}
			got.FileBytes = got.Unpacked
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", r.name, diff)
		}
	}
}

// TestReadJob reads what a job of several nodes leaves behind.
func TestReadJob(t *testing.T) {
	for _, j := range []struct {
		ranks int
		o     dmtcptest.Options
	}{
		{3, dmtcptest.Options{Seed: 1, Private: 1 << 18, Shared: 1 << 18, Libraries: 1 << 18}},
		{4, dmtcptest.Options{Seed: 2, Nodes: 2, Gzip: true, Private: 100, Shared: 100, Libraries: 100}},
		{1, dmtcptest.Options{Seed: 3, OpenMPI: true}},
	} {
		c := dmtcptest.Job(j.ranks, j.o)
		for i, im := range c.Images {
			b := im.Bytes()
			p, err := readImage(b)
			if err != nil {
				t.Fatalf("%s: %v", im.FileName(), err)
			}
			rank := i
			if i >= c.Ranks {
				rank = -1
			}
			if p.Rank != rank || p.Unpacked != im.Size() || p.Image() != im.Size() || p.FileBytes != int64(len(b)) || p.Group != c.Group.String()+"#1" {
				t.Errorf("%s: rank %d, %d bytes, %d in areas, want %d, %d", im.FileName(), p.Rank, p.Unpacked, p.Image(), rank, im.Size())
			}
		}
	}
}

// TestArena counts the runs of DMTCP's own allocator.
func TestArena(t *testing.T) {
	im := tiny()
	im.Areas = []dmtcptest.Area{dmtcptest.Arena(1<<40, nil), dmtcptest.Anonymous(1<<41, "", nil, dmtcptest.Alternating(101)...)}
	p := mustReadImage(t, im.Bytes())
	if a := p.Areas[0]; a.Bytes() != 16<<20 || a.Runs != 1024 || a.Occupied != 4<<20 || a.Stored != 12<<20+4096 {
		t.Errorf("arena %+v", a)
	}
	if a := p.Areas[1]; a.Runs != 51 || a.Occupied != 51*4096 || a.Stored != (1+101+51)*4096 {
		t.Errorf("alternating pages %+v", a)
	}
}

func TestRank(t *testing.T) {
	long := "X=" + strings.Repeat("x", 300<<10)
	for _, c := range []struct {
		env  string // strings, separated by blanks
		want int
	}{
		{"", -1},
		{"PMI_RANK=0", 0},
		{"PMI_RANK=3 PATH=/bin", 3},
		{"A=1 OMPI_COMM_WORLD_RANK=12 B=2", 12},
		{"PMIX_RANK=1234567", 1234567},
		{"SLURM_PROCID=7", 7},
		{"SLURM_PROCID=7 PMIX_RANK=6 OMPI_COMM_WORLD_RANK=5 PMI_RANK=4", 4},
		{"SLURM_PROCID=7 PMIX_RANK=6 OMPI_COMM_WORLD_RANK=5", 5},
		{"SLURM_PROCID=7 PMIX_RANK=6", 6},
		{"PMI_RANK=1 PMI_RANK=2 PMI_RANK=1 PMI_RANK=3", 3},
		{"PMI_RANK=1 PMI_RANK=x", 1},
		{"PMI_RANK=x SLURM_PROCID=2", 2},
		{"PMI_RANK=", -1},
		{"PMI_RANK=12345678", -1},
		{"PMI_RANK=-1", -1},
		{"PMI_RANK=+1", -1},
		{"PMI_RANK=1_0", -1},
		{"PMI_RANK=0x1", -1},
		{"PMI_RANK=3;", -1},
		{"XPMI_RANK=3", -1},
		{"PMI_RANKS=3", -1},
		{"PMI_RANK", -1},
		{long + " PMI_RANK=3", 3},
		{"PMI_RANK=3 " + long, -1}, // beyond the window
	} {
		im := tiny()
		im.Areas = append(im.Areas, dmtcptest.Stack(1<<46, 8<<20, 512<<10, nil, strings.Fields(c.env)))
		if got := mustReadImage(t, im.Bytes()).Rank; got != c.want {
			t.Errorf("%.60q: rank %d, want %d", c.env, got, c.want)
		}
	}
}

// TestRankPlace looks for the environment where it is not to be found, and
// where the stack is stored in parts.
func TestRankPlace(t *testing.T) {
	env := []byte("\x00PMI_RANK=3\x00")
	stack := func(name string, at int, runs ...dmtcptest.Run) dmtcptest.Area {
		return dmtcptest.Anonymous(1<<46, name, dmtcptest.Literal(append(make([]byte, at), env...)), runs...)
	}
	pages := dmtcptest.Touched
	for _, c := range []struct {
		name string
		area dmtcptest.Area
		want int
	}{
		{"whole", stack("[stack]", 4000, pages(3)), 3},
		{"first byte", stack("[stack]", 0, pages(1)), 3},
		{"last byte", stack("[stack]", 4096-len(env), pages(1)), 3},
		{"first of the window", stack("[stack]", 4096, pages(65)), 3},
		{"before the window", stack("[stack]", 4095, pages(65)), -1},
		{"across runs", stack("[stack]", 8190, pages(2), pages(2)), 3},
		{"below zeros", stack("[stack]", 8182, pages(2), dmtcptest.Untouched(2)), -1},
		{"below zeros, with its end", stack("[stack]", 8192-len(env), pages(2), dmtcptest.Untouched(2)), 3},
		{"zeros alone", stack("[stack]", 0, dmtcptest.Untouched(9)), -1},
		{"heap", stack("[heap]", 0, pages(1)), -1},
		{"other stack", stack("[stack:123]", 0, pages(1)), -1},
	} {
		im := tiny()
		im.Areas = append(im.Areas[:1:1], c.area)
		for _, r := range readers {
			in, size := r.open(t, im.Bytes())
			p, err := ReadImage(context.Background(), "image", in, size)
			if err != nil || p.Rank != c.want {
				t.Errorf("%s, %s: %+v, want rank %d; %v", c.name, r.name, p, c.want, err)
			}
		}
	}
	// Of several stacks the first counts.
	im := tiny()
	a, b := stack("[stack]", 0, pages(1)), stack("[stack]", 9, pages(1))
	b.Start, b.End, b.Data = a.End, a.End+4096, dmtcptest.Literal([]byte("\x00PMI_RANK=4\x00"))
	im.Areas = append(im.Areas[:1:1], a, b)
	if p := mustReadImage(t, im.Bytes()); p.Rank != 3 {
		t.Errorf("rank %d of the first of two stacks", p.Rank)
	}
}

// TestCancel ends the context at every point at which the reader is read.
func TestCancel(t *testing.T) {
	b := mixed().Bytes()
	for n := 1; ; n++ {
		ctx, cancel := context.WithCancel(context.Background())
		in := &cancelling{Reader: pipe(b), after: n, cancel: cancel}
		_, err := ReadImage(ctx, "image", in, -1)
		cancel()
		if in.after > 0 {
			if err != nil || n < 20 {
				t.Errorf("not cancelled after %d reads: %v", n, err)
			}
			break
		}
		if !errors.Is(err, context.Canceled) && err != nil {
			t.Fatalf("cancelled at read %d: %v", n, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, in := range []io.Reader{bytes.NewReader(b), bytes.NewReader(compressed(t, b))} {
		if p, err := ReadImage(ctx, "image", in, -1); !errors.Is(err, context.Canceled) {
			t.Errorf("%+v, %v", p, err)
		}
	}
}

// cancelling cancels a context at one of its reads.
type cancelling struct {
	io.Reader
	after  int
	cancel func()
}

func (c *cancelling) Read(p []byte) (int, error) {
	if c.after--; c.after == 0 {
		c.cancel()
	}
	return c.Reader.Read(p)
}

// TestLimits checks the limits of what a process can have where no image is
// needed, for it would be of 4 GiB.
func TestLimits(t *testing.T) {
	b := builder{p: &zones.Process{Areas: make([]zones.Area, maxAreas-1, maxAreas)}}
	if f := b.area(new(AreaRecord)); f != nil {
		t.Fatalf("the last area: %v", f)
	}
	if f := b.area(new(AreaRecord)); f == nil {
		t.Error("too many areas are taken")
	}
	b = builder{p: new(zones.Process)}
	names := []string{strings.Repeat("a", 1000), strings.Repeat("b", 1000)}
	n := 0
	for ; b.area(&AreaRecord{Name: names[n%2]}) == nil; n++ {
	}
	if n != maxNames/1000 {
		t.Errorf("%d names of 1000 bytes are taken", n)
	}
	b = builder{p: new(zones.Process)}
	for range 2 * maxNames / 1000 {
		if f := b.area(&AreaRecord{Name: names[0]}); f != nil {
			t.Fatal(f)
		}
	}
}
