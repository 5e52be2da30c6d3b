package service

import (
	"math"
	"testing"

	"ckpt/dataset"
)

// TestContents: the contents of the regions are what Size adds up, before it corrects the
// sum by what jobs stored.
func TestContents(t *testing.T) {
	m := newMachine(1)
	for _, f := range []*Fit{nil, New([]dataset.JobRun{m.job(t, 4, 3), m.job(t, 8, 3)})} {
		_, j := predicted(t, f, 16)
		for _, full := range []bool{true, false} {
			want, next := f.App(j.App, j.Class).structure(&j)
			if !full {
				want = next
			}
			sum, unknown := 0.0, 0
			for _, c := range f.Contents(j.Instance, j.Codec, full) {
				sum += c.Bytes * c.Ratio
				if c.Ratio == 0 {
					unknown++
				}
			}
			if f != nil && (math.Abs(sum/want.Value-1) > 1e-9 || unknown > 0) {
				t.Errorf("full %t: the regions add up to %.0f, %d unknown, the structure to %.0f", full, sum, unknown, want.Value)
			}
			if f == nil && unknown == 0 {
				t.Errorf("full %t: no job measured %s, and its ratio is known", full, j.Codec)
			}
		}
	}
}
