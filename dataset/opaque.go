package dataset

import (
	"fmt"
	"math"
	"slices"
	"sync"
)

// A MeasuredSize is the bytes that a rank had of an array on a number of ranks.
type MeasuredSize struct {
	NP    int
	Bytes int64
}

func checkMeasured(sizes map[int]int64, elem int64) error {
	if len(sizes) == 0 || len(sizes) > maxItems {
		return fmt.Errorf("measured: sizes on %d numbers of ranks (want 1 to %d)", len(sizes), maxItems)
	}
	for np, bytes := range sizes {
		switch {
		case np < 1 || np > maxProcs:
			return fmt.Errorf("measured: %d ranks (want 1 to %d)", np, maxProcs)
		case bytes < 0 || bytes%elem != 0:
			return fmt.Errorf("measured: %d bytes on %d ranks are no whole number of elements", bytes, np)
		}
	}
	return nil
}

func measuredPoints(sizes map[int]int64) []MeasuredSize {
	var list []MeasuredSize
	for np, bytes := range sizes {
		list = append(list, MeasuredSize{np, bytes})
	}
	slices.SortFunc(list, func(a, b MeasuredSize) int { return a.NP - b.NP })
	return list
}

// measuredAt guesses the bytes on a number of ranks: those measured there, and else a power of
// the number of ranks through the two nearest. Package predict has laws, with intervals.
func measuredAt(list []MeasuredSize, np int) float64 {
	i := slices.IndexFunc(list, func(m MeasuredSize) bool { return m.NP >= np })
	switch {
	case i >= 0 && list[i].NP == np || len(list) == 1:
		return float64(list[max(i, 0)].Bytes)
	case i < 0:
		i = len(list) - 1
	}
	i = max(i, 1)
	a, b := list[i-1], list[i]
	if a.Bytes == 0 || b.Bytes == 0 {
		return float64(max(a.Bytes, b.Bytes))
	}
	k := math.Log(float64(b.Bytes)/float64(a.Bytes)) / math.Log(float64(b.NP)/float64(a.NP))
	return float64(a.Bytes) * math.Pow(float64(np)/float64(a.NP), k)
}

// WithMeasured is the instance with other sizes of the arrays that were measured: bytes of a
// rank, with their range.
func (inst *Instance) WithMeasured(size func(list []MeasuredSize) (bytes, low, high int64)) *Instance {
	own := *inst
	own.Arrays = slices.Clone(inst.Arrays)
	for i := range own.Arrays {
		a := &own.Arrays[i]
		if a.Measured == nil {
			continue
		}
		bytes, low, high := size(a.Measured)
		a.Count, a.Low, a.High = bytes/int64(a.Elem.Size()), low, high
	}
	own.shares = sync.OnceValue(own.divide)
	return &own
}

// Opaque returns the names of arrays whose sizes were measured on too few numbers of ranks for
// a law.
func (inst *Instance) Opaque() (names []string) {
	for _, a := range inst.Arrays {
		if len(a.Measured) == 1 && a.Measured[0].NP != inst.NP {
			names = append(names, a.Name)
		}
	}
	return names
}
