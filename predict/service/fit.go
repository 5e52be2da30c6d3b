package service

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"ckpt/dataset"
	"ckpt/zones"
)

// A Fit is what jobs have measured of what ckpt stores. It is a part of a model file.
type Fit struct {
	Jobs []string `json:"jobs"`
	Apps []*App   `json:"apps"`
	// Segments are the stored bytes of the segments of nodes, by MPI library.
	Segments map[string]*Segment `json:"segments,omitempty"`
	// Library is the bytes of the stored library of each job, Overhead what headers and
	// indexes took by what the formula gives.
	Library  []float64 `json:"library,omitempty"`
	Overhead []float64 `json:"overhead,omitempty"`
	Times    *Times    `json:"times,omitempty"`
}

// An App is what jobs of one application and class measured.
type App struct {
	Name  string `json:"app"`
	Class string `json:"class"`
	// Workload is the spec that the jobs ran, unless it is built in.
	Workload string    `json:"workload,omitempty"`
	Program  bool      `json:"program,omitempty"` // of a user, which has no library
	Points   []Point   `json:"points"`
	Regions  []*Region `json:"regions"`
}

// A Point is what the data zone of one job stored, in bytes of a rank.
type Point struct {
	Job        string  `json:"job"`
	NP         int     `json:"np"`
	Codec      string  `json:"codec"`
	Saved      bool    `json:"saved,omitempty"` // of the arrays that have to be saved, not of all memory
	Iterations int     `json:"iterations"`      // between two checkpoints
	Full       float64 `json:"full,omitempty"`  // 0 if no checkpoint of the job was a full one
	Next       float64 `json:"next,omitempty"`  // incremental; 0 if none was
	// FullModel and NextModel are what the structure of the application gives for them.
	FullModel float64 `json:"full_model,omitempty"`
	NextModel float64 `json:"next_model,omitempty"`
}

// A Region is one of the memory of a rank.
type Region struct {
	Name    string `json:"name"`
	Used    Share  `json:"used"`
	Changed Share  `json:"changed"`
	// Size is the mean of its bytes, for a region that the workload spec does not have.
	Size    float64             `json:"size"`
	Packing map[string]*Packing `json:"packing,omitempty"` // by codec
}

// A Segment is the stored bytes of a node's segment at some numbers of ranks on it.
type Segment struct {
	Ranks []float64 `json:"ranks"`
	Full  []float64 `json:"full"`
	Next  []float64 `json:"next"`
}

// New fits what jobs of ckpt measured; nil without any.
func New(runs []dataset.JobRun) *Fit {
	f := &Fit{Segments: map[string]*Segment{}}
	var own []dataset.JobRun
	for _, run := range runs {
		if run.Engine == dataset.Ckpt && len(run.Checkpoints) > 0 {
			own = append(own, run)
			f.Jobs = append(f.Jobs, run.Job)
		}
	}
	if len(own) == 0 {
		return nil
	}
	for i := range own {
		f.measure(&own[i])
	}
	for i := range own {
		f.calibrate(&own[i])
	}
	f.Times = FitTimes(own, true)
	return f
}

// instance evaluates the workload spec of a job; nil without one.
func instance(run *dataset.JobRun) *dataset.Instance {
	w, err := dataset.ParseWorkload([]byte(run.Workload), run.App)
	if run.Workload == "" {
		w, err = dataset.LoadWorkload(run.App)
	}
	if err != nil {
		return nil
	}
	inst, err := w.Instance(run.Class, run.NP)
	if err != nil {
		return nil
	}
	return inst
}

// Spec is the workload spec of a user's application that jobs ran, or nil.
func (a *App) Spec() *dataset.Workload {
	if a == nil || a.Workload == "" {
		return nil
	}
	w, err := dataset.ParseWorkload([]byte(a.Workload), a.Name)
	if err != nil {
		return nil
	}
	return w
}

// App returns what was measured of an application; nil if nothing.
func (f *Fit) App(name, class string) *App {
	if f == nil {
		return nil
	}
	for _, a := range f.Apps {
		if strings.EqualFold(a.Name, name) && a.Class == class {
			return a
		}
	}
	return nil
}

// kinds divides the checkpoints of a job into full ones and those that follow. Where
// memory that never changes is stored again, a checkpoint is neither.
func kinds(run *dataset.JobRun) (full, next []*dataset.JobCheckpoint) {
	for i := range run.Checkpoints {
		c := &run.Checkpoints[i]
		switch {
		case c.Full:
			full = append(full, c)
		case !Refreshes(run, c):
			next = append(next, c)
		}
	}
	return full, next
}

// Refreshes reports whether a checkpoint of a job stores all memory, since it no longer
// refers to the one that did. Groups number their checkpoints by turns.
func Refreshes(run *dataset.JobRun, c *dataset.JobCheckpoint) bool {
	groups := 1
	for i := range run.Checkpoints {
		groups = max(groups, run.Checkpoints[i].Group+1)
	}
	return (c.Number-1)/groups%cycle == 0
}

// regionMeans returns the means of a region over checkpoints, in bytes of a rank; n is the
// number of checkpoints that had it.
func regionMeans(list []*dataset.JobCheckpoint, name string) (size, unpacked, stored float64, n int) {
	for _, c := range list {
		for _, r := range c.Regions {
			if r.Name != name {
				continue
			}
			ranks := float64(c.Ranks)
			size += float64(r.Memory) / ranks
			unpacked += float64(r.Unpacked) / ranks
			stored += float64(r.Stored) / ranks
			n++
		}
	}
	if n > 0 {
		size, unpacked, stored = size/float64(n), unpacked/float64(n), stored/float64(n)
	}
	return size, unpacked, stored, n
}

// measure adds a job.
func (f *Fit) measure(run *dataset.JobRun) {
	app := f.App(run.App, run.Class)
	if app == nil {
		app = &App{Name: run.App, Class: run.Class, Program: run.Program}
		f.Apps = append(f.Apps, app)
	}
	if w, err := dataset.LoadWorkload(run.App); run.Program || err != nil || !slices.Contains(w.Classes(), run.Class) {
		app.Workload = run.Workload // perhaps with the name of a built-in one
	}
	full, next := kinds(run)
	spec := shares(instance(run))
	for _, c := range run.Checkpoints {
		for _, r := range c.Regions {
			if r.Zone == zones.Data && app.region(r.Name) == nil {
				app.Regions = append(app.Regions, &Region{Name: r.Name, Packing: map[string]*Packing{}})
			}
		}
	}
	for _, r := range app.Regions {
		r.measure(run, full, next, spec[r.Name])
	}
	f.segment(run, full, next)
	for i := range run.Checkpoints {
		if n := run.Checkpoints[i].Stored.Library; n > 0 {
			f.Library = append(f.Library, float64(n))
		}
	}
}

func (a *App) region(name string) *Region {
	i := slices.IndexFunc(a.Regions, func(r *Region) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return a.Regions[i]
}

// measure adds what a job stored of a region.
func (r *Region) measure(run *dataset.JobRun, full, next []*dataset.JobCheckpoint, spec arrayShares) {
	size, unpacked, stored, n := regionMeans(full, r.Name)
	if n > 0 {
		r.Used.measure(unpacked, size, spec.used())
		r.packing(run.Codec).Full.add(run.NP, stored, unpacked, spec.full())
	}
	nextSize, nextUnpacked, nextStored, m := regionMeans(next, r.Name)
	if m > 0 {
		r.Changed.measure(nextUnpacked, nextSize, spec.changed())
		r.packing(run.Codec).Next.add(run.NP, nextStored, nextUnpacked, spec.full())
	}
	if n+m > 0 {
		r.Size = max(r.Size, size, nextSize)
	}
}

// segment adds what the nodes of a job stored of their segments.
func (f *Fit) segment(run *dataset.JobRun, full, next []*dataset.JobCheckpoint) {
	nodes := float64(len(run.Mapping))
	if run.Program || run.Saved || run.Mode != "coordinated" || nodes == 0 || len(full) == 0 {
		return // groups on one node have a segment each
	}
	mean := func(list []*dataset.JobCheckpoint) float64 {
		sum := 0.0
		for _, c := range list {
			sum += float64(c.Stored.Shared) / nodes / float64(len(list))
		}
		return sum
	}
	s := f.Segments[run.MPI]
	if s == nil {
		s = &Segment{}
		f.Segments[run.MPI] = s
	}
	first := mean(full)
	following := first
	if len(next) > 0 {
		following = mean(next)
	}
	s.Ranks, s.Full, s.Next = append(s.Ranks, float64(run.NP)/nodes), append(s.Full, first), append(s.Next, following)
}

// calibrate notes how far the structure is off for a job.
func (f *Fit) calibrate(run *dataset.JobRun) {
	app := f.App(run.App, run.Class)
	full, next := kinds(run)
	pt := Point{Job: run.Job, NP: run.NP, Codec: run.Codec, Saved: run.Saved}
	mean := func(list []*dataset.JobCheckpoint) (data, overhead, iterations float64) {
		for _, c := range list {
			share := 1 / float64(len(list))
			data += float64(c.Stored.Data) / float64(c.Ranks) * share
			overhead += float64(c.Overhead) * share
			iterations += float64(c.Iterations) * share
		}
		return data, overhead, iterations
	}
	var overhead, iterations float64
	pt.Full, overhead, iterations = mean(full)
	pt.Next, _, _ = mean(next)
	pt.Iterations = int(math.Round(iterations))
	if inst := instance(run); inst != nil {
		first, following := app.structure(&Job{Instance: inst, Codec: run.Codec, Saved: run.Saved})
		pt.FullModel, pt.NextModel = first.Value, following.Value
		if len(full) > 0 {
			job := Job{Instance: inst, Mapping: run.Mapping, Layout: run.Layout, Aggregators: run.Aggregators, Saved: run.Saved}
			if formula := overheadBytes(&job); formula > 0 && run.Mode == "coordinated" {
				f.Overhead = append(f.Overhead, overhead/formula)
			}
		}
	}
	app.Points = append(app.Points, pt)
}

// A Content is what ckpt stores of a region of a rank: the bytes of its extents that are
// written, and the ratio to which a codec packs them; 0 if no job measured the codec.
type Content struct{ Bytes, Ratio float64 }

// Contents tells what the regions of a rank hold, by name, in a full checkpoint or in one that
// follows. A simulation needs them one by one; Size adds them up, and corrects the sum.
func (f *Fit) Contents(inst *dataset.Instance, codec string, full bool) map[string]Content {
	app := f.App(inst.Name, inst.Class)
	spec, list := shares(inst), make(map[string]Content)
	for _, item := range regions(inst, inst.Shares()[0].First()) {
		r := &Region{Name: item.name}
		if app != nil {
			if known := app.region(item.name); known != nil {
				r = known
			}
		}
		share, of := r.Changed, spec[item.name].changed()
		if full {
			share, of = r.Used, spec[item.name].used()
		}
		c := Content{}
		c.Bytes, _ = share.stored(item.size, of)
		if codec == "none" || codec == "" || r.Packing[codec] != nil {
			c.Ratio = r.ratio(codec, inst.NP, spec[item.name].full(), full).Value
		}
		list[item.name] = c
	}
	return list
}

// maxItems bounds the lists of a model.
const maxItems = 1 << 12

// Check verifies what predictions rely on, of a model from a file.
func (f *Fit) Check() error {
	if len(f.Jobs) > maxItems || len(f.Apps) > maxItems || len(f.Library) > maxItems || len(f.Overhead) > maxItems {
		return errors.New("too many jobs")
	}
	for _, v := range f.Library {
		if !positive(v) {
			return errors.New("library is out of range")
		}
	}
	for _, v := range f.Overhead {
		if !positive(v) {
			return errors.New("overhead is out of range")
		}
	}
	for mpi, s := range f.Segments {
		if s == nil || len(s.Ranks) != len(s.Full) || len(s.Ranks) != len(s.Next) || !all(positive, s.Ranks, nil) || !all(natural, s.Full, s.Next) {
			return fmt.Errorf("segments of %s are impossible", mpi)
		}
	}
	for _, a := range f.Apps {
		if a == nil || a.Name == "" || len(a.Points) > maxItems || len(a.Regions) > maxItems {
			return errors.New("an application has no name, or too many points or regions")
		}
		if err := a.check(); err != nil {
			return fmt.Errorf("%s.%s: %w", a.Name, a.Class, err)
		}
	}
	if f.Times != nil {
		return f.Times.Check()
	}
	return nil
}

func (a *App) check() error {
	for _, pt := range a.Points {
		if pt.NP < 1 || pt.NP > 1<<20 || !all(natural, []float64{pt.Full, pt.Next, pt.FullModel, pt.NextModel}, nil) {
			return errors.New("a point is impossible")
		}
	}
	for _, r := range a.Regions {
		if r == nil || !natural(r.Size) {
			return errors.New("a region is impossible")
		}
		for _, s := range []Share{r.Used, r.Changed} {
			if !(s.Low >= 0 && s.Low <= s.High && s.High <= 1) {
				return fmt.Errorf("region %s: a share is not between 0 and 1", r.Name)
			}
		}
		for codec, p := range r.Packing {
			if p == nil || !p.Full.valid() || !p.Next.valid() {
				return fmt.Errorf("region %s: ratios of %s are impossible", r.Name, codec)
			}
		}
	}
	return nil
}

func (r *Ratios) valid() bool {
	return len(r.NP) == len(r.Ratio) && len(r.NP) == len(r.Filled) && all(positive, r.Filled, nil) && len(r.NP) <= maxItems && all(positive, r.NP, nil) && all(natural, r.Ratio, nil)
}

func positive(v float64) bool { return v > 0 && v < math.MaxInt64 }
func natural(v float64) bool  { return v >= 0 && v < math.MaxInt64 }

func all(is func(float64) bool, a, b []float64) bool {
	for _, list := range [][]float64{a, b} {
		for _, v := range list {
			if !is(v) {
				return false
			}
		}
	}
	return true
}
