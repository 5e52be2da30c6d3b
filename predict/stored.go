package predict

import (
	"ckpt/dataset"
	"ckpt/predict/fit"
	"ckpt/predict/service"
	"ckpt/zones"
	"cmp"
	"fmt"
	"math"
	"strings"
)

// A Storing is how ckpt stores the checkpoints of a job.
type Storing struct {
	// Codec is the measured jobs' by default, Layout per-rank; Aggregators is one
	// per node.
	Codec       string
	Layout      string
	Aggregators int
	Async       bool
	InFlight    int // checkpoints behind the job at a time, with Async; 0 is 1
	// Saved says that only the arrays that must be saved are stored.
	Saved bool
}

// A Stored is what ckpt stores of a job, and how long that takes.
type Stored struct {
	App     string
	NP      int
	Mapping []int
	MPI     string
	Storing
	service.Size
	// Ranks is what each rank holds, by the workload spec; empty: all the same.
	Ranks []RankKind
	// FullTime is for the first checkpoint, which stores the library too, NextTime for
	// an incremental one, RefreshTime for a later one which stores all memory.
	FullTime, NextTime, RefreshTime service.Time
	FullObjects, NextObjects        Objects // on a described storage of objects
	// Model names the method, Basis what was measured, Note what deserves doubt.
	Model, Basis, Note string

	sizeNote string // the part of Note that is not about times
}

// A StoredRow is a [Stored] as --json prints it.
type StoredRow struct {
	App     string         `json:"app"`
	NP      int            `json:"np"`
	Mapping []int          `json:"mapping"`
	MPI     string         `json:"mpi"`
	Engine  dataset.Engine `json:"engine"`
	Level   string         `json:"level,omitempty"` // application, or all of the memory
	Codec   string         `json:"codec"`
	Layout  string         `json:"layout"`
	Library int64          `json:"library_bytes"` // once for the job
	// Ranks is what each rank holds; left out where all hold the same.
	Ranks         []RankKind   `json:"rank_kinds,omitempty"`
	Kinds         []StoredKind `json:"checkpoint_kinds"`
	Model         string       `json:"model"`
	Basis         string       `json:"basis"`
	Extrapolation float64      `json:"extrapolation"`
	Assumed       bool         `json:"assumed"`
	Note          string       `json:"note,omitempty"`
}

// A StoredKind is a first checkpoint, or one that follows.
type StoredKind struct {
	Full    bool        `json:"full"`
	Files   int         `json:"files"`
	Zones   zones.Sizes `json:"stored_zones"`
	Index   int64       `json:"index_bytes"`
	Stored  int64       `json:"stored_bytes"`
	Low     int64       `json:"low_bytes"`
	High    int64       `json:"high_bytes"`
	Latency *fit.Parts  `json:"latency_s,omitempty"`
	LowS    *float64    `json:"low_s,omitempty"`
	HighS   *float64    `json:"high_s,omitempty"`
	Pause   *float64    `json:"pause_s,omitempty"`
	// Of a checkpoint that is written behind the job: from when it is durable, if no other waits.
	Lag     *float64 `json:"lag_s,omitempty"`
	LagLow  *float64 `json:"lag_low_s,omitempty"`
	LagHigh *float64 `json:"lag_high_s,omitempty"`
	Objects
}

func storedKind(c *service.Checkpoint, full bool, t *service.Time) StoredKind {
	k := StoredKind{Full: full, Files: c.Files, Zones: zones.Sizes{Data: whole(c.Data.Value), Shared: whole(c.Shared.Value)},
		Index: whole(c.Overhead.Value), Stored: whole(c.Total.Value), Low: int64(c.Total.Low), High: int64(c.Total.High)}
	if t != nil {
		k.Latency = &fit.Parts{Coordination: t.Coordination, Management: t.Management, Storage: t.Storage, Total: t.Total.Value}
		k.LowS, k.HighS, k.Pause = &t.Total.Low, &t.Total.High, &t.Pause.Value
	}
	return k
}

// Row is what --json prints, with the times or without.
func (s *Stored) Row(times bool) StoredRow {
	r := StoredRow{App: s.App, NP: s.NP, Mapping: s.Mapping, MPI: s.MPI, Engine: dataset.Ckpt, Codec: s.Codec, Layout: s.Layout,
		Library: int64(s.Library.Value), Ranks: s.Ranks, Model: s.Model, Basis: s.Basis, Extrapolation: max(1, s.Extrapolation), Assumed: s.Assumed, Note: s.Note}
	if s.Saved {
		r.Level = "application"
	}
	full, next := &s.FullTime, &s.NextTime
	if !times {
		full, next, r.Note = nil, nil, s.sizeNote
	}
	r.Kinds = []StoredKind{storedKind(&s.Full, true, full), storedKind(&s.Next, false, next)}
	if times {
		r.Kinds[0].Objects, r.Kinds[1].Objects = s.FullObjects, s.NextObjects
	}
	for i, t := range []*service.Time{full, next} {
		if t != nil && s.Async {
			k := &r.Kinds[i]
			k.Lag, k.LagLow, k.LagHigh = &t.Total.Value, &t.Total.Low, &t.Total.High
		}
	}
	return r
}

// EngineOf returns the engine of a prediction: the one asked for, or of what was
// measured.
func (m *Model) EngineOf(asked dataset.Engine) (dataset.Engine, error) {
	switch asked {
	case dataset.DMTCP, dataset.Ckpt:
		return asked, nil
	case "":
		if m.Engine == "" {
			return dataset.DMTCP, nil
		}
		return m.Engine, nil
	}
	return "", fit.Refuse("write ckpt or dmtcp", "engine %q is unknown", asked)
}

// AddRuns fits what jobs of ckpt stored and how long that took, beside their zones. The
// model then predicts for their engine.
func (m *Model) AddRuns(runs []dataset.JobRun) error {
	if m.Service = service.New(runs); m.Service == nil {
		return nil
	}
	m.Engine = dataset.Ckpt
	for _, s := range m.Series {
		if w := m.Service.App(s.App, s.Class).Spec(); w != nil {
			if err := s.Fit(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// Stored predicts what ckpt stores of a job. A probe replaces the rate of the measured
// storage.
func (m *Model) Stored(r Request, how Storing, probe *fit.Probe) (*Stored, error) {
	r, err := r.Normal()
	if err != nil {
		return nil, err
	}
	if r.IO != NoIO {
		return nil, fit.Refuse("leave out the I/O of the application", "ckpt stores no buffers of I/O: that is for images of dmtcp")
	}
	app := m.Service.App(r.App.Name, r.App.Class)
	if how.Codec == "" {
		how.Codec = app.Codec()
	}
	if how.Codec == "" {
		how.Codec = "auto"
	}
	switch how.Layout {
	case "":
		how.Layout = "per-rank"
	case "per-rank", "aggregated", "shared":
	default:
		return nil, fit.Refuse("write per-rank, aggregated or shared", "layout %q is unknown", how.Layout)
	}
	if how.Aggregators < 0 || how.Aggregators > r.App.NP {
		return nil, fit.Refuse("between 1 and the number of processes", "%d aggregators are impossible", how.Aggregators)
	}
	if how.Saved && (r.App.Inst == nil || r.App.Inst.Workload.IsProgram() || r.Law != "" && r.Law != fit.Auto && r.Law != fit.Structural) {
		return nil, fit.Refuse("name a workload, and leave the law out", "the arrays of %s that must be saved are not known", r.App)
	}
	job := service.Job{Instance: r.App.Inst, App: r.App.Name, Class: r.App.Class, NP: r.App.NP, Mapping: r.Mapping, MPI: r.MPI, Codec: how.Codec,
		Layout: how.Layout, Aggregators: how.Aggregators, Saved: how.Saved}
	s := &Stored{App: r.App.String(), NP: r.App.NP, Mapping: r.Mapping, MPI: r.MPI, Storing: how, Ranks: RankKinds(r.App.Inst),
		Note: openNote(r.App.Inst)}
	var factor float64
	if job.Laws, factor, err = m.storedLaws(r, app, s); err != nil {
		return nil, err
	}
	s.Size = *m.Service.Size(job)
	s.Extrapolation = max(s.Extrapolation, factor)
	rate := probe.Rate()
	s.FullTime = m.Service.Time(&job, &s.Full, s.Library, how.Async, rate)
	s.NextTime = m.Service.Time(&job, &s.Next, fit.Range{}, how.Async, rate)
	s.RefreshTime = m.Service.Time(&job, &s.Full, fit.Range{}, how.Async, rate)
	s.explain(m.Service, app)
	return s, nil
}

// whole rounds bytes that a sum of floating-point numbers gives.
func whole(bytes float64) int64 { return int64(math.Round(bytes)) }

// TooFar is an error if a time lies too far beyond what was measured to be used.
func (s *Stored) TooFar() error {
	return cmp.Or(s.FullTime.TooFar, s.NextTime.TooFar, s.RefreshTime.TooFar)
}

// storedLaws predicts the stored bytes of a data zone by laws of the number of processes,
// where no structure is known or a law is asked for. Without need it is nil.
func (m *Model) storedLaws(r Request, app *service.App, s *Stored) (*service.Laws, float64, error) {
	if r.App.Inst != nil && (r.Law == "" || r.Law == fit.Auto || r.Law == fit.Structural) {
		return nil, 1, nil
	}
	if r.Law == fit.Structural || r.Law == fit.Thesis {
		return nil, 1, fit.RefuseFor(fit.UseAutoLaw, "%s: the law %s does not predict what ckpt stores", r.App, r.Law)
	}
	if app == nil {
		return nil, 1, fit.RefuseFor(fit.FitPoints, "no job of %s was measured, the law has no points", r.App)
	}
	var full, next []fit.Point
	for _, pt := range app.Points {
		if pt.Codec != s.Codec || pt.Saved {
			continue
		}
		if pt.Full > 0 {
			full = append(full, fit.Point{P: float64(pt.NP), MiB: pt.Full / (1 << 20)})
		}
		if pt.Next > 0 {
			next = append(next, fit.Point{P: float64(pt.NP), MiB: pt.Next / (1 << 20)})
		}
	}
	if len(next) == 0 {
		next = full // no job took a second checkpoint
		s.Note = "no job took a second checkpoint: an incremental one is predicted as large as a full one"
	}
	laws, factor := &service.Laws{}, 1.
	for _, part := range []struct {
		points []fit.Point
		to     *fit.Range
	}{{full, &laws.Full}, {next, &laws.Next}} {
		set, err := storedLaw(r.Law, part.points)
		if err != nil {
			return nil, 1, fmt.Errorf("stored bytes of %s: %w", r.App, err)
		}
		e := set.Predict(float64(r.App.NP))
		*part.to = e.Range().Scale(1 << 20)
		if s.Codec == "auto" {
			*part.to = service.AutoStored(*part.to)
		}
		factor = max(factor, e.Extrapolation)
		s.Model = set.String()
	}
	return laws, factor, nil
}

func storedLaw(law fit.Law, points []fit.Point) (*fit.LawSet, error) {
	if fit.Distinct(points) < 2 {
		return nil, fit.RefuseFor(fit.FitPoints, "%d process counts were measured, a law needs 2", fit.Distinct(points))
	}
	if law == "" || law == fit.Auto {
		return fit.ChooseLaws(points)
	}
	return fit.OneLaw(law, points)
}

// explain says what the prediction rests on.
func (s *Stored) explain(f *service.Fit, app *service.App) {
	switch {
	case s.Model != "":
		s.Basis = jobsOf(app)
	case app == nil:
		s.Model, s.Basis = "structural", "workload spec, no job measured"
		s.Note = fit.Join(s.Note, "no job of this application and class was measured: run one, and fit a model to it")
	default:
		s.Model, s.Basis = "structural", "workload spec, "+jobsOf(app)
	}
	if s.Saved {
		s.Note = fit.Join(s.Note, "application level: the arrays that the workload saves, without segments and libraries")
	}
	if s.Assumed {
		s.Note = fit.Join(s.Note, "the ratio of "+s.Codec+" is assumed, no job measured it")
	}
	if fit.Far(s.Size.Extrapolation) {
		s.Note = fit.Join(s.Note, "extrapolated by a factor of "+fit.Factor(s.Size.Extrapolation)+" beyond the jobs measured")
	}
	s.sizeNote = s.Note
	if f == nil || f.Times == nil {
		s.Note = fit.Join(s.Note, "times rest on assumed rates of a local disk, no job was timed")
	} else if fit.Far(s.FullTime.Extrapolation) {
		s.Note = fit.Join(s.Note, "times extrapolated by a factor of "+fit.Factor(max(s.FullTime.Extrapolation, s.NextTime.Extrapolation)))
	}
	if s.NextTime.CopyAssumed {
		s.Note = fit.Join(s.Note, "no asynchronous job was timed: the pause assumes a copy of 1 GB/s, within a factor of 3")
	}
}

func jobsOf(app *service.App) string {
	var names []string
	low, high := app.Points[0].NP, app.Points[0].NP
	for _, pt := range app.Points {
		names = append(names, pt.Job)
		low, high = min(low, pt.NP), max(high, pt.NP)
	}
	if len(names) > 6 {
		names = append(names[:5:5], "…")
	}
	return fmt.Sprintf("%d jobs from %d to %d processes (%s)", len(app.Points), low, high, strings.Join(names, ", "))
}

// MeanCost is how long one checkpoint keeps the application from computing, in seconds,
// as a mean over the first n of a run.
func (s *Stored) MeanCost(n int) fit.Range {
	full, all := float64(service.Fulls(n)), float64(max(1, n))
	mix := func(first, later, next float64) float64 { return (first + (full-1)*later + (all-full)*next) / all }
	f, l, x := s.FullTime.Pause, s.RefreshTime.Pause, s.NextTime.Pause
	return fit.Range{Value: mix(f.Value, l.Value, x.Value), Low: mix(f.Low, l.Low, x.Low), High: mix(f.High, l.High, x.High)}
}

// Lag is how long after its ranks have stopped a checkpoint is durable, in seconds, if it is written
// behind the job and no other waits: as a mean over the first n of a run.
func (s *Stored) Lag(n int) fit.Range {
	waits := *s
	waits.FullTime.Pause, waits.RefreshTime.Pause, waits.NextTime.Pause = s.FullTime.Total, s.RefreshTime.Total, s.NextTime.Total
	return waits.MeanCost(n)
}

// A Storage times checkpoints on a storage that is described, where the nodes of a job
// share what they share. It replaces the times of a prediction, which are of disks
// that were measured.
type Storage interface {
	// Images times the images of another checkpointer.
	Images(t *Time) error
	// Stored times what ckpt stores of the job that was asked for.
	Stored(m *Model, r Request, s *Stored) error
	// Part is the time in which some ranks of each node write their images of t at the same
	// time, or if s is not nil what ckpt stores of them, and what they write in MiB.
	Part(t *Time, s *Stored, perNode []int) (seconds fit.Range, mib float64, err error)
}

// Simulated has a time come from a storage with a name: storage in seconds, with an
// interval of a factor. The doubt about the bytes is in that factor.
func (t *Time) Simulated(name string, storage, factor float64) {
	t.Latency.Storage = storage
	t.Latency.Sum()
	t.LowS, t.HighS = t.Latency.Total/factor, t.Latency.Total*factor
	t.TimeModel = "coordination(np) + management(stored) + the images, written in virtual time"
	t.Valid = "the storage " + name + ", which all nodes share"
	t.Extrapolation, t.Note = t.of.Extrapolation, t.of.Note
	if t.Assumed {
		t.Note = fit.Join(t.Note, "the ratio and the rate of "+t.Codec+" are assumed")
	}
}

// Doubt is the relative standard deviation of the size.
func (s *Size) Doubt() float64 {
	if s.TotalMiB <= 0 {
		return 0
	}
	return s.doubt()
}

// Simulated notes that the times are of a storage with a name, of which some things
// are not known.
func (s *Stored) Simulated(name string, unknown []string) {
	s.Note = fit.Join(s.sizeNote, "times on the storage "+name+", which all nodes share")
	if len(unknown) > 0 {
		s.Note = fit.Join(s.Note, "its description does not know: "+strings.Join(unknown, ", "))
	}
}
