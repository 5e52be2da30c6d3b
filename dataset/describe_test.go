package dataset

import (
	"strings"
	"testing"

	"ckpt/zones"
	"ckpt/zones/global"
)

// seenOf is a run of a program whose u is an array of all ranks, state one of each rank.
func seenOf(t *testing.T, a global.Array, np int, state int64) SeenRun {
	t.Helper()
	a.Empty = true
	l, err := a.On(np)
	if err != nil {
		t.Fatal(err)
	}
	u := SeenArray{Name: "u", Elem: zones.Float64}
	own := SeenArray{Name: "my state", Elem: zones.Bytes}
	for rank := range np {
		u.Parts = append(u.Parts, l.Part(rank))
		u.Bytes = append(u.Bytes, l.Elements(rank)*a.Elem)
		own.Bytes = append(own.Bytes, state)
	}
	return SeenRun{Job: "j", NP: np, Arrays: []SeenArray{u, own}}
}

func described(t *testing.T, np int, runs ...SeenRun) (*Description, *Instance) {
	t.Helper()
	d, err := Describe("9heat", "100-800", runs)
	if err != nil {
		t.Fatal(err)
	}
	w, err := ParseWorkload([]byte(d.Text), "test")
	if err != nil {
		t.Fatalf("%v in\n%s", err, d.Text)
	}
	inst, err := w.Instance("100-800", np)
	if err != nil {
		t.Fatal(err)
	}
	return d, inst
}

// TestDescribe writes specs of programs, and evaluates them on other numbers of ranks.
func TestDescribe(t *testing.T) {
	rows := global.Array{Shape: []int64{102, 50}, Elem: 24, Halo: []int64{1, 1}, Grid: []int{4, 1}, Dims: []global.Dim{{Kind: global.Block, Rest: global.RestSpread}, {Kind: global.Block}}}
	d, inst := described(t, 7, seenOf(t, rows, 4, 200))
	if !d.Declared() || !d.Arrays[0].Exact || d.Arrays[1].Declared {
		t.Errorf("found %+v", d.Arrays)
	}
	if got := inst.Arrays[0].Of(6).Bytes(); got != (15+2)*52*24 {
		t.Errorf("rank 6 of 7 holds %d bytes of u", got)
	}
	if got := inst.Arrays[1].Bytes(); got != 200 || inst.Runtime != 0 {
		t.Errorf("a rank holds %d bytes of its state, and %d of a runtime", got, inst.Runtime)
	}
	if _, inst = described(t, 200, seenOf(t, rows, 4, 200)); inst.Arrays[0].Of(0).Bytes() != 2*52*24 {
		t.Errorf("a rank without rows holds %d bytes", inst.Arrays[0].Of(0).Bytes())
	}

	// One run leaves rules open, which widens; columns of a program in Fortran run the other way.
	columns := global.Array{Shape: []int64{100, 60}, Elem: 8, Grid: []int{2, 2}, Order: []int{1, 0}}
	d, inst = described(t, 8, seenOf(t, columns, 4, 200))
	if d.Arrays[0].Exact || d.Arrays[0].Tells == 0 || len(inst.Arrays[0].Others) == 0 {
		t.Errorf("found %+v, %d other rules", d.Arrays[0], len(inst.Arrays[0].Others))
	}
	if low, high := inst.TotalRange(); low > inst.TotalBytes() || high < inst.TotalBytes() {
		t.Errorf("%d bytes are not between %d and %d", inst.TotalBytes(), low, high)
	}

	// Sizes alone: the ones that were seen, and a guess beyond them.
	runs := []SeenRun{seenOf(t, rows, 4, 40000), seenOf(t, withGrid(rows, 8), 8, 20000)}
	if _, inst = described(t, 16, runs...); inst.Arrays[1].Bytes() != 10000 || len(inst.Arrays[1].Measured) != 2 {
		t.Errorf("a rank of 16 holds %d bytes of its state", inst.Arrays[1].Bytes())
	}
	if _, inst = described(t, 4, runs...); inst.Arrays[1].Bytes() != 40000 {
		t.Errorf("a rank of 4 holds %d bytes of its state", inst.Arrays[1].Bytes())
	}
}

// TestDescribeMargins writes halos that end at the edges of an array, and room for more cells.
func TestDescribeMargins(t *testing.T) {
	cells := global.Array{Shape: []int64{102, 50}, Elem: 24, Grid: []int{4, 1}, Dims: []global.Dim{{Kind: global.Block, Rest: global.RestSpread}, {Kind: global.Block}},
		Margins: []global.Margin{{Lower: 1, Upper: 2, Clipped: true}, {Pad: 6}}}
	d, inst := described(t, 7, seenOf(t, cells, 4, 200))
	u := inst.Arrays[0]
	if first, next, last := u.Of(0).Bytes(), u.Of(1).Bytes(), u.Of(6).Bytes(); first != (14+2)*56*24 || next != (15+3)*56*24 || last != (15+1)*56*24 || !d.Arrays[0].Exact {
		t.Errorf("ranks of 7 hold %d, %d and %d bytes: %s", first, next, last, d.Text)
	}
	for was, now := range map[string][2]string{
		"kernel: program": {"kernel: generic", "margins are of programs"},
		"pad: 6":          {"pad: -6", "upper 0 and pad -6"},
	} {
		w, err := ParseWorkload([]byte(strings.Replace(strings.Replace(d.Text, was, now[0], 1), `"my state"`, "mine", 1)), "test")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Instance("100-800", 7); err == nil || !strings.Contains(err.Error(), now[1]) {
			t.Errorf("%s: %v, want %s", now[0], err, now[1])
		}
	}
}

func withGrid(a global.Array, np int) global.Array {
	a.Grid = []int{np, 1}
	return a
}

// TestDescribeTogether takes what one array shows of the rule for another.
func TestDescribeTogether(t *testing.T) {
	uneven := global.Array{Shape: []int64{102}, Elem: 8, Dims: []global.Dim{{Kind: global.Block, Rest: global.RestLast}}}
	even := global.Array{Shape: []int64{100}, Elem: 8}
	run := seenOf(t, uneven, 4, 8)
	other := seenOf(t, even, 4, 8).Arrays[0]
	other.Name = "v"
	run.Arrays = append(run.Arrays, other)
	d, inst := described(t, 7, run)
	if !d.Arrays[2].Exact || inst.Arrays[2].Of(6).Count != 15 {
		t.Errorf("v: %+v, the last rank of 7 has %d cells", d.Arrays[2], inst.Arrays[2].Of(6).Count)
	}
}

func TestDescribeRefuses(t *testing.T) {
	small := global.Array{Shape: []int64{100}, Elem: 8}
	large := global.Array{Shape: []int64{300}, Elem: 8}
	_, err := Describe("heat", "-", []SeenRun{seenOf(t, small, 4, 8), seenOf(t, large, 6, 8)})
	if err == nil || !strings.Contains(err.Error(), "arrays of different shapes: [100] on 4 ranks, [300] on 6") {
		t.Errorf("two problem sizes: %v", err)
	}
	bad := seenOf(t, small, 4, 8)
	bad.Arrays[0].Parts[1] = nil
	if d, err := Describe("heat", "-", []SeenRun{bad}); err != nil || d.Declared() || !strings.Contains(d.Text, "measured") && !strings.Contains(d.Text, "count") {
		t.Errorf("an array that a rank did not declare: %v", err)
	}
}

// TestDescribeHolders finds that some arrays are of the first ranks alone.
func TestDescribeHolders(t *testing.T) {
	run := func(np int) SeenRun {
		r := SeenRun{Job: "j", NP: np}
		of := func(name string, ranks int, bytes int64) {
			a := SeenArray{Name: name, Elem: zones.Bytes, Bytes: make([]int64, np)}
			for rank := range ranks {
				a.Bytes[rank] = bytes
			}
			r.Arrays = append(r.Arrays, a)
		}
		of("log", 1, 70000)
		of("weights", np/2, 3200)
		of("adam", np, 9600)
		return r
	}
	for _, runs := range [][]SeenRun{{run(4)}, {run(4), run(8)}} {
		d, inst := described(t, 16, runs...)
		shares := inst.Shares()
		if len(shares) != 3 || shares[0].Bytes != 70000+3200+9600 || shares[1].Bytes != 3200+9600 || shares[2].Bytes != 9600 ||
			shares[1].Count != 7 || shares[2].Count != 8 {
			t.Errorf("shares %+v of\n%s", shares, d.Text)
		}
		if !strings.HasPrefix(d.Arrays[1].Rule, "held by the first 1 of 2 of the ranks; ") {
			t.Errorf("it says %q", d.Arrays[1].Rule)
		}
	}
}

// TestDescribeSizes: of arrays without a rule the ranks of a spec hold together what those of
// the run held, whoever has them.
func TestDescribeSizes(t *testing.T) {
	run := func(np int, bytes ...int64) SeenRun {
		return SeenRun{Job: "j", NP: np, Arrays: []SeenArray{{Name: "last", Elem: zones.Bytes, Bytes: bytes}}}
	}
	const gib = 1 << 30
	if d, inst := described(t, 4, run(4, 0, 0, 0, gib)); inst.TotalBytes() != gib || !strings.Contains(d.Arrays[0].Rule, "0 to 1073741824 bytes") {
		t.Errorf("an array of the last rank: %d bytes: %s", inst.TotalBytes(), d.Arrays[0].Rule)
	}
	if _, inst := described(t, 2, run(2, gib, gib), run(2, 3*gib, 3*gib)); inst.TotalBytes() != 4*gib {
		t.Errorf("two runs of two sizes: %d bytes", inst.TotalBytes())
	}
	// Rank 0 of any number of ranks has one array, a quarter of the ranks the other.
	with := func(np int) SeenRun {
		one, quarter := make([]int64, np), make([]int64, np)
		one[0] = gib
		for i := range np / 4 {
			quarter[i] = 8
		}
		return SeenRun{Job: "j", NP: np, Arrays: []SeenArray{{Name: "one", Elem: zones.Bytes, Bytes: one}, {Name: "quarter", Elem: zones.Bytes, Bytes: quarter}}}
	}
	for np, want := range map[int]int64{4: gib + 8, 8: gib + 16, 16: gib + 32} {
		if _, inst := described(t, np, with(4), with(8)); inst.TotalBytes() != want {
			t.Errorf("%d ranks hold %d bytes, want %d", np, inst.TotalBytes(), want)
		}
	}
}

// TestDescribeGrows: a program of which each rank has as much may be cut by another grid, which
// is no other size; and rules that are the same on every number of ranks leave it exact.
func TestDescribeGrows(t *testing.T) {
	weak := func(np int, grid ...int) global.Array {
		return global.Array{Shape: []int64{100 * int64(grid[0]), 100 * int64(grid[1])}, Elem: 8, Grid: grid, Halo: []int64{1, 1}}
	}
	d, inst := described(t, 8, seenOf(t, weak(4, 2, 2), 4, 8), seenOf(t, weak(16, 4, 4), 16, 8))
	low, high := inst.TotalRange()
	if want := int64(8 * (102*102*8 + 8)); low != want || high != want {
		t.Errorf("8 ranks hold %d to %d bytes, want %d: %s", low, high, want, d.Text)
	}
}

// TestWrongRules: a rule that is mistyped is refused, as the first one is; sizes that lead out of
// all memory as well.
func TestWrongRules(t *testing.T) {
	const head = "name: a\nkernel: program\nprocs: any\nclasses:\n  c: {iterations: 1}\narrays:\n  - name: u\n    elem: float64\n"
	for fields, want := range map[string]string{
		"    global:\n      shape: [8, 8]\n      or: [{remainder: [frist, \"\"]}]\n": "frist",
		"    global:\n      shape: [8, 8]\n      or: [{order: [0, 0]}]\n":            "order",
		"    global:\n      shape: [8, 8]\n      or: [{shape: [8]}]\n":               "1 axes, want 2",
		"    measured: {2: 8, 4: 1073741824}\n":                                      "bytes on 4096 ranks",
	} {
		w, err := ParseWorkload([]byte(head+fields), "test")
		if err == nil {
			_, err = w.Instance("c", 4096)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", fields, err, want)
		}
	}
}
