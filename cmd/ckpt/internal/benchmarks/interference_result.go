package benchmarks

import (
	"fmt"
	"slices"
	"strings"

	"ckpt/image/iosched/arbiter"
)

// interference is the comparison as JSON. Times are in seconds.
type interference struct {
	Dir      string                 `json:"dir,omitempty"`
	On       string                 `json:"on,omitempty"`
	Jobs     []string               `json:"competing_jobs"`
	Rounds   int                    `json:"repetitions"`
	Policies []string               `json:"policy_names"`
	Storages []*interferenceStorage `json:"contention_list"`
}

// An interferenceStorage is what was measured on one storage.
type interferenceStorage struct {
	Name  string             `json:"name"`
	Disk  string             `json:"slow_disk,omitempty"` // that it was throttled to
	Alone []float64          `json:"alone_times_s"`       // flow time of each job alone
	File  float64            `json:"file_alone_s,omitempty"`
	List  []interferenceLine `json:"policy_list"`

	stored int64
	runs   []*interferenceRun
}

// An interferenceLine is one policy: medians of the rounds.
type interferenceLine struct {
	Policy string `json:"policy"`
	// The jobs at the same time.
	Total     float64   `json:"jobs_total_s,omitempty"`
	Flow      float64   `json:"mean_flow_s,omitempty"`
	Stretches []float64 `json:"stretch_times,omitempty"` // of each job
	// The first job beside the reader.
	MixedTotal    float64 `json:"reader_total_s,omitempty"`
	MixedFlow     float64 `json:"beside_reader_s,omitempty"` // flow time of the job
	ReaderStretch float64 `json:"reader_stretch,omitempty"`
	// The first job alone.
	Alone float64 `json:"alone_flow_s"`
	// To none, in the same round.
	interferenceRatios
	Keeps *bool `json:"promises_kept,omitempty"` // all promises; nil for none
}

// interferenceRatios are those that turns promise something about.
type interferenceRatios struct {
	Total         *spread `json:"jobs_total_spread,omitempty"`
	Flow          *spread `json:"mean_flow_spread,omitempty"`
	MixedTotal    *spread `json:"reader_total_spread,omitempty"`
	ReaderStretch *spread `json:"reader_stretch_spread,omitempty"`
	Alone         *spread `json:"alone_flow_spread,omitempty"`
}

// A spread is a median of rounds, with the quarters, the least and the most.
type spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"lower_quartile"`
	High   float64 `json:"upper_quartile"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

func spreadOf(v []float64) *spread {
	if len(v) == 0 {
		return nil
	}
	v = slices.Sorted(slices.Values(v))
	at := func(share float64) float64 {
		x := share * float64(len(v)-1)
		i := int(x)
		if i+1 == len(v) {
			return v[i]
		}
		return v[i] + (x-float64(i))*(v[i+1]-v[i])
	}
	return &spread{at(0.5), at(0.25), at(0.75), v[0], v[len(v)-1]}
}

// A promise is what turns are to keep, as a limit of a ratio to none.
type promise struct {
	name  string
	limit float64
	of    func(*interferenceRatios) *spread
}

// promises are those of docs/TURNS.md.
var promises = []promise{
	{"total time of the jobs", 1.05, func(r *interferenceRatios) *spread { return r.Total }},
	{"mean flow time of the jobs", 0.8, func(r *interferenceRatios) *spread { return r.Flow }},
	{"total time of job and reader", 1.05, func(r *interferenceRatios) *spread { return r.MixedTotal }},
	{"stretch of the reader", 0.5, func(r *interferenceRatios) *spread { return r.ReaderStretch }},
	{"flow time of a job alone", 1.02, func(r *interferenceRatios) *spread { return r.Alone }},
}

// kept reports whether the median is within the limit, and whether the promise applies.
func (p *promise) kept(r *interferenceRatios) (kept, applies bool) {
	s := p.of(r)
	return s != nil && s.Median <= p.limit, s != nil
}

// summarise makes the lines of the policies from the runs.
func (s *interferenceStorage) summarise(policies []string) {
	byRound := make(map[int]*interferenceRun) // without turns
	for _, r := range s.runs {
		if r.policy == none {
			byRound[r.round] = r
		}
	}
	first := s.of(none)
	for i := range first[0].alone {
		s.Alone = append(s.Alone, medianRuns(first, func(r *interferenceRun) float64 { return r.alone[i] }))
	}
	var files []float64
	for _, r := range s.runs {
		files = append(files, r.filesAlone...)
	}
	s.File = medianOf(files)
	for _, p := range policies {
		s.List = append(s.List, s.line(p, byRound))
	}
}

// of returns the runs of a policy.
func (s *interferenceStorage) of(policy string) (list []*interferenceRun) {
	for _, r := range s.runs {
		if r.policy == policy {
			list = append(list, r)
		}
	}
	return list
}

func medianRuns(runs []*interferenceRun, of func(*interferenceRun) float64) float64 {
	var v []float64
	for _, r := range runs {
		v = append(v, of(r))
	}
	return medianOf(v)
}

func (r *interferenceRun) flow() float64       { return meanOf(r.jobs.flows) }
func (r *interferenceRun) total() float64      { return r.jobs.total }
func (r *interferenceRun) mixedTotal() float64 { return r.mixed.total }
func (r *interferenceRun) aloneFlow() float64  { return r.alone[0] }
func (r *interferenceRun) readerFile() float64 { return meanOf(r.files) }
func (s *interferenceStorage) hasJobs() bool   { return len(s.runs[0].jobs.flows) > 0 }
func (s *interferenceStorage) hasReader() bool {
	return slices.ContainsFunc(s.runs, func(r *interferenceRun) bool { return len(r.files) > 0 })
}

func meanOf(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

func (s *interferenceStorage) line(policy string, byRound map[int]*interferenceRun) interferenceLine {
	runs := s.of(policy)
	l := interferenceLine{Policy: policy, Alone: medianRuns(runs, (*interferenceRun).aloneFlow)}
	// ratio compares each run with that without turns of the same round.
	ratio := func(of func(*interferenceRun) float64) *spread {
		var v []float64
		for _, r := range runs {
			// No file was read beside a checkpoint that was over at once.
			if base, x := of(byRound[r.round]), of(r); base > 0 && x > 0 {
				v = append(v, x/base)
			}
		}
		return spreadOf(v)
	}
	l.interferenceRatios.Alone = ratio((*interferenceRun).aloneFlow)
	if s.hasJobs() {
		l.Total, l.Flow = medianRuns(runs, (*interferenceRun).total), medianRuns(runs, (*interferenceRun).flow)
		for i := range s.Alone {
			l.Stretches = append(l.Stretches, medianRuns(runs, func(r *interferenceRun) float64 { return r.jobs.flows[i] / byRound[r.round].alone[i] }))
		}
		l.interferenceRatios.Total, l.interferenceRatios.Flow = ratio((*interferenceRun).total), ratio((*interferenceRun).flow)
	}
	if s.hasReader() {
		l.MixedTotal, l.MixedFlow = medianRuns(runs, (*interferenceRun).mixedTotal), medianRuns(runs, func(r *interferenceRun) float64 { return r.mixed.flows[0] })
		// The time alone is the same on both sides of the ratio.
		l.ReaderStretch = medianRuns(runs, (*interferenceRun).readerFile) / s.File
		l.interferenceRatios.MixedTotal, l.interferenceRatios.ReaderStretch = ratio((*interferenceRun).mixedTotal), ratio((*interferenceRun).readerFile)
	}
	if policy != none {
		keeps := true
		for _, p := range promises {
			kept, applies := p.kept(&l.interferenceRatios)
			keeps = keeps && (kept || !applies)
		}
		l.Keeps = &keeps
	}
	return l
}

// judged is the storage that the promises are about: the slow one, if there is one.
func (b *interference) judged() *interferenceStorage { return b.Storages[len(b.Storages)-1] }

// verdict is an error that names the promises that the default policy does not keep.
func (b *interference) verdict() error {
	s := b.judged()
	i := slices.IndexFunc(s.List, func(l interferenceLine) bool { return l.Policy == arbiter.DefaultPolicy })
	if i < 0 {
		return fmt.Errorf("the policies do not include %s, whose promises are to be checked", arbiter.DefaultPolicy)
	}
	var broken []string
	for _, p := range promises {
		if kept, applies := p.kept(&s.List[i].interferenceRatios); applies && !kept {
			broken = append(broken, fmt.Sprintf("%s %.2f of that without turns, want at most %.2f", p.name, p.of(&s.List[i].interferenceRatios).Median, p.limit))
		}
	}
	if len(broken) > 0 {
		return fmt.Errorf("turns of %s: %s", arbiter.DefaultPolicy, strings.Join(broken, "; "))
	}
	return nil
}
