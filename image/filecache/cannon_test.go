package filecache

import (
	"encoding/binary"
	"fmt"
	"testing"
)

// TestGraphPowers multiplies the adjacency matrix of a graph by itself with Cannon's
// algorithm. The processes, one for each element, talk through the file alone: blocks
// of A and B go around in it. Malinowski's example has A², A³ and two triangles.
func TestGraphPowers(t *testing.T) {
	a := matrix{{0, 1, 1, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}, {1, 1, 0, 0}}
	squared := matrix{{0, 0, 1, 1}, {0, 0, 0, 1}, {1, 1, 0, 0}, {0, 1, 2, 0}}
	cubed := matrix{{1, 1, 0, 1}, {1, 1, 0, 0}, {0, 1, 2, 0}, {0, 0, 1, 2}}
	for _, l := range []Levels{{}, {Records: true, Replicas: 1, Versions: true}} {
		c, _ := cluster(3)
		nodes := make([]int, 16)
		for i := range nodes {
			nodes[i] = i % 3
		}
		// Three matrices: those that go around, and the powers.
		f := must(c.Open(background, "graph", Options{Create: true, Size: 4 * 16 * 4, Unit: 4, Levels: l, Processes: nodes}))(t)
		power := a
		for _, want := range []matrix{squared, cubed} {
			power = cannon(t, f, power, a)
			if power != want {
				t.Errorf("%v, want %v", power, want)
			}
			check(t, together(f, func(p *Process) error { return p.Sync(background) }))
		}
		triangles := 0
		for i := range power {
			triangles += power[i][i]
		}
		if triangles/3 != 2 {
			t.Errorf("%d triangles", triangles/3)
		}
		check(t, f.Close(background))
	}
}

type matrix [4][4]int

// cannon returns x·y. In step k the process of row i and column j has the elements of
// column (i+j+k) of x and of that row of y.
func cannon(t *testing.T, f *File, x, y matrix) (product matrix) {
	t.Helper()
	at := func(which, i, j int) int64 { return int64(which*64 + (i%4*4+j%4)*4) }
	put := func(p *Process, which, i, j, v int) error {
		_, err := p.WriteAt(binary.LittleEndian.AppendUint32(nil, uint32(v)), at(which, i, j))
		return err
	}
	get := func(p *Process, which, i, j int) (int, error) {
		b := make([]byte, 4)
		_, err := p.ReadAt(b, at(which, i, j))
		return int(binary.LittleEndian.Uint32(b)), err
	}
	// Skewed: row i of x goes i to the left, column j of y goes j up.
	check(t, together(f, func(p *Process) error {
		i, j := p.rank/4, p.rank%4
		if err := put(p, 0, i, j+4-i, x[i][j]); err != nil {
			return err
		}
		return put(p, 1, i+4-j, j, y[i][j])
	}))
	for k := range 4 {
		var left, up [16]int
		check(t, together(f, func(p *Process) (err error) {
			i, j := p.rank/4, p.rank%4
			if left[p.rank], err = get(p, 0, i, j); err != nil {
				return err
			}
			if up[p.rank], err = get(p, 1, i, j); err != nil {
				return err
			}
			sum := 0
			if k > 0 {
				if sum, err = get(p, 2, i, j); err != nil {
					return err
				}
			}
			return put(p, 2, i, j, sum+left[p.rank]*up[p.rank])
		}))
		check(t, together(f, func(p *Process) error {
			i, j := p.rank/4, p.rank%4
			if err := put(p, 0, i, j+3, left[p.rank]); err != nil {
				return err
			}
			return put(p, 1, i+3, j, up[p.rank])
		}))
	}
	for i := range 4 {
		for j := range 4 {
			v, err := get(f.Process(0), 2, i, j)
			if err != nil {
				t.Fatal(fmt.Errorf("product: %w", err))
			}
			product[i][j] = v
		}
	}
	return product
}
