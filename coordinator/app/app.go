// Package app holds the mini-applications that a simulated MPI job runs.
//
// Each is the computing half of a workload spec (package dataset): it allocates exactly the
// arrays of the spec and computes on them, with the decomposition and the message pattern of the
// code it stands for.
//
//	a, err := app.New(inst, comm.Rank(), alloc)
//	err = a.Init()
//	for i := a.Iteration() + 1; i <= inst.Iterations; i++ {
//		err = a.Step(comm, i)
//	}
//
// # Promises
//
//   - The regions are the state. Copying the bytes of all regions into the
//     regions of a fresh App, without Init, and continuing with Step is a
//     restart, and ends in the same bytes as the run that was not interrupted.
//     (Messages in transit are not state of an App; only ring leaves any between
//     two iterations.)
//   - So is Init, then copying the arrays that the spec says to save, then
//     Resume, if at least one iteration follows. Replicated arrays are the same
//     on all ranks between two iterations.
//   - Runs are bit-identical: no goroutine, no map order, no clock, no random
//     numbers, sums in fixed order.
//   - An iteration rewrites the same memory as an iteration of the original, and
//     no other.
//   - Fields stay finite for any number of iterations, and keep changing: the
//     source term carries a ripple, see [ripple].
//
// These are stand-ins for size and traffic. They solve no NAS problem, and their residuals and
// times are no NPB results (docs/WORKLOADS.md).
package app

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"ckpt/dataset"
	"ckpt/zones"
	"ckpt/zones/global"
)

// Comm has the parts of the message-passing library that an application needs.
type Comm interface {
	Rank() int
	Size() int
	// SendFloat64s is eager: it returns when data may be reused, whether or not the receiver has
	// asked.
	SendFloat64s(dst, tag int, data []float64) error
	// RecvFloat64s fills data with the next message of that source (-1: any) and tag, whose
	// length must be len(data).
	RecvFloat64s(src, tag int, data []float64) (from int, err error)
	// AllreduceSum replaces data by the sum over the ranks, in a fixed order.
	AllreduceSum(data []float64) error
}

// Alloc returns zeroed page-aligned memory for a new region of the data zone.
type Alloc func(name string, elem zones.Elem, bytes int64) ([]byte, error)

// An App is one rank of a mini-application. It is not safe for concurrent use.
type App struct {
	inst    *dataset.Instance
	rank    int
	arrays  []*array
	runtime runtimeRegion
	kernel  kernel
	rest    []*array  // arrays the kernel has no use for
	exact   *exactSum // of the residual, of a kernel whose results do not depend on the number of ranks
}

// array is an array of the spec with its memory.
type array struct {
	dataset.Array
	mem     []byte
	claimed bool
	blocks  []*global.Part // what this rank holds of an array of all ranks in blocks
	copied  bool           // and a lower rank too
}

type kernel interface {
	// init fills the arrays; memory is zero.
	init() error
	// step carries out an iteration and returns this rank's part of the sum of squares of the
	// residual, or adds it to App.exact.
	step(c Comm, iter int) (float64, error)
}

// A recomputer is a kernel with arrays that no iteration computes anew.
type recomputer interface {
	// recompute computes them from what was saved after iteration iter; init has run.
	recompute(iter int)
}

// A kind is a kernel and what it says of the arrays that it claims.
type kind struct {
	make func(*App) (kernel, error)
	// anew are the arrays that init, recompute or each iteration compute anew, without their
	// earlier values. Only these need not be saved.
	anew []string
	// same are the arrays that are the same on all ranks.
	same []string
}

var kernels = map[string]kind{
	"bt":        {make: newBT, anew: append([]string{"lhsc"}, multipartAnew...)},
	"sp":        {make: newSP, anew: append([]string{"lhs", "speed", "ainv"}, multipartAnew...)},
	"lu":        {make: newLU, anew: []string{"rsd", "frct", "flux", "a", "b", "c", "d", "buf", "buf1"}},
	"cg":        {make: newCG, anew: []string{"colidx", "rowstr", "iv", "arow", "acol", "v", "aelt", "a", "z", "p", "q", "r", "w"}},
	"minighost": {make: newMiniGhost},
	"heat":      {make: newHeat, anew: []string{"kappa"}},
	"ring":      {make: newRing, anew: []string{"votes"}},
	"dl":        {make: newDL, anew: dlAnew, same: []string{"weights", "moment1", "moment2", "gradient", "order"}},
	"dlshard":   {make: newDLShard, anew: append([]string{"weights"}, dlAnew...), same: []string{"weights", "gradient", "order"}},
	"generic":   {make: newGeneric},
}

// New allocates the regions of a rank: the arrays of the instance in the order of its spec, then
// "runtime". An array without elements has no region.
func New(inst *dataset.Instance, rank int, alloc Alloc) (*App, error) {
	if rank < 0 || rank >= inst.NP {
		return nil, fmt.Errorf("%v: rank %d is not in 0..%d", inst, rank, inst.NP-1)
	}
	a := &App{inst: inst, rank: rank}
	for _, spec := range inst.Arrays {
		spec = spec.Of(rank)
		mem, err := allocate(alloc, spec.Name, spec.Elem, spec.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%v: array %s: %w", inst, spec.Name, err)
		}
		arr := &array{Array: spec, mem: mem}
		if err := arr.divide(rank); err != nil {
			return nil, fmt.Errorf("%v: array %s: blocks: %w", inst, spec.Name, err)
		}
		a.arrays = append(a.arrays, arr)
	}
	mem, err := allocate(alloc, runtimeName, zones.Bytes, inst.Runtime)
	if err != nil {
		return nil, fmt.Errorf("%v: runtime: %w", inst, err)
	}
	a.runtime = newRuntimeRegion(mem)

	k, ok := kernels[inst.Workload.Kernel]
	if !ok {
		return nil, fmt.Errorf("%v: kernel %q is unknown", inst, inst.Workload.Kernel)
	}
	if a.kernel, err = k.make(a); err == nil {
		err = a.checkMarks(k)
	}
	if err != nil {
		return nil, fmt.Errorf("%v: kernel %s: %w", inst, inst.Workload.Kernel, err)
	}
	for _, arr := range a.arrays {
		if !arr.claimed {
			a.rest = append(a.rest, arr)
		}
	}
	return a, nil
}

// checkMarks refuses a spec that marks an array as what it is not for its kernel.
func (a *App) checkMarks(k kind) error {
	for _, arr := range a.arrays {
		switch {
		case !arr.claimed || a.inst.Workload.Kernel == genericKernel:
		case !arr.Save && !slices.Contains(k.anew, arr.Name):
			return fmt.Errorf("array %s: each iteration needs its earlier values, so that it has to be saved", arr.Name)
		case arr.Replicated && !slices.Contains(k.same, arr.Name):
			return fmt.Errorf("array %s: it differs from rank to rank, so that it cannot be replicated", arr.Name)
		}
	}
	return nil
}

// divide finds out which blocks of an array of all ranks a rank holds.
func (arr *array) divide(rank int) error {
	if arr.Array.Blocks == nil {
		return nil
	}
	b, err := arr.Array.Blocks()
	if err != nil {
		return err
	}
	arr.copied = b.Copied(rank)
	arr.blocks, err = b.Of(rank)
	return err
}

func allocate(alloc Alloc, name string, elem zones.Elem, n int64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	if n > math.MaxInt/2 {
		return nil, fmt.Errorf("%d bytes do not fit this machine", n)
	}
	mem, err := alloc(name, elem, n)
	if err != nil {
		return nil, err
	}
	if int64(len(mem)) != n {
		return nil, fmt.Errorf("got %d bytes of memory, want %d", len(mem), n)
	}
	if uintptr(unsafe.Pointer(&mem[0]))%8 != 0 {
		return nil, fmt.Errorf("memory is not aligned to 8 bytes")
	}
	return mem, nil
}

// Init gives the arrays their first values. A restart from a checkpoint of all regions does
// without.
func (a *App) Init() error {
	a.runtime.init(a.rank)
	for _, arr := range a.rest {
		arr.init(a.rank)
	}
	return a.kernel.init()
}

// Step carries out iteration iter, counted from 1. All ranks of the job call it with the same
// number. After an error the regions are in no defined state.
func (a *App) Step(c Comm, iter int) error {
	if c.Rank() != a.rank || c.Size() != a.inst.NP {
		return fmt.Errorf("%v: rank %d stepped with the communicator of rank %d of %d", a.inst, a.rank, c.Rank(), c.Size())
	}
	if iter != a.Iteration()+1 {
		return fmt.Errorf("%v: rank %d: iteration %d follows %d", a.inst, a.rank, iter, a.Iteration())
	}
	local, err := a.kernel.step(c, iter)
	if err != nil {
		return fmt.Errorf("%v: rank %d: iteration %d: %w", a.inst, a.rank, iter, err)
	}
	for _, arr := range a.rest {
		arr.compute(a.rank, iter)
	}
	sum := []float64{local}
	if a.exact != nil {
		sum = a.exact.take()
	}
	if err := c.AllreduceSum(sum); err != nil {
		return fmt.Errorf("%v: rank %d: iteration %d: residual: %w", a.inst, a.rank, iter, err)
	}
	if a.exact != nil {
		sum[0] = exactValue(sum)
	}
	a.runtime.record(iter, math.Sqrt(sum[0]))
	return nil
}

// Residual returns the residual of the last iteration, 0 before the first. It is the same in all
// ranks.
func (a *App) Residual() float64 { return a.runtime.residual() }

// Iteration returns the number of completed iterations.
func (a *App) Iteration() int { return a.runtime.iteration() }

// param returns a parameter of the spec that the kernel depends on.
func (a *App) param(name string) (int, error) {
	v, ok := a.inst.Params[name]
	if !ok {
		return 0, fmt.Errorf("needs the parameter %q", name)
	}
	if v < 0 || v > math.MaxInt32 {
		return 0, fmt.Errorf("parameter %s is %d; want 0 to 2^31-1", name, v)
	}
	return int(v), nil
}

func (a *App) params(to map[string]*int) error {
	for _, name := range sortedKeys(to) {
		v, err := a.param(name)
		if err != nil {
			return err
		}
		*to[name] = v
	}
	return nil
}

// A want is an array that a kernel needs, of at least so many elements.
type want struct {
	name string
	n    int
	to   any // *[]float64, *[]float32 or *[]int32
}

func (a *App) claims(list ...want) error {
	for _, w := range list {
		var err error
		switch to := w.to.(type) {
		case *[]float64:
			*to, err = claimed[float64](a, w, zones.Float64)
		case *[]float32:
			*to, err = claimed[float32](a, w, zones.Float32)
		case *[]int32:
			*to, err = claimed[int32](a, w, zones.Int32)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func claimed[T float64 | float32 | int32](a *App, w want, elem zones.Elem) ([]T, error) {
	arr, err := a.claim(w.name, elem, w.n)
	if err != nil {
		return nil, err
	}
	return view[T](arr.mem), nil
}

func (a *App) claim(name string, elem zones.Elem, n int) (*array, error) {
	for _, arr := range a.arrays {
		if arr.Name != name {
			continue
		}
		if arr.Elem != elem {
			return nil, fmt.Errorf("array %s holds %v; the kernel needs %v", name, arr.Elem, elem)
		}
		if arr.Count < int64(n) {
			return nil, fmt.Errorf("array %s has %d elements; the kernel needs %d", name, arr.Count, n)
		}
		arr.claimed = true
		return arr, nil
	}
	return nil, fmt.Errorf("needs an array %s of %v", name, elem)
}
