package app

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"ckpt/zones/global"
)

// layout returns the layout of an array that all ranks hold together, nil if each rank has its
// own. A kernel that asks wants so many axes and no halo.
func (a *App) layout(name string, axes int) (*global.Layout, error) {
	for _, arr := range a.arrays {
		if arr.Name != name || arr.Layout == nil {
			continue
		}
		desc := arr.Layout.Array()
		if len(desc.Shape) != axes {
			return nil, fmt.Errorf("array %s has %d axes; the kernel needs %d", name, len(desc.Shape), axes)
		}
		for _, h := range desc.Halo {
			if h > 0 {
				return nil, fmt.Errorf("array %s has a halo, which the kernel does not keep", name)
			}
		}
		return arr.Layout, nil
	}
	return nil, nil
}

// held returns what this rank holds of an array of all ranks; nil if it holds a copy.
func (a *App) held(arr *array) []*global.Part {
	switch {
	case arr.Layout != nil:
		return []*global.Part{arr.Layout.Part(a.rank)}
	case arr.copied:
		return nil
	}
	return arr.blocks
}

// Blocks returns what this rank holds of an array in blocks, nil for other regions.
func (a *App) Blocks(region string) []*global.Part {
	for _, arr := range a.arrays {
		if arr.Name == region {
			return arr.blocks
		}
	}
	return nil
}

// Part returns what this rank has of an array that all ranks hold together, nil for other
// regions.
func (a *App) Part(region string) *global.Part {
	for _, arr := range a.arrays {
		if arr.Name == region && arr.Layout != nil {
			return arr.Layout.Part(a.rank)
		}
	}
	return nil
}

// Replicated reports whether any rank can resume from a region of the first one, in a job whose
// ranks hold arrays together. In the runtime region only the progress matters.
func (a *App) Replicated(region string) bool {
	if !a.inst.Global() {
		return false
	}
	return region == runtimeName || region == ProgressRegion ||
		slices.ContainsFunc(a.arrays, func(arr *array) bool { return arr.Name == region && arr.Replicated })
}

// A Field is the digest of this rank's part of an array that all ranks hold together. The sum
// over all ranks does not depend on who has which element.
type Field struct {
	Name string
	Sum  [2]uint64
}

// Fields returns a digest of each array that all ranks hold together. Halos do not count. Rank 0
// adds the arrays that are the same on all ranks.
func (a *App) Fields() []Field {
	if !a.inst.Global() {
		return nil
	}
	var list []Field
	for _, arr := range a.arrays {
		switch {
		case arr.Shared():
			list = append(list, Field{arr.Name, digestOf(a.held(arr), arr.mem)})
		case arr.Replicated:
			f := Field{Name: arr.Name}
			if a.rank == 0 {
				f.Sum = digestOf([]*global.Part{replicated(arr).Part(0)}, arr.mem)
			}
			list = append(list, f)
		}
	}
	return list
}

// replicated is the layout of an array that one rank holds.
func replicated(arr *array) *global.Layout {
	l, err := (&global.Array{Shape: []int64{max(1, arr.Count)}, Elem: int64(arr.Elem.Size())}).On(1)
	if err != nil {
		panic(err) // any array of one axis is possible on one rank
	}
	return l
}

// digestOf adds up, in two ways, numbers that each depend on one element and its index.
func digestOf(parts []*global.Part, mem []byte) (sum [2]uint64) {
	if len(mem) == 0 {
		return sum
	}
	for _, p := range parts {
		p.Each(func(cell, at int64) {
			h := mix(uint64(cell) ^ mix(elementBits(mem, at, p.Elem)))
			sum[0] += h
			sum[1] += mix(h ^ 0x5bd1e995)
		})
	}
	return sum
}

func elementBits(mem []byte, at, size int64) uint64 {
	b := mem[at*size:]
	switch size {
	case 8:
		return binary.LittleEndian.Uint64(b)
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return uint64(b[0])
}

// An exactSum adds numbers up without rounding, in units of 2^-56: the sum is the same in any
// order, and so on any number of ranks. It has 128 bits.
type exactSum struct{ hi, lo uint64 }

// most is the largest number that counts as it is.
const most = 128

func (s *exactSum) add(v float64) {
	if v > most {
		v = most
	}
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, uint64(v*(1<<56)), 0)
	s.hi += carry
}

func (s *exactSum) merge(o exactSum) {
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, o.lo, 0)
	s.hi += o.hi + carry
}

// take returns the sum in parts of 32 bits, the lowest first, and begins again. The parts of up
// to 2^20 ranks add up exactly.
func (s *exactSum) take() []float64 {
	parts := []float64{float64(s.lo & 0xffffffff), float64(s.lo >> 32), float64(s.hi)}
	*s = exactSum{}
	return parts
}

func exactValue(parts []float64) float64 {
	return (parts[0] + parts[1]*(1<<32) + parts[2]*(1<<32)*(1<<32)) / (1 << 56)
}

// view reads memory as elements of type T; a tail too short for one is left out.
func view[T float64 | float32 | int64 | int32](mem []byte) []T {
	var t T
	n := len(mem) / int(unsafe.Sizeof(t))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&mem[0])), n)
}

func float64s(mem []byte) []float64 { return view[float64](mem) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// The runtime region is what a process owns beside its arrays: here the iteration counter and the
// history of residuals, and, for the rest of its size, constant data as an MPI library or a libc
// keep it on their heap.
//
//	bytes 0..7    completed iterations (int64)
//	bytes 8..15   residual of the last iteration (float64)
//	bytes 16..31  unused, zero
//	then          history: h residuals, iteration i at (i-1) mod h
//	then          constants
type runtimeRegion struct {
	mem     []byte
	count   []int64
	head    []float64
	history []float64
	consts  []int64
}

const (
	runtimeName   = "runtime"
	runtimeHeader = 32
	// maxHistory holds the residuals of the longest default run (500 iterations) and still leaves
	// half a page to constants at the smallest size; longer runs wrap around.
	maxHistory = 254
)

func newRuntimeRegion(mem []byte) runtimeRegion {
	body := mem[runtimeHeader:]
	h := min(maxHistory, len(body)/8)
	return runtimeRegion{
		mem:     mem,
		count:   view[int64](mem[:8]),
		head:    float64s(mem[8:16]),
		history: float64s(body[:8*h]),
		consts:  view[int64](body[8*h:]),
	}
}

func (r *runtimeRegion) init(rank int) {
	r.count[0] = 0
	r.head[0] = 0
	clear(r.history)
	// Heaps of a library hold pointers and small counts: half of each word zero, the other
	// scattered. Half of the words differ from rank to rank.
	for i := range r.consts {
		seed := uint64(i) * 2
		if i%2 == 1 {
			seed += uint64(rank) << 32
		}
		r.consts[i] = int64(mix(seed) >> 32)
	}
}

func (r *runtimeRegion) record(iter int, residual float64) {
	r.history[(iter-1)%len(r.history)] = residual
	r.head[0] = residual
	r.count[0] = int64(iter)
}

func (r *runtimeRegion) residual() float64 { return r.head[0] }

func (r *runtimeRegion) iteration() int { return int(r.count[0]) }

// mix scatters the bits of x (the finaliser of splitmix64, Steele et al. 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// smooth is the field that the solvers start from and are driven to, at a point of the unit cube:
// between 0.6 and 1.4, one wave across the domain and a weaker shorter one, shifted from
// component to component. Like the exact solution of NPB it is a product form; unlike it, it
// never comes near 0.
func smooth(x, y, z float64, comp int) float64 {
	s := 0.7 * float64(comp)
	return 1 + 0.3*math.Sin(math.Pi*x+s)*math.Cos(math.Pi*y-s)*math.Cos(math.Pi*z) +
		0.1*math.Sin(5*x+3*y-4*z+s)
}

// ripple scales the source terms of iteration iter. A solver that converges stops changing memory
// once its corrections fall under the last bit, and a long demonstration would then checkpoint
// nothing; a source that moves by a thousandth keeps every word of the solution changing.
func ripple(iter int) float64 { return 1 + 1e-3*math.Sin(0.7*float64(iter)) }

// ProgressRegion is the region of a checkpoint at application level that holds the iteration
// counter and the residuals. It is the same on all ranks.
const ProgressRegion = "progress"

// Progress returns what ProgressRegion holds, a part of the region runtime. The rest of that one
// is constant.
func (a *App) Progress() []byte {
	return a.runtime.mem[:runtimeHeader+8*len(a.runtime.history)]
}

// Resume completes the memory of a rank after a restart at application level: Init has run, and
// the arrays that were saved have been restored. Progress is what [App.Progress] was.
func (a *App) Resume(progress []byte) {
	copy(a.Progress(), progress)
	if k, ok := a.kernel.(recomputer); ok {
		k.recompute(a.Iteration())
	}
}
