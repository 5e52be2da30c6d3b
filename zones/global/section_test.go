package global

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestParseSection compares with what Python's slice.indices and NumPy's shapes say.
func TestParseSection(t *testing.T) {
	t.Parallel()
	shape := []int64{100, 8}
	for _, c := range []struct{ text, want, shape string }{
		{"", "", "[]"}, // refused
		{":", "[{0 100 1} {0 8 1}]", "[100 8]"},
		{"0:100,::4", "[{0 100 1} {0 2 4}]", "[100 2]"},
		{"5", "[{5 1 1} {0 8 1}]", "[8]"},
		{"-1,-8", "[{99 1 1} {0 1 1}]", "[]"},
		{"...,3", "[{0 100 1} {3 1 1}]", "[100]"},
		{"::-1", "[{99 100 -1} {0 8 1}]", "[100 8]"},
		{"90:200:7,", "[{90 2 7} {0 8 1}]", "[2 8]"},
		{"50:10,:", "[{50 0 1} {0 8 1}]", "[0 8]"},
		{"10:50:-3", "[{10 0 -3} {0 8 1}]", "[0 8]"},
		{"50:10:-3, 7:-9:-7", "[{50 14 -3} {7 2 -7}]", "[14 2]"},
		{"-500:500:9223372036854775807", "[{0 1 100} {0 8 1}]", "[1 8]"},
		{"::-9223372036854775808", "[{99 1 -100} {0 8 1}]", "[1 8]"},
	} {
		s, err := ParseSection(c.text, shape)
		if got := fmt.Sprint(s.Picks); err != nil && c.want != "" || err == nil && (got != c.want || fmt.Sprint(s.Shape) != c.shape) {
			t.Errorf("%q: %s of shape %v, %v; want %s of %s", c.text, got, s.Shape, err, c.want, c.shape)
		}
	}
	for text, want := range map[string]string{
		"1:2:0": "the step is 0", "100": "element 100 of 100", "-101": "element -101 of 100", "a": "is no number",
		"1:2:3:4": "two colons", "1,2,3": "3 axes, the array has 2", "...,...": "more than one", "1:b": `"1:b" is no number`, "": "is no number",
	} {
		if _, err := ParseSection(text, shape); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestSection reads random sections of arrays that ranks hold by random rules, in boxes of random
// lengths, and compares each element.
func TestSection(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 1))
	for n := range 300 {
		a := &Array{Elem: 1}
		for range 1 + r.IntN(3) {
			a.Shape = append(a.Shape, 6+r.Int64N(12))
			kinds := []Dim{{Kind: Block}, {Kind: Cyclic}, {Kind: BlockCyclic, Block: 1 + r.Int64N(3)}}
			a.Dims = append(a.Dims, kinds[r.IntN(3)])
			a.Halo = append(a.Halo, 0)
			if a.Dims[len(a.Dims)-1].Kind == Block {
				a.Halo[len(a.Halo)-1] = r.Int64N(3)
			}
		}
		l, err := a.On(1 + r.IntN(6))
		if err != nil {
			continue // too few elements for so many ranks
		}
		checkSection(t, fmt.Sprintf("%d: %v on %v", n, a, l.Grid()), l, randomSection(r, a.Shape), r)
	}
}

func randomSection(r *rand.Rand, shape []int64) (s Section) {
	for _, n := range shape {
		p := Pick{Start: r.Int64N(n), Step: 1 + r.Int64N(4)}
		p.N = 1 + r.Int64N((n-p.Start-1)/p.Step+1)
		if r.IntN(3) == 0 {
			p.Start, p.Step = p.Start+(p.N-1)*p.Step, -p.Step
		}
		s.Picks = append(s.Picks, p)
	}
	return s
}

func checkSection(t *testing.T, what string, l *Layout, s Section, r *rand.Rand) {
	t.Helper()
	got := make([]byte, s.Len())
	step := 1 + r.Int64N(s.Len())
	for lo := int64(0); lo < s.Len(); lo += step {
		hi := min(lo+step, s.Len())
		covered := int64(0)
		s.Boxes(lo, hi, func(at int64, box Section) error {
			covered += box.Len()
			for rank := range l.Ranks() {
				for _, move := range l.Part(rank).Section(rank, box) {
					move.Copy(got[lo+at:], ownBytes(l, rank))
				}
			}
			return nil
		})
		if covered != hi-lo {
			t.Fatalf("%s: boxes from %d to %d have %d elements", what, lo, hi, covered)
		}
	}
	index := make([]int64, len(s.Picks))
	for k, b := range got {
		rest := int64(k)
		for i, p := range slices.Backward(s.Picks) {
			index[i], rest = p.Start+rest%p.N*p.Step, rest/p.N
		}
		if b != cellByte(index) {
			t.Fatalf("%s, %v: element %d is %d, want that of %v", what, s.Picks, k, b, index)
		}
	}
}

// ownBytes is the memory of a rank: a byte of each cell, 0 in the halo, which no section takes.
func ownBytes(l *Layout, rank int) []byte {
	mem := make([]byte, l.Elements(rank))
	for at := range mem {
		index := l.Global(rank, int64(at))
		inside := true
		for i, n := range l.Array().Shape {
			inside = inside && index[i] >= 0 && index[i] < n
		}
		if inside && l.Owner(index) == rank {
			mem[at] = cellByte(index)
		}
	}
	return mem
}

// cellByte is no 0.
func cellByte(index []int64) byte {
	sum := int64(0)
	for _, i := range index {
		sum = sum*19 + i
	}
	return byte(1 + sum%251)
}
