package app

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

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
