// Package coordinator runs a parallel job under checkpoints: it starts the
// ranks as processes, takes coordinated checkpoints into a store, notices
// deaths, restarts from the last committed checkpoint, and serves requests from
// other terminals.
//
// [Launch] begins a new job and [Restart] continues one; both return when the job has
// ended. Package job knows what the store keeps of the job, package rank is the other
// side of the connections, package wire is what goes over them.
//
// The decisions are in package protocol, a pure state machine; this package
// carries them out. One goroutine, the loop of a [driver], owns all state of
// the job; connections, processes and timers post to its mailbox.
//
// # Promises
//
//   - A checkpoint that is reported taken is durable for all ranks.
//   - A failed write, a full disk included, neither ends the job nor harms an
//     earlier checkpoint.
//   - No rank outlives the coordinator: a rank leaves when its connection ends.
//   - Ranks and requests prove themselves with a random token of the run; the
//     coordinator listens on a Unix socket only.
package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ckpt/coordinator/dmtcp"
	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/levels"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/wording"
)

// A setting is what a run is given. It does not change.
type setting struct {
	spec       *job.Resolved
	job        *image.Job
	store      string // directory, absolute
	library    libraryID
	limits     protocol.Limits
	stopOnFull bool
	startTurns func(ctx context.Context, dir string) error // starts a controller; may be nil
	inventory  *levels.Inventory                           // of the nodes, of a job that is restarted; may be nil
	fallBack   bool                                        // it may begin with an earlier checkpoint than the newest
	withoutLog bool                                        // it resumes from what the checkpoints alone allow
	halts      bool                                        // it stops only to be dealt to other ranks,
	haltsAt    int                                         // at this iteration or later
	launcher   launch.Launcher
	network    string                // of the socket: unix; tests also measure tcp
	listen     string                // address for ranks of other hosts; empty without
	here       string                // this host
	until      time.Time             // the run has to end; zero: no limit
	demands    <-chan struct{}       // for a checkpoint now; may be nil
	interrupts <-chan struct{}       // as Options.Interrupts
	watch      func(protocol.Action) // of tests, which see each action before it is done; may be nil
	ways       func(int) *job.Way    // of tests: how to write a checkpoint; may be nil
	excused    func(pid int) bool    // reports why a process may be silent: it waits for a disk
	log        *slog.Logger
	disk       vfs.FS // of next stores
}

// A reporter tells the user, and the journal, what happens.
type reporter struct {
	out     Observer
	journal job.Journal
	shown   time.Time // when progress was last reported
}

// Event tells the observer and the journal.
func (r *reporter) Event(ev any) {
	r.out.Event(ev)
	r.journal.Add(ev)
}

// Warn tells the user what went wrong without harming the job.
func (r *reporter) Warn(text string) { r.out.Warn(text) }

// progress tells how far the job is, a few times per second at most.
func (r *reporter) progress(iteration, iterations, writing int) {
	if now := time.Now(); now.Sub(r.shown) > 200*time.Millisecond {
		r.shown = now
		if iterations > 0 {
			iteration = min(iteration, iterations)
		}
		r.out.Event(&ProgressEvent{iteration, iterations, writing})
	}
}

// An end is how a run ends.
type end struct {
	outcome  *protocol.Outcome
	broken   error // of the driver itself
	full     error // why the run was stopped, if the storage was full
	fullness fullness
	hurried  bool // somebody has interrupted it twice
}

// Over reports whether nothing more is to be done.
func (e *end) Over() bool { return e.outcome != nil || e.broken != nil }

// A driver runs one job: it carries the actions of the protocol out and feeds
// it what happens. Its loop owns every field; others post functions to it.
type driver struct {
	*setting
	loop
	reporter
	notes
	end
	requests  requests
	answering sync.RWMutex // while commands are being answered
	socket    *launch.Socket
	engine    engine
	machine   *supervisor.Supervisor
	members   []*member // by rank; nil where no process is
	groups    []*group
	inject    *injector
	outages   outages
	restarts  restartings
	pace      pace
	turns     turnTaker
	tuning    *tuning            // nil: the way to write stays
	wall      *protocol.Walltime // nil: the run has no limit
	logWaits  map[int]error      // why ranks wait for their message logs

	parent   int         // checkpoint this run began with
	stored   map[int]int // iterations of the checkpoints that the run began with
	passed   error       // why checkpoints in the store are not made use of; may be nil
	computes bool        // some group computes, or did
	checks   int         // of the free space for a checkpoint
	trusted  string      // path of a library zone that was verified
	prunes   []func()    // waiting for the checkpoints under way
	crowded  bool        // there may be more checkpoints than the run is to keep
	result   Result
}

func newDriver(spec *job.Resolved, j *image.Job, store string, library libraryID, limits protocol.Limits, out Observer) *driver {
	here, _ := wire.ThisHost()
	set := &setting{here: here, spec: spec, job: j, store: store, library: library, limits: limits, network: "unix", excused: launch.WaitsForStorage,
		log: slog.New(slog.DiscardHandler)}
	d := &driver{setting: set, loop: loop{mailbox: newMailbox(), done: make(chan struct{})}, reporter: reporter{out: out},
		socket: &launch.Socket{}, requests: newRequests(), logWaits: map[int]error{}}
	groups := spec.Groups
	if spec.Lone() {
		groups = [][]int{{0}}
	}
	for id, ranks := range groups {
		d.groups = append(d.groups, newGroup(set, d, id, ranks))
		d.members = append(d.members, make([]*member, len(ranks))...)
	}
	d.run(&processes{Launcher: launch.Local{}, d: d}, nil)
	return d
}

// run gives the driver its engine, whose processes are entered in an account, which may be
// nil.
func (d *driver) run(e engine, alive *launch.Account) {
	d.engine, d.launcher = e, launch.WithAccount(e, alive, d.job.Name())
}

// A loop does what is posted to it, one thing after the other. The driver waits for its
// helpers, which post what they find.
type loop struct {
	*mailbox
	since   time.Time     // the start of the run
	done    chan struct{} // closed when the loop has ended
	helpers sync.WaitGroup
}

// Go starts what goes on beside the loop.
func (l *loop) Go(do func()) { l.helpers.Go(do) }

func (l *loop) now() time.Duration { return time.Since(l.since) }

// A mailbox holds what is to be done in the loop of a driver. Putting something in
// never waits: while the loop stands still in an operation of the store, messages of
// ranks are still read, and count as signs of life.
type mailbox struct {
	mu    sync.Mutex
	list  []func()
	ready chan struct{} // holds a token while list is not empty
}

func newMailbox() *mailbox { return &mailbox{ready: make(chan struct{}, 1)} }

// Post has the loop run do, unless it has ended.
func (b *mailbox) Post(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, do)
	b.signal()
}

// take removes the oldest. The caller has received the token.
func (b *mailbox) take() func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	do := b.list[0]
	b.list[0] = nil
	if b.list = b.list[1:]; len(b.list) > 0 {
		b.signal()
	}
	return do
}

func (b *mailbox) signal() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// step passes an event of a group, or of supervisor.Job, to the protocol.
func (d *driver) step(group int, ev protocol.Event) {
	if !d.Over() {
		now := d.now()
		d.tellSigns(now)
		d.perform(d.machine.Step(now, supervisor.Event{Group: group, Event: ev}))
	}
}

// request passes a request to the protocol; answer is called in the loop.
func (d *driver) request(r protocol.Request, answer answerFunc) {
	r.ID = d.requests.add(answer)
	d.step(supervisor.Job, protocol.Requested{Request: r})
}

// Later passes an event to the protocol from outside of the loop.
func (g *group) Later(ev protocol.Event) {
	g.d.Go(func() { g.d.Post(func() { g.d.step(g.id, ev) }) })
}

// Options are what a run needs besides the description of the job.
type Options struct {
	Store    string // directory
	Job      string // name; Launch makes one up if it is empty
	Failures []launch.Failure
	Limits   protocol.Limits // zero: protocol.DefaultLimits
	Observer Observer
	Log      *slog.Logger // of the coordinator's actions; may be nil
	// Interrupts asks the run to stop: the first after a last checkpoint, the
	// second at once, with a *LeftError if the store blocks it.
	Interrupts <-chan struct{}
	// Checkpoints asks the run for a checkpoint now; nil for never.
	Checkpoints <-chan struct{}
	// Until is when the run has to have ended, zero for no limit. It stops the job after a
	// last checkpoint, early enough for that.
	Until time.Time
	// Streams are the streams of a program of the user, and Nodes its nodes where the hosts of its
	// ranks are not to tell; may be nil.
	Streams launch.Streams
	Nodes   func(np int) (job.Mapping, error)
	// StopOnFull ends the run when a checkpoint is aborted because the storage
	// is full; otherwise that checkpoint is skipped. The error answers to
	// durable.ErrStorageFull.
	StopOnFull bool
	// FS holds the store; nil is the machine's.
	FS vfs.FS
	// Predict predicts the checkpoints of a program, once its ranks are known; may be nil.
	Predict func(*job.Spec) (*job.Prediction, error)

	// Listen is the address, HOST or HOST:PORT, at which ranks on other hosts reach the
	// coordinator; empty for a job on this host.
	Listen string

	// Room refuses so many ranks on this machine if they would be without threads or memory
	// in the middle of the run; may be nil.
	Room func(ranks int) error
	// StartTurns starts a controller of storage turns for a directory, and returns when it can
	// be found or cannot be started; nil: the job uses those that run.
	StartTurns func(ctx context.Context, dir string) error

	DMTCP dmtcp.Options // zero: the usual

	watch func(protocol.Action)
	ways  func(checkpoint int) *job.Way // of tests: how to write it
	alive *launch.Account               // of the run; may be nil
	// excused of tests takes the place of launch.WaitsForStorage.
	excused func(pid int) bool
	grace   time.Duration // of tests, if longer than endGrace

	withoutLog bool
	fallBack   bool
	halts      bool              // the run stops only to be dealt to other ranks,
	haltsAt    int               // at this iteration or later
	input      *launch.Input     // of a program
	inventory  *levels.Inventory // of the nodes of a stored job; may be nil
	levels     *job.Levels       // where its checkpoints are; nil if it has no nodes
}

func (o Options) fileSystem() vfs.FS {
	if o.FS == nil {
		return vfs.OS{}
	}
	return o.FS
}

// RestartOptions say how to continue a job.
type RestartOptions struct {
	Options
	Checkpoint int // 0: the newest
	// Exact takes the newest checkpoint or none. Otherwise the newest sound one takes its place
	// where it is damaged, unless Checkpoint names it.
	Exact   bool
	Mapping func(np int) (job.Mapping, error)
	// NP is the number of ranks to restart with, 0 for as many as the checkpoint has, or for as
	// many as Command starts. Command starts a program of the user in
	// place of the command that the job was launched with; nil for that one.
	NP          int
	Command     []string
	Dir         string // takes the place of the directory that a program was launched in
	AutoRestart bool   // besides what the job was launched with
	// Moved says that the store was moved here from another file system, so that the
	// directories of its nodes are still its own.
	Moved bool
	// WithoutLog has a job of several groups resume from the newest checkpoints that
	// fit together without what the message logs hold, which is removed: a *LogError
	// tells which ones they are.
	WithoutLog bool
	// StorageTurns takes the place of what the job was launched with; nil: that holds.
	StorageTurns *job.StorageTurns
	Next         []image.Next // likewise

	told []string // why checkpoints are passed over
}

// A LeftError says that a run was left behind: it had been interrupted twice and did
// not end, since an operation of its store does not return. Its ranks are killed. For
// the next run it is as if its coordinator had been.
type LeftError struct {
	Job string // "" before it had one
}

func (e *LeftError) Error() string {
	return fmt.Sprintf("interrupted; %s was left as it is: its storage does not answer", e.name())
}

func (e *LeftError) name() string {
	if e.Job == "" {
		return "the run"
	}
	return "job " + e.Job
}

// A JobFailedError says that a job failed and was not restarted.
type JobFailedError struct {
	Job         string
	Err         error
	Restartable bool // from a checkpoint, or from a recovery line
	Several     bool // it has several groups: from a line, which needs no checkpoint
	Tried       bool // to restart it, again and again
}

func (e *JobFailedError) Error() string { return fmt.Sprintf("job %s failed: %v", e.Job, e.Err) }
func (e *JobFailedError) Unwrap() error { return e.Err }

// Hint says how to go on.
func (e *JobFailedError) Hint() string {
	from := "the last checkpoint"
	if e.Several {
		from = "its recovery line"
	}
	switch {
	case e.Restartable && e.Tried:
		return wording.Sprintf("{restart %s} continues from %s, once it is clear what kills it", e.Job, from)
	case e.Tried:
		return wording.Sprintf("failures come faster than checkpoints; launch it again with more of them: {every}, {interval} or {count}")
	case e.Restartable:
		return wording.Sprintf("{restart %s} continues from %s; {auto-restart} does so by itself", e.Job, from)
	}
	return wording.Sprintf("there is no checkpoint yet; launch it again, with {every}, {interval} or {count} to take some")
}

// A fullError says that a job cannot go on without room in the store.
type fullError struct {
	job    *image.Job
	err    error
	others bool // a program ended that could not save: others may have filled the store
}

func (e *fullError) Error() string {
	return fmt.Sprintf("job %s cannot go on: %v", e.job.Name(), e.err)
}
func (e *fullError) Unwrap() error { return e.err }

// Hint says how to go on, and what frees space.
func (e *fullError) Hint() string {
	free := "free some space in " + e.job.Store().Dir()
	if pruned, err := job.PreviewPrune(e.job, 1); e.others && err == nil && pruned.Freed > 0 {
		free = wording.Sprintf("{prune %s} {keep} 1 frees %.1f MiB", e.job.Name(), float64(pruned.Freed)/(1<<20))
	}
	return free + wording.Sprintf("; {restart %s} continues then", e.job.Name())
}

// A fullness is what is known of checkpoints that did not fit into the store, and programs that ended since.
type fullness struct {
	err    error // of the last checkpoint; nil if that was taken
	when   time.Duration
	deaths int // in a row, of runs that took no checkpoint
}

// reaction is how soon a program ends that ends when it cannot save.
const reaction = 5 * time.Second

// endsAt reports whether a program that has ended did so since it could not save: another run
// would end at the same place.
func (n *fullness) endsAt(now time.Duration) bool {
	if n.err == nil {
		return false
	}
	n.deaths++
	return now-n.when < reaction || n.deaths > 1
}

// cannotGoOn returns err with what to do about it if it is a full disk.
func (d *driver) cannotGoOn(err error) error {
	if errors.Is(err, durable.ErrStorageFull) {
		return &fullError{job: d.job, err: err}
	}
	return err
}
