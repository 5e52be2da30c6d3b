// Package dmtcp runs programs that are not changed, under DMTCP. An agent speaks for all
// processes of a program: it starts DMTCP's coordinator and the program, has DMTCP write
// images on order, stores them, and restarts the program from what is stored. The driver
// of the job knows when any of this is due.
//
// # Promises
//
//   - A checkpoint counts when the store has all of it: as many images as processes, each
//     parsed to its end, and committed. DMTCP's exit status 0 is not enough.
//   - The files that DMTCP wrote stay until the store has the next checkpoint, so that no
//     moment is without one.
//   - A restart that makes no progress is ended, and another is tried, if need be from an
//     older checkpoint.
//   - Whatever a killed coordinator has left behind, processes and files, the next one
//     finds in one file, ends, and stores.
//
// # How a checkpoint is taken
//
// DMTCP writes into the directory "live" of the run. When it says that it is done, the
// files are checked, made durable and moved to a directory of their own, a set. The set
// is noted in the file state.json. Then the program computes on while the set is stored
// by package image/dmtcp. Only one set waits at a time.
package dmtcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
	"ckpt/image"
	"ckpt/image/codec"
	"ckpt/image/container"
	"ckpt/image/dmtcp"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
	"ckpt/internal/family"
	"ckpt/internal/wording"
	"ckpt/zones"
)

// Options are the settings of an Engine; zero means the usual value.
type Options struct {
	Settle  time.Duration // how long the number of processes has to stay the same
	Free    func() (int64, error)
	Environ func() []string // os.Environ, but of tests
}

const (
	usualPatience = time.Minute
	usualSettle   = time.Second
	// pollEvery is the time between questions to DMTCP's coordinator.
	pollEvery = 100 * time.Millisecond
)

// Limits adapts limits to a run under DMTCP: patience is how long a restart or a checkpoint may
// go without progress.
func Limits(l protocol.Limits) protocol.Limits {
	l.Phase, l.Patience = cmp.Or(l.Patience, usualPatience), 0
	return l
}

// A Run is the run of a job that an engine serves.
type Run struct {
	Job     *image.Job // locked
	Spec    *job.Spec
	Limits  protocol.Limits // of Limits
	Streams launch.Streams
	Warn    func(string) // any goroutine may call it
}

// A Driver is what an engine asks of the driver of its run. Any goroutine may call it; what
// can fail does so when ctx ends.
type Driver interface {
	// Scratch makes the directory of the run, outside the store.
	Scratch(ctx context.Context) (string, error)
	// Redescribe notes what the ranks and the first images tell of the job.
	Redescribe(ctx context.Context, s *job.Resolved) error
	// Tx returns the checkpoint that is being written. Waits reports whether its bytes wait for a
	// turn on the storage.
	Tx(ctx context.Context, limit *nodes.Limiter) (*image.Tx, error)
	Waits() bool
	// StopWithout ends the run after its last checkpoint, which could not be stored.
	StopWithout(number int, err error)
}

// An Engine runs the program of a job. While an agent lives, the goroutine of the agent owns
// the fields; at other times the driver does. The driver reads the fields behind mu at any time.
type Engine struct {
	Run
	opt    Options
	tools  *Tools
	rules  *zones.Rules
	dir    *directory
	limit  *nodes.Limiter // of bytes for the store; nil: none
	driver Driver

	session io.Closer     // holds the directory of the MPI library's files; may be nil
	from    int           // checkpoint that the program was restarted from
	begun   bool          // the program has read its standard input,
	inputAt int64         // a file from here on
	tried   map[int]int   // how often a restart from a checkpoint failed,
	quick   map[int]int   // and how often the program soon after it
	setting codec.Setting // how images are packed,
	codec   *container.Codec
	known   struct { // of the checkpoint that the program restarted from
		from    int
		earlier dmtcp.Earlier
	}
	came  atomic.Bool // it computes, or has begun with a checkpoint
	agent *agent      // of the present incarnation; the driver's

	mu sync.Mutex
	// state is changed under mu. Session and Mark of it only the agent changes, which reads
	// them without.
	state   state
	written map[int]*image.Manifest // by number, of checkpoints that are to be committed
}

// Check refuses what DMTCP cannot do.
func Check(s *job.Spec) error {
	switch p := s.Schedule; {
	case s.Program == nil || len(s.Program.Command) == 0:
		return &job.UsageError{Text: "engine dmtcp: no command is given", Fix: "give the command that starts the program, like mpiexec -n 8 ./app"}
	case p.Interval < 0 || s.Keep < 0:
		return &job.UsageError{Text: fmt.Sprintf("interval %v, keep %d: out of range", p.Interval, s.Keep)}
	}
	if p := s.Program.Local; p != nil {
		if err := p.Check(1); err != nil {
			return &job.UsageError{Text: wording.Sprintf("{local} %s: %v", p.Dir, err), Fix: wording.Sprintf("{local} %s names a directory of this host", job.TierExample)}
		}
	}
	return nil
}

// Describe describes a new job as one under DMTCP, of one rank until the ranks are known.
func Describe(s job.Spec) job.Spec {
	s.Origin, s.NP, s.Mapping = dmtcp.Origin, 1, job.Mapping{1}
	if name := programIn(s.Program.Command); image.CheckJobName(name) == nil {
		s.App = name
	}
	return s
}

// Forsake ends what an earlier job without a checkpoint has left. Images that only wait to
// be stored are worth as much as a checkpoint.
func Forsake(j *image.Job) error {
	s, err := readState(j)
	if errors.Is(err, durable.ErrOtherJob) {
		return err
	}
	if s.Pending != nil {
		return &job.UsageError{Text: fmt.Sprintf("job %s has a checkpoint of DMTCP that is not stored yet", j.Name()), Fix: wording.Sprintf("{restart %s} stores it and continues; or choose another {job}", j.Name())}
	}
	held, err := s.hold()
	if err != nil {
		return err
	}
	if held != nil {
		defer held.Close()
	}
	endLeft(&s)
	d := &directory{root: filepath.Join(j.Dir(), engineName)}
	return errors.Join(s.removeLocal(j), d.discard("."), job.Forsake(j))
}

// TakeOver returns the engine of a run. It ends what an earlier run has left behind, and stores
// the checkpoint that this had not stored, which it returns, or nil. That may say more of the
// job: only then, Spec of the engine is what its driver is to run. Drive gives the engine the
// driver.
func TakeOver(ctx context.Context, run Run, t *Tools, opt Options) (*Engine, *job.CheckpointEvent, error) {
	e := &Engine{Run: run, opt: opt, tools: t, rules: zones.DefaultRules(), tried: map[int]int{}, quick: map[int]int{}, written: map[int]*image.Manifest{}}
	if run.Spec.Codec != "" {
		var err error
		if e.setting, err = codec.ParseSetting(run.Spec.Codec); err != nil {
			return nil, nil, err
		}
	}
	e.opt.Settle = cmp.Or(opt.Settle, usualSettle)
	if opt.Environ == nil {
		e.opt.Environ = os.Environ
	}
	var err error
	if e.dir, err = openDirectory(run.Job, run.Spec.Program.Local); err != nil {
		return nil, nil, err
	}
	if on := run.Spec.Program.Local; on != nil {
		e.limit = nodes.NewLimiter(on.Rate, nodes.RealClock())
	}
	if opt.Free == nil {
		e.opt.Free = e.dir.free
	}
	ev, err := e.takeOver(ctx)
	if err != nil {
		e.freeSession()
	}
	return e, ev, err
}

// Drive gives the engine the driver of its run.
func (e *Engine) Drive(d Driver) { e.driver = d }

func (e *Engine) takeOver(ctx context.Context) (ev *job.CheckpointEvent, err error) {
	if e.state, err = readState(e.Job); err != nil {
		return nil, err
	}
	if err := e.holdSession(); err != nil {
		return nil, err
	}
	endLeft(&e.state)
	e.state.Boot, e.state.ID, e.state.Local = thisHost(), e.Spec.ID, e.dir.local
	if _, err := e.Job.Sweep(); err != nil {
		return nil, err
	}
	if set := e.state.Pending; set != nil && e.isStored(set) {
		e.state.Pending, e.state.Spare = nil, set
	} else if set != nil {
		if ev, err = e.storePending(ctx, set); err != nil {
			e.Warn(err.Error())
		}
	}
	e.keepSpare()
	return ev, nil
}

// isStored reports whether a set was committed in the moment in which its run was killed.
func (e *Engine) isStored(set *rawSet) bool {
	if set.Number == 0 {
		return false
	}
	m, err := e.Job.Manifest(set.Number)
	return err == nil && m.Pause == set.Pause.Seconds()
}

// storePending stores the set that an earlier run could not.
func (e *Engine) storePending(ctx context.Context, set *rawSet) (*job.CheckpointEvent, error) {
	files, err := e.collect(ctx, set)
	if err == nil {
		err = e.describe(files)
	}
	if err != nil {
		e.state.Pending = nil
		return nil, fmt.Errorf("the images that an earlier run has left are no checkpoint: %w", err)
	}
	began := time.Now()
	m, err := files.Import(ctx, e.Job, dmtcp.Options{Notice: e.warn, Codec: e.packing(set, files), Describe: func(m *image.Manifest) {
		m.Latency.Total = set.Pause.Seconds() + time.Since(began).Seconds()
		m.Parent, m.Pause, m.Latency.Storage = set.From, set.Pause.Seconds(), m.Latency.Total
	}})
	if err != nil {
		return nil, fmt.Errorf("the images that an earlier run has left are not stored: %w", err) // they stay
	}
	set.Number, e.state.Pending, e.state.Spare = m.Number, nil, set
	ev := job.DescribeCheckpoint(m.Summary())
	ev.Job = e.Job.Name()
	return ev, nil
}

// packing returns the codec of images. The pause for which DMTCP wrote them tells the speed of the
// storage.
func (e *Engine) packing(set *rawSet, files *dmtcp.Set) *container.Codec {
	if e.codec == nil && e.Spec.Codec != "" && set.Pause > 0 {
		_, bytes := files.Files()
		e.codec = container.NewCodec(e.setting, float64(bytes)/set.Pause.Seconds())
	}
	return e.codec
}

func (e *Engine) warn(err error) { e.Warn(err.Error()) }

// OpenPort is what a user has to know who shares the machine.
const OpenPort = "the coordinator of DMTCP listens on all interfaces, without a password: whoever reaches it can end the program; use it on machines and networks that you trust"

// Start starts an incarnation of the program, and the agent that speaks for it.
func (e *Engine) Start(r launch.Rank, ended func(cause string)) (launch.Process, error) {
	ctx, cancel := context.WithCancel(context.Background())
	a := &agent{e: e, ctx: ctx, cancel: cancel, over: make(chan struct{}), calls: make(chan func(), 64)}
	e.agent = a
	e.came.Store(false)
	go func() {
		cause := a.run(r)
		a.endProgram()
		cancel()
		if a.link != nil {
			a.link.Close()
		}
		a.helpers.Wait()
		close(a.over)
		ended(cause)
	}()
	return a, nil
}

// KillRank kills the process of a rank, for an injected failure: one that has not come yet once it
// is there.
func (e *Engine) KillRank(rank int) {
	if e.agent == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.agent.byRank) == 0 {
		e.agent.struck = append(e.agent.struck, rank)
		return
	}
	e.agent.killRank(rank)
}

// killRank kills the process of a rank, if the program has it. The engine is locked.
func (a *agent) killRank(rank int) {
	p, ok := a.byRank[rank]
	if !ok {
		a.e.Warn(fmt.Sprintf("no failure is injected into rank %d: the program has no such rank", rank))
		return
	}
	family.Signal([]family.Process{p}, syscall.SIGKILL)
}

// Hopeless reports whether another incarnation would fare no better: the program has never
// come to compute.
func (e *Engine) Hopeless() bool { return !e.came.Load() }

// PIDs are the processes of the program; nil until it computes.
func (a *agent) PIDs() []int {
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	return slices.Clone(a.pids)
}

// Manifest returns the manifest of a checkpoint that is to be committed. The agent has no
// reports of ranks.
func (e *Engine) Manifest(cp protocol.Checkpoint, _ func() (*image.Manifest, error)) (*image.Manifest, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.written[cp.Number]
	delete(e.written, cp.Number)
	if m == nil {
		return nil, fmt.Errorf("checkpoint %d was not written", cp.Number)
	}
	m.Latency = image.Latency{Coordination: cp.Coordination.Seconds(), Storage: cp.Writing.Seconds(),
		Total: (cp.Coordination + cp.Writing).Seconds()}
	return m, nil
}

// Settled tells that a checkpoint was committed, or aborted.
func (e *Engine) Settled(number int, taken bool) {
	e.mu.Lock()
	if set := e.state.Pending; set != nil && set.of != nil && set.Number == number {
		switch {
		case taken:
			e.state.Pending, e.state.Spare = nil, set
			e.keepSpare()
		case !set.of.last: // else the agent decides: its program has ended
			e.forget(set)
		}
	}
	e.mu.Unlock()
	e.agent.do(func() { e.agent.settled(number, taken) })
}

// forget drops a set that is not stored, under mu. The one that was pending before is so again.
func (e *Engine) forget(set *rawSet) {
	if e.state.Pending == set {
		e.state.Pending = set.before
		e.keepSpare()
	}
}

// keepSpare removes the sets that are not needed any more, after the state says so. The caller
// has mu, or is alone.
func (e *Engine) keepSpare() {
	err := e.state.write(e.Job)
	var keep []string
	for _, s := range []*rawSet{e.state.Pending, e.state.Spare} {
		if s != nil {
			keep = append(keep, s.Name)
		}
	}
	if err == nil {
		err = e.dir.keepOnly(keep)
	}
	if err != nil {
		e.Warn("images of DMTCP that are not needed any more stay: " + err.Error())
	}
}

// LoseLocal removes the images on the node, as a node that is lost with its directory does.
func (e *Engine) LoseLocal() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.Pending, e.state.Spare = nil, nil
	return errors.Join(e.state.write(e.Job), e.state.removeLocal(e.Job))
}

// Close removes what no later run needs, after the last incarnation has ended.
func (e *Engine) Close(completed bool) {
	e.state.Spare = nil
	e.keepSpare()
	err := e.dir.discard(liveName)
	if e.state.Pending == nil {
		err = errors.Join(err, e.state.removeLocal(e.Job))
	}
	if e.state.Segments != "" { // images have the contents
		err = errors.Join(err, removeTree(e.state.Segments))
	}
	if completed {
		err = errors.Join(err, removeTree(e.state.Session))
	} else {
		_ = disk.Remove(e.state.Session) // an empty one is made again
	}
	if err != nil {
		e.Warn("files of DMTCP stay: " + err.Error())
	}
	e.freeSession()
}

// endAll kills processes and waits for their end.
func endAll(list []family.Process) {
	family.Signal(list, syscall.SIGKILL)
	family.Await(list, killTime)
}
