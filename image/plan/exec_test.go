package plan_test

import (
	"bytes"
	"fmt"
	"slices"

	"ckpt/image/plan"
)

// A machine is the memory of all ranks and the files of a checkpoint. It carries
// plans out to the letter, and complains about everything that a plan must not
// do.
type machine struct {
	memory  map[int]map[int][]byte // rank, key
	files   [][]byte
	written [][]int          // for each page of each file, how often
	writers [][]map[int]bool // for each stripe of each file, who wrote into it
}

// poison is what nobody has written: where it turns up in a file, something was
// written too early, or not.
const poison = 0xEE

// fill poisons b.
func fill(b []byte) {
	n := copy(b, []byte{poison})
	for n > 0 && n < len(b) {
		n += copy(b[n:], b[:n])
	}
}

// newMachine fills the memory: no two pages are alike.
func newMachine(sources []plan.Source) *machine {
	m := &machine{memory: make(map[int]map[int][]byte)}
	for _, s := range sources {
		pieces := make(map[int][]byte)
		for _, p := range s.Pieces {
			b := make([]byte, p.Bytes)
			for at := 0; at < len(b); at += plan.PageSize {
				page := b[at : at+plan.PageSize]
				n := copy(page, fmt.Sprintf("rank %d key %d page %d.", s.Rank, p.Key, at/plan.PageSize))
				for n < len(page) {
					n += copy(page[n:], page[:n])
				}
			}
			pieces[p.Key] = b
		}
		m.memory[s.Rank] = pieces
	}
	return m
}

// run carries out p, its writers in the given order.
func (m *machine) run(p *plan.Plan, order []int) error {
	m.files = make([][]byte, len(p.Files))
	m.written = make([][]int, len(p.Files))
	m.writers = stripes(p)
	for f := range p.Files {
		m.files[f] = make([]byte, p.Files[f].Bytes)
		fill(m.files[f])
		m.written[f] = make([]int, p.Files[f].Bytes/plan.PageSize)
	}
	for _, i := range order {
		if err := m.writer(p, p.Writers[i].Rank); err != nil {
			return fmt.Errorf("writer %d: %w", p.Writers[i].Rank, err)
		}
	}
	return nil
}

// stripes makes an empty set of ranks for each stripe of each file.
func stripes(p *plan.Plan) [][]map[int]bool {
	sets := make([][]map[int]bool, len(p.Files))
	for f := range sets {
		sets[f] = make([]map[int]bool, (p.Files[f].Bytes+p.Settings.StripeSize-1)/p.Settings.StripeSize)
		for i := range sets[f] {
			sets[f][i] = make(map[int]bool)
		}
	}
	return sets
}

// writer carries out the part of one rank in the order that leaves the least
// time: with two buffers round k is written after round k+1 has been gathered.
func (m *machine) writer(p *plan.Plan, rank int) error {
	rounds := slices.Collect(p.WriterPlan(rank)) // all kept: a round must stay valid
	buffers := [][]byte{make([]byte, p.Settings.Buffer)}
	if p.Settings.P3 {
		buffers = append(buffers, make([]byte, p.Settings.Buffer))
	}
	buffer := func(k int) []byte { return buffers[k%len(buffers)] }
	for k := range rounds {
		if err := m.gather(p, rank, rounds[k], buffer(k)); err != nil {
			return fmt.Errorf("round %d: %w", k, err)
		}
		late := k
		if p.Settings.P3 {
			late = k - 1
		}
		if late >= 0 {
			if err := m.write(p, rank, rounds[late], buffer(late)); err != nil {
				return fmt.Errorf("round %d: %w", late, err)
			}
		}
	}
	if n := len(rounds); n > 0 && p.Settings.P3 {
		return m.write(p, rank, rounds[n-1], buffer(n-1))
	}
	return nil
}

// gather does the gathers from the last to the first, as they may with P2.
func (m *machine) gather(p *plan.Plan, rank int, r plan.Round, buffer []byte) error {
	fill(buffer)
	taken := make([]bool, len(buffer)/plan.PageSize)
	var moved int64
	for _, g := range slices.Backward(r.Gathers) {
		if g.Bytes <= 0 || g.Bytes%plan.PageSize != 0 || g.Offset%plan.PageSize != 0 {
			return fmt.Errorf("gather %+v: not in pages", g)
		}
		piece, ok := m.memory[g.From][g.Key]
		if !ok || g.Offset < 0 || g.Offset+g.Bytes > int64(len(piece)) {
			return fmt.Errorf("gather %+v: no such bytes", g)
		}
		if (g.From == rank) != (g.Buffer == plan.InPlace) {
			return fmt.Errorf("gather %+v by rank %d: own data is written in place, other data is not", g, rank)
		}
		moved += g.Bytes
		if g.Buffer == plan.InPlace {
			continue
		}
		if g.Buffer < 0 || g.Buffer%plan.PageSize != 0 || g.Buffer+g.Bytes > int64(len(buffer)) {
			return fmt.Errorf("gather %+v: outside the buffer of %d", g, len(buffer))
		}
		for k := g.Buffer / plan.PageSize; k < (g.Buffer+g.Bytes)/plan.PageSize; k++ {
			if taken[k] {
				return fmt.Errorf("gather %+v: overlaps another", g)
			}
			taken[k] = true
		}
		copy(buffer[g.Buffer:], piece[g.Offset:g.Offset+g.Bytes])
	}
	if moved > p.Settings.Buffer || moved == 0 {
		return fmt.Errorf("moves %d bytes, the buffer is %d", moved, p.Settings.Buffer)
	}
	return nil
}

func (m *machine) write(p *plan.Plan, rank int, r plan.Round, buffer []byte) error {
	var end int64
	for _, w := range r.Writes {
		if w.Offset < end {
			return fmt.Errorf("write at %d: not in order", w.Offset)
		}
		end = w.Offset + w.Bytes
		if w.Bytes <= 0 || w.Bytes%plan.PageSize != 0 || w.Offset%plan.PageSize != 0 {
			return fmt.Errorf("write %+v: not in pages", w)
		}
		if w.Offset < p.Settings.Header || end > p.Files[w.File].Bytes {
			return fmt.Errorf("write %+v: outside the payload", w)
		}
		for at := w.Offset; at < end; at += plan.PageSize {
			m.written[w.File][at/plan.PageSize]++
			m.writers[w.File][at/p.Settings.StripeSize][rank] = true
		}
		at := w.Offset
		for _, part := range w.Parts {
			from := buffer
			offset := part.Buffer
			if part.Buffer == plan.InPlace {
				from, offset = m.memory[rank][part.Key], part.Offset
			}
			if part.Bytes <= 0 || offset < 0 || offset+part.Bytes > int64(len(from)) {
				return fmt.Errorf("part %+v: outside its memory", part)
			}
			at += int64(copy(m.files[w.File][at:], from[offset:offset+part.Bytes]))
		}
		if at != end {
			return fmt.Errorf("write %+v: parts end at %d", w, at)
		}
	}
	return nil
}

// check says whether everything is where the plan places it, once, and nothing
// is anywhere else.
func (m *machine) check(p *plan.Plan, sources []plan.Source) error {
	expected := make([][]int, len(m.written))
	for f := range expected {
		expected[f] = make([]int, len(m.written[f]))
	}
	for _, s := range sources {
		file, offsets := p.Places(s.Rank)
		for i, piece := range s.Pieces {
			at := offsets[i]
			if !bytes.Equal(m.files[file][at:at+piece.Bytes], m.memory[s.Rank][piece.Key]) {
				return fmt.Errorf("rank %d piece %d: other bytes at %d of file %d", s.Rank, i, at, file)
			}
			for k := at / plan.PageSize; k < (at+piece.Bytes)/plan.PageSize; k++ {
				expected[file][k]++
			}
		}
	}
	for f := range expected {
		if k := firstDifference(expected[f], m.written[f]); k >= 0 {
			return fmt.Errorf("file %d page %d: written %d times, is of %d pieces", f, k, m.written[f][k], expected[f][k])
		}
		for k, n := range expected[f] {
			if n > 1 {
				return fmt.Errorf("file %d page %d: %d pieces", f, k, n)
			}
		}
	}
	// The holes are the pages of nobody, in order, and in one piece each.
	var holes, want []plan.Hole
	for h := range p.Holes() {
		holes = append(holes, h)
	}
	for f := range expected {
		in := false
		for k := p.Settings.Header / plan.PageSize; k < int64(len(expected[f])); k++ {
			switch {
			case expected[f][k] > 0:
				in = false
			case in:
				want[len(want)-1].Bytes += plan.PageSize
			default:
				in = true
				want = append(want, plan.Hole{File: f, Offset: k * plan.PageSize, Bytes: plan.PageSize})
			}
		}
	}
	if !slices.Equal(holes, want) {
		return fmt.Errorf("holes %v, want %v", holes, want)
	}
	return nil
}

func firstDifference(a, b []int) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}
