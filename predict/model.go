package predict

import (
	"ckpt/dataset"
	"ckpt/predict/fit"
	"ckpt/predict/service"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
)

// modelVersion is written into model files. Version 1 had other laws.
const modelVersion = 2

// maxModel bounds the text of a model; with all built-in tables it has 60 KiB.
const maxModel = 8 << 20

// A Model has the fitted zones of images and times of checkpoints. [Default] or [Fit]
// make it; it is stored as JSON.
type Model struct {
	Version int `json:"ckpt_model"`
	// Sources are the tables that were fitted.
	Sources []string `json:"sources"`
	// Elsewhere are the zones that were measured on another machine than the user's:
	// "data", or "library mpich". Their intervals hold what differs between machines.
	Elsewhere []string                 `json:"elsewhere,omitempty"`
	Series    []*fit.Series            `json:"series"`
	Library   map[string]*fit.Constant `json:"library"`
	Shared    map[string]*fit.Shared   `json:"shared"`
	IO        map[string]*ioFit        `json:"io"`
	Latency   *fit.Latency             `json:"latency"`
	// Modes is what message logs and restarts cost, nil if that was not measured.
	Modes *service.Machine `json:"modes,omitempty"`
	// Varied are the laws of problem sizes, Whole the ones of files without zones.
	Varied []*fit.Varied `json:"varied,omitempty"`
	Whole  []*fit.Series `json:"whole,omitempty"`
	// Engine is the checkpointer that was measured, dmtcp if it is empty. Service is
	// what ckpt itself stored of jobs, and how long that took.
	Engine  dataset.Engine `json:"engine,omitempty"`
	Service *service.Fit   `json:"service,omitempty"`
	// Exchanges are the messages of programs, as their libraries counted them.
	Exchanges []service.Exchange `json:"exchanges,omitempty"`
	// ImageTimes is how long images of another checkpointer took to write, by codec.
	ImageTimes map[string]*service.Times `json:"image_times,omitempty"`
}

// Default is the model of the built-in tables: León (2022), Tables 4.1-4.3,
// 5.1-5.6, 5.8-5.11, 5.13, 5.14 and 5.16. All of it was measured on another machine
// than the user's.
var Default = sync.OnceValues(func() (*Model, error) {
	m, err := BuiltIn()
	if err != nil {
		return nil, err
	}
	out := *m
	out.Elsewhere = []string{"data", "library", "shared"}
	return &out, nil
})

// BuiltIn is the model of the built-in tables for the machines of the tables.
var BuiltIn = sync.OnceValues(func() (*Model, error) {
	rows, err := dataset.Measurements()
	if err != nil {
		return nil, err
	}
	m, err := FitSizes(rows)
	if err != nil {
		return nil, err
	}
	files, err := dataset.ImageFiles()
	if err != nil {
		return nil, err
	}
	for _, mpi := range []string{"mpich", "openmpi"} {
		if m.IO[mpi], err = fitIO(mpi, files, m); err != nil {
			return nil, err
		}
	}
	latencies, err := dataset.Latencies()
	if err != nil {
		return nil, err
	}
	if m.Latency, err = fit.FitLatency(latencies); err != nil {
		return nil, err
	}
	times, err := dataset.CollectiveTimes()
	if err != nil {
		return nil, err
	}
	m.Latency.Server, err = m.fitServer(times)
	return m, err
})

// With is the model for another checkpointer.
func (m *Model) With(engine dataset.Engine) *Model {
	own := *m
	own.Engine = engine
	return &own
}

// Fit makes a model of a user's measurements. Values that they lack (another MPI
// library, aggregators, times) come from the built-in tables.
func Fit(rows []dataset.Measurement) (*Model, error) {
	base, err := BuiltIn()
	if err != nil {
		return nil, err
	}
	m, err := FitSizes(rows)
	if err != nil {
		return nil, err
	}
	for mpi, f := range base.IO {
		if m.IO[mpi] = f; m.Library[mpi] != nil || m.Shared[mpi] != nil {
			m.IO[mpi] = f.ofZones()
		}
	}
	for mpi, c := range base.Library {
		if m.Library[mpi] == nil {
			m.Library[mpi] = c
			m.Elsewhere = append(m.Elsewhere, "library "+mpi)
		}
	}
	for mpi, f := range base.Shared {
		if m.Shared[mpi] == nil {
			m.Shared[mpi] = f
			m.Elsewhere = append(m.Elsewhere, "shared "+mpi)
		}
	}
	slices.Sort(m.Elsewhere) // maps have no order
	m.Latency = base.Latency
	return m, nil
}

// FitSizes fits the values in rows of zone sizes, and nothing else.
func FitSizes(rows []dataset.Measurement) (*Model, error) {
	const means = "give means of repeated runs, and fewer process counts"
	if len(rows) > fit.MaxRows {
		return nil, fit.Refuse(means, "%d measurements are more than the %d that can be fitted", len(rows), fit.MaxRows)
	}
	m := &Model{Version: modelVersion, Library: map[string]*fit.Constant{}, Shared: map[string]*fit.Shared{}, IO: map[string]*ioFit{}}
	library, shared := map[string][]fit.Point{}, map[string][]dataset.Measurement{}
	for _, r := range rows {
		m.Sources = addTables(m.Sources, r.Table)
		if r.Library > 0 {
			library[r.MPI] = append(library[r.MPI], fit.Point{P: float64(r.NP), MiB: r.Library})
		}
		if r.Shared > 0 && !r.SharedDoubtful {
			shared[r.MPI] = append(shared[r.MPI], r)
		}
		if r.Data > 0 {
			s := m.SeriesOf(r.App, r.Class, r.MPI)
			if s == nil {
				s = &fit.Series{App: r.App, Class: r.Class, MPI: r.MPI}
				m.Series = append(m.Series, s)
			}
			s.Tables = addTables(s.Tables, r.Table)
			s.Points = append(s.Points, fit.Point{P: float64(r.NP), MiB: r.Data})
			s.Repeats = fit.AddRuns(s.Repeats, r.Runs, r.Data, r.Scatter.Data)
		}
	}
	specs := map[string]*dataset.Workload{}
	for _, s := range m.Series {
		if len(s.Points) > fit.MaxPoints {
			return nil, fit.Refuse(means, "%s: %d points are more than the %d that can be fitted", s.Name(), len(s.Points), fit.MaxPoints)
		}
		if _, ok := specs[s.App]; !ok && !strings.Contains(s.App, "/") {
			// An application without a spec has laws only.
			specs[s.App], _ = dataset.LoadWorkload(s.App)
		}
		if err := s.Fit(specs[s.App]); err != nil {
			return nil, err
		}
	}
	for mpi, values := range library {
		m.Library[mpi] = fit.FitLibrary(values)
	}
	for mpi, list := range shared {
		f, err := fit.FitShared(mpi, list)
		if err != nil {
			return nil, err
		}
		m.Shared[mpi] = f
	}
	if err := m.fitVaried(rows); err != nil {
		return nil, err
	}
	return m, m.fitWhole(rows)
}

// addTables adds the tables that a row names: a row of repeated runs may name several.
func addTables(list []string, names string) []string {
	for name := range strings.SplitSeq(names, ", ") {
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

func (m *Model) SeriesOf(app, class, mpi string) *fit.Series {
	for _, s := range m.Series {
		if s.App == app && s.Class == class && s.MPI == mpi {
			return s
		}
	}
	return nil
}

// Write writes the model as JSON.
func (m *Model) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	return enc.Encode(m)
}

// LoadModel reads a model from a file, or is the built-in one if there is no name: then the
// checkpoints of an application that calls ckpt are of ckpt.
func LoadModel(name, app string) (*Model, error) {
	if name == "" {
		m, err := Default()
		if w, bad := dataset.LoadWorkload(dataset.WorkloadName(app)); err == nil && bad == nil && w.IsProgram() {
			m = m.With(dataset.Ckpt)
		}
		return m, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, dataset.CannotRead("model", name, err)
	}
	defer f.Close()
	m, err := ReadModel(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// ReadModel reads and checks the output of [Model.Write].
func ReadModel(r io.Reader) (*Model, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxModel+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxModel {
		return nil, fit.RefuseFor(fit.FitModel, "model: longer than %d bytes", maxModel)
	}
	var m Model
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fit.RefuseFor(fit.FitModel, "model: not a model of ckpt: %v", err)
	}
	switch m.Version {
	case modelVersion:
	case 1:
		if err := m.refit(); err != nil {
			return nil, fit.RefuseFor(fit.FitModel, "model of version 1: %v", err)
		}
	default:
		return nil, fit.RefuseFor(fit.FitModel, "model: version %d is not known, this ckpt reads versions 1 to %d", m.Version, modelVersion)
	}
	if err := m.renew(); err != nil {
		return nil, err
	}
	if err := m.check(); err != nil {
		return nil, fit.RefuseFor(fit.FitModel, "model: %v", err)
	}
	return &m, nil
}

// refit fits the laws of a model of version 1 anew, from the measurements that it holds. A shared
// zone without its measurements gives way to the built-in one.
func (m *Model) refit() error {
	m.Version = modelVersion
	for _, s := range m.Series {
		if err := s.Refit(s.FitLaws); err != nil {
			return err
		}
	}
	for _, s := range m.Whole {
		if err := s.Refit(s.FitFiles); err != nil {
			return err
		}
	}
	for _, f := range m.Varied {
		if err := f.Check(); err != nil {
			return err
		}
		if err := f.Fit(); err != nil {
			return err
		}
	}
	for mpi, f := range m.Shared {
		if f != nil && len(f.Rows) > 0 {
			f.MPI = mpi
			continue
		}
		base, err := Default()
		if err != nil {
			return err
		}
		if m.Shared[mpi] = base.Shared[mpi]; !slices.Contains(m.Elsewhere, "shared "+mpi) {
			m.Elsewhere = append(m.Elsewhere, "shared "+mpi)
			slices.Sort(m.Elsewhere)
		}
	}
	return nil
}

// renew replaces times that an older ckpt wrote. Times always come from the built-in
// tables, so nothing measured by the user goes.
func (m *Model) renew() error {
	if m.Latency == nil || m.Latency.Server != nil {
		return nil
	}
	base, err := Default()
	if err == nil {
		m.Latency = base.Latency
	}
	return err
}

// check verifies the properties of a model from a file that predictions rely on.
func (m *Model) check() error {
	for _, s := range m.Series {
		if err := s.Check(); err != nil {
			return err
		}
	}
	for _, s := range m.Whole {
		if err := s.CheckFiles(); err != nil {
			return fmt.Errorf("whole files: %w", err)
		}
	}
	for i := range m.Exchanges {
		if err := m.Exchanges[i].Check(); err != nil {
			return fmt.Errorf("exchanges: %w", err)
		}
	}
	for mpi, c := range m.Library {
		if c == nil || !(c.Mean >= 0 && c.Mean < 1<<40 && c.SD >= 0 && c.SD < 1<<40 && (c.High == 0 || c.Low >= 0 && c.Low <= c.Mean && c.Mean <= c.High)) {
			return fmt.Errorf("library zone of %s is impossible", mpi)
		}
	}
	for mpi, f := range m.Shared {
		if err := f.Check(); err != nil {
			return fmt.Errorf("shared zone of %s: %w", mpi, err)
		}
	}
	for mpi, f := range m.IO {
		if err := f.check(); err != nil {
			return fmt.Errorf("aggregators of %s: %w", mpi, err)
		}
	}
	if m.Modes != nil {
		if err := m.Modes.Check(); err != nil {
			return err
		}
	}
	for _, f := range m.Varied {
		if err := f.Check(); err != nil {
			return err
		}
	}
	if _, err := m.EngineOf(m.Engine); err != nil {
		return err
	}
	if m.Service != nil {
		if err := m.Service.Check(); err != nil {
			return fmt.Errorf("service: %w", err)
		}
	}
	for codec, t := range m.ImageTimes {
		if t == nil {
			return fmt.Errorf("times of codec %s are missing", codec)
		}
		if err := t.Check(); err != nil {
			return fmt.Errorf("codec %s: %w", codec, err)
		}
	}
	if m.Latency != nil {
		return m.Latency.Check()
	}
	return nil
}

// A FitRow describes the fit of one series, for tables.
type FitRow struct {
	Series string  `json:"series"`
	Law    string  `json:"law"`
	Points int     `json:"points"`
	Low    float64 `json:"low_np"`
	High   float64 `json:"high_np"`
	// Coefficients are in MiB, in the order of the law's name.
	Coefficients []float64 `json:"coefficients"`
	Exponent     float64   `json:"exponent,omitempty"`
	// LOO is the relative leave-one-out error, 0 if there are too few points.
	LOO    float64 `json:"loo"`
	AICc   float64 `json:"aicc"`
	Weight float64 `json:"weight"`
}

// Fits lists the fits of all series and zones, in the order of the measurements.
func (m *Model) Fits() []FitRow {
	var out []FitRow
	for _, s := range m.Series {
		if f, _ := m.variedOf(App{Name: s.App, Class: s.Class}, s.MPI); f != nil {
			continue // the laws of all problem sizes are used
		}
		low, high := fit.Span(s.Points)
		if s.Drift != nil {
			name, coefficients := s.Drift.Form()
			out = append(out, FitRow{Series: s.Name(), Law: "structural: " + name, Points: len(s.Points), Low: low, High: high,
				Coefficients: coefficients, LOO: s.Drift.Missed(), Weight: 1})
		}
		out = append(out, lawRows(s, "")...)
	}
	for _, f := range m.Varied {
		out = append(out, variedRows(f)...)
	}
	for _, s := range m.Whole {
		out = append(out, lawRows(s, "file ")...)
	}
	for _, mpi := range []string{"mpich", "openmpi"} {
		if c := m.Library[mpi]; c != nil {
			out = append(out, FitRow{Series: "library " + mpi, Law: "constant", Points: c.N, Coefficients: []float64{c.Mean}, Weight: 1})
		}
		if f := m.Shared[mpi]; f != nil {
			out = append(out, FitRow{Series: "shared " + mpi + " by ranks/node", Law: f.Law, Points: f.N, Low: f.Low, High: f.High, Coefficients: f.Coef, Weight: 1})
		}
	}
	return out
}

// lawRows describes the laws of a series.
func lawRows(s *fit.Series, prefix string) (out []FitRow) {
	if s.Laws == nil {
		return nil
	}
	for _, f := range s.Laws.Laws() {
		out = append(out, FitRow{Series: prefix + s.Name(), Law: string(f.Law), Points: len(s.Points), Low: s.Laws.Low, High: s.Laws.High,
			Coefficients: f.Coefficients(), Exponent: f.Power(), LOO: f.LOO, AICc: f.AICc, Weight: f.Weight})
	}
	return out
}

// variedRows describes the laws of a problem size.
func variedRows(f *fit.Varied) (out []FitRow) {
	_, p := f.Spans()
	for _, l := range f.Laws {
		var coef []float64
		for _, c := range l.Coef {
			if c != 0 {
				coef = append(coef, c)
			}
		}
		out = append(out, FitRow{Series: f.Name(), Law: l.String(), Points: len(f.Points), Low: p[0], High: p[1],
			Coefficients: coef, LOO: l.LOO, Weight: l.Weight})
	}
	return out
}
