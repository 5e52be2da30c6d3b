package coordinator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"ckpt/coordinator/mpi"
	"ckpt/coordinator/protocol"
	"ckpt/image"
)

// A driver runs one job: it carries the actions of the protocol out and feeds
// it what happens. Its loop owns every field; others post functions to it.
type driver struct {
	spec    Spec
	job     *image.Job
	store   string // directory, absolute
	mapping Mapping
	nodes   []int // of each rank
	parent  int   // checkpoint this run began with
	library libraryID
	limits  protocol.Limits
	out     Observer
	log     *slog.Logger
	history *os.File // may be nil

	launcher launcher
	network  string                // of the listener: unix; tests also measure tcp
	watch    func(protocol.Action) // of tests, told of each action before it is done; may be nil

	machine *protocol.Coordinator
	began   time.Time
	mail    chan func()
	done    chan struct{} // closed when the loop has ended
	helpers sync.WaitGroup

	run      *rundir
	token    string
	address  string // of the listener: network, colon, address
	listener net.Listener
	conns    connections
	members  []*member
	gen      int
	inject   *injector
	tx       *image.Tx

	reuse      *image.File // the library zone of an earlier checkpoint, for tx
	trusted    string      // path of a library zone that was verified
	committing bool        // tx is with the goroutine that commits it
	prunes     []func()    // waiting for the checkpoint under way
	segments   []string
	restored   struct{ number, iter int } // what the generation begins with
	checked    int                        // generation whose checkpoint was checked
	started    bool                       // all ranks compute, or did
	fellBack   string                     // why a newer checkpoint was not taken

	requests map[int]*ticket
	nextID   int
	outcome  *protocol.Outcome
	shown    time.Time // when progress was last reported
	broken   error     // of the driver itself
	result   Result
}

// member is the coordinator's side of one rank of the current generation.
type member struct {
	proc  process
	link  *link
	addr  string
	lost  bool
	hello bool
}

// libraryID identifies the binary that the ranks run.
type libraryID struct {
	digest string
	bytes  int64
}

// ticket is a request waiting for its answer.
type ticket struct {
	answer     func(protocol.Answer, *CheckpointEvent, error)
	checkpoint *CheckpointEvent
	err        error
}

// leaveGrace is how long ranks may take to leave by themselves, killGrace how
// long a killed process may take to be gone.
const (
	leaveGrace = 3 * time.Second
	killGrace  = 10 * time.Second
)

func newDriver(spec Spec, job *image.Job, store string, mapping Mapping, library libraryID, limits protocol.Limits, out Observer) *driver {
	return &driver{spec: spec, job: job, store: store, mapping: mapping, nodes: mapping.Nodes(), library: library, limits: limits, out: out, log: slog.New(slog.DiscardHandler), launcher: local{}, network: "unix",
		mail: make(chan func(), 256), done: make(chan struct{}), requests: map[int]*ticket{}}
}

// drive runs the job to its end. The caller holds the job's lock.
func (d *driver) drive(ctx context.Context, from *image.Manifest, failures []Failure, interrupts <-chan struct{}) (*Result, error) {
	if err := d.open(); err != nil {
		return nil, err
	}
	defer d.close()
	cfg, err := d.protocolConfig(from)
	if err != nil {
		return nil, err
	}
	if d.history = openHistory(d.job.Dir()); d.history != nil {
		defer d.history.Close()
	}
	d.machine = protocol.NewCoordinator(cfg)
	d.parent = cfg.From
	d.began = time.Now()
	d.result = Result{Type: "result", Job: d.job.Name(), App: d.spec.App, NP: d.spec.NP, Mode: d.spec.Mode,
		Iterations: d.spec.Iterations, Restarts: []int{}}
	d.result.last = cfg.From
	d.inject = newInjector(d, failures)
	defer d.inject.stop()
	d.perform(d.machine.Begin(0))
	d.loop(ctx, interrupts)
	d.settle()
	d.result.Wall = time.Since(d.began).Seconds()
	result, err := d.verdict()
	if result != nil && d.history != nil {
		_, _ = d.history.Write(append(encode(result), '\n'))
	}
	return result, err
}

func (d *driver) protocolConfig(from *image.Manifest) (protocol.Config, error) {
	cfg := protocol.Config{Ranks: d.spec.NP, Iterations: d.spec.Iterations, Schedule: d.spec.protocol(),
		Limits: d.limits, AutoRestart: d.spec.AutoRestart, Known: map[int]int{}}
	numbers, err := d.job.Checkpoints()
	if err != nil {
		return cfg, err
	}
	for _, n := range numbers {
		cfg.Next = max(cfg.Next, n+1)
		if from == nil || n > from.Number {
			continue // of a future that this run leaves aside
		}
		m, err := d.job.Manifest(n)
		if err != nil {
			continue // damaged: not one to fall back to
		}
		cfg.Known[n] = int(m.Iteration)
	}
	if from != nil {
		cfg.From = from.Number
	}
	data, shared, err := d.spec.memory()
	if err != nil {
		return cfg, err
	}
	// Before the first measurement: the write takes a second per 256 MiB.
	cfg.Cost = time.Duration((data+shared+d.library.bytes)>>20) * time.Second / 256
	return cfg, nil
}

// open makes the socket and announces it in the store.
func (d *driver) open() error {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	d.token = hex.EncodeToString(secret)
	var err error
	if d.run, err = newRundir(mpi.SegmentDir(0), len(d.mapping)); err != nil {
		return &TempError{err}
	}
	at := d.run.socket()
	if d.network != "unix" {
		at = "127.0.0.1:0"
	}
	if d.listener, err = net.Listen(d.network, at); err != nil {
		return errors.Join(err, d.run.remove())
	}
	d.address = d.network + ":" + d.listener.Addr().String()
	if err := announce(d.job.Dir(), d.address, d.token); err != nil {
		return errors.Join(err, d.listener.Close(), d.run.remove())
	}
	d.helpers.Go(d.accept)
	return nil
}

func (d *driver) close() {
	close(d.done)
	d.listener.Close()
	d.conns.end()
	for _, m := range d.members {
		if m.link != nil {
			m.link.close()
		}
	}
	d.helpers.Wait()
	withdraw(d.job.Dir())
	d.run.remove()
}

func (d *driver) now() time.Duration { return time.Since(d.began) }

// post runs do in the loop. It does nothing once the loop has ended.
func (d *driver) post(do func()) {
	select {
	case d.mail <- do:
	case <-d.done:
	}
}

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
		case do := <-d.mail:
			do()
		case <-timer.C:
			armed = 0
			d.step(protocol.Tick{})
		case <-interrupts:
			asked++
			d.result.Interrupted = true
			d.request(protocol.Request{Stop: true, Now: asked > 1}, d.afterInterrupt)
		case <-ctx.Done():
			d.broken = ctx.Err()
		}
	}
}

// afterInterrupt stops without a checkpoint when one cannot be taken: somebody
// who presses ^C wants the job to end.
func (d *driver) afterInterrupt(a protocol.Answer, _ *CheckpointEvent, _ error) {
	if a.Err == "" || d.outcome != nil {
		return
	}
	d.out.Warn("stopping without a last checkpoint: " + a.Err)
	d.request(protocol.Request{Stop: true, Now: true}, func(protocol.Answer, *CheckpointEvent, error) {})
}

func (d *driver) step(ev protocol.Event) {
	if d.outcome == nil && d.broken == nil {
		d.perform(d.machine.Step(d.now(), ev))
	}
}

// request passes a request to the protocol; answer is called in the loop.
func (d *driver) request(r protocol.Request, answer func(protocol.Answer, *CheckpointEvent, error)) {
	d.nextID++
	r.ID = d.nextID
	d.requests[r.ID] = &ticket{answer: answer}
	d.step(protocol.Requested{Request: r})
}

func (d *driver) perform(actions []protocol.Action) {
	for _, a := range actions {
		if d.watch != nil {
			d.watch(a)
		}
		d.logAction(a)
		switch a := a.(type) {
		case protocol.Send:
			d.send(a.Message.Rank, a.Message)
		case protocol.Broadcast:
			d.broadcast(a.Message)
		case protocol.Kill:
			d.kill(a.Rank)
		case protocol.Spawn:
			d.spawn(a)
		case protocol.Prepare:
			d.prepare(a.Number)
		case protocol.Commit:
			d.commit(a.Checkpoint)
		case protocol.Discard:
			d.discard()
		case protocol.Answer:
			d.answer(a)
		case protocol.Report:
			d.report(a.Notice)
		case protocol.Finish:
			d.outcome = &a.Outcome
		}
	}
	d.startPrunes()
}

func (d *driver) send(rank int, m protocol.Message) {
	if l := d.members[rank].link; l != nil {
		l.send(m)
	}
}

// logAction logs the turns of a run, not each message to each rank.
func (d *driver) logAction(a protocol.Action) {
	switch a := a.(type) {
	case protocol.Broadcast:
		d.log.Debug("broadcast", "message", a.Message.Kind.String(), "checkpoint", a.Message.Number, "iteration", a.Message.Iter)
	case protocol.Kill:
		d.log.Debug("kill", "rank", a.Rank)
	case protocol.Spawn:
		d.log.Debug("spawn", "generation", a.Gen, "from", a.From, "run", d.run.path)
	case protocol.Commit:
		d.log.Debug("commit", "checkpoint", a.Checkpoint.Number, "iteration", a.Checkpoint.Iter)
	case protocol.Discard:
		d.log.Debug("discard", "checkpoint", a.Number)
	case protocol.Finish:
		d.log.Debug("finish", "result", a.Outcome.Result.String(), "why", a.Outcome.Text)
	}
}

// broadcast sends a message to all ranks: the same, but for the order to write,
// which names each rank's files.
func (d *driver) broadcast(m protocol.Message) {
	if m.Kind == protocol.Write {
		for rank := range d.members {
			m.Rank, m.Body = rank, encode(d.order(rank))
			d.send(rank, m)
		}
		return
	}
	frame, err := protocol.AppendFrame(nil, m)
	if err != nil {
		d.broken = err
		return
	}
	for _, member := range d.members {
		if member.link != nil {
			member.link.sendFrame(frame)
		}
	}
}

func (d *driver) answer(a protocol.Answer) {
	t := d.requests[a.ID]
	delete(d.requests, a.ID)
	if t != nil {
		t.answer(a, t.checkpoint, t.err)
	}
}

func (d *driver) kill(rank int) {
	if rank < len(d.members) && d.members[rank].proc != nil {
		d.members[rank].proc.kill()
	}
}

// spawn ends what is left of the previous generation and starts the next, after
// a pause if that is asked for.
func (d *driver) spawn(a protocol.Spawn) {
	if err := d.endGeneration(); err != nil {
		d.broken = err
		return
	}
	d.cleanUp()
	d.gen, d.started = a.Gen, false
	if a.Delay == 0 {
		d.start(a)
		return
	}
	time.AfterFunc(a.Delay, func() {
		d.post(func() {
			if d.gen == a.Gen && d.outcome == nil {
				d.start(a)
			}
		})
	})
}

// start starts all ranks of a generation.
func (d *driver) start(a protocol.Spawn) {
	if err := d.placeSegments(); err != nil {
		d.broken = err
		return
	}
	d.members = make([]*member, d.spec.NP)
	for rank := range d.members {
		proc, err := d.launcher.start(rankStart{rank: rank, gen: a.Gen, socket: d.address, token: d.token,
			scratch: d.run.scratch(d.nodes[rank])}, func(cause string) {
			d.post(func() { d.lose(a.Gen, rank, cause) })
		})
		if err != nil {
			d.broken = err
			return
		}
		d.members[rank] = &member{proc: proc}
	}
	d.examine(a.From)
}

// cleanUp removes what a generation that is gone has left in the store.
func (d *driver) cleanUp() {
	d.discard()
	if _, err := d.job.Sweep(); err != nil {
		d.out.Warn(fmt.Sprintf("sweep: %v", err))
	}
}

// placeSegments makes the shared memory of each node, at once in its full size:
// a rank that ran out of it later would die of it.
func (d *driver) placeSegments() error {
	_, need, err := d.spec.memory()
	if err != nil {
		return err
	}
	flavour, err := mpi.ParseFlavour(d.spec.MPI)
	if err != nil {
		return err
	}
	err = d.makeSegments(mpi.SegmentDir(need), flavour)
	if errors.Is(err, syscall.ENOSPC) && mpi.SegmentDir(need) != os.TempDir() {
		// Somebody else was quicker to take what there was.
		d.unlinkSegments()
		err = d.makeSegments(os.TempDir(), flavour)
	}
	if err != nil {
		d.unlinkSegments()
	}
	return err
}

func (d *driver) makeSegments(dir string, flavour mpi.Flavour) error {
	for node, ranks := range d.mapping {
		path := d.run.segment(dir, d.gen, node)
		d.segments = append(d.segments, path)
		seg, err := mpi.OpenSegment(path, flavour, ranks)
		if err != nil {
			return err
		}
		if err := seg.Close(); err != nil {
			return err
		}
	}
	return nil
}

// endGeneration kills all processes and waits until they are gone, so that
// nothing of theirs can happen any more.
func (d *driver) endGeneration() error {
	d.members = slices.DeleteFunc(d.members, func(m *member) bool { return m == nil }) // never started
	for _, m := range d.members {
		m.proc.kill()
	}
	deadline := time.NewTimer(killGrace)
	defer deadline.Stop()
	for rank, m := range d.members {
		select {
		case <-m.proc.done():
		case <-deadline.C:
			return fmt.Errorf("rank %d (process %d) does not die: is its storage hanging?", rank, m.proc.pid())
		}
		if m.link != nil {
			m.link.close()
		}
	}
	d.members = nil
	d.unlinkSegments()
	return nil
}

// lose tells the protocol, once, that a rank is gone.
func (d *driver) lose(gen, rank int, cause string) {
	if gen != d.gen || rank >= len(d.members) || d.members[rank].lost {
		return
	}
	d.members[rank].lost = true
	d.step(protocol.RankLost{Gen: gen, Rank: rank, Cause: cause})
}

// settle lets the ranks leave, ends those that do not, and cleans up.
func (d *driver) settle() {
	deadline := time.NewTimer(leaveGrace)
	defer deadline.Stop()
	if d.broken == nil && d.outcome.Result != protocol.Failed {
	wait:
		for _, m := range d.members {
			for gone := false; !gone; {
				select {
				case <-m.proc.done():
					gone = true
				case do := <-d.mail: // so that nobody who posts is stuck
					do()
				case <-deadline.C:
					break wait
				}
			}
		}
	}
	if err := d.endGeneration(); err != nil {
		d.out.Warn(err.Error())
	}
	d.cleanUp()
	d.startPrunes()
	for id, t := range d.requests {
		delete(d.requests, id)
		t.answer(protocol.Answer{ID: id, Err: "the job has ended"}, nil, nil)
	}
}

// verdict makes the result, or the error, of the run.
func (d *driver) verdict() (*Result, error) {
	if d.broken != nil {
		return nil, d.broken
	}
	o := d.outcome
	d.result.Outcome = o.Result.String()
	if o.Result == protocol.Failed {
		cause := errors.New(o.Text)
		if len(o.Body) > 0 {
			cause = bodyError(o.Body, o.Text)
		}
		if o.Restored {
			return &d.result, cause
		}
		return &d.result, &JobFailedError{Job: d.job.Name(), Err: cause, Restartable: d.result.HasCheckpoint()}
	}
	if o.Result == protocol.Completed {
		digests := make([]doneReport, len(o.Results))
		for rank, body := range o.Results {
			if err := json.Unmarshal(body, &digests[rank]); err != nil {
				return nil, fmt.Errorf("result of rank %d: %w", rank, err)
			}
		}
		d.result.Digest = jobDigest(digests)
		d.result.Residual = digests[0].Residual
	}
	return &d.result, nil
}
