package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/machine"
	"ckpt/cmd/ckpt/internal/metrics"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/slowfs"
)

// run runs a job with options, once no other process has it.
func (r *running) run(ctx context.Context, g *ui.Globals, opt *coordinator.Options, run func() (*coordinator.Result, error)) error {
	return r.wait.For(ctx, g, opt.Job, func() error { return r.kept(ctx, g, opt, run) })
}

// kept runs a job with options, and keeps its metrics and its traces.
func (r *running) kept(ctx context.Context, g *ui.Globals, opt *coordinator.Options, run func() (*coordinator.Result, error)) error {
	defer r.keepMetrics(ctx, g, opt)()
	defer r.keepSpans(g, opt)()
	return runJob(g, opt, run)
}

// runJob runs a job with options, passes ^C to it, and prints its result.
func runJob(g *ui.Globals, opt *coordinator.Options, run func() (*coordinator.Result, error)) error {
	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1} {
		if !signal.Ignored(s) { // nohup ignores SIGHUP
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	demanded := make(chan os.Signal, 1)
	signal.Notify(demanded, syscall.SIGUSR2)
	defer signal.Stop(demanded)
	interrupts, checkpoints := make(chan struct{}, 2), make(chan struct{}, 1)
	opt.Interrupts, opt.Checkpoints = interrupts, checkpoints
	over, requeue := make(chan struct{}), false
	var relay sync.WaitGroup
	relay.Go(func() {
		var requests requestFilter
		for {
			select {
			case s := <-signals:
				if requests.isNew(s, time.Now()) {
					requeue = s == syscall.SIGTERM || s == syscall.SIGUSR1
					offer(interrupts) // or the job has two interrupts already
				}
			case <-demanded:
				offer(checkpoints) // or one is asked for already
			case <-over:
				return
			}
		}
	})
	// A closed pipe, as in ckpt launch … | head, must not end the job.
	signal.Ignore(syscall.SIGPIPE)
	undo, err := g.ShareStore()
	if err != nil {
		return err
	}
	finish := g.Spool()
	result, err := run()
	if err != nil {
		undo()
	}
	close(over)
	relay.Wait()
	opt.Observer.(*ui.Narrator).Bar.Clear()
	if result != nil {
		result.Requeue = result.Interrupted && (result.Requeue || requeue)
	}
	shows := result != nil && (err == nil || g.JSON)
	if shows {
		_ = printResult(g, result) // finish tells whether it was written
	}
	silent, werr := finish()
	if shows && werr != nil {
		err = errors.Join(err, werr)
	} else if err == nil {
		err = endOf(result)
	}
	if silent {
		return ui.Wordless(err)
	}
	return err
}

// endOf is the error with which a run ends that did what it was told.
func endOf(result *coordinator.Result) error {
	if !result.Interrupted || result.Outcome == job.StateCompleted {
		return programStatus(result)
	}
	hint := "ckpt restart " + result.Job + " continues the job"
	switch {
	case result.Job == "":
		hint = "the program had not called ckpt_init: nothing is stored"
	case !result.CanRestart():
		hint = "job " + result.Job + " has no checkpoint; launch it again"
	}
	if result.Requeue {
		return ui.WithHint(ui.ErrRequeue, hint)
	}
	return ui.WithHint(ui.ErrInterrupted, hint)
}

// offer puts a token into a channel that has room.
func offer(tokens chan<- struct{}) {
	select {
	case tokens <- struct{}{}:
	default:
	}
}

func printResult(g *ui.Globals, r *coordinator.Result) error {
	if g.JSON {
		return json.NewEncoder(g.Out).Encode(r)
	}
	took := time.Duration(r.Wall * float64(time.Second)).Round(time.Millisecond)
	if r.Job == "" {
		return nil // it was not protected
	}
	if err := printRisk(g, r); err != nil {
		return err
	}
	if r.Outcome != job.StateCompleted {
		return g.Printf("%s: %s after %v, %s\n", r.Job, r.Outcome, took, checkpoints(r))
	}
	if r.Digest == "" { // a program
		return g.Printf("%s: completed in %v, %s, %s\n", r.Job, took, checkpoints(r), ui.Count(r.Failures, "failure"))
	}
	return g.Printf("%s: completed %s in %v, %s, %s\ndigest %s\n", r.Job, ui.Count(r.Iterations, "iteration"), took,
		checkpoints(r), ui.Count(r.Failures, "failure"), r.Digest)
}

// printRisk tells how long states were at risk, of a run that may have had several in flight.
func printRisk(g *ui.Globals, r *coordinator.Result) error {
	d := r.Durability
	if d == nil || r.InFlight < 2 && !g.Verbose {
		return nil
	}
	return g.Printf("checkpoints were safe after %s on average and %s at most; at most %s of work was at risk\n",
		ui.Seconds(d.Mean), ui.Seconds(d.Max), ui.Seconds(d.AtRisk))
}

// checkpoints counts the checkpoints of a run.
func checkpoints(r *coordinator.Result) string {
	s := ui.Count(r.Checkpoints, "checkpoint")
	var also []string
	if r.Lost > 0 {
		also = append(also, fmt.Sprintf("%d aborted", r.Lost))
	}
	if r.Removed > 0 {
		also = append(also, fmt.Sprintf("%d removed", r.Removed))
	}
	if len(also) > 0 {
		s += " (" + strings.Join(also, ", ") + ")"
	}
	return s
}

// running are the flags of every command that runs a job.
type running struct {
	fail        []string
	autoRestart bool
	silence     string
	patience    string
	restarts    int
	walltime    string
	onFull      string
	listen      string
	metrics     string
	otel        string
	wait        ui.Wait
}

func (r *running) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&r.fail, "fail", nil, "inject a failure: rank=R@iter=I, node=K@iter=I, rank=R@t=DUR, mtbf=DUR[,seed=S] of the job or node-mtbf=DUR[,seed=S] of each node; node=K,lose-local@iter=I loses the node's directory of --local, too")
	f.BoolVar(&r.autoRestart, "auto-restart", false, "restart failed ranks automatically, from the last checkpoint")
	f.IntVar(&r.restarts, "restarts", protocol.DefaultLimits.Restarts, "with --auto-restart: restarts in a row without a new checkpoint before the job fails")
	f.StringVar(&r.patience, "patience", "", "time for which a rank may keep the others waiting for a checkpoint before it is declared dead (default: none; the checkpoint is aborted)")
	f.StringVar(&r.onFull, "on-full", "skip", "what to do when the storage is full: skip the checkpoint, or stop the job (exit status 6)")
	ui.Choices(f, "on-full", "skip", "stop")
	f.StringVar(&r.listen, "listen", "", "address of this host, HOST or HOST:PORT, at which ranks on other hosts reach the coordinator (default: all ranks run on this host)")
	f.StringVar(&r.walltime, "walltime", "", "time that this run may take, like 4h: it stops after a last checkpoint before, exit status 75; none for no limit (default: until $SLURM_JOB_END_TIME)")
	f.StringVar(&r.metrics, "metrics-file", "", "file that has the metrics of this job while it runs, for the textfile collector of node_exporter (docs/SERVICE.md)")
	f.StringVar(&r.otel, "otel-file", "", "file to which each checkpoint is added as an OpenTelemetry trace, a line of OTLP/JSON (docs/SERVICE.md)")
	r.wait.AddFlags(f)
	f.StringVar(&r.silence, "silence", "10s", "heartbeat timeout after which a rank is declared dead")
}

func (r *running) options(g *ui.Globals) (coordinator.Options, error) {
	if err := g.CheckStore(); err != nil {
		return coordinator.Options{}, err
	}
	opt := coordinator.Options{Store: g.Store, Limits: protocol.DefaultLimits, Listen: r.listen, Observer: &ui.Narrator{G: g}, Log: g.Log(), StartTurns: startTurns, Room: machine.Room}
	if err := machine.Room(0); err != nil {
		return opt, err
	}
	for _, s := range r.fail {
		f, err := launch.ParseFailure(s)
		if err != nil {
			return opt, err
		}
		opt.Failures = append(opt.Failures, f)
	}
	if r.metrics != "" {
		if err := r.metricsFile(g).Check(); err != nil {
			return opt, ui.BadUsage("--metrics-file: "+err.Error(), "name a file in a directory that you may write to")
		}
	}
	if r.otel != "" {
		if err := metrics.AppendTo(r.otel)(nil); err != nil {
			return opt, ui.BadUsage("--otel-file: "+err.Error(), "name a file that you may write to")
		}
	}
	var err error
	if opt.FS, err = slowfs.FromEnvironment(os.Getenv); err != nil {
		return opt, ui.BadUsage(err.Error(), "unset "+slowfs.Variable+" for the storage as it is")
	}
	if opt.Until, err = r.until(time.Now(), os.Getenv); err != nil {
		return opt, err
	}
	if opt.Limits.Silence, err = ui.ParseDuration("--silence", r.silence); err != nil {
		return opt, err
	}
	if opt.Limits.Restarts = r.restarts; r.restarts < 0 {
		return opt, ui.BadUsage(fmt.Sprintf("--restarts %d: want a number from 0", r.restarts), "")
	}
	if r.patience != "" {
		if opt.Limits.Patience, err = ui.ParseDuration("--patience", r.patience); err != nil {
			return opt, err
		}
		if opt.Limits.Patience < time.Second {
			return opt, ui.BadUsage(fmt.Sprintf("--patience %s: want a duration of at least 1s", r.patience), "")
		}
	}
	if opt.Limits.Silence < 100*time.Millisecond {
		return opt, ui.BadUsage(fmt.Sprintf("--silence %s: want a duration of at least 100ms", r.silence), "")
	}
	if r.onFull != "skip" && r.onFull != "stop" {
		return opt, ui.BadUsage(fmt.Sprintf("--on-full %s: want skip or stop", r.onFull), "")
	}
	opt.StopOnFull = r.onFull == "stop"
	return opt, nil
}

// metricsEvery is the time between two writes of the metrics: collectors read them each 15 s or
// less often.
const metricsEvery = 5 * time.Second

func (r *running) metricsFile(g *ui.Globals) *metrics.File {
	dir, _ := filepath.Abs(g.Store) // fails without a working directory, where the store fails
	return &metrics.File{FS: vfs.OS{}, Path: r.metrics, Store: dir, Every: metricsEvery, Replace: metrics.Replace, Warn: func(err error) {
		g.Warn("--metrics-file: %s; the job goes on", ui.OneLine(err.Error()))
	}}
}

// keepMetrics keeps the file of metrics from the time at which the job has its name. The function
// that it returns writes it once more.
func (r *running) keepMetrics(ctx context.Context, g *ui.Globals, opt *coordinator.Options) func() {
	if r.metrics == "" {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	file, begun, keeping := r.metricsFile(g), sync.Once{}, sync.WaitGroup{}
	opt.Observer.(*ui.Narrator).Begun = func(name string) {
		begun.Do(func() { keeping.Go(func() { file.Keep(ctx, name) }) })
	}
	return func() {
		stop()
		over := make(chan struct{})
		go func() { keeping.Wait(); close(over) }()
		select {
		case <-over:
		case <-time.After(metricsEvery): // the store does not answer
		}
	}
}

// mostSpans bounds the traces that wait for a file that does not answer.
const mostSpans = 1024

// keepSpans adds the checkpoints of the job to the file of traces, behind the job. The function that
// it returns waits for the last one.
func (r *running) keepSpans(g *ui.Globals, opt *coordinator.Options) func() {
	if r.otel == "" {
		return func() {}
	}
	warn := func(err error) { g.Warn("--otel-file: %s; the job goes on", ui.OneLine(err.Error())) }
	lines, over, add := make(chan []byte, mostSpans), make(chan struct{}), metrics.AppendTo(r.otel)
	spans := &metrics.Spans{Now: time.Now, Warn: warn, Write: func(line []byte) error {
		select {
		case lines <- line:
			return nil
		default:
			return fmt.Errorf("%s does not answer", r.otel)
		}
	}}
	go func() {
		defer close(over)
		failed := false
		for line := <-lines; line != nil; line = <-lines {
			err := add(line)
			if err != nil && !failed {
				warn(err)
			}
			failed = err != nil
		}
	}()
	opt.Observer.(*ui.Narrator).Seen = spans.Event
	return func() {
		late := time.After(metricsEvery) // for a file that does not answer
		select {
		case lines <- nil:
		case <-late:
			return
		}
		select {
		case <-over:
		case <-late:
		}
	}
}

// until is when a run has to have ended, zero if it may take as long as it likes.
func (r *running) until(now time.Time, getenv func(string) string) (time.Time, error) {
	switch r.walltime {
	case "none":
		return time.Time{}, nil
	case "":
		end, err := strconv.ParseInt(getenv("SLURM_JOB_END_TIME"), 10, 64)
		if at := time.Unix(end, 0); err == nil && at.After(now) {
			return at, nil
		}
		return time.Time{}, nil
	}
	d, err := ui.ParseDuration("--walltime", r.walltime)
	if err == nil && d < time.Second {
		err = ui.BadUsage(fmt.Sprintf("--walltime %s: want a duration of at least 1s, or none", r.walltime), "")
	}
	return now.Add(d), err
}

// sameRequest is how soon after a signal another one of its kind repeats it. timeout(1)
// and batch systems signal a process by its number, and again with its process group.
const sameRequest = time.Second

// A requestFilter tells new requests to stop from repeated ones. Its zero value has seen
// none.
type requestFilter struct {
	last os.Signal
	at   time.Time
}

// isNew reports whether a signal is a request of its own. A second ^C always is: a user
// who types it twice has no time to wait.
func (f *requestFilter) isNew(s os.Signal, now time.Time) bool {
	repeated := s == f.last && s != os.Interrupt && now.Sub(f.at) < sameRequest
	// A batch system asks before the end, and again at the end.
	repeated = repeated || f.last == syscall.SIGUSR1 && (s == syscall.SIGTERM || s == syscall.SIGUSR1)
	f.last, f.at = s, now
	return !repeated
}
