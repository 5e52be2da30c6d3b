package mpi

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// results runs every collective operation and returns all ranks' results as
// bits.
func results(t *testing.T, nodeOf []int, f Implementation) [][]uint64 {
	w := newWorld(t, worldOptions{nodeOf: nodeOf, dir: shmDir(t), implementation: f})
	defer w.close()
	out := make([][]uint64, len(nodeOf))
	w.must(t, func(c *Comm) error {
		rng := rand.New(rand.NewPCG(1, uint64(c.Rank())))
		random := func(n int) []float64 { // of very different size, so that order shows
			x := make([]float64, n)
			for i := range x {
				x[i] = (rng.Float64() - 0.5) * math.Exp(40*rng.Float64())
			}
			return x
		}
		keep := func(x []float64) {
			for _, v := range x {
				out[c.Rank()] = append(out[c.Rank()], math.Float64bits(v))
			}
		}
		for _, n := range []int{0, 1, 7, 12_000} {
			for range c.Size() {
				sum := random(n)
				if err := c.AllreduceSum(sum); err != nil {
					return err
				}
				keep(sum)
			}
		}
		return c.Barrier()
	})
	for r := range out[1:] { // allreduce leaves the same everywhere
		if out[r+1][0] != out[0][0] {
			t.Fatalf("rank %d differs from rank 0", r+1)
		}
	}
	return out
}

func TestCollectivesSameBitsUnderEveryMapping(t *testing.T) {
	want := results(t, []int{0, 0, 0, 0, 0, 0, 0}, MPICH)
	for _, nodeOf := range [][]int{{0, 1, 2, 3, 4, 5, 6}, {0, 0, 0, 1, 1, 1, 1}, {2, 0, 1, 2, 0, 1, 2}} {
		for _, implementation := range []Implementation{MPICH, OpenMPI} {
			for r, got := range results(t, nodeOf, implementation) {
				if !slices.Equal(got, want[r]) {
					t.Fatalf("mapping %v: rank %d has other bits", nodeOf, r)
				}
			}
		}
	}
}

// No message of a collective is ever seen by a receive of the user.
func TestCollectivesAreApart(t *testing.T) {
	w := newWorld(t, worldOptions{nodeOf: []int{0, 0, 1}, dir: shmDir(t)})
	defer w.close()
	w.must(t, func(c *Comm) error {
		data := bytes.Repeat([]byte{byte(c.Rank())}, 100)
		if c.Rank() == 0 { // sends down the tree before rank 1 and 2 look
			if err := c.bcast(opAllreduce, data); err != nil {
				return err
			}
			return c.Send(1, 5, []byte("user"))
		}
		if c.Rank() == 1 {
			var buf [100]byte
			st, err := c.Recv(AnySource, AnyTag, buf[:])
			if err != nil || string(buf[:st.Bytes]) != "user" {
				return fmt.Errorf("%+v %v", st, err)
			}
		}
		return c.bcast(opAllreduce, data)
	})
}

func TestCollectiveMismatch(t *testing.T) {
	for _, test := range []struct {
		name string
		f    func(c *Comm) error
		want string
	}{
		{"operation", func(c *Comm) error {
			if c.Rank() == 0 {
				return c.Barrier()
			}
			return c.AllreduceSum([]float64{1})
		}, "rank 0: barrier: rank 1 is in allreduce"},
		{"length", func(c *Comm) error { return c.AllreduceSum(make([]float64, 1+c.Rank())) }, "rank 0: allreduce: rank 1 has 16 bytes, this rank 8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, worldOptions{nodeOf: []int{0, 0}, dir: shmDir(t), implementation: OpenMPI})
			defer w.close()
			err := w.run(test.f)[0]
			if err == nil || !bytes.Contains([]byte(err.Error()), []byte(test.want)) {
				t.Errorf("error %v does not say %q", err, test.want)
			}
		})
	}
}
