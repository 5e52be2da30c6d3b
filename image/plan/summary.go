package plan

import (
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
	osts := p.Settings.StripeCount
	s.WritersPerOST = make([]int64, osts)
	into, touched := make(map[int][]int64), make([]bool, osts) // writers of a file on each OST
	for i := range p.Writers {
		clear(touched)
		w := p.count(i, touched)
		s.Writers[i] = w
		file := p.domains[i].file
		if into[file] == nil {
			into[file] = make([]int64, osts)
		}
		for ost := range touched {
			if touched[ost] {
				s.WritersPerOST[ost]++
				into[file][ost]++
				s.MaxFileWriters = max(s.MaxFileWriters, into[file][ost])
			}
		}
		if p.Settings.Layout == PerRank {
			delete(into, file) // its only writer
		}
		s.Work.add(w.Work)
		s.MaxRounds = max(s.MaxRounds, w.Rounds)
		s.PeakBuffer = max(s.PeakBuffer, w.BufferBytes)
		progress(w.Bytes)
	}
	progress(s.FileBytes - s.Work.Bytes) // headers and holes
	p.countStripes(&s)
	s.MaxWriters = slices.Max(s.WritersPerOST)
	return s
}

// WriterSummary counts what one rank does; zero for a rank that is no writer.
func (p *Plan) WriterSummary(rank int) WriterSummary {
	i, ok := p.writer(rank)
	if !ok {
		return WriterSummary{}
	}
	return p.count(i, make([]bool, p.Settings.StripeCount))
}

// count counts what a writer does, and marks the OSTs that it touches.
func (p *Plan) count(i int, touched []bool) WriterSummary {
	s := WriterSummary{Writer: p.Writers[i]}
	node := p.mapping.node[p.domains[i].self]
	sources := make(map[int]bool)
	var buffers [2]int64
	for r := range p.WriterPlan(s.Rank) {
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
		for _, w := range r.Writes {
			p.touch(&w, touched)
		}
	}
	s.BufferBytes = buffers[0] + buffers[1]
	s.Sources = len(sources)
	return s
}

// touch marks the OSTs on which a write has data.
func (p *Plan) touch(w *Write, touched []bool) {
	size, osts := p.Settings.StripeSize, int64(len(touched))
	first, last := w.Offset/size, (w.Offset+w.Bytes-1)/size
	for stripe := first; stripe <= min(last, first+osts-1); stripe++ {
		touched[(int64(p.Settings.FirstOST)+int64(w.File)+stripe)%osts] = true
	}
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
