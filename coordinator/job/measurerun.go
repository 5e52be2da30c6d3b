package job

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"ckpt/dataset"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/image/plan"
)

// MeasureRun measures a job: what each of its checkpoints stored, by zone and region, and
// what it cost. It reads manifests, indexes of files and the journal. Checkpoints that
// cannot be read are left out, and are in the error.
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

// tellFollowing corrects which checkpoints were full: a checkpoint that refers to no other
// looks so too where the program changes all memory between two. Then none refers to any.
func tellFollowing(list []dataset.JobCheckpoint) {
	if slices.ContainsFunc(list, func(c dataset.JobCheckpoint) bool { return !c.Full }) {
		return
	}
	for i := range list {
		list[i].Full = i == 0
	}
}

// describeRun says how a job ran.
func describeRun(j *image.Job, spec *Resolved) dataset.JobRun {
	s := &spec.Spec
	run := dataset.JobRun{Job: j.Name(), Engine: dataset.Ckpt, MPI: cmp.Or(dataset.MPIName(s.MPI), s.MPI), NP: s.NP, Mapping: s.Mapping,
		Mode: string(s.Mode), GroupSize: s.GroupSize, Codec: spec.Codec.String(), Layout: string(cmp.Or(s.WritePath.Layout, plan.PerRank)),
		Aggregators: max(0, s.WritePath.Aggregators), Incremental: s.Incremental, Async: s.Async, Workload: s.Workload, Storage: filepath.Dir(filepath.Dir(j.Dir()))}
	run.App, run.Class = appAndClass(s.App)
	run.Program = s.Program != nil
	if s.Origin != "" {
		run.Engine, run.Codec = dataset.Engine(s.Origin), ""
	}
	if spec.Several() {
		run.Log = spec.Log.String()
	}
	return run
}

// errOtherRanks says that a checkpoint is of another number of ranks than the job was
// launched with: it tells nothing of that run.
var errOtherRanks = errors.New("the checkpoint is of another number of ranks")

// A runReader measures checkpoints of a job, oldest first.
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

// stored adds up what the files of a checkpoint hold.
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
