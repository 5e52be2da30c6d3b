package slowfs

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
)

// A virtualClock moves when somebody sleeps.
type virtualClock struct {
	mu sync.Mutex
	t  time.Duration
}

func (c *virtualClock) now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *virtualClock) sleepUntil(t time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = max(c.t, t)
}

func fast(dir string) Model { return Model{Dir: dir, Rate: 1e12, Read: 1e12, Unit: DefaultUnit} }

func TestConformance(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "root"), 0o700); err != nil {
		t.Fatal(err)
	}
	fsys, err := Open(vfs.OS{}, fast(dir))
	if err != nil {
		t.Fatal(err)
	}
	testkit.Conform(t, fsys, filepath.Join(dir, "root"))
}

// opened opens the disk of a directory as another process would.
func opened(t *testing.T, m Model, c clock) *FS {
	t.Helper()
	fsys, err := Open(vfs.OS{}, m)
	if err != nil {
		t.Fatal(err)
	}
	if c != nil {
		fsys.disk.clock = c
	}
	return fsys
}

func TestRateAndSeeks(t *testing.T) {
	dir := t.TempDir()
	c := &virtualClock{t: time.Hour}
	m := Model{Dir: dir, Rate: 1e6, Read: 2e6, Seek: 10 * time.Millisecond, Unit: 4096}
	s := opened(t, m, c)
	f, err := s.Create(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	took := func(what string, want time.Duration, do func() error) {
		t.Helper()
		begin := c.t
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if got := c.t - begin; (got - want).Abs() > 20*time.Microsecond {
			t.Errorf("%s took %v, want %v", what, got, want)
		}
		c.t += time.Second // longer than late
	}
	b := make([]byte, 100_000)
	took("the first write, with a seek", 110*time.Millisecond, func() error { _, err := f.WriteAt(b, 0); return err })
	took("a write that continues", 100*time.Millisecond, func() error { _, err := f.WriteAt(b, 100_000); return err })
	took("a small read", 75536*time.Microsecond, func() error { _, err := f.ReadAt(b[:100], 0); return err })
	took("another beside it", 0, func() error { _, err := f.ReadAt(b[:100], 100_000); return err })
	took("a read that the cache has the beginning of", 34464*time.Microsecond, func() error { _, err := f.ReadAt(b, 100_000); return err })
	took("a sync after writes", 10*time.Millisecond, f.Sync)
	took("a sync after none", 0, f.Sync)
	took("a vector of two", 210*time.Millisecond, func() error {
		_, err := f.WriteV([][]byte{b, b}, 0)
		return err
	})
	took("a directory", 10*time.Millisecond, func() error { return s.SyncDir(dir) })
	g, err := s.Create(filepath.Join(filepath.Dir(dir), "outside"))
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(filepath.Join(filepath.Dir(dir), "outside"))
	took("a file outside", 0, func() error { _, err := g.WriteAt(b, 0); return err })
}

// TestPiecesAlternate has two processes come at the same time: the pieces of one go between
// the pieces of the other, and each costs a seek.
func TestPiecesAlternate(t *testing.T) {
	c := &virtualClock{t: time.Hour}
	m := Model{Dir: t.TempDir(), Rate: 1e6, Read: 1e6, Seek: 5 * time.Millisecond, Unit: 10_000}
	one, two := opened(t, m, c).disk, opened(t, m, c).disk
	begin := c.t
	ends := [2]time.Duration{begin, begin}
	for piece := range int64(4) { // each process comes again when its piece has ended
		ends[0] = one.reserve(ends[0], 1, piece*10_000, 10_000, true)
		ends[1] = two.reserve(ends[1], 2, piece*10_000, 10_000, true)
	}
	if got := ends[0] - begin; got != 7*15*time.Millisecond {
		t.Errorf("the first ended after %v, want 105ms", got)
	}
	if got := ends[1] - begin; got != 8*15*time.Millisecond {
		t.Errorf("the second ended after %v, want 120ms", got)
	}
}

// TestNobodyServedAboveRate has many goroutines, each as a process of its own, take the arm:
// together they get what one gets.
func TestNobodyServedAboveRate(t *testing.T) {
	c := &virtualClock{t: time.Hour}
	m := Model{Dir: t.TempDir(), Rate: 1e6, Read: 1e6, Unit: 10_000}
	begin := c.t
	const processes, pieces = 8, 100
	var wg sync.WaitGroup
	for id := range processes {
		d := opened(t, m, c).disk
		wg.Go(func() {
			for range pieces {
				d.reserve(begin, uint64(id), 0, 10_000, true)
			}
		})
	}
	wg.Wait()
	last := opened(t, m, c).disk.reserve(begin, 0, -1, 0, true)
	if got, want := last-begin, processes*pieces*10*time.Millisecond; got != want {
		t.Errorf("the arm is free after %v, want %v", got, want)
	}
}

// TestOldStateHoldsUpNobody begins with states that no living process left.
func TestOldStateHoldsUpNobody(t *testing.T) {
	for name, state := range map[string]uint64{
		"new": 0, "noise": 0xfedcba9876543210, "all ones": ^uint64(0), "far ahead": micros(time.Hour+2*maxAhead) << placeBits,
		"long ago": micros(time.Minute) << placeBits,
	} {
		c := &virtualClock{t: time.Hour}
		d := opened(t, Model{Dir: t.TempDir(), Rate: 1e6, Read: 1e6, Unit: 10_000}, c).disk
		d.state.Store(state)
		if end := d.reserve(c.t, 1, 0, 10_000, true) - c.t; end != 10*time.Millisecond {
			t.Errorf("%s: the first piece ended after %v, want 10ms", name, end)
		}
	}
}

// TestClockBeginsAgain crosses the time at which the bits of the state do.
func TestClockBeginsAgain(t *testing.T) {
	c := &virtualClock{t: timeMask*time.Microsecond - 5*time.Millisecond}
	d := opened(t, Model{Dir: t.TempDir(), Rate: 1e6, Read: 1e6, Unit: 10_000}, c).disk
	begin := c.t
	d.state.Store(micros(begin) << placeBits)
	for range 3 {
		d.reserve(begin, 1, 0, 10_000, true)
	}
	if got := d.reserve(begin, 1, 0, 10_000, true) - begin; (got - 40*time.Millisecond).Abs() > 4*time.Microsecond {
		t.Errorf("four pieces ended after %v, want 40ms", got)
	}
}

func TestBytesArrive(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, fast(dir), nil)
	f, err := s.Create(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Preallocate(8192); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("bytes"), 0); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if _, err := f.ReadAt(b, 0); err != nil || !bytes.Equal(b, []byte("bytes")) {
		t.Errorf("read %q, %v", b, err)
	}
	again, err := f.ReopenDirect()
	if err == nil {
		if _, ok := again.(*file); !ok {
			t.Error("a file that was opened again is not on the disk")
		}
		again.Close()
	}
}

func TestParse(t *testing.T) {
	m, err := Parse("50MB/s,read=60MB/s,seek=9ms,unit=2MiB,dir=/scratch/a,b")
	want := Model{"/scratch/a,b", 50e6, 60e6, 9 * time.Millisecond, 2 << 20}
	if err != nil || m != want {
		t.Errorf("got %+v, %v", m, err)
	}
	if again, err := Parse(m.String()); err != nil || again != m {
		t.Errorf("%s became %+v, %v", m, again, err)
	}
	if m, err := Parse("1GB"); err != nil || m.Read != 1e9 || m.Unit != DefaultUnit || m.Seek != 0 {
		t.Errorf("got %+v, %v", m, err)
	}
	for text, part := range map[string]string{
		"": "rate", "fast": "invalid size", "50MB/s,speed=3": `unknown setting "speed=3"`, "1B/s": "10kB/s",
		"50MB/s,seek=-1s": "0 to 10s", "50MB/s,seek=x": "invalid duration", "50MB/s,unit=1": "4KiB", "50MB/s,dir=x": "absolute",
		"10kB/s,unit=1GiB": "make unit smaller", "seek=9ms": "rate",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: error %v, want %q in it", text, err, part)
		}
	}
}

func TestFromEnvironment(t *testing.T) {
	with := func(text string) (vfs.FS, error) {
		return FromEnvironment(func(name string) string {
			if name != Variable {
				t.Errorf("asked for %s", name)
			}
			return text
		})
	}
	if s, err := with(""); s != (vfs.OS{}) || err != nil {
		t.Errorf("without a description: %v, %v", s, err)
	}
	for _, text := range []string{"50MB/s", "quick", "50MB/s,dir=/no/such/directory"} {
		if _, err := with(text); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
	if s, err := with("50MB/s,dir=" + t.TempDir()); err != nil {
		t.Error(err)
	} else if _, ok := s.(*FS); !ok {
		t.Errorf("got a %T", s)
	}
}

// FuzzParse takes what somebody may write into the environment.
func FuzzParse(f *testing.F) {
	f.Add("50MB/s,read=60MB/s,seek=9ms,unit=1MiB,dir=/scratch")
	f.Add("1e9")
	f.Add("50MB/s,,dir=/,dir=/")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse(text)
		if err != nil {
			return
		}
		if c := m.cost(m.Unit, true, true); c < 0 || c > maxPiece+time.Second {
			t.Errorf("a piece takes %v", c)
		}
		if again, err := Parse(m.String()); err != nil || again != m {
			t.Errorf("%+v became %+v, %v", m, again, err)
		}
	})
}
