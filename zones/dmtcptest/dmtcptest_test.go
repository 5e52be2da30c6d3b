package dmtcptest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"ckpt/zones"
	"ckpt/zones/dmtcptest"
	"ckpt/zones/source"
)

// TestContents checks that contents do not depend on how they are asked for.
func TestContents(t *testing.T) {
	for name, c := range map[string]dmtcptest.Contents{
		"noise":   dmtcptest.Noise(1),
		"doubles": dmtcptest.Doubles(1),
		"literal": dmtcptest.Literal([]byte("some bytes, and zeros after them")),
		"stack":   dmtcptest.Stack(1<<40, 4096, 4096, nil, []string{"A=1", "PMI_RANK=3"}).Data,
	} {
		whole := make([]byte, 4096)
		c(whole, 0)
		for _, step := range []int{1, 3, 8, 1000} {
			got := make([]byte, len(whole))
			for i := 0; i < len(got); i += step {
				c(got[i:min(i+step, len(got))], int64(i))
			}
			if !bytes.Equal(got, whole) {
				t.Errorf("%s in steps of %d differs", name, step)
			}
		}
	}
}

// TestDeterministic checks that the same options make the same bytes, other
// seeds others, and that what is written is as long as was said.
func TestDeterministic(t *testing.T) {
	o := dmtcptest.Options{Seed: 5, Nodes: 2, Private: 1 << 17, Shared: 1 << 17, Libraries: 1 << 17}
	a, b := dmtcptest.Job(3, o), dmtcptest.Job(3, o)
	o.Seed++
	other := dmtcptest.Job(3, o)
	for i, im := range a.Images {
		x := im.Bytes()
		if !bytes.Equal(x, b.Images[i].Bytes()) || im.FileName() != b.Images[i].FileName() {
			t.Errorf("image %d differs from itself", i)
		}
		if bytes.Equal(x, other.Images[i].Bytes()) {
			t.Errorf("image %d does not depend on the seed", i)
		}
		n, err := im.WriteTo(io.Discard)
		if err != nil || n != im.Size() || n != int64(len(x)) {
			t.Errorf("image %d: %d bytes written, %d in memory, %d announced; %v", i, n, len(x), im.Size(), err)
		}
		im.Gzip = true
		var z bytes.Buffer
		if n, err := im.WriteTo(&z); err != nil || n != int64(z.Len()) || n >= im.Size() {
			t.Errorf("image %d: %d bytes compressed to %d, said are %d; %v", i, im.Size(), z.Len(), n, err)
		}
	}
}

func TestWriteFails(t *testing.T) {
	im := dmtcptest.Job(1, dmtcptest.Options{}).Images[0]
	for _, zip := range []bool{false, true} {
		im.Gzip = zip
		w := iotest.TruncateWriter(io.Discard, 1<<20) // drops what follows
		if _, err := im.WriteTo(w); err != nil {
			t.Error(err)
		}
		r, p := io.Pipe()
		r.Close()
		if _, err := im.WriteTo(p); err != io.ErrClosedPipe {
			t.Errorf("error %v of a closed pipe", err)
		}
	}
}

// TestJob looks at what images have in common and what not.
func TestJob(t *testing.T) {
	const n = 4
	c := dmtcptest.Job(n, dmtcptest.Options{Seed: 3, Nodes: 2, Name: "bt.S.4", Shared: 300_000, Libraries: 200_000})
	if len(c.Images) != n+3 || c.Ranks != n {
		t.Fatalf("%d images, %d ranks", len(c.Images), c.Ranks)
	}
	part := func(im *dmtcptest.Image, prefix string) []byte {
		var b []byte
		for _, a := range im.Areas {
			if strings.HasPrefix(a.Name, prefix) && (prefix != "" || a.Name == "") && a.Data != nil {
				p := make([]byte, a.End-a.Start)
				a.Data(p, 0)
				b = append(b, p...)
			}
		}
		if len(b) == 0 {
			t.Errorf("%s maps no %q", im.Name, prefix)
		}
		return b
	}
	names := map[string]bool{}
	hosts := map[uint64]int{}
	for i, im := range c.Images[:n] {
		if im.Name != "bt.S.4" || im.Group != c.Group || im.Peers != n+3 {
			t.Errorf("rank %d: %+v", i, im)
		}
		names[im.FileName()] = true
		hosts[im.ID.Host]++
		first := c.Images[0]
		if sameNode := i < n/2; bytes.Equal(part(im, "/dev/shm/"), part(first, "/dev/shm/")) != sameNode {
			t.Errorf("rank %d: the segment is that of node 0: %t", i, !sameNode)
		}
		if !bytes.Equal(part(im, "/opt/mpich"), part(first, "/opt/mpich")) || !bytes.Equal(part(im, "/opt/job"), part(first, "/opt/job")) {
			t.Errorf("rank %d: other libraries", i)
		}
		if i > 0 && bytes.Equal(part(im, ""), part(first, "")) {
			t.Errorf("rank %d: the data is that of rank 0", i)
		}
	}
	if len(names) != n || len(hosts) != 2 || hosts[c.Images[0].ID.Host] != n/2 {
		t.Errorf("names %v, hosts %v", names, hosts)
	}
	var launchers []string
	for _, im := range c.Images[n:] {
		launchers = append(launchers, im.Name)
	}
	if want := []string{"mpiexec", "hydra_pmi_proxy", "hydra_pmi_proxy"}; !slices.Equal(launchers, want) {
		t.Errorf("launchers %v", launchers)
	}
	open := dmtcptest.Job(1, dmtcptest.Options{OpenMPI: true, Arena: true})
	for _, a := range open.Images[0].Areas {
		if strings.HasPrefix(a.Name, "/dev/shm/") {
			t.Errorf("Open MPI's segment %s is in the image", a.Name)
		}
	}
	if !slices.ContainsFunc(open.Images[0].Areas, func(a dmtcptest.Area) bool { return len(a.Runs) == 2048 }) {
		t.Error("the arena is missing")
	}
}

func TestWriteDir(t *testing.T) {
	for _, nodes := range []int{1, 2} {
		c := dmtcptest.Job(2, dmtcptest.Options{Seed: 3, Nodes: nodes, Gzip: nodes == 2, Private: 4096, Shared: 4096, Libraries: 4096})
		dir := t.TempDir()
		if err := c.WriteDir(dir); err != nil {
			t.Fatal(err)
		}
		var want []string
		script, err := os.ReadFile(filepath.Join(dir, "dmtcp_restart_script.sh"))
		if err != nil {
			t.Fatal(err)
		}
		for _, im := range c.Images {
			name := filepath.Join(dir, im.FileName())
			want = append(want, im.FileName())
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			p, err := source.ReadImage(context.Background(), name, f, -1)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("ckpt_%s_%s-%d-%x.dmtcp", p.Name, p.Host, p.PID, im.ID.Time); got != im.FileName() {
				t.Errorf("%s holds %s", im.FileName(), got)
			}
			if !strings.Contains(string(script), " "+name) {
				t.Errorf("the script does not name %s:\n%s", im.FileName(), script)
			}
		}
		files := strings.TrimSuffix(c.Images[0].FileName(), ".dmtcp") + "_files"
		link := "dmtcp_restart_script_" + c.Group.String() + ".sh"
		want = append(want, files, link, "dmtcp_restart_script.sh")
		slices.Sort(want)
		if got := list(t, dir); !slices.Equal(got, want) {
			t.Errorf("directory %v, want %v", got, want)
		}
		if got := list(t, filepath.Join(dir, files)); !slices.Equal(got, []string{"fd-info.txt", "halo_99001", "mesh_99002"}) {
			t.Errorf("shared files %v", got)
		}
		info, err := os.ReadFile(filepath.Join(dir, files, "fd-info.txt"))
		if want := "halo_99001:/dev/shm/halo\nmesh_99002:/dev/shm/mesh\n"; err != nil || string(info) != want {
			t.Errorf("list %q, %v", info, err)
		}
		if to, err := os.Readlink(filepath.Join(dir, "dmtcp_restart_script.sh")); err != nil || to != link {
			t.Errorf("link to %s, %v", to, err)
		}
		if err := c.WriteDir(dir); err == nil {
			t.Error("a second checkpoint overwrites the first")
		}
	}
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestDropped makes an area that stores nothing.
func TestDropped(t *testing.T) {
	a := dmtcptest.File(1<<40, "/var/cache/nscd/hosts", 5*zones.PageSize, nil)
	a.Dropped, a.FileSize, a.Flags = true, -1, 0x22
	im := &dmtcptest.Image{Areas: []dmtcptest.Area{a}}
	p, err := source.ReadImage(context.Background(), "image", bytes.NewReader(im.Bytes()), -1)
	if err != nil || len(p.Areas) != 1 || p.Areas[0].Stored != zones.PageSize || im.Size() != 4*zones.PageSize {
		t.Errorf("%+v, %v", p, err)
	}
}
