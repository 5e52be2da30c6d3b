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
		"pad: 6":          {"pad: -6", "and pad -6"},
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

// codeRuns are a program on the grid of MPI_Cart_create, run under MPICH 4 with docs/examples'
// ckpt.h: three velocities with a halo of 2 and a pressure on another grid with a halo of 1, on
// 67 x 43 x 38 and 68 x 44 x 39 cells. In the clipped form halos end at the edges of the array,
// and memory has room for five more cells. Each row is the bytes of all ranks, of the largest, and
// of all ranks multiplied by their number from 1.
var codeRuns = map[bool]map[int][3]int64{
	false: {2: {4639552, 2343464, 6935640}, 7: {5737992, 844328, 22592272}, 8: {5411728, 697448, 24143544},
		16: {5928272, 381656, 49946264}, 60: {7620240, 135128, 228601608}, 64: {7832976, 129560, 251808696}},
	true: {2: {3868512, 1953864, 5783160}, 7: {4807752, 734888, 18918272}, 8: {4677520, 602904, 20869640},
		16: {5131664, 344920, 43241640}, 60: {6803440, 143448, 203961896}, 64: {7138512, 139440, 229595880}},
}

// codeSeen is what such a program declares on 4 ranks, whose grid is 2 x 2 x 1.
func codeSeen(clipped bool) SeenRun {
	run := SeenRun{Job: "j", NP: 4}
	array := func(name string, values, halo, pad int64, shape ...int64) {
		a := SeenArray{Name: name, Elem: zones.Float64}
		for rank := range int64(4) {
			p := &global.Part{Elem: 8 * values}
			for i, n := range shape {
				s := global.Stretch{Cells: n, Count: n, Halo: halo}
				if at := [3]int64{rank / 2, rank % 2, 0}[i]; i < 2 {
					s.First, s.Count = at*(n/2+n%2), n/2+(1-at)*(n%2)
				}
				if clipped {
					s.Halo, s.Lower, s.Upper = 0, halo*min(s.First, 1), halo*min(n-s.First-s.Count, 1)
				}
				p.Axes = append(p.Axes, s)
			}
			p.Axes[2].Pad = pad
			a.Parts, a.Bytes = append(a.Parts, p), append(a.Bytes, p.Cells()*p.Elem)
		}
		run.Arrays = append(run.Arrays, a)
	}
	array("velocity", 3, 2, 0, 67, 43, 38)
	array("pressure", 1, 1, map[bool]int64{true: 5}[clipped], 68, 44, 39)
	run.Arrays = append(run.Arrays, SeenArray{Name: "time", Elem: zones.Float64, Bytes: []int64{8, 8, 8, 8}, Replicated: true})
	return run
}

// TestDescribeMeasured predicts each rank of a 3-D code from its run on 4 ranks, to the byte.
func TestDescribeMeasured(t *testing.T) {
	for clipped, runs := range codeRuns {
		for np, want := range runs {
			_, inst := described(t, np, codeSeen(clipped))
			var got [3]int64
			for rank := range np {
				bytes := int64(0)
				for _, a := range inst.Arrays {
					bytes += a.Of(rank).Bytes()
				}
				got[0], got[1], got[2] = got[0]+bytes, max(got[1], bytes), got[2]+int64(rank+1)*bytes
			}
			if got != want || inst.TotalBytes() != want[0] {
				t.Errorf("clipped %v, %d ranks: %v, measured %v", clipped, np, got, want)
			}
		}
	}
}
