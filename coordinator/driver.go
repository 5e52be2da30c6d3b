package coordinator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/coordinator/recovery"
	"ckpt/coordinator/wire"
	"ckpt/image"
)

// A driver runs one job: it carries the actions of the protocol out and feeds
// it what happens. Its loop owns every field; others post functions to it.
type driver struct {
	spec    *job.Resolved
	job     *image.Job
	store   string // directory, absolute
	parent  int    // checkpoint this run began with
	library libraryID
	limits  protocol.Limits
	out     Observer
	log     *slog.Logger
	history job.Journal

	launcher launch.Launcher
	network  string                // of the listener: unix; tests also measure tcp
	watch    func(protocol.Action) // of tests, told of each action before it is done; may be nil

	machine *supervisor.Supervisor
	since   time.Time
	mail    *mailbox
	done    chan struct{} // closed when the loop has ended
	helpers sync.WaitGroup

	run      *launch.RunDir
	token    string
	address  string // of the listener: network, colon, address
	listener net.Listener
	conns    connections
	members  []*member // by rank; nil if there is none now
	inject   *injector
	groups   []*group
	line     job.Baseline
	output   job.Output
	backlog  backlog
	passed   error // why checkpoints in the store are not made use of; may be nil
	outages  outages

	logWaits   map[int]error // why ranks wait for their message logs
	checks     int           // of the room for a checkpoint
	stopOnFull bool
	withoutLog bool        // it resumes from what the checkpoints alone allow
	full       error       // why the run was stopped, if the storage was full
	trusted    string      // path of a library zone that was verified
	prunes     []func()    // waiting for the checkpoints under way
	computes   bool        // some group computes, or did
	stored     map[int]int // iterations of the checkpoints that the run began with

	requests map[int]func(protocol.Answer, *job.CheckpointEvent, error)
	asked    map[int]*job.CheckpointEvent // taken since somebody asked, by number: one of them is the answer
	givenUp  error                        // why a checkpoint was, for the answers that follow in the actions under way
	nextID   int
	outcome  *protocol.Outcome
	shown    time.Time // when progress was last reported
	hurried  bool      // somebody has interrupted it twice
	broken   error     // of the driver itself
	result   Result
}

// member is the coordinator's side of one rank of the current generation.
type member struct {
	proc  launch.Process
	link  *wire.Link
	addr  string
	lost  bool
	hello bool
	life  life
	// excused says that the user knows that it is silent and not dead.
	excused bool
}

func newDriver(spec *job.Resolved, j *image.Job, store string, library libraryID, limits protocol.Limits, out Observer) *driver {
	d := &driver{spec: spec, job: j, store: store, library: library, limits: limits, out: out, log: slog.New(slog.DiscardHandler), launcher: launch.Local{}, network: "unix",
		mail: newMailbox(), done: make(chan struct{}), requests: map[int]func(protocol.Answer, *job.CheckpointEvent, error){}, asked: map[int]*job.CheckpointEvent{}, logWaits: map[int]error{}, members: make([]*member, spec.NP)}
	for id, ranks := range spec.Groups {
		d.groups = append(d.groups, &group{d: d, id: id, ranks: ranks, joint: spec.Layouts[id]})
	}
	return d
}

// drive runs the job to its end. The caller holds the job's lock.
func (d *driver) drive(ctx context.Context, from *image.Manifest, failures []Failure, interrupts <-chan struct{}) (*Result, error) {
	if err := d.open(); err != nil {
		return nil, err
	}
	defer d.close()
	cfg, err := d.supervisorConfig(from)
	if err != nil {
		return nil, err
	}
	if d.machine, err = supervisor.New(cfg); err != nil {
		if errors.Is(err, recovery.ErrNoLine) {
			err = &job.MissingError{What: err.Error(), Cause: d.passed}
		}
		return nil, err
	}
	if err := d.takeOver(); err != nil {
		return nil, err
	}
	d.history = job.OpenJournal(d.job)
	defer d.history.Close()
	d.parent = cfg.From
	d.stored = make(map[int]int)
	for _, k := range cfg.Known {
		d.groups[k.Group].line.committed(k.Number)
		d.stored[k.Number] = k.Iter
	}
	d.since = time.Now()
	d.result = Result{Type: "result", Job: d.job.Name(), App: d.spec.App, NP: d.spec.NP, Mode: d.spec.Mode,
		Iterations: d.spec.Iterations, several: d.spec.Several()}
	d.result.last = cfg.From
	for _, k := range cfg.Known {
		d.result.last = max(d.result.last, k.Number)
	}
	d.inject = newInjector(d, failures)
	defer d.inject.stop()
	d.perform(d.machine.Begin(0))
	d.loop(ctx, interrupts)
	d.settle()
	d.result.Wall = time.Since(d.since).Seconds()
	d.outages.sum(&d.result, d.now())
	result, err := d.verdict()
	if result != nil {
		d.history.Add(result)
	}
	return result, err
}

// open makes the socket and announces it in the store.
func (d *driver) open() error {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	d.token = hex.EncodeToString(secret)
	var err error
	if d.run, err = launch.NewRunDir(mpi.SegmentDir(0), len(d.spec.Mapping)); err != nil {
		return &launch.TempError{Err: err}
	}
	at := d.run.Socket()
	if d.network != "unix" {
		at = "127.0.0.1:0"
	}
	if d.listener, err = net.Listen(d.network, at); err != nil {
		return errors.Join(err, d.run.Remove())
	}
	d.address = d.network + ":" + d.listener.Addr().String()
	if err := wire.Announce(d.job, d.address, d.token); err != nil {
		return errors.Join(err, d.listener.Close(), d.run.Remove())
	}
	d.helpers.Go(d.accept)
	return nil
}

func (d *driver) close() {
	close(d.done)
	for _, g := range d.groups {
		g.dropLibrary()
	}
	d.listener.Close()
	d.conns.end()
	for _, m := range d.members {
		if m != nil && m.link != nil {
			m.link.Close()
		}
	}
	d.helpers.Wait()
	wire.Withdraw(d.job)
	d.run.Remove()
}

func (d *driver) now() time.Duration { return time.Since(d.since) }

// post runs do in the loop. It does nothing once the loop has ended.
func (d *driver) post(do func()) { d.mail.put(do) }

// loop runs until the job has ended. A first interrupt stops the job after a
// last checkpoint, a second at once; the end of ctx kills.
func (d *driver) loop(ctx context.Context, interrupts <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	armed := time.Duration(0)
	asked := 0
	for d.outcome == nil && d.broken == nil {
		if at, ok := d.machine.Deadline(); ok && at != armed {
			armed = at
			timer.Reset(max(0, at-d.now()))
		}
		select {
		case <-d.mail.ready:
			d.mail.take()()
		case <-timer.C:
			armed = 0
			d.stepJob(protocol.Tick{})
		case <-interrupts:
			asked++
			d.interrupt(asked > 1)
		case <-ctx.Done():
			d.broken = ctx.Err()
		}
	}
}

// interrupt stops the job: after a last checkpoint, if it is not to be now.
func (d *driver) interrupt(now bool) {
	d.result.Interrupted, d.hurried = true, now
	for rank, err := range d.logWaits {
		if !now {
			d.out.Warn(fmt.Sprintf("stopping without a last checkpoint: rank %d waits for its message log: %v", rank, err))
			now = true
		}
	}
	d.request(protocol.Request{Stop: true, Now: now}, d.afterInterrupt)
}

// afterInterrupt stops without a checkpoint when one cannot be taken: somebody
// who presses ^C wants the job to end.
func (d *driver) afterInterrupt(a protocol.Answer, _ *job.CheckpointEvent, _ error) {
	if a.Err == "" || d.outcome != nil {
		return
	}
	d.out.Warn("stopping without a last checkpoint: " + a.Err)
	d.request(protocol.Request{Stop: true, Now: true}, func(protocol.Answer, *job.CheckpointEvent, error) {})
}

// stepJob passes an event of the whole job to the protocol.
func (d *driver) stepJob(ev protocol.Event) { d.stepOf(supervisor.Job, ev) }

// step passes an event of the group to the protocol.
func (g *group) step(ev protocol.Event) { g.d.stepOf(g.id, ev) }

func (d *driver) stepOf(group int, ev protocol.Event) {
	if d.outcome == nil && d.broken == nil {
		now := d.now()
		d.tellSigns(now)
		d.perform(d.machine.Step(now, supervisor.Event{Group: group, Event: ev}))
	}
}

// request passes a request to the protocol; answer is called in the loop.
func (d *driver) request(r protocol.Request, answer func(protocol.Answer, *job.CheckpointEvent, error)) {
	d.nextID++
	r.ID = d.nextID
	d.requests[r.ID] = answer
	d.stepJob(protocol.Requested{Request: r})
}
