package plan

import (
	"cmp"
	"slices"
)

// Summary is a plan in numbers.
type Summary struct {
	Settings Settings `json:"settings"` // as they took effect
	Ranks    int      `json:"ranks"`
	Nodes    int      `json:"nodes"`

	Files     int   `json:"files"` // without the manifest
	FileBytes int64 `json:"file_bytes"`
	Holes     int   `json:"holes"`
	HoleBytes int64 `json:"hole_bytes"`

	Writers []WriterSummary `json:"writer_list"` // by rank
	Work                    // of all writers

	MaxRounds        int64   `json:"max_rounds"`          // of any writer
	PeakBuffer       int64   `json:"peak_buffered_bytes"` // of any writer
	ExtraReads       int64   `json:"extra_reads"`         // always 0: every write is of new bytes
	Stripes          int64   `json:"stripes"`             // with data
	StripesPerOST    []int64 `json:"stripes_per_ost"`
	SharedStripes    int64   `json:"shared_stripes"`    // with data of more than one rank
	ContendedStripes int64   `json:"contended_stripes"` // written by more than one rank

	// WritersPerOST is the number of ranks that write to each OST, MaxWriters the largest,
	// MaxFileWriters the most that write into one file on one OST, and so wait for each other's
	// locks.
	WritersPerOST  []int64 `json:"writers_per_ost"`
	MaxWriters     int64   `json:"max_writers_per_ost"`
	MaxFileWriters int64   `json:"max_file_writers_per_ost"`
}

// WriterSummary is the part of one writer in numbers.
type WriterSummary struct {
	Writer
	Sources int `json:"ranks"` // ranks whose bytes it writes
	Work
}

// Work counts operations and bytes.
type Work struct {
	Rounds  int64 `json:"rounds"`
	Writes  int64 `json:"writes"`
	Gathers int64 `json:"gathers"` // that copy
	Bytes   int64 `json:"bytes"`   // written; the sum of the following three
	// InPlaceBytes are the writers' own, SameNodeBytes come from ranks on the writer's node,
	// OtherNodeBytes cross the network.
	InPlaceBytes   int64 `json:"in_place_bytes"`
	SameNodeBytes  int64 `json:"same_node_bytes"`
	OtherNodeBytes int64 `json:"other_node_bytes"`
	// BufferBytes is the memory of collective buffers, as far as rounds fill them.
	BufferBytes int64 `json:"buffered_bytes"`
}

func (w *Work) add(o Work) {
	w.Rounds += o.Rounds
	w.Writes += o.Writes
	w.Gathers += o.Gathers
	w.Bytes += o.Bytes
	w.InPlaceBytes += o.InPlaceBytes
	w.SameNodeBytes += o.SameNodeBytes
	w.OtherNodeBytes += o.OtherNodeBytes
	w.BufferBytes += o.BufferBytes
}

// Summary counts. It goes through the rounds of all writers.
func (p *Plan) Summary() Summary { return p.Summarize(func(int64) {}) }

// Summarize is Summary with progress: the bytes of files gone through since its last call,
// FileBytes in all.
func (p *Plan) Summarize(progress func(int64)) Summary {
	s := Summary{
		Settings: p.Settings,
		Ranks:    len(p.mapping.ranks),
		Nodes:    len(p.mapping.nodes),
		Files:    len(p.Files),
		Writers:  make([]WriterSummary, len(p.Writers)),
	}
	for i := range p.Files {
		s.FileBytes += p.Files[i].Bytes
	}
	for h := range p.Holes() {
		s.Holes++
		s.HoleBytes += h.Bytes
	}
	for i := range p.Writers {
		w := p.WriterSummary(p.Writers[i].Rank)
		s.Writers[i] = w
		s.Work.add(w.Work)
		s.MaxRounds = max(s.MaxRounds, w.Rounds)
		s.PeakBuffer = max(s.PeakBuffer, w.BufferBytes)
		progress(w.Bytes)
	}
	progress(s.FileBytes - s.Work.Bytes) // headers and holes
	p.countStripes(&s)
	w := p.OSTWriters()
	s.WritersPerOST, s.MaxWriters, s.MaxFileWriters = w.Each, w.Most, w.File
	return s
}

// WriterSummary counts what one rank does; zero for a rank that is no writer.
func (p *Plan) WriterSummary(rank int) WriterSummary {
	i, ok := p.writer(rank)
	if !ok {
		return WriterSummary{}
	}
	s := WriterSummary{Writer: p.Writers[i]}
	node := p.mapping.node[p.domains[i].self]
	sources := make(map[int]bool)
	var buffers [2]int64
	for r := range p.WriterPlan(rank) {
		var used int64
		for _, g := range r.Gathers {
			sources[g.From] = true
			s.Bytes += g.Bytes
			if g.Buffer == InPlace {
				s.InPlaceBytes += g.Bytes
				continue
			}
			used += g.Bytes
			s.Gathers++
			if from, _ := p.mapping.position(g.From); p.mapping.node[from] == node {
				s.SameNodeBytes += g.Bytes
			} else {
				s.OtherNodeBytes += g.Bytes
			}
		}
		b := 0
		if p.Settings.P3 {
			b = int(s.Rounds % 2)
		}
		buffers[b] = max(buffers[b], used)
		s.Rounds++
		s.Writes += int64(len(r.Writes))
	}
	s.BufferBytes = buffers[0] + buffers[1]
	s.Sources = len(sources)
	return s
}

// countStripes goes through the pieces, not the stripes, of which there may be millions.
func (p *Plan) countStripes(s *Summary) {
	size, osts := p.Settings.StripeSize, int64(p.Settings.StripeCount)
	s.StripesPerOST = make([]int64, osts)
	for f := range p.Files {
		last, from := int64(-1), int32(-1) // the last stripe, and who has data in it
		for _, pl := range p.pieces[p.first[f]:p.first[f+1]] {
			lo, hi := pl.at/size, (pl.end()-1)/size
			if lo == last {
				if pl.source != from && from >= 0 {
					s.SharedStripes++
					from = -1 // counted
				}
				lo++
			}
			if lo > hi {
				continue
			}
			last, from = hi, pl.source
			n := hi - lo + 1
			s.Stripes += n
			first := int64(p.Settings.FirstOST) + int64(f) + lo
			if rows := n / osts; rows > 0 {
				for ost := range osts {
					s.StripesPerOST[ost] += rows
				}
			}
			for i := range n % osts {
				s.StripesPerOST[(first+i)%osts]++
			}
		}
	}
	if p.Settings.Strategy == Individual {
		s.ContendedStripes = s.SharedStripes
	}
}

// OSTWriters counts the ranks that write to each OST.
type OSTWriters struct {
	// Each has, for each OST, the number of ranks that write stripes with data there.
	Each []int64
	// Most is the largest of Each. File is the most ranks that write into one file on one OST:
	// on Lustre these wait for each other's locks (Larrosa, section 1.2.4).
	Most, File int64
}

// OSTWriters counts the writers of each OST, out of pieces and writers, not of millions of
// stripes.
func (p *Plan) OSTWriters() OSTWriters {
	order := make([]int, len(p.domains)) // writers by file
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.domains[a].file, p.domains[b].file) })
	osts := p.Settings.StripeCount
	c := ostCounter{plan: p, file: -1, touched: make([]bool, osts), into: make([]int64, osts), all: make([]int64, osts)}
	for _, i := range order {
		c.add(&p.domains[i])
	}
	c.endFile()
	w := OSTWriters{Each: c.all, File: c.most}
	for ost := range w.Each {
		w.Each[ost] += c.everywhere
		w.Most = max(w.Most, w.Each[ost])
	}
	return w
}

// ostCounter goes through domains file by file, in the order of the file.
type ostCounter struct {
	plan *Plan
	hint int // into plan.pieces

	file    int    // of the last domain,
	lo, hi  int64  // and its stretch of it
	touched []bool // OSTs on which that stretch has data
	n       int    // how many these are

	into, all  []int64 // writers on each OST: of the file, of all files,
	intoAll    int64   // writers of the file to every OST
	everywhere int64   // the same of all files
	most       int64   // of one file on one OST
}

// add counts the OSTs to which the owner of d writes.
func (c *ostCounter) add(d *domain) {
	if d.file != c.file {
		c.endFile()
		c.file, c.lo, c.hi = d.file, -1, -1
	}
	if d.lo != c.lo || d.hi != c.hi {
		c.lo, c.hi = d.lo, d.hi
		c.touch()
	}
	osts := len(c.touched)
	if c.n == osts && (d.width == 0 || d.width == osts) {
		c.intoAll++
		return
	}
	from, to := 0, osts
	if d.width > 0 {
		from, to = d.ost, d.ost+d.width
	}
	for ost := from; ost < to; ost++ {
		if c.touched[ost] {
			c.into[ost]++
		}
	}
}

// touch finds the OSTs on which the stretch has data.
func (c *ostCounter) touch() {
	clear(c.touched)
	c.n = 0
	s, osts := &c.plan.Settings, int64(len(c.touched))
	for sp := range c.plan.spans(c.file, c.lo, c.hi, &c.hint) {
		at := c.plan.pieces[sp.piece].at + sp.offset
		first, last := at/s.StripeSize, (at+sp.bytes-1)/s.StripeSize
		for stripe := first; stripe <= min(last, first+osts-1); stripe++ {
			ost := (int64(s.FirstOST) + int64(c.file) + stripe) % osts
			if !c.touched[ost] {
				c.touched[ost] = true
				c.n++
			}
		}
		if c.n == len(c.touched) {
			return
		}
	}
}

// endFile adds the counts of the file to the sums.
func (c *ostCounter) endFile() {
	for ost, n := range c.into {
		c.most = max(c.most, n+c.intoAll)
		c.all[ost] += n
	}
	clear(c.into)
	c.everywhere += c.intoAll
	c.intoAll = 0
}
