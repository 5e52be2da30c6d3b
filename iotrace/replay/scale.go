package replay

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"ckpt/iotrace"
)

// maxEvents bounds the operations of a replay: each takes about 100 bytes.
const maxEvents = 1 << 26

// scale returns the trace that n ranks would leave.
//
// Rank r of the n does what rank r mod k did, where k is the number of ranks in the
// trace, in the order of their numbers. Processes without a number, such as the
// coordinator, appear once; their offsets in a shared file move with the data in
// front. A copy of a rank is on a copy of its node: the work of one node with so many
// processes happens on many nodes (León, Table 5.16).
//
// Each copy of a rank has its own copy of a file that one rank uses alone, with the
// number of the new rank in its name (rename.go). In shared files, spread.go computes
// the offsets of copies. A shared file takes a new name once, not once for each copy.
func scale(ctx context.Context, t *iotrace.Trace, n int) (*iotrace.Trace, error) {
	workers := workersOf(t)
	k := len(workers)
	switch {
	case n == 0 || n == k:
		return t, nil
	case k == 0:
		return nil, optionError("%d ranks: the trace has none with a number", n)
	}
	if copies := (n + k - 1) / k; copies > maxEvents/max(1, len(t.Events)) {
		return nil, optionError("%d ranks: about %d operations are more than %d", n, int64(copies)*int64(len(t.Events)), maxEvents)
	}
	if last := t.Ranks[workers[k-1]].Rank; last > math.MaxInt32 {
		return nil, optionError("%d ranks: the trace has a rank of number %d", n, last)
	}
	s := &scaling{in: t, n: n, workers: workers, position: make([]int, len(t.Ranks)), taken: make(map[string]bool), files: make(map[fileOf]int32),
		out: &iotrace.Trace{Job: t.Job, Source: t.Source, Origin: t.Origin}}
	for _, name := range t.Files {
		s.taken[name] = true
	}
	s.ranks()
	own := s.owners()
	s.copyNames = renamings(t, own, func(rank int32) (int, bool) { return t.Ranks[rank].Rank, s.position[rank] >= 0 })
	places, err := spread(t, own, s.position, k, n)
	if err != nil {
		return nil, err
	}
	for i := range t.Events {
		if i%(1<<16) == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e := &t.Events[i]
		first, last := s.position[e.Rank], n
		if first < 0 {
			first, last = 0, 1 // others appear once; data behind the ranks moves
		}
		for q := first; q < last; q += k {
			if renames(e) && q >= k && own[e.File] == noOwner {
				break
			}
			c := *e
			if c.Rank = int32(q); s.position[e.Rank] < 0 {
				c.Rank = s.others[e.Rank]
			}
			c.File = s.file(e.File, own, e.Rank, c.Rank)
			c.Peer = s.file(e.Peer, own, e.Rank, c.Rank)
			if c.Offset, err = places.offset(i, q); err != nil {
				return nil, err
			}
			if c.Op == iotrace.Truncate {
				c.Bytes = places.size(e)
			}
			s.out.Events = append(s.out.Events, c)
		}
	}
	return s.out, nil
}

// workersOf returns the ranks with a number, sorted by it.
func workersOf(t *iotrace.Trace) []int32 {
	var out []int32
	for i, r := range t.Ranks {
		if r.Rank >= 0 {
			out = append(out, int32(i))
		}
	}
	slices.SortStableFunc(out, func(a, b int32) int { return cmp.Compare(t.Ranks[a].Rank, t.Ranks[b].Rank) })
	return out
}

type scaling struct {
	in, out  *iotrace.Trace
	n        int
	workers  []int32 // ranks of in, by number
	position []int   // of each rank among the workers, or -1
	others   map[int32]int32

	copyNames map[int32]renaming
	taken     map[string]bool // names of in and out
	files     map[fileOf]int32
}

// A fileOf is a file of the trace with the new rank whose copy it is, or noOwner.
type fileOf struct{ file, as int32 }

// ranks names the new ranks, workers first.
func (s *scaling) ranks() {
	k := len(s.workers)
	for i := range s.position {
		s.position[i] = -1
	}
	// Numbers continue as they began, or by ones for process ids.
	step := 1
	if k > 1 {
		step = s.in.Ranks[s.workers[1]].Rank - s.in.Ranks[s.workers[0]].Rank
		for i := 2; i < k; i++ {
			if s.in.Ranks[s.workers[i]].Rank-s.in.Ranks[s.workers[i-1]].Rank != step {
				step = 1
			}
		}
		step = max(step, 1)
	}
	last := s.in.Ranks[s.workers[k-1]].Rank
	for q := range s.n {
		r := s.in.Ranks[s.workers[q%k]]
		if q >= k {
			r.Rank = last + (q-k+1)*step
			if r.Node != "" {
				r.Node = fmt.Sprintf("%s+%d", r.Node, q/k)
			}
		}
		s.out.Ranks = append(s.out.Ranks, r)
	}
	for p, w := range s.workers {
		s.position[w] = p
	}
	s.others = make(map[int32]int32)
	for i, r := range s.in.Ranks {
		if s.position[i] < 0 {
			s.others[int32(i)] = int32(len(s.out.Ranks))
			s.out.Ranks = append(s.out.Ranks, r)
		}
	}
}

// owners returns the worker that uses each file alone, or noOwner.
func (s *scaling) owners() []int32 {
	own := make([]int32, len(s.in.Files))
	seen := make([]bool, len(own))
	for i := range own {
		own[i] = noOwner
	}
	use := func(file, rank int32) {
		switch {
		case file == iotrace.None || s.position[rank] < 0:
		case !seen[file]:
			seen[file], own[file] = true, rank
		case own[file] != rank:
			own[file] = noOwner
		}
	}
	for i := range s.in.Events {
		e := &s.in.Events[i]
		use(e.File, e.Rank)
		if renames(e) {
			use(e.Peer, e.Rank)
		}
	}
	return own
}

const noOwner = -1

// file returns the new trace's file for a copy of a rank.
func (s *scaling) file(file int32, own []int32, rank, as int32) int32 {
	if file == iotrace.None {
		return file
	}
	key := fileOf{file, noOwner}
	if own[file] == rank && int(as) < s.n && int(as) >= len(s.workers) {
		key.as = as
	}
	i, ok := s.files[key]
	if !ok {
		i = int32(len(s.out.Files))
		s.files[key] = i
		s.out.Files = append(s.out.Files, s.name(key))
	}
	return i
}

// name returns a file name of the new trace. Names are unique for any numbers of
// ranks.
func (s *scaling) name(f fileOf) string {
	if f.as == noOwner {
		return s.in.Files[f.file]
	}
	r := s.copyNames[f.file]
	number := s.out.Ranks[f.as].Rank
	name := r.of(number)
	if s.taken[name] {
		r.at = -1
		name = r.of(number)
	}
	behind := name
	for n := 2; s.taken[name]; n++ {
		name = fmt.Sprintf("%s~%d", behind, n)
	}
	s.taken[name] = true
	return name
}

// moved returns off + times·step, for a request of bytes.
func moved(off int64, times int, step, bytes int64) (int64, error) {
	hi, lo := bits.Mul64(uint64(max(step, -step)), uint64(times))
	more := int64(lo)
	if hi != 0 || more < 0 || step > 0 && off > math.MaxInt64-bytes-more {
		return 0, optionError("%d bytes at offset %d, moved on %d times by %d for more ranks, end beyond what a file can hold", bytes, off, times, step)
	}
	if step < 0 {
		more = -more
	}
	return max(off+more, 0), nil
}

// A renaming replaces the number of a rank in the path of its file.
type renaming struct {
	parts []string // of the path: text, digits, text, digits …
	at    int      // index of the part with the number of the rank, or -1
}

func (r renaming) of(rank int) string {
	if r.at < 0 {
		return fmt.Sprintf("%s.rank-%d", strings.Join(r.parts, ""), rank)
	}
	parts := slices.Clone(r.parts)
	digits := parts[r.at]
	parts[r.at] = strconv.Itoa(rank)
	if digits[0] == '0' && len(digits) > 1 {
		parts[r.at] = fmt.Sprintf("%0*d", len(digits), rank)
	}
	return strings.Join(parts, "")
}

// renamings finds the number of the rank in the paths of files that one rank uses. If
// several numbers fit, as in ckpt_bt.B.0_rank0, it takes the last one that fits in all
// files with similar names.
func renamings(t *iotrace.Trace, own []int32, number func(rank int32) (int, bool)) map[int32]renaming {
	type family struct {
		files []int32
		fits  []bool // by part
	}
	out := make(map[int32]renaming)
	families := make(map[string]*family)
	for i, rank := range own {
		if rank == noOwner {
			continue
		}
		n, ok := number(rank)
		if !ok {
			continue
		}
		parts := splitDigits(t.Files[i])
		out[int32(i)] = renaming{parts, -1}
		key := ""
		for k, part := range parts {
			if k%2 == 0 {
				key += part
			}
			key += "\x00"
		}
		f := families[key]
		if f == nil {
			f = &family{fits: make([]bool, len(parts))}
			for k := 1; k < len(parts); k += 2 {
				f.fits[k] = true
			}
			families[key] = f
		}
		f.files = append(f.files, int32(i))
		for k := 1; k < len(parts); k += 2 {
			v, err := strconv.Atoi(parts[k])
			f.fits[k] = f.fits[k] && err == nil && v == n
		}
	}
	for _, f := range families {
		at := -1
		for k, ok := range f.fits {
			if ok {
				at = k
			}
		}
		for _, i := range f.files {
			r := out[i]
			r.at = at
			out[i] = r
		}
	}
	return out
}

// splitDigits splits a path into alternating text and digits, text first.
func splitDigits(p string) []string {
	var parts []string
	digit := func(r rune) bool { return r >= '0' && r <= '9' }
	for wantDigits := false; ; wantDigits = !wantDigits {
		end := strings.IndexFunc(p, func(r rune) bool { return digit(r) != wantDigits })
		if end < 0 {
			end = len(p)
		}
		parts = append(parts, p[:end])
		if p = p[end:]; p == "" {
			return parts
		}
	}
}
