package filecache

import (
	"errors"
	"io"
	"io/fs"
	"testing"

	"ckpt/internal/vfs/memfs"
)

func TestLayoutGivesEachByteOneOwner(t *testing.T) {
	for _, l := range []Layout{{1, 1, 0, 0}, {10, 3, 0, 0}, {9, 3, 0, 0}, {2, 5, 0, 0}, {1000, 7, 0, 0}, {1000, 7, 16, 0}, {5, 2, 64, 0},
		{1000, 3, 0, 16}, {999, 4, 0, 100}, {5, 3, 0, 8}} {
		owned, last := make([]int64, l.Nodes), make([]int64, l.Nodes)
		for off := range l.Size {
			node := l.Owner(off)
			if l.local(off) != owned[node] {
				t.Errorf("%+v: byte %d is at %d of its fragment, want %d", l, off, l.local(off), owned[node])
			}
			owned[node]++
			last[node] = off + 1
		}
		for node := range l.Nodes {
			sum := int64(0)
			for p := range l.parts(node, l.Size) {
				sum += p.N
				if l.Owner(p.Off) != node || l.Owner(p.Off+p.N-1) != node {
					t.Errorf("%+v: part %+v is not of node %d", l, p, node)
				}
			}
			if p := l.Of(node); p.N != owned[node] || sum != owned[node] || l.end(node, p.N) != last[node] {
				t.Errorf("%+v: node %d has %d bytes, its parts %d, up to %d; want %d, up to %d", l, node, p.N, sum, l.end(node, p.N), owned[node], last[node])
			}
		}
		at := int64(0)
		for _, p := range l.Split(0, l.Size) {
			if p.Off != at || p.N <= 0 {
				t.Errorf("%+v: part %+v", l, p)
			}
			at += p.N
		}
	}
	// The rule of the thesis: ceil(S/n) bytes for each.
	if got := (Layout{Size: 10, Nodes: 4}).Fragment(); got != 3 {
		t.Errorf("fragment of %d bytes", got)
	}
}

// TestFileIsSharedAndStored: a write of one process is there for all others as soon as
// it returns, and in the store after the end.
func TestFileIsSharedAndStored(t *testing.T) {
	for _, l := range []Levels{{}, {Records: true}, {Replicas: 2}, {Versions: true}, {Records: true, Replicas: 1, Versions: true}, {Volatile: true}} {
		c, _ := cluster(3)
		f := must(c.Open(background, "a/b", Options{Create: true, Size: 100, Levels: l, Processes: onePerNode(3)}))(t)
		want := random(1, 100)
		for i, part := range [][2]int{{0, 10}, {10, 90}, {90, 100}} { // the second lies on all nodes
			must(f.Process(i).WriteAt(want[part[0]:part[1]], int64(part[0])))(t)
			for k := range 3 {
				b := make([]byte, part[1]-part[0])
				must(f.Process(k).ReadAt(b, int64(part[0])))(t)
				check(t, same(b, want[part[0]:part[1]]))
			}
		}
		check(t, together(f, func(p *Process) error { return p.Close(background) }))
		path := "/store/a/b"
		if l.Versions {
			path += ".v0001"
		}
		check(t, same(stored(t, c, path), want))
		for i, n := range c.Nodes {
			if list, err := n.FS.ReadDir(n.Dir); err != nil || len(list) > 0 {
				t.Errorf("%+v: node %d has %v, %v", l, i, list, err)
			}
		}

		// Another set of nodes reads it.
		again := cacheOf([]*memfs.FS{memfs.New(), memfs.New(), c.Store.FS.(*memfs.FS)})
		f = must(again.Open(background, "a/b", Options{Levels: Levels{Versions: l.Versions}, Processes: []int{1}}))(t)
		check(t, same(must(contents(f.Process(0)))(t), want))
		check(t, f.Close(background))
	}
}

// TestStoreSeesOneWriterPerNode: a file is loaded and stored with one contiguous read
// and write per node, and metadata does not grow with requests.
func TestStoreSeesOneWriterPerNode(t *testing.T) {
	c, all := cluster(4)
	check(t, all[4].Mkdir("/store"))
	file := must(all[4].Create("/store/x"))(t)
	must(file.WriteAt(random(3, 4000), 0))(t)
	watched := memfs.WithFault(all[4], memfs.Fault{})
	c.Store.FS = watched
	f := must(c.Open(background, "x", Options{Processes: onePerNode(4)}))(t)
	for i := range 50 {
		must(f.Process(i%4).WriteAt([]byte{byte(i)}, int64(i*79)))(t)
	}
	check(t, f.Close(background))
	count := make(map[string]int)
	for _, op := range watched.Ops() {
		count[op.Name]++
	}
	if count["read"] != 4 || count["write"] != 4 || count["sync"] != 4 || count["open"] != 8 {
		t.Errorf("%v", count)
	}
}

func TestRequestsBeyondTheEnd(t *testing.T) {
	c, _ := cluster(2)
	f := must(c.Open(background, "x", Options{Create: true, Size: 10, Processes: []int{0}}))(t)
	p := f.Process(0)
	if _, err := p.WriteAt(make([]byte, 3), 8); !errors.Is(err, ErrBeyond) {
		t.Errorf("write: %v", err)
	}
	if n, err := p.ReadAt(make([]byte, 5), 8); n != 2 || err != io.EOF {
		t.Errorf("read %d, %v", n, err)
	}
	if n, err := p.ReadAt(make([]byte, 5), 20); n != 0 || err != io.EOF {
		t.Errorf("read %d, %v", n, err)
	}
	check(t, f.Close(background))
	if _, err := p.ReadAt(make([]byte, 1), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("read after the end: %v", err)
	}
	if _, err := c.Open(background, "missing", Options{Processes: []int{0}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open: %v", err)
	}
}

// TestGrowingFileEndsBehindItsLastByte also after a failure.
func TestGrowingFileEndsBehindItsLastByte(t *testing.T) {
	for _, l := range []Levels{{}, {Replicas: 1}, {Versions: true}, {Records: true}} {
		c, all := cluster(3)
		opt := Options{Create: true, Size: 3 << 20, Growing: true, Levels: l, Processes: []int{0, 2}}
		f := must(c.Open(background, "x", opt))(t)
		want := random(5, 2<<20)
		must(f.Process(1).WriteAt(want[1<<20:], 1<<20))(t)
		must(f.Process(0).WriteAt(want[:1<<20], 0))(t)
		check(t, f.Sync(background))
		check(t, f.Abandon())
		f, rec, err := cacheOf(all).Recover(background, "x", Options{})
		check(t, err)
		if f.Size() != 2<<20 {
			t.Errorf("%+v: %d bytes from %s", l, f.Size(), rec.From)
		}
		check(t, same(must(contents(f.Process(0)))(t), want))
		check(t, f.Close(background))
	}
}

// TestWriteIfTakesEachCellOnce: many processes race for cells.
func TestWriteIfTakesEachCellOnce(t *testing.T) {
	for _, l := range []Levels{{}, {Records: true, Replicas: 1}} {
		c, _ := cluster(3)
		const cells = 50
		opt := Options{Create: true, Size: 4 * cells, Unit: 4, Levels: l, Processes: []int{0, 1, 2, 2}, Masks: [][]byte{{0, 0, 0, 0x80}, {0xff}}}
		f := must(c.Open(background, "map", opt))(t)
		// The upper bit says occupied; other bits do not matter.
		must(f.Process(0).WriteAt([]byte{1, 2, 3, 0x40}, 0))(t)
		took := make([][]bool, 4)
		check(t, together(f, func(p *Process) error {
			for i := range cells {
				ok, err := p.WriteIf([]byte{byte(p.rank), 0, 0, 0x80}, int64(i*4), 0)
				if err != nil {
					return err
				}
				took[p.rank] = append(took[p.rank], ok)
			}
			return nil
		}))
		b := must(contents(f.Process(0)))(t)
		for i := range cells {
			for p := range 4 {
				if took[p][i] != (int(b[i*4]) == p) {
					t.Errorf("cell %d has %d; process %d took it: %v", i, b[i*4], p, took[p][i])
				}
			}
		}
		if ok, err := f.Process(0).WriteIf([]byte{1}, 3, 1); ok || err != nil {
			t.Errorf("an occupied byte was free: %v, %v", ok, err)
		}
		if _, err := f.Process(0).WriteIf(make([]byte, 8), int64(f.Layout().Fragment())-4, 0); !errors.Is(err, ErrSpans) {
			t.Errorf("cell on two nodes: %v", err)
		}
		check(t, f.Close(background))
	}
}

// TestFilesAreCachedSideBySide: one is closed while another one is used.
func TestFilesAreCachedSideBySide(t *testing.T) {
	c, _ := cluster(2)
	open := func(name string) *File {
		return must(c.Open(background, name, Options{Create: true, Size: 64, Processes: []int{0, 1}}))(t)
	}
	a, b := open("a"), open("b")
	done := make(chan error)
	go func() { done <- a.Close(background) }()
	for i := range 64 {
		must(b.Process(i%2).WriteAt([]byte{byte(i)}, int64(i)))(t)
	}
	check(t, <-done)
	check(t, b.Close(background))
	if got := stored(t, c, "/store/b"); got[63] != 63 {
		t.Error(got)
	}
}

func TestOpenRefusesWhatIsUnfinished(t *testing.T) {
	c, _ := cluster(2)
	opt := Options{Create: true, Size: 10, Processes: []int{0}}
	f := must(c.Open(background, "x", opt))(t)
	check(t, f.Abandon())
	if _, err := c.Open(background, "x", opt); !errors.Is(err, ErrUnfinished) {
		t.Errorf("open: %v", err)
	}
	f, _, err := c.Recover(background, "x", opt)
	check(t, err)
	check(t, f.Close(background))
	if _, _, err := c.Recover(background, "x", opt); !errors.Is(err, ErrNothing) {
		t.Errorf("recover: %v", err)
	}
	check(t, must(c.Open(background, "x", opt))(t).Close(background))
}

func TestOptionsAreChecked(t *testing.T) {
	c, _ := cluster(2)
	for _, o := range []Options{
		{Create: true, Size: 1}, {Create: true, Processes: []int{0}}, {Create: true, Size: -1, Processes: []int{0}},
		{Create: true, Size: 1, Processes: []int{2}}, {Create: true, Size: 1, Processes: []int{0}, Levels: Levels{Replicas: 2}},
		{Create: true, Size: 1, Processes: []int{0}, Levels: Levels{Records: true, Volatile: true}},
		{Create: true, Size: 1, Processes: []int{0}, Masks: [][]byte{{}}},
	} {
		if _, err := c.Open(background, "x", o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	if _, err := c.Open(background, "../x", Options{Create: true, Size: 1, Processes: []int{0}}); err == nil {
		t.Error("../x was accepted")
	}
}
