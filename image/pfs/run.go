package pfs

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"ckpt/image/plan"
)

// Job is a plan that is carried out. The nodes of two jobs are different ones.
type Job struct {
	Plan  *plan.Plan
	Start float64 // seconds
	// Array, if not nil, says that the shared file of the plan holds an array, so that
	// its bytes come from other ranks than the plan says.
	Array *Array
	// Pack, if not nil, is how long one processor packs the bytes of a rank before
	// they are written.
	Pack func(rank int) (seconds float64)
	// Unpack, if not nil, says how the bytes of a plan that is read become memory.
	Unpack *Unpack
	// Targets, if not nil, are those that files lie on, in this order.
	Targets []int
	Depth   int  // operations of an individual writer under way; zero means one
	Sync    bool // the job ends when all is on the targets, and renamed
	Read    bool // the plan is read, not written
	// App and User say for whom the job makes requests, to a scheduler. App is the number
	// of the job by default.
	App, User string
}

// Unpack says where packed bytes that were read become memory again, which is cheap where
// the network is slow, and dear where it is fast (Larrosa, Málaga 2015, section 4.3).
type Unpack struct {
	Rate  float64 // bytes of memory that a processor makes in a second
	Ratio float64 // bytes that are read for a byte of memory
	// Sender has aggregators unpack what they have read, with all processors of their node,
	// and send memory to the ranks; else each rank unpacks its own bytes.
	Sender bool
}

// Options of Run.
type Options struct {
	Seed uint64 // decides which targets are slow
	// Background is the share of targets and routers that others take.
	Background float64
	// Scheduler, if not nil, replaces the one of the description; without a policy it
	// switches it off.
	Scheduler *Scheduler
	// Progress, if not nil, is told now and then how many bytes of all are written.
	Progress func(done, of int64)
}

// Result is what Run found.
type Result struct {
	Jobs []JobResult   `json:"jobs"`
	Use  []ResourceUse `json:"use"` // the most used of each kind
	// Units are the targets with what their schedulers counted.
	Units []Unit `json:"units,omitempty"`
}

// ResourceUse is the share of the time in which a resource worked.
type ResourceUse struct {
	Kind  string  `json:"kind"` // network, requests, router, server, target, metadata or processor
	Name  string  `json:"name"`
	Share float64 `json:"share"`
}

// JobResult is how a job fared.
type JobResult struct {
	Seconds float64 `json:"seconds"` // from its start
	Phases  Phases  `json:"phases"`
	// Bottleneck is what took most of the time: processor, gather, stream, connections, network,
	// requests (those that a host may have in flight), router, server, target, locks, metadata
	// or sync.
	Bottleneck       string  `json:"bottleneck"`
	LockWaits        int64   `json:"lock_waits"`
	WritersPerTarget []int   `json:"writers_per_target"`   // of the targets that are used, in order
	MostOnTarget     int64   `json:"most_on_target_bytes"` // that one target gets
	Bytes            int64   `json:"bytes"`
	Rate             float64 `json:"rate"` // bytes per second
}

// Phases are where the time of writers goes. With P3 gather and write overlap, so
// that the sum may be more than the whole.
type Phases struct {
	Create   Phase `json:"create"`
	Pack     Phase `json:"pack"`
	Gather   Phase `json:"gather"`
	LockWait Phase `json:"lock_wait"`
	Write    Phase `json:"write"`
	Sync     Phase `json:"sync"`
	Wait     Phase `json:"wait"` // for a turn without P1, or for the other buffer with P3
}

// Phase is the time of writers in seconds.
type Phase struct {
	Mean float64 `json:"mean"`
	Max  float64 `json:"max"`
}

// Run carries jobs out in virtual time, all on one system. The same input gives
// the same result.
func Run(ctx context.Context, s *System, jobs []Job, o Options) (*Result, error) {
	if len(jobs) == 0 {
		return nil, errors.New("pfs: no jobs")
	}
	if !(o.Background >= 0 && o.Background < 1) {
		return nil, fmt.Errorf("pfs: background of %v: must be from 0 to below 1", o.Background)
	}
	if o.Scheduler != nil {
		if err := o.Scheduler.Check(); err != nil {
			return nil, fmt.Errorf("pfs: %w", err)
		}
	}
	sim := NewSim(s, o)
	all, err := sim.prepare(jobs)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, j := range all {
			j.close()
		}
	}()
	if err := sim.Run(ctx); err != nil {
		return nil, err
	}
	return sim.result(all), nil
}

// job is a Job in progress.
type job struct {
	Job
	sim      *Sim
	settings *plan.Settings
	nodes    int // number of the first node
	target   int // of the first stripe of the first file
	base     int // first rank, if ranks are consecutive
	hosts    []*host
	writers  []*writer
	files    map[fileKey]*File
	created  []float64 // when each file is there
	packed   []float64 // when the bytes of each rank are; nil if at once
	unpacked []float64 // when those that each rank has unpacked are memory
	left     int       // writers that are not done
	end      float64
	progress *progress

	bytesOf []int64 // of each rank in a round of an array
	touched []int   // ranks that have any
}

// fileKey is a file, and the node whose local targets have this part of it.
type fileKey struct{ file, node int }

// progress counts the bytes of all jobs.
type progress struct {
	done, of, told int64
	tell           func(done, of int64)
}

func (p *progress) add(bytes int64) {
	p.done += bytes
	if p.tell != nil && (p.done-p.told > p.of/200 || p.done == p.of) {
		p.told = p.done
		p.tell(p.done, p.of)
	}
}

// prepare makes the writers of all jobs begin at their time.
func (sim *Sim) prepare(jobs []Job) ([]*job, error) {
	var all []*job
	p := &progress{tell: sim.opt.Progress}
	nodes, target := 0, 0
	for i := range jobs {
		j := &job{Job: jobs[i], sim: sim, nodes: nodes, target: target, progress: p, files: make(map[fileKey]*File)}
		if j.App == "" {
			j.App = "job " + strconv.Itoa(i)
		}
		if j.Plan == nil {
			return nil, fmt.Errorf("pfs: job %d: no plan", i)
		}
		j.settings = &j.Plan.Settings
		if err := j.check(); err != nil {
			return nil, fmt.Errorf("pfs: job %d: %w", i, err)
		}
		nodes += j.findHosts()
		for f := range j.Plan.Files {
			p.of += j.Plan.Files[f].Bytes
		}
		target += len(j.Plan.Files) * j.settings.StripeCount
		all = append(all, j)
	}
	sim.coarsen(p.of, manyChunks)
	for _, j := range all {
		j.begin()
	}
	return all, nil
}

func (j *job) check() error {
	if !(j.Start >= 0 && j.Start <= maxTime) {
		return fmt.Errorf("start of %v: must be 0 to %v seconds", j.Start, maxTime)
	}
	if u := j.Unpack; u != nil && !(u.Rate > 0 && u.Ratio > 0) {
		return fmt.Errorf("unpacking at a rate of %v and a ratio of %v: must be more than 0", u.Rate, u.Ratio)
	}
	if err := j.sim.sys.Targets.CheckChoice(j.Targets); err != nil {
		return err
	}
	if j.Array == nil {
		return nil
	}
	return j.Array.check(j.Plan)
}

// findHosts finds the host of each rank, and returns how many numbers nodes take.
func (j *job) findHosts() int {
	ranks, most := j.Plan.Ranks(), 0
	j.hosts = make([]*host, len(ranks))
	j.base = ranks[0]
	if ranks[len(ranks)-1]-ranks[0] != len(ranks)-1 {
		j.base = -1
	}
	for i, rank := range ranks {
		node := j.Plan.Node(rank)
		most = max(most, node)
		j.hosts[i] = j.sim.hostOf(j.nodes + node)
	}
	return most + 1
}

// position returns where a rank is among the ranks of the plan.
func (j *job) position(rank int) int {
	if j.base >= 0 {
		return rank - j.base
	}
	ranks := j.Plan.Ranks()
	lo, hi := 0, len(ranks)
	for lo < hi {
		if mid := (lo + hi) / 2; ranks[mid] < rank {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// begin creates the files, packs the bytes and sends the writers on their way.
func (j *job) begin() {
	j.end = j.Start
	j.pack()
	meta := &j.sim.sys.Metadata
	latency := float64(meta.Latency)
	j.created = make([]float64, len(j.Plan.Files))
	for f := range j.created {
		j.created[f] = j.Start
		if !j.Read {
			j.created[f] = j.sim.metadata(j.Start, meta.Creates) + latency
		}
	}
	j.writers = make([]*writer, len(j.Plan.Writers))
	j.left = len(j.writers)
	for i := range j.writers {
		w := j.writer(i)
		j.writers[i] = w
		ready := j.created[w.number]
		if j.Read || j.Plan.Files[w.number].Rank != w.rank {
			ready = j.sim.metadata(ready, meta.Opens) + latency
		}
		w.phases[create] = ready - j.Start
		if j.packed != nil {
			packed := j.packed[j.position(w.rank)]
			w.phases[packing] = packed - j.Start
			ready = max(ready, packed)
		}
		w.ready = ready
		if j.settings.P1 || i == 0 {
			j.sim.schedule(ready, w, begins)
		}
	}
}

// metadata has the server of names do something that it does so often in a second.
func (sim *Sim) metadata(at, perSecond float64) float64 {
	if perSecond == 0 {
		return at
	}
	return sim.meta.work(flow{at, at}, 1/perSecond, 0).tail
}

// pack has the processors of each host pack the bytes of its ranks. Where files
// have bytes of several ranks, writers wait until the sizes of all are known.
func (j *job) pack() {
	if j.Pack == nil || j.Read {
		return
	}
	j.packed = make([]float64, len(j.hosts))
	last := j.Start
	for i, rank := range j.Plan.Ranks() {
		j.packed[i] = j.hosts[i].processors.do(j.Start, j.Pack(rank))
		last = max(last, j.packed[i])
	}
	if j.settings.Layout != plan.PerRank {
		for i := range j.packed {
			j.packed[i] = last
		}
	}
}

// unpack has a processor unpack bytes that a rank has read: it has several reads under way, each
// with a processor.
func (j *job) unpack(at float64, rank int, bytes float64) {
	if j.unpacked == nil {
		j.unpacked = make([]float64, len(j.hosts))
	}
	j.unpacked[rank] = max(j.unpacked[rank], j.hosts[rank].processors.do(at, bytes/j.Unpack.Ratio/j.Unpack.Rate))
}

// unpackTogether is unpack with all processors of a host.
func (j *job) unpackTogether(at float64, h *host, bytes float64) (end float64) {
	n := float64(len(h.processors.free))
	for range h.processors.free {
		end = max(end, h.processors.do(at, bytes/n/j.Unpack.Ratio/j.Unpack.Rate))
	}
	return end
}

// file returns a file of the plan, as a node sees it.
func (j *job) file(number int, h *host) *File {
	key := fileKey{file: number}
	if j.sim.sys.Targets.Local {
		key.node = h.number
	}
	f := j.files[key]
	if f == nil {
		f = j.sim.File(FileSpec{
			StripeSize: j.settings.StripeSize, StripeCount: j.settings.StripeCount,
			First: j.target + number*j.settings.StripeCount + j.settings.FirstOST, Node: key.node, Targets: j.Targets,
		})
		j.files[key] = f
	}
	return f
}

// done is told that a writer is done.
func (j *job) done() {
	j.end = max(j.end, j.sim.now)
	if j.left == 1 {
		for _, at := range j.unpacked {
			j.end = max(j.end, at)
		}
	}
	if j.left--; j.left == 0 && j.Sync && !j.Read {
		j.end += float64(j.sim.sys.Metadata.Rename) + float64(j.sim.sys.Metadata.SyncDir)
	}
}

// close ends the iterators of writers that are not done.
func (j *job) close() {
	for _, w := range j.writers {
		if w != nil && w.rounds != nil {
			w.rounds.stop()
		}
	}
}
