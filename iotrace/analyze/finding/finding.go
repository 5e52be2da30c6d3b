package finding

import (
	"cmp"
	"fmt"
	"slices"

	"ckpt/iotrace"
)

// A Finding is a property of the I/O that costs time, and a remedy.
type Finding struct {
	Code     string `json:"id"`       // CK01 and so on; docs/FINDINGS.md explains each
	Severity string `json:"severity"` // high, warn or info
	Title    string `json:"title"`
	File     string `json:"file,omitempty"` // the file with the most gain; empty if it concerns the job
	Files    int    `json:"files"`          // that it concerns; 0 if it concerns the job
	// Gain is how much shorter the run could be, in seconds, by Model; GainShare is
	// its share of the run. Both are null if the trace has no durations.
	Gain      *float64 `json:"gain_s"`
	GainShare *float64 `json:"gain_share"`
	Model     string   `json:"model"`
	Evidence  []Number `json:"evidence"`
	Advice    string   `json:"advice"`
	// Remedies are for jobs of ckpt, Hints for all other programs.
	Remedies []Remedy `json:"-"`
	Flags    []string `json:"flags"` // Remedies in the words of a program
	Hints    []Hint   `json:"remedies"`

	sure   *float64 // gain for the severity, if it is another
	claims []claim
}

// A Number is evidence for a finding. Names are report fields where possible.
type Number struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"` // threshold; 0 without one
}

// A Hint is something to change, and where that is documented.
type Hint struct {
	Text   string `json:"remedy"`
	Source string `json:"source"`
}

// The severities, worst first.
const (
	High = "high"
	Warn = "warn"
	Info = "info"
)

// Find returns the findings about a run, the largest gain first.
func Find(r *Run, t *Thresholds) []Finding {
	s := &search{Run: r, t: t, claimed: make([][2]claimed, len(r.Files)), out: []Finding{}}
	s.references()
	for i := range rules {
		r := &rules[i]
		f := Finding{Code: r.code, Title: r.title, Severity: r.severity, Model: r.model, Advice: r.advice,
			Remedies: slices.Clone(r.remedies), Hints: slices.Clone(r.hints)}
		if r.find(s, &f) {
			s.add(&f)
		}
	}
	slices.SortStableFunc(s.out, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(gain(&b), gain(&a)), cmp.Compare(level(a.Severity), level(b.Severity)))
	})
	return s.out
}

// worth sets the gain of a finding, in seconds.
func (f *Finding) worth(gain float64) bool {
	f.Gain = &gain
	return true
}

func gain(f *Finding) float64 {
	if f.Gain == nil {
		return 0
	}
	return *f.Gain
}

func level(severity string) int { return slices.Index([]string{High, Warn, Info}, severity) }

// add weighs a finding and keeps it if it could gain something.
func (s *search) add(f *Finding) {
	if !s.Timed {
		f.Gain, f.GainShare, f.Severity = nil, nil, Info
		f.Model = "The trace has no durations, so the gain is unknown."
	} else {
		// Codes for special causes come first, so that the later ones share what is left.
		g := min(gain(f), s.Time-s.gained)
		share := ratio(g, s.Time)
		if g < s.t.GainSeconds || share < s.t.GainShare {
			return
		}
		f.Gain, f.GainShare = &g, &share
		s.gained += g
		if f.Severity == "" {
			sure := g
			if f.sure != nil {
				sure = min(g, *f.sure)
			}
			f.Severity = s.severity(sure, ratio(sure, s.Time))
			if sure < g {
				f.Model += fmt.Sprintf(" The bandwidth is assumed: on a disk of %s, the gain would be %.2g s, and the severity is that of such a gain.",
					rateText(doubted*s.t.ReferenceRate), sure)
			}
		}
	}
	for _, c := range f.claims {
		if !s.Timed {
			break // there is no time that could be gained twice
		}
		s.claimed[c.file][c.direction] = c.claimed
	}
	f.claims = nil
	f.Flags = []string{}
	if f.Hints == nil || s.Ours {
		f.Hints = []Hint{}
	}
	if !s.Ours {
		f.Remedies = nil
	}
	own := s.ownRemedies()
	f.Remedies = slices.DeleteFunc(f.Remedies, func(r Remedy) bool { return slices.Contains(own, r) })
	s.out = append(s.out, *f)
}

func (s *search) severity(gain, share float64) string {
	switch {
	case gain >= s.t.HighSeconds && share >= s.t.HighShare:
		return High
	case gain >= s.t.WarnSeconds && share >= s.t.WarnShare:
		return Warn
	}
	return Info
}

// ownRemedies returns the remedies that a job of ckpt uses already.
func (s *search) ownRemedies() []Remedy {
	switch s.Layout {
	case 0:
		return nil
	case LayoutAggregated:
		return []Remedy{LayoutAggregated, AggregatorsAuto}
	}
	return []Remedy{s.Layout}
}

// Rules about operations that move no bytes.

// partOf returns the wall time of a part of some work, in proportion.
func partOf(w Work, time float64) float64 { return min(w.Wall, w.Wall*ratio(time, w.Time)) }

// repeated adds up operations that are done again on files, and names the file where
// they take most time. Of returns the operations of a file, how many of them are
// repetitions, and the time of all.
func (s *search) repeated(f *Finding, of func(*File) (all, again int64, time float64)) (all, again int64, time float64) {
	var most float64
	for _, x := range s.files() {
		n, repetitions, took := of(x)
		if repetitions <= 0 {
			continue
		}
		all, again = all+n, again+repetitions
		part := took * share(repetitions, n)
		time += part
		f.Files++
		if weight := part + 1e-12*float64(repetitions); weight > most {
			f.File, most = x.Name, weight
		}
	}
	return all, again, time
}

// reopening is about files that are opened for every request.
func reopening(s *search, f *Finding) bool {
	opens, again, time := s.repeated(f, func(x *File) (all, again int64, time float64) {
		return x.Opens, max(0, x.Opens-int64(x.Touchers)-x.Fresh), x.OpenClose.Time
	})
	if again < s.t.Reopenings {
		return false
	}
	f.Evidence = []Number{{"reopenings", float64(again), float64(s.t.Reopenings)}, {"opens", float64(opens), 0},
		{"requests_per_open", share(s.Data[0].Count+s.Data[1].Count, opens), 0}}
	return f.worth(partOf(s.OpenClose, time))
}

// statStorm is about files whose status is asked for again and again.
func statStorm(s *search, f *Finding) bool {
	spared := s.has("CK23")
	_, again, time := s.repeated(f, func(x *File) (all, again int64, time float64) {
		if spared && s.tiny(x) {
			return 0, 0, 0 // one file for all of them spares these too
		}
		return x.Stats.Count, x.Stats.Count - int64(max(1, x.Touchers)), x.Stats.Time
	})
	if again < s.t.StatRequests {
		return false
	}
	f.Evidence = []Number{{"stats_again", float64(again), float64(s.t.StatRequests)}, {"stats", float64(s.Stats.Count), 0}}
	return f.worth(partOf(s.Stats, time))
}

// smallFiles is about data in many small files.
func smallFiles(s *search, f *Finding) bool {
	var n, bytes int64
	var openClose, stats, others float64
	for _, x := range s.files() {
		if !s.tiny(x) {
			continue
		}
		n++
		bytes = iotrace.Sum(bytes, x.bytes())
		// Another finding has the cost of opening a file again.
		part := 1.
		if x.Opens > 1 {
			part = 1 / float64(x.Opens)
		}
		openClose += x.OpenClose.Time * part
		stats += x.Stats.Time
		others += x.Others.Time
	}
	if n < s.t.SmallFiles {
		return false
	}
	gain := partOf(s.OpenClose, openClose) + partOf(s.Stats, stats) + partOf(s.Others, others)
	f.Files = int(n)
	f.Evidence = []Number{{"small_files", float64(n), float64(s.t.SmallFiles)},
		{"mean_file_bytes", share(bytes, n), float64(s.t.SmallFileBytes)}}
	return f.worth(gain * (1 - 1/float64(n)))
}

// tiny reports whether a file has little data, of one process.
func (s *search) tiny(f *File) bool {
	size := f.bytes()
	return size > 0 && size <= s.t.SmallFileBytes && f.OpenClose.Count > 0 && f.Touchers <= 1
}

// metadata is about what the rules above leave.
func metadata(s *search, f *Finding) bool {
	ops := s.OpenClose.Count + s.Stats.Count + s.Others.Count
	took := s.OpenClose.Time + s.Stats.Time + s.Others.Time
	data := s.Data[0].Time + s.Data[1].Time
	requests := s.Data[0].Count + s.Data[1].Count
	timeShare := ratio(took, took+data+s.Syncs.Time)
	per := ratio(float64(ops), float64(max(requests, 1)))
	slow := ops >= s.t.MetadataTimeOps && timeShare >= s.t.MetadataTimeShare
	many := ops >= s.t.MetadataOps && per >= s.t.MetadataPerRequest
	if !slow && !many {
		return false
	}
	limit := s.t.MetadataTimeOps
	if !slow {
		limit = s.t.MetadataOps
	}
	left := s.Metadata
	for i := range s.out {
		switch f := &s.out[i]; f.Code {
		case "CK21", "CK22", "CK23":
			left -= gain(f)
		}
	}
	f.Evidence = []Number{{"metadata_time_share", timeShare, s.t.MetadataTimeShare}, {"metadata_ops", float64(ops), float64(limit)},
		{"metadata_per_request", per, s.t.MetadataPerRequest}, {"files", float64(len(s.Files)), 0}}
	f.Advice, f.Hints = s.fewerOperations()
	switch {
	case !s.Ours:
	case s.Layout == LayoutShared || s.sharesFiles():
		f.Remedies, f.Advice = []Remedy{Interval}, "Ranks share files already: open each once, and checkpoint less often."
	default:
		f.Advice = "Fewer files: let ranks share them; or checkpoint less often."
	}
	if s.MPI && s.anyFile((*File).inHDF5) {
		f.Hints = append([]Hint{hdf5Metadata}, f.Hints...)
	}
	return f.worth(max(0, left))
}

// fewerOperations returns what helps against the operations that there are.
func (s *search) fewerOperations() (advice string, h []Hint) {
	// Files that are written under other names first have to be opened.
	if s.Renames > 0 && 4*s.Renames >= s.OpenClose.Count {
		advice = "Save less often: each time, a file is opened, closed and renamed"
		if s.Stats.Count > 0 {
			h = append(h, statOnce)
		}
		return advice + ".", append(h, pack)
	}
	advice = "Open each file once"
	if len(s.Files) > 1 {
		advice = "Fewer, larger files; open each once"
	}
	if s.OpenClose.Count > 0 {
		h = append(h, keepOpen)
	}
	if s.Stats.Count > 0 {
		advice += ", and ask once what it is like"
		h = append(h, statOnce)
	}
	if len(s.Files) > 1 {
		h = append(h, pack)
	}
	if s.OpenClose.Count == 0 && s.Stats.Count == 0 {
		return "Move, cut and remove files less often.", h
	}
	return advice + ".", h
}

// sharesFiles reports whether several ranks use each file that has data.
func (s *search) sharesFiles() bool {
	used := func(f *File) bool { return f.Data[0].Count+f.Data[1].Count > 0 }
	return s.anyFile(used) && !s.anyFile(func(f *File) bool { return used(f) && f.Ranks <= 1 })
}
