package nodes

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// A group is a set whose members' files are in memory, and whose nodes have a file
// system each.
type group struct {
	set   Set
	unit  int64
	pace  int64 // units that a member may be ahead; 0: as the encoder says
	files [][]byte
	nodes []vfs.FS
	mu    sync.Mutex
	infos []ParityInfo
}

func newGroup(n, m int, unit int64, sizes []int) *group {
	g := &group{set: Set{ID: 3, Parity: m}, unit: unit, infos: make([]ParityInfo, n)}
	for i := range n {
		rank := 10 + i
		if sizes[i] < 0 {
			rank = -1
		}
		g.set.Members, g.set.Nodes = append(g.set.Members, rank), append(g.set.Nodes, i)
		g.files = append(g.files, random(uint64(i), max(0, sizes[i])))
		g.nodes = append(g.nodes, memfs.New())
	}
	return g
}

func (g *group) id(i int) ParityID {
	return ParityID{Job: "bt", Checkpoint: 7, Set: g.set, Index: i, Unit: g.unit}
}

// A piece is a part of a member's file that is written at once.
type piece struct {
	member   int
	from, to int
}

// encode makes all parity files. Each member adds its pieces in their order.
func (g *group) encode(pieces []piece, window int64) error {
	encoders := make([]*Encoder, len(g.nodes))
	for i := range g.nodes {
		var err error
		if encoders[i], err = newEncoder(g.nodes[i], "p", g.id(i), window, time.Millisecond); err != nil {
			for _, e := range encoders[:i] {
				e.Abort(err)
			}
			return err
		}
		if g.pace > 0 {
			encoders[i].window = g.pace
		}
	}
	var wg sync.WaitGroup
	errs := make([]error, len(g.nodes))
	for member, rank := range g.set.Members {
		if rank >= 0 {
			wg.Go(func() { errs[member] = g.contribute(member, encoders, pieces) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (g *group) contribute(member int, encoders []*Encoder, pieces []piece) error {
	holders := make(map[int]Contributor)
	for _, i := range g.set.Holders() {
		holders[i] = encoders[i].Contributor(member)
	}
	sink, err := coded(g.set, member, holders, g.unit)
	if err != nil {
		return err
	}
	for _, p := range pieces {
		if p.member != member {
			continue
		}
		if _, err := sink.WriteAt(g.files[member][p.from:p.to], int64(p.from)); err != nil {
			sink.Abort()
			return err
		}
	}
	if err := sink.Finish(int64(len(g.files[member]))); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, info := range sink.Files() {
		g.infos[info.Index] = info
	}
	return nil
}

// cut cuts the files into pieces of up to most bytes, in the order of random numbers;
// zeros of a page and more are left out where holes is set.
func (g *group) cut(r *rand.Rand, most int, shuffle bool) []piece {
	var pieces []piece
	for member, b := range g.files {
		for from := 0; from < len(b); {
			to := min(len(b), from+1+r.IntN(most))
			pieces = append(pieces, piece{member, from, to})
			from = to
		}
	}
	if shuffle {
		r.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
	}
	return pieces
}

// sources are what is left when the nodes of some positions are lost.
func (g *group) sources(t interface{ Fatalf(string, ...any) }, lost ...int) Sources {
	return Sources{
		Data: func(i int) io.ReaderAt {
			if slices.Contains(lost, i) {
				return nil
			}
			return bytes.NewReader(g.files[i])
		},
		Parity: func(i int) *Parity {
			if slices.Contains(lost, i) {
				return nil
			}
			p, err := OpenParity(g.nodes[i], "p")
			if err != nil {
				t.Fatalf("parity %d: %v", i, err)
			}
			return p
		},
	}
}

// A buffer is a file in memory.
type buffer struct {
	mu sync.Mutex
	b  []byte
}

func (b *buffer) WriteAt(p []byte, off int64) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if grow := int(off) + len(p) - len(b.b); grow > 0 {
		b.b = append(b.b, make([]byte, grow)...)
	}
	return copy(b.b[off:], p), nil
}

func drawGroup(t *rapid.T) *group {
	n := rapid.IntRange(2, 9).Draw(t, "n")
	m := rapid.IntRange(1, min(n-1, 3)).Draw(t, "m")
	unit := page * rapid.Int64Range(1, 3).Draw(t, "unit")
	sizes := rapid.SliceOfN(rapid.OneOf(rapid.Just(-1), rapid.Just(0), rapid.IntRange(1, 100_000), rapid.Just(int(unit)*5)), n, n).Draw(t, "sizes")
	return newGroup(n, m, unit, sizes)
}

// TestRebuildParity loses up to as many nodes as there are parities, each with its files:
// every file is the same after it is rebuilt, whatever the order of writes was, and a
// parity file that is recomputed is the one that was lost.
func TestRebuildParity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		g.pace = rapid.Int64Range(0, 9).Draw(t, "pace")
		window := g.unit * rapid.Int64Range(2, 9).Draw(t, "window")
		if err := g.encode(g.cut(r, rapid.IntRange(100, 30_000).Draw(t, "most"), rapid.Bool().Draw(t, "shuffle")), window); err != nil {
			t.Fatal(err)
		}
		lost := r.Perm(len(g.nodes))[:g.set.Parity]
		for _, member := range lost {
			if g.set.Members[member] < 0 {
				continue
			}
			var out buffer
			size, err := Rebuild(t.Context(), g.set, member, g.sources(t, lost...), &out)
			if err != nil || size != int64(len(g.files[member])) || !bytes.Equal(out.b, g.files[member]) {
				t.Fatalf("member %d of %d bytes became one of %d (equal: %t), without %v: %v",
					member, len(g.files[member]), size, bytes.Equal(out.b, g.files[member]), lost, err)
			}
		}
		g.recompute(t, lost[0])
	})
}

func (g *group) recompute(t *rapid.T, i int) {
	fsys := memfs.New()
	sizes := make([]int64, len(g.files))
	any := false
	for i, b := range g.files {
		sizes[i] = int64(len(b))
		any = any || g.set.Members[i] >= 0
	}
	if !any {
		return
	}
	info, err := Recompute(t.Context(), fsys, "p", g.id(i), sizes, func(member int) io.ReaderAt { return bytes.NewReader(g.files[member]) })
	if err != nil {
		t.Fatal(err)
	}
	p, err := OpenParity(fsys, "p")
	if err != nil || p.Info() != info || p.Check(t.Context()) != nil {
		t.Fatalf("recomputed parity %d: %v", i, err)
	}
	if g.infos[i].Digest != "" && info != g.infos[i] {
		t.Fatalf("parity %d is %+v after it was recomputed, and was %+v", i, info, g.infos[i])
	}
}

// TestRebuildTooMany refuses when one more is lost than there are parities.
func TestRebuildTooMany(t *testing.T) {
	g := newGroup(6, 2, page, []int{50_000, 40_000, 50_000, 50_000, 50_000, 50_000})
	if err := g.encode(g.cut(rand.New(rand.NewPCG(1, 1)), 9000, false), 1<<20); err != nil {
		t.Fatal(err)
	}
	var out buffer
	if _, err := Rebuild(t.Context(), g.set, 1, g.sources(t, 1, 3, 4), &out); !errors.Is(err, ErrTooMany) {
		t.Errorf("three of two lost: %v", err)
	}
	if _, err := Rebuild(t.Context(), g.set, 1, g.sources(t, 0, 1, 2, 3, 4, 5), &out); !errors.Is(err, ErrTooMany) {
		t.Errorf("all lost: %v", err)
	}
}

// TestRebuildDamage takes damaged units of parity, and files that cannot be read, as
// lost.
func TestRebuildDamage(t *testing.T) {
	g := newGroup(6, 2, page, []int{50_000, 40_000, 50_000, 50_000, 50_000, 50_000})
	if err := g.encode(g.cut(rand.New(rand.NewPCG(1, 1)), 9000, false), 1<<20); err != nil {
		t.Fatal(err)
	}
	f, err := g.nodes[0].OpenWrite("p")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("damage"), headerLen(6)+page+5); err != nil {
		t.Fatal(err)
	}
	p, err := OpenParity(g.nodes[0], "p")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(t.Context()); !errors.As(err, new(*durable.DamageError)) {
		t.Errorf("Check: %v", err)
	}
	var out buffer
	if _, err := Rebuild(t.Context(), g.set, 1, g.sources(t, 1), &out); err != nil || !bytes.Equal(out.b, g.files[1]) {
		t.Errorf("with a damaged unit: %v", err)
	}
	g.files[2] = g.files[2][:100] // cut
	if _, err := Rebuild(t.Context(), g.set, 1, g.sources(t, 1), &out); err != nil && !errors.Is(err, ErrTooMany) || err == nil && !bytes.Equal(out.b, g.files[1]) {
		t.Errorf("with a cut file: %v", err)
	}
}

// TestSlowMember adds all of one member's file after all others are through: no member
// waits, and the window stays within its bounds.
func TestSlowMember(t *testing.T) {
	for _, pace := range []int64{3, 1000} {
		slowMember(t, pace)
	}
}

func slowMember(t *testing.T, pace int64) {
	const unit = page
	g := newGroup(4, 1, unit, []int{80 * unit, 80 * unit, 80 * unit, 80*unit + 17})
	encoders := make([]*Encoder, 4)
	for i := range encoders {
		var err error
		if encoders[i], err = newEncoder(g.nodes[i], "p", g.id(i), 4*unit, time.Millisecond); err != nil {
			t.Fatal(err)
		}
		encoders[i].window = pace
	}
	add := func(member int) error {
		l := encoders[0].layout
		for u := int64(0); u*unit < int64(len(g.files[member])); u++ {
			e := encoders[l.holder(l.rowOf(member, u), 0)]
			if err := e.Add(member, u*unit, g.files[member][u*unit:min(int64(len(g.files[member])), (u+1)*unit)]); err != nil {
				return err
			}
		}
		return nil
	}
	for member := range 4 {
		if err := add(member); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range encoders {
		if have := 4 - e.buffers; have > 4 || have < 2 || e.spilled == 0 {
			t.Errorf("%d buffers were made, want 2 to 4, and %d rows spilled", have, e.spilled)
		}
	}
	var wg sync.WaitGroup
	for member := range 4 {
		for _, i := range g.set.Holders() {
			wg.Go(func() {
				if _, err := encoders[i].End(member, int64(len(g.files[member]))); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	var out buffer
	if _, err := Rebuild(t.Context(), g.set, 2, g.sources(t, 2), &out); err != nil || !bytes.Equal(out.b, g.files[2]) {
		t.Error("the file of member 2 differs:", err)
	}
}

// TestEncoderRefuses gives an encoder what no member can add.
func TestEncoderRefuses(t *testing.T) {
	g := newGroup(3, 1, page, []int{5 * page, 5 * page, -1})
	// Of encoder 0, member 1 is in row 0 with its first unit.
	for name, misuse := range map[string]func(*Encoder) error{
		"bytes twice":            func(e *Encoder) error { _ = e.Add(1, 100, make([]byte, 50)); return e.Add(1, 149, make([]byte, 1)) },
		"across units":           func(e *Encoder) error { return e.Add(1, 100, make([]byte, page)) },
		"a row of others":        func(e *Encoder) error { return e.Add(0, 0, make([]byte, 1)) },
		"unknown member":         func(e *Encoder) error { return e.Add(3, 0, make([]byte, 1)) },
		"member without rank":    func(e *Encoder) error { return e.Add(2, 0, make([]byte, 1)) },
		"negative offset":        func(e *Encoder) error { return e.Add(1, -1, make([]byte, 1)) },
		"nothing":                func(e *Encoder) error { return e.Add(1, 0, nil) },
		"end before what it has": func(e *Encoder) error { _ = e.Add(1, 0, make([]byte, 9)); _, err := e.End(1, 8); return err },
		"end of nobody":          func(e *Encoder) error { _, err := e.End(2, 0); return err },
		"too long":               func(e *Encoder) error { _, err := e.End(1, maxFile+1); return err },
		"abort":                  func(e *Encoder) error { e.Contributor(1).Abort(); return e.Add(1, 0, make([]byte, 9)) },
		"bytes after the end": func(e *Encoder) error {
			if _, err := e.end(1, 9); err != nil {
				t.Error(err)
			}
			return e.Add(1, 0, make([]byte, 1))
		},
	} {
		fsys := memfs.New()
		e, err := newEncoder(fsys, "p", g.id(0), 1<<20, time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if err := misuse(e); err == nil {
			t.Errorf("%s: no error", name)
			e.Abort(errors.New("it went on"))
		}
		if _, err := e.End(0, 5*page); err == nil {
			t.Errorf("%s: the encoder went on", name)
		}
		if _, err := fsys.Stat("p"); err == nil {
			t.Errorf("%s: a parity file is left", name)
		}
	}
	for i, id := range []ParityID{{}, {Job: "j", Set: g.set, Index: 3}, {Job: "j", Set: g.set, Unit: 17}, {Job: fmt.Sprint(make([]byte, 200)), Set: g.set}} {
		if _, err := NewEncoder(memfs.New(), "p", id); err == nil {
			t.Errorf("encoder %d was made", i)
		}
	}
}

// TestPace has a member that is ahead wait while another goes on, so that nothing is
// spilled.
func TestPace(t *testing.T) {
	const units = 200
	g := newGroup(3, 1, page, []int{units * page, units * page, -1})
	// Of encoder 2: rows in which both members are data.
	e, err := newEncoder(g.nodes[2], "p", g.id(2), 8*page, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	e.window = 8
	var wg sync.WaitGroup
	for member := range 2 {
		wg.Go(func() {
			for u := range int64(units) {
				if e.layout.holder(e.layout.rowOf(member, u), 0) == 2 {
					if err := e.Add(member, u*page, g.files[member][u*page:][:page]); err != nil {
						t.Error(err)
					}
				}
			}
			if _, err := e.End(member, units*page); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if e.spilled > 0 {
		t.Errorf("%d rows were spilled", e.spilled)
	}
}

// TestGolden makes the same parity files as when the format was made.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		n, m  int
		sizes []int
		want  string // start of the digest of parity 1
	}{
		{3, 1, []int{5 * page, 4*page + 1, -1}, "beb7730d690c5af3"},
		{6, 2, []int{50_000, 40_000, 50_000, 0, 12, 90_000}, "f4a3143d50329765"},
	} {
		g := newGroup(c.n, c.m, page, c.sizes)
		if err := g.encode(g.cut(rand.New(rand.NewPCG(1, 1)), 3000, true), 1<<20); err != nil {
			t.Fatal(err)
		}
		if got := g.infos[1].Digest[:16]; got != c.want {
			t.Errorf("%d+%d: digest %s, want %s", c.n-c.m, c.m, got, c.want)
		}
	}
}
