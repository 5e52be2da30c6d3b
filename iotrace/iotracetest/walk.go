package iotracetest

import "math/rand/v2"

// A walker returns the requests of one rank, one after the other.
type walker interface {
	next(r *rand.Rand) (off, size int64)
}

// walker returns the walker of a rank. In a shared file, strided ranks interleave and
// others follow each other.
func (s *Spec) walker(rank int) walker {
	ops := int64(s.Ops) * int64(s.Bursts)
	if s.Pattern == Mixed {
		return s.mixed(rank, int(ops))
	}
	return s.walkerOf(s.Pattern, rank, ops, 0)
}

// walkerOf returns a walker of ops requests from offset base on.
func (s *Spec) walkerOf(p Pattern, rank int, ops, base int64) walker {
	sizes := sizer{s.Size, s.Variable}
	segment := base // start of the rank, if ranks follow each other
	if s.Shared {
		segment += int64(rank) * ops * s.Size * 10
	}
	interleave := int64(4) // distance in requests from one of the rank to its next
	if s.Shared {
		interleave = int64(max(s.Ranks, 2))
		base += int64(rank) * s.Size
	}
	// Parameters that ranks share come from a separate generator.
	common := rand.New(rand.NewPCG(s.Seed, 1))
	switch p {
	case Sequential:
		return &forward{sizes, segment, 0, 50, 40}
	case StridedSimple:
		return &nested{sizes: sizes, off: base, stride: interleave * s.Size, inner: 1, outer: interleave * s.Size}
	case StridedNested:
		inner := 2 + common.Int64N(7)
		stride := interleave * s.Size
		return &nested{sizes: sizes, off: base, stride: stride, inner: inner, outer: stride * (inner + 1 + common.Int64N(2*inner))}
	case StridedVariable:
		return &forward{sizes, segment, 100, 800, 0}
	case Random:
		return &random{sizes, segment, ops * 4}
	}
	return &forward{sizes, segment, 0, 0, 100}
}

// mixed joins two or three patterns of different kinds.
func (s *Spec) mixed(rank, ops int) walker {
	kinds := [][]Pattern{{Contiguous, Sequential}, {StridedSimple, StridedNested, StridedVariable}, {Random}}
	common := rand.New(rand.NewPCG(s.Seed, 2)) // all ranks do the same
	common.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	parts := 2 + common.IntN(2)
	m := &phases{}
	for i := range parts {
		kind := kinds[i]
		n := ops*(i+1)/parts - ops*i/parts
		base := int64(i) * int64(ops) * s.Size * int64(s.Ranks) * 12
		m.parts = append(m.parts, s.walkerOf(kind[common.IntN(len(kind))], rank, int64(n), base))
		m.left = append(m.left, n)
	}
	return m
}

// sizer chooses the size of a request.
type sizer struct {
	size     int64
	variable bool
}

func (s sizer) next(r *rand.Rand) int64 {
	if !s.variable || s.size < 4 {
		return s.size
	}
	return s.size/4 + r.Int64N(s.size-s.size/4+1)
}

// forward leaves holes of low to high percent of the size of a request, and in
// contiguous percent of the cases none.
type forward struct {
	sizer
	off        int64
	low, high  int64
	contiguous int
}

func (w *forward) next(r *rand.Rand) (int64, int64) {
	size := w.sizer.next(r)
	off := w.off
	if r.IntN(100) >= w.contiguous {
		off += max(1, w.size*w.low/100+r.Int64N(max(1, w.size*(w.high-w.low)/100)))
	}
	w.off = off + size
	return off, size
}

// nested generates groups of inner requests, stride apart, every outer bytes.
type nested struct {
	sizes                sizer
	off                  int64
	stride, inner, outer int64
	k                    int64
}

func (w *nested) next(r *rand.Rand) (int64, int64) {
	off := w.off + w.k%w.inner*w.stride + w.k/w.inner*w.outer
	w.k++
	return off, w.sizes.next(r)
}

// random generates requests at multiples of the size, slots in all.
type random struct {
	sizer
	off   int64
	slots int64
}

func (w *random) next(r *rand.Rand) (int64, int64) {
	return w.off + r.Int64N(w.slots)*w.size, w.sizer.next(r)
}

// phases returns the requests of one walker after those of another.
type phases struct {
	parts []walker
	left  []int
}

func (w *phases) next(r *rand.Rand) (int64, int64) {
	for len(w.parts) > 1 && w.left[0] == 0 {
		w.parts, w.left = w.parts[1:], w.left[1:]
	}
	w.left[0]--
	return w.parts[0].next(r)
}
