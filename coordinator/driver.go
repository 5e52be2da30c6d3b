package coordinator

import (
	"context"
	"log/slog"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/coordinator/wire"
	"ckpt/image"
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
	inventory  *inventory                                  // of the nodes, of a job that is restarted; may be nil
	withoutLog bool                                        // it resumes from what the checkpoints alone allow
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
}

// A reporter tells the user, and the journal, what happens.
type reporter struct {
	out     Observer
	journal job.Journal
	shown   time.Time // when progress was last reported
}

// event tells the observer and the journal.
func (r *reporter) event(ev any) {
	r.out.Event(ev)
	r.journal.Add(ev)
}

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
	outcome *protocol.Outcome
	broken  error // of the driver itself
	full    error // why the run was stopped, if the storage was full
	hurried bool  // somebody has interrupted it twice
}

// over reports whether nothing more is to be done.
func (e *end) over() bool { return e.outcome != nil || e.broken != nil }

// A driver runs one job: it carries the actions of the protocol out and feeds
// it what happens. Its loop owns every field; others post functions to it.
type driver struct {
	*setting
	loop
	reporter
	notes
	end
	requests requests
	socket   *socket
	engine   engine
	machine  *supervisor.Supervisor
	members  []*member // by rank; nil if there is none now
	groups   []*group
	inject   *injector
	outages  outages
	restarts restartings
	pace     pace
	turns    turnTaker
	tuning   *tuning            // nil: the way to write stays
	wall     *protocol.Walltime // nil: the run has no limit
	logWaits map[int]error      // why ranks wait for their message logs

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
		socket: &socket{}, requests: newRequests(), logWaits: map[int]error{}}
	groups := spec.Groups
	if spec.Lone() {
		groups = [][]int{{0}}
	}
	for id, ranks := range groups {
		d.groups = append(d.groups, newGroup(set, d, id, ranks))
		d.members = append(d.members, make([]*member, len(ranks))...)
	}
	d.run(&processes{launch.Local{}, d}, nil)
	return d
}

// run gives the driver its engine, whose processes are entered in an account, which may be
// nil.
func (d *driver) run(e engine, alive *launch.Account) {
	d.engine, d.launcher = e, launch.WithAccount(e, alive, d.job.Name())
}
