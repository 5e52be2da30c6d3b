package dmtcp

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/image/dmtcp"
	"ckpt/internal/durable"
	"ckpt/internal/family"
)

// An incarnation is the program from one start or restart to its end, with a coordinator
// of DMTCP of its own.
type incarnation struct {
	from    int // checkpoint, 0 the beginning
	server  *server
	program *child
	read    time.Duration // of exporting the images
	bytes   int64
	images  []string
	shared  []string         // files that processes shared, of the images
	virtual []int            // numbers of the ranks, of the images
	ranks   []family.Process // once the program computes
	ready   bool
}

// begin starts the program, from a checkpoint or, with 0, from the beginning.
func (e *engine) begin(from int) {
	e.phase = starting
	e.ended, e.root, e.resuming = false, nil, false
	e.number++
	inc := &incarnation{from: from}
	e.inc = inc
	e.help(func() {
		err := e.fetch(inc)
		e.post(func() { e.fetched(inc, err) })
	})
}

// fetch writes the images of a checkpoint to where the program is restarted from.
func (e *engine) fetch(inc *incarnation) error {
	if inc.from == 0 {
		return nil
	}
	began := time.Now()
	if err := e.dir.renew(liveName); err != nil {
		return err
	}
	m, err := e.job.Manifest(inc.from)
	if err != nil {
		return err
	}
	exported, err := dmtcp.Export(e.ctx, e.job, m, e.dir.path(liveName), nil)
	inc.read, inc.bytes = time.Since(began), exported.Bytes
	if err != nil {
		return err
	}
	inc.images, err = e.dir.images(liveName)
	if err == nil {
		err = e.readRanks(inc)
	}
	return err
}

// fetched starts the program once its images are there. If the store cannot give them, the
// files that DMTCP wrote may still be there.
func (e *engine) fetched(inc *incarnation, err error) {
	if e.inc != inc || e.ending != nil {
		return
	}
	damage := new(durable.DamageError)
	if spare := e.state.Spare; errors.As(err, &damage) && spare != nil && spare.Number == inc.from {
		e.out.Warn(fmt.Sprintf("checkpoint %d is damaged; the program restarts from the images that DMTCP wrote: %v", inc.from, err))
		err = e.useSpare(inc, spare)
	}
	if err == nil {
		err = e.start(inc)
	}
	switch {
	case err == nil:
	case errors.As(err, &damage) && e.result.Failures > 0:
		e.tried[inc.from] = mostTries
		e.retry(fmt.Sprintf("checkpoint %d: %v", inc.from, err))
		return
	default:
		e.endIncarnation()
		e.end(job.StateFailed, err)
		return
	}
	e.began = e.began || inc.from == 0
	program := inc.program
	e.help(func() {
		<-program.over
		e.post(func() { e.programEnded(inc, program.err) })
	})
	e.help(func() {
		peers, err := e.awaitReady(inc)
		e.post(func() { e.runs(inc, peers, err) })
	})
}

// useSpare restarts the program from the files that DMTCP wrote.
func (e *engine) useSpare(inc *incarnation, spare *rawSet) error {
	e.state.Spare = nil
	err := e.state.write(e.job)
	if err == nil {
		err = e.dir.reuse(spare.Name)
	}
	if err == nil {
		inc.images, err = e.dir.images(liveName)
	}
	if err != nil {
		return err
	}
	return e.readRanks(inc)
}

// start starts a coordinator of DMTCP, and the program under it.
func (e *engine) start(inc *incarnation) error {
	var err error
	if inc.from == 0 {
		err = errors.Join(e.dir.renew(liveName), e.rewind())
	} else {
		err = e.dir.removeAll(inc.shared)
	}
	scratch, serr := e.openSession()
	if inc.from == 0 {
		e.state.Mark = filepath.Join(e.state.Session, markName)
	}
	err = errors.Join(err, serr, e.dir.remove(e.state.Mark))
	if err == nil {
		inc.server, err = startServer(e.ctx, e.tools, e.dir, e.opt.environ(), scratch, e.state.Session)
	}
	if err != nil {
		return err
	}
	args := []string{"-q", "-q", "-j", "-h", loopback, "-p", strconv.Itoa(inc.server.port)}
	cmd := exec.Command(e.tools.launch, append(args, e.marking()...)...)
	if inc.from > 0 {
		args = append(args, option("ckptdir"), e.dir.path(liveName))
		cmd = exec.Command(e.tools.restart, append(args, inc.images...)...)
	}
	cmd.Dir, cmd.Env = e.spec.Program.Dir, inc.server.env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.opt.Streams.In, e.opt.Streams.Out, e.opt.Streams.Err
	cmd.WaitDelay = leaveTime // somebody may keep the output open
	if inc.program, err = startChild(cmd); err != nil {
		return fmt.Errorf("start the program: %w", err)
	}
	e.state.Processes = []family.Process{inc.server.child.self, inc.program.self}
	return e.state.write(e.job)
}

// rewind has a program that begins again read the same standard input as before. Restored
// processes have their own.
func (e *engine) rewind() error {
	in, ok := e.opt.Streams.In.(*os.File)
	if !ok {
		return nil
	}
	fi, err := in.Stat()
	switch {
	case err != nil || fi.Mode()&(os.ModeDevice|os.ModeCharDevice) != 0:
		return err
	case !fi.Mode().IsRegular() && e.number > 1:
		return &job.UsageError{Text: "the program cannot begin again: its standard input is a pipe, which it has read", Fix: "give the input as a file, < FILE; or < /dev/null if the program reads none"}
	case !fi.Mode().IsRegular():
		return nil
	case e.number == 1:
		e.inputAt, err = in.Seek(0, io.SeekCurrent)
		return err
	}
	_, err = in.Seek(e.inputAt, io.SeekStart)
	return err
}

// markName is the file that says that the program has ended by itself. Its path is in the
// memory of the shell of the program, and so in each checkpoint, which a copy of the store
// has as well.
const markName = "ended"

// marked runs a command and then writes its status to a file. All processes that DMTCP ends
// exit with 0: the pause lets it end this shell, too, before that has written. Cleaners may have
// removed the directory of the file.
const marked = `mark=$1; shift; "$@"; status=$?; sleep 1; (umask 077; mkdir -p "${mark%/*}"; echo $status > "$mark"); exit $status`

// marking is the command of the program in a shell that marks its end.
func (e *engine) marking() []string {
	return append([]string{"/bin/sh", "-c", marked, "sh", e.state.Mark}, e.spec.Program.Command...)
}

// runs takes the news that the program computes, or that it does not come to it.
func (e *engine) runs(inc *incarnation, peers []worker, err error) {
	if e.inc != inc || e.ending != nil || errors.Is(err, errEnded) {
		return
	}
	if err != nil {
		e.fail("the program does not start: " + err.Error())
		return
	}
	now := time.Now()
	inc.ready, e.phase, e.from, e.began = true, computing, inc.from, true
	job.ForgetEnding(e.job)
	e.state.Processes = append(e.state.Processes[:2:2], processesOf(peers)...)
	if err := e.state.write(e.job); err != nil {
		e.out.Warn(err.Error())
	}
	e.guess(inc, peers)
	e.help(func() { e.watchRanks(inc) })
	e.planned.computes(now, 0)
	e.tellStart(inc)
	if inc.from > 0 {
		e.restarted(inc, now)
	}
	if next := e.planned.event(now); next != nil {
		e.event(next)
	}
	e.startPrunes()
	e.takeForWaiting()
}

// tellStart tells that the program computes.
func (e *engine) tellStart(inc *incarnation) {
	e.event(&coordinator.StartEvent{Type: "start", Job: e.job.Name(), App: e.spec.App, NP: e.spec.NP, Mapping: e.spec.Mapping,
		Incarnation: e.number, From: inc.from})
}

// restarted tells what a restart has cost.
func (e *engine) restarted(inc *incarnation, now time.Time) {
	ev := &job.RestartedEvent{Type: "restarted", Failed: !e.failed.IsZero(), Ranks: e.spec.NP, Groups: 1, From: []int{inc.from},
		Seconds: now.Sub(e.since).Seconds(), Read: inc.read.Seconds(), ReadBytes: inc.bytes}
	if ev.Failed {
		ev.Seconds = now.Sub(e.failed).Seconds()
		e.result.Restarts = append(e.result.Restarts, e.spec.NP)
		e.result.WorkLost = append(e.result.WorkLost, 0)
		e.result.Recovery = append(e.result.Recovery, ev.Seconds)
		e.failed = time.Time{}
	}
	e.event(ev)
}

// describe writes into the description of the job what its first images tell.
func (e *engine) describe(files *dmtcp.Set) error {
	if e.newest > 0 {
		return nil
	}
	first := files.Images[0]
	e.spec.App, e.spec.MPI, e.spec.NP, e.spec.Mapping = first.Name, first.MPI, files.NP, files.Mapping
	text, err := e.spec.Encode()
	if err != nil {
		return err
	}
	job.ForgetEnding(e.job) // it names the digest of the description
	return e.job.Redescribe(text)
}

// endIncarnation ends the program and DMTCP's coordinator, whatever they are doing.
func (e *engine) endIncarnation() {
	inc := e.inc
	e.inc = nil
	if inc == nil {
		return
	}
	var below []family.Process
	if inc.program != nil {
		below = family.Descendants(inc.program.self.PID)
	}
	if inc.server != nil && !inc.server.child.ended() {
		below = append(below, processesOf(inc.server.workers(e.ctx))...)
		inc.server.endProgram(e.ctx)
		family.Await(below, leaveTime)
	}
	for _, c := range []*child{inc.program, inc.serverChild()} {
		if c != nil {
			c.kill()
		}
	}
	endAll(append(below, e.state.Processes...))
	e.state.Processes = nil
	if err := e.state.write(e.job); err != nil {
		e.out.Warn(err.Error())
	}
}

// leaveTime is how long processes may take to end by themselves.
const leaveTime = 3 * time.Second

func (i *incarnation) serverChild() *child {
	if i.server == nil {
		return nil
	}
	return i.server.child
}
