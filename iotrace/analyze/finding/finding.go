package finding

import (
	"cmp"
	"fmt"
	"slices"
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
