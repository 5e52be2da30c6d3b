package exec_test

import (
	"context"
	"fmt"
	"testing"
	"unsafe"

	"ckpt/image/exec"
	"ckpt/image/plan"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const page = plan.PageSize

// A job is the memory of all ranks.
type job struct {
	sources []plan.Source
	memory  map[int]map[int][]byte // rank, key
}

// newJob fills the memory: no two pages are alike. Pieces begin on page
// boundaries, or with odd in between.
func newJob(sources []plan.Source, odd bool) *job {
	j := &job{sources: sources, memory: make(map[int]map[int][]byte)}
	for _, s := range sources {
		pieces := make(map[int][]byte)
		for _, p := range s.Pieces {
			b := place(p.Bytes, odd)
			for at := 0; at < len(b); at += page {
				here := b[at : at+page]
				n := copy(here, fmt.Sprintf("rank %d key %d page %d.", s.Rank, p.Key, at/page))
				for n < len(here) {
					n += copy(here[n:], here[:n])
				}
			}
			pieces[p.Key] = b
		}
		j.memory[s.Rank] = pieces
	}
	return j
}

func place(n int64, odd bool) []byte {
	b := make([]byte, n+2*page)
	skip := page - int64(uintptr(unsafe.Pointer(&b[0]))%page)
	if odd {
		skip += 24
	}
	return b[skip : skip+n : skip+n]
}

func aligned(b []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%page == 0 }

// of returns the memory of a piece.
func (j *job) of(rank, key int) []byte { return j.memory[rank][key] }

func (j *job) own(rank int) func(int) []byte {
	return func(key int) []byte { return j.of(rank, key) }
}

func (j *job) Pull(_ context.Context, from int, ranges []exec.Range) error {
	for _, r := range ranges {
		if n := copy(r.P, j.of(from, r.Key)[r.Offset:]); n < len(r.P) || n < cap(r.P) {
			return fmt.Errorf("%d bytes for %d, and room for %d", n, len(r.P), cap(r.P))
		}
	}
	return nil
}

// ranks makes n ranks with a piece of so many pages each, all on one node.
func ranks(n int, pages int64) []plan.Source {
	sources := make([]plan.Source, n)
	for i := range sources {
		sources[i] = plan.Source{Rank: i, Pieces: []plan.Piece{{Key: 0, Bytes: pages * page}}}
	}
	return sources
}

func mustPlan(t testing.TB, sources []plan.Source, s plan.Settings) *plan.Plan {
	t.Helper()
	p, err := plan.New(sources, s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
