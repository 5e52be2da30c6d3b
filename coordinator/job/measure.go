package job

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"ckpt/dataset"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/image/plan"
	"ckpt/zones"
)

type ppnKey struct {
	np, ppn int
	mpi     string
}

type measured struct {
	job  string
	app  string
	sums map[ppnKey]zones.Sizes
	n    map[ppnKey]int64 // ranks added up
}

func newMeasured(job string) *measured {
	return &measured{job: job, sums: make(map[ppnKey]zones.Sizes), n: make(map[ppnKey]int64)}
}

func (s *measured) add(m *image.Manifest) {
	s.app = m.App
	for _, r := range m.Ranks {
		if r.Node < 0 || r.Node >= len(m.Mapping) {
			continue
		}
		k := ppnKey{m.NP, m.Mapping[r.Node], m.MPI}
		s.sums[k] = s.sums[k].Plus(r.Zones)
		s.n[k]++
	}
}

func (s *measured) rows() []dataset.Measurement {
	var rows []dataset.Measurement
	for k, sum := range s.sums {
		mean := func(bytes int64) float64 { return float64(bytes) / float64(s.n[k]) / (1 << 20) }
		row := dataset.Measurement{Table: s.job, MPI: dataset.MPIName(k.mpi), NP: k.np, PPN: k.ppn,
			Data: mean(sum.Data), Library: mean(sum.Library), Shared: mean(sum.Shared), File: mean(sum.Total())}
		row.App, row.Class = appAndClass(s.app)
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b dataset.Measurement) int {
		return cmp.Or(a.NP-b.NP, a.PPN-b.PPN, strings.Compare(a.MPI, b.MPI))
	})
	return rows
}

// MeasureCheckpoint returns the mean size of each zone at a checkpoint, with a row for each
// number of ranks per node.
func MeasureCheckpoint(m *image.Manifest) []dataset.Measurement {
	s := newMeasured(m.Job)
	s.add(m)
	return s.rows()
}

// Measure returns the means over all checkpoints of a job. The error names those that cannot be
// read.
func Measure(j *image.Job) ([]dataset.Measurement, error) {
	numbers, err := j.Checkpoints()
	if err != nil {
		return nil, err
	}
	var failed error
	s := newMeasured(j.Name())
	for _, n := range numbers {
		m, err := j.Manifest(n)
		if errors.Is(err, image.ErrCheckpointNotFound) {
			continue // pruned this moment
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		s.add(m)
	}
	if len(s.sums) == 0 {
		return nil, errors.Join(failed, fmt.Errorf("job %s has no checkpoint in the store to measure: %w", j.Name(), image.ErrCheckpointNotFound))
	}
	rows := s.rows()
	if spec, err := ReadSpec(j); err == nil && spec.Program != nil {
		for i := range rows {
			rows[i].Class = spec.Program.Class()
		}
	}
	return rows, failed
}

// appAndClass splits the name of an application, as in bt.B.4. Without a class it is "-", as in
// tables of measurements.
func appAndClass(app string) (name, class string) {
	parts := strings.Split(app, ".")
	if len(parts) < 3 {
		return strings.ToLower(parts[0]), "-"
	}
	return strings.ToLower(strings.Join(parts[:len(parts)-2], ".")), parts[len(parts)-2]
}

// MeasureRun measures what each checkpoint of a job stored, by zone and region, and what it cost.
// It reads manifests, indexes of files and the journal. The error names the checkpoints that
// cannot be read.
func MeasureRun(j *image.Job) (dataset.JobRun, error) {
	spec, err := ReadSpec(j)
	if err != nil {
		return dataset.JobRun{}, err
	}
	numbers, err := j.Checkpoints()
	if err != nil {
		return dataset.JobRun{}, err
	}
	run := describeRun(j, spec)
	r := runReader{job: j, np: spec.NP, async: spec.Async, events: ReadEvents(j, 0), last: make(map[int]int64)}
	var failed error
	for _, n := range numbers {
		c, err := r.checkpoint(n)
		if errors.Is(err, image.ErrCheckpointNotFound) || errors.Is(err, errOtherRanks) {
			continue // pruned this moment, or of another number of ranks
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		run.Checkpoints = append(run.Checkpoints, c)
	}
	if run.Program && run.Incremental {
		tellFollowing(run.Checkpoints)
	}
	run.Logs, run.Restarts = readCosts(j, spec)
	if len(run.Checkpoints) == 0 {
		return run, errors.Join(failed, fmt.Errorf("job %s has no checkpoint in the store to measure: %w", j.Name(), image.ErrCheckpointNotFound))
	}
	return run, failed
}

// tellFollowing corrects which checkpoints were full: where a program changes all memory between
// two checkpoints, they refer to no others and still are not.
func tellFollowing(list []dataset.JobCheckpoint) {
	if slices.ContainsFunc(list, func(c dataset.JobCheckpoint) bool { return !c.Full }) {
		return
	}
	for i := range list {
		list[i].Full = i == 0
	}
}

func describeRun(j *image.Job, spec *Resolved) dataset.JobRun {
	s := &spec.Spec
	run := dataset.JobRun{Job: j.Name(), Engine: dataset.Ckpt, MPI: cmp.Or(dataset.MPIName(s.MPI), s.MPI), NP: s.NP, Mapping: s.Mapping,
		Mode: string(s.Mode), GroupSize: s.GroupSize, Codec: spec.Codec.String(), Layout: string(cmp.Or(s.WritePath.Layout, plan.PerRank)),
		Aggregators: max(0, s.WritePath.Aggregators), Incremental: s.Incremental, Async: s.Async, Saved: s.SavesArrays(), Workload: s.Workload, Storage: filepath.Dir(filepath.Dir(j.Dir()))}
	run.App, run.Class = appAndClass(s.App)
	if run.Program = s.Program != nil; run.Program {
		run.Class = s.Program.Class()
		run.Workload = declaredWorkload(j, &run)
	}
	if s.Origin != "" {
		run.Engine, run.Codec = dataset.Engine(s.Origin), ""
	}
	if spec.Several() {
		run.Log = spec.Log.String()
	}
	return run
}

// errOtherRanks is about a checkpoint of another number of ranks than the job was launched with.
var errOtherRanks = errors.New("the checkpoint is of another number of ranks")

type runReader struct {
	job    *image.Job
	np     int
	async  bool
	events Events
	last   map[int]int64 // iteration of the newest checkpoint of each group
}

func (r *runReader) checkpoint(n int) (dataset.JobCheckpoint, error) {
	m, err := r.job.Manifest(n)
	if err != nil {
		return dataset.JobCheckpoint{}, err
	}
	if m.NP != r.np {
		return dataset.JobCheckpoint{}, errOtherRanks
	}
	s := m.Summary()
	ev := r.events.Describe(s)
	_, pause := ev.Costs(r.async)
	c := dataset.JobCheckpoint{Number: n, Group: m.Group, Ranks: len(m.Ranks), Iterations: int(m.Iteration - r.last[m.Group]), Full: true,
		Memory: s.Bytes, StoredBytes: s.StoredBytes, CoordinationS: ev.Latency.Coordination, ManagementS: ev.Latency.Management,
		StorageS: ev.Latency.Storage, PauseS: pause, LogBytes: ev.LogBytes}
	r.last[m.Group] = m.Iteration
	if s.Memory != nil {
		c.Memory = *s.Memory
	}
	if m.Origin != "" {
		// Its images are stored in parts, but the checkpointer wrote them whole.
		c.Unpacked, c.Stored, c.StoredBytes, c.Files = c.Memory, c.Memory, c.Memory.Total(), len(m.Ranks)
		return c, nil
	}
	return c, r.stored(m, &c)
}

func (r *runReader) stored(m *image.Manifest, c *dataset.JobCheckpoint) error {
	at := make(map[string]int) // index in c.Regions
	for _, f := range m.Files {
		library := m.WroteLibrary(f)
		if !library && f.Number() != m.Number {
			continue
		}
		t, err := r.job.Tally(m, f.Path)
		if err != nil {
			return err
		}
		if !library {
			c.Files++
			c.Overhead += t.Overhead
			c.Full = c.Full && t.References == 0
		}
		for _, region := range t.Regions {
			c.Unpacked.Add(region.Zone, region.Unpacked)
			c.Stored.Add(region.Zone, region.Packed)
			if library {
				continue
			}
			i, ok := at[region.Name]
			if !ok {
				i = len(c.Regions)
				at[region.Name] = i
				c.Regions = append(c.Regions, dataset.JobRegion{Name: region.Name, Zone: region.Zone})
			}
			add(&c.Regions[i], region)
		}
	}
	return nil
}

func add(sum *dataset.JobRegion, t container.RegionTally) {
	sum.Memory += t.Zeros + t.Referenced + t.Unpacked
	sum.Zeros += t.Zeros
	sum.Unpacked += t.Unpacked
	sum.Stored += t.Packed
}

// readCosts returns what the message logs of a job cost, nil with one group, and its restarts, as
// far as the journal knows them.
func readCosts(j *image.Job, spec *Resolved) (*dataset.JobLogs, []dataset.JobRestart) {
	c := &costReader{np: float64(spec.NP), last: make(map[int]int), known: true}
	_ = ReadJournal(j, 0, c.line)
	if !spec.Several() {
		return nil, c.restarts
	}
	return &c.logs, c.restarts
}

// A costReader adds up the costs of logs, line by line of a journal.
type costReader struct {
	np       float64
	last     map[int]int // by the first rank of a group, the iteration of its newest checkpoint
	known    bool        // a group without a checkpoint began at iteration 0, with an empty log
	started  bool        // a run was seen
	logs     dataset.JobLogs
	restarts []dataset.JobRestart
}

func (c *costReader) line(line []byte) {
	var kind struct {
		Type      string `json:"type"`
		Iteration int    `json:"iteration"`
	}
	if json.Unmarshal(line, &kind) != nil {
		return
	}
	switch kind.Type {
	case "start":
		// A restart replays logs even where it begins at iteration 0.
		c.begin(kind.Iteration == 0 && !c.started)
		c.started = true
	case "recovery":
		// Ranks that went back log nothing that they replay.
		c.begin(false)
	case "checkpoint":
		c.checkpoint(line)
	case "restarted":
		var ev RestartedEvent
		if json.Unmarshal(line, &ev) == nil && ev.Ranks > 0 {
			c.restarts = append(c.restarts, ev.Restart())
		}
	}
}

func (c *costReader) begin(known bool) {
	clear(c.last)
	c.known = known
}

// checkpoint adds what the ranks of a group logged since the checkpoint before.
func (c *costReader) checkpoint(line []byte) {
	var ev CheckpointEvent
	if json.Unmarshal(line, &ev) != nil || len(ev.Of) == 0 {
		return
	}
	before, ok := c.last[ev.Of[0]]
	c.last[ev.Of[0]] = ev.Iteration
	if !ok && !c.known || ev.Iteration <= before {
		return
	}
	c.logs.Iterations += float64((ev.Iteration-before)*ev.Ranks) / c.np
	c.logs.Bytes += ev.LogBytes
	c.logs.Commits += ev.LogFsyncs
	c.logs.Seconds += ev.LogSeconds
}

// Restart returns the event as a measurement, without the time in which other jobs had the
// storage.
func (e *RestartedEvent) Restart() dataset.JobRestart {
	return dataset.JobRestart{Failed: e.Failed, Groups: e.Groups, Ranks: e.Ranks, TotalS: max(0, e.Seconds-e.TurnWait), ReadS: e.Read, LogS: e.Log,
		ReadBytes: e.ReadBytes, LogBytes: e.LogBytes, LostIterations: float64(e.Repeated) / float64(e.Ranks), LostS: e.LostWork, ReplayS: e.Replay}
}

// A CostRun is what the journal of a job tells of the costs of its checkpoints and restarts.
// Times are in seconds.
type CostRun struct {
	// Pauses are how long the ranks stood still, for each group of ranks that takes
	// checkpoints, oldest first. The full first checkpoint of a job that stores what has
	// changed is left out, if others follow.
	Pauses   [][]float64
	Latency  []float64 // of all checkpoints
	Restarts []dataset.JobRestart
}

// MeasureCosts reads what the journal of a job tells, whoever took its checkpoints and whatever
// they hold.
func MeasureCosts(j *image.Job) (*CostRun, *Resolved, error) {
	spec, err := ReadSpec(j)
	if err != nil {
		return nil, nil, err
	}
	r := &CostRun{}
	groups := map[int]int{} // by the first rank
	err = ReadJournal(j, 0, func(line []byte) {
		var ev CheckpointEvent
		if json.Unmarshal(line, &ev) != nil || ev.Type != "checkpoint" {
			return
		}
		first := 0
		if len(ev.Of) > 0 {
			first = slices.Min(ev.Of)
		}
		at, ok := groups[first]
		if !ok {
			at, groups[first] = len(r.Pauses), len(r.Pauses)
			r.Pauses = append(r.Pauses, nil)
		}
		latency, pause := ev.Costs(spec.Async)
		r.Pauses[at], r.Latency = append(r.Pauses[at], pause), append(r.Latency, latency)
	})
	if len(r.Latency) == 0 {
		return nil, nil, fmt.Errorf("job %s: its journal tells of no checkpoint: %w", j.Name(), image.ErrCheckpointNotFound)
	}
	if err != nil {
		return nil, nil, err
	}
	for i, list := range r.Pauses {
		if spec.Incremental && len(list) > 1 {
			r.Pauses[i] = list[1:]
		}
	}
	_, r.Restarts = readCosts(j, spec)
	return r, spec, nil
}
