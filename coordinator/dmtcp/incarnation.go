package dmtcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/image/dmtcp"
	"ckpt/internal/durable"
	"ckpt/internal/family"
)

// An incarnation is the program from one start or restart to its end, with a coordinator
// of DMTCP of its own.
type incarnation struct {
	from       int // checkpoint, 0 the beginning
	server     *server
	program    *child
	read       time.Duration // of exporting the images
	bytes      int64
	trace      []byte // of that; may be nil
	images     []string
	shared     []string               // files that processes shared, of the images
	virtual    []int                  // numbers of the ranks, of the images
	ranks      []family.Process       // once the program computes
	byRank     map[int]family.Process // guarded by the engine
	struck     []int                  // ranks to be killed once they are known; guarded by the engine
	ready      bool
	since      time.Time // it was ready
	progressed bool      // a checkpoint of it was committed
	gone       bool      // it was ended
}

// fetch writes the images of a checkpoint to where the program is restarted from.
func (a *agent) fetch() error {
	if a.from == 0 {
		return nil
	}
	began := time.Now()
	if err := a.e.dir.renew(liveName); err != nil {
		return err
	}
	m, err := a.e.Job.Manifest(a.from)
	if err != nil {
		return err
	}
	from := a.e.Job
	var recording *job.Recording
	if a.e.Spec.Trace {
		recording = job.NewRecording(from.Name())
		from = from.Through(recording.OfRank(0, 0, m.Number).Reads(from.FS()))
	}
	exported, err := dmtcp.Export(a.ctx, from, m, a.e.dir.path(liveName), nil)
	a.read, a.bytes = time.Since(began), exported.Bytes
	if recording != nil {
		a.trace, _ = recording.End() // a restart without a trace is as good
	}
	if err != nil {
		return err
	}
	return a.readRanks()
}

// useSpare restarts the program from the files that DMTCP wrote.
func (a *agent) useSpare(spare *rawSet) error {
	e := a.e
	e.mu.Lock()
	e.state.Spare = nil
	err := e.state.write(e.Job)
	e.mu.Unlock()
	if err == nil {
		err = e.dir.reuse(spare.Name)
	}
	if err != nil {
		return err
	}
	return a.readRanks()
}

// start starts a coordinator of DMTCP, and the program under it.
func (a *agent) start() error {
	e := a.e
	var err error
	if a.from == 0 {
		err = errors.Join(e.dir.renew(liveName), e.rewind())
	} else {
		err = e.dir.removeAll(a.shared)
	}
	scratch, serr := e.openSession(a.ctx, a.from == 0)
	err = errors.Join(err, serr)
	if mark := e.state.Mark; mark != "" {
		err = errors.Join(err, e.dir.removeAll([]string{mark, mark + endingName}))
	}
	if err == nil {
		a.server, err = startServer(a.ctx, e.tools, e.dir, e.opt.Environ(), scratch, e.state.advice())
	}
	if err != nil {
		return err
	}
	args := []string{"-q", "-q", "-j", "-h", loopback, "-p", strconv.Itoa(a.server.port)}
	cmd := exec.Command(e.tools.launch, append(append(args, "/bin/sh", "-c", marked, "sh", e.state.Mark), e.Spec.Program.Command...)...)
	if a.from > 0 {
		args = append(args, option("ckptdir"), e.dir.path(liveName))
		cmd = exec.Command(e.tools.restart, append(args, a.images...)...)
	}
	cmd.Dir, cmd.Env = e.Spec.Program.Dir, a.server.env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.Streams.In, e.Streams.Out, e.Streams.Err
	cmd.WaitDelay = leaveTime // somebody may keep the output open
	if a.program, err = startChild(cmd); err != nil {
		return fmt.Errorf("start the program: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.Processes = []family.Process{a.server.child.self, a.program.self}
	return e.state.write(e.Job)
}

// markName is the file that says that the program has ended by itself. Its path is in the
// memory of the shell of the program, and so in each checkpoint, which a copy of the store
// has as well.
const markName = "ended"

// statusOf reads the status that the program left in its mark: what restarted it may exit with
// another one. It is -1 for a program that was ended before it could leave one.
func (e *Engine) statusOf(mark string) int {
	status, err := strconv.Atoi(strings.TrimSpace(e.dir.read(mark)))
	if err != nil {
		return -1
	}
	return status
}

// marked runs a command and then writes its status to a file. All processes that DMTCP ends
// exit with 0: the pause lets it end this shell, too, before that has written. Cleaners may have
// removed the directory of the file.
const marked = `mark=$1; shift; "$@"; status=$?; umask 077; mkdir -p "${mark%/*}"; echo $status > "$mark` + endingName + `"
sleep 1; mkdir -p "${mark%/*}"; echo $status > "$mark"; exit $status`

// endingName ends the name of the file that says at once that the command of a program has ended:
// what a checkpoint would hold from then on is a shell that ends.
const endingName = "-now"

// rewind has a program that begins again read the same standard input as before. Restored
// processes have their own.
func (e *Engine) rewind() error {
	in, ok := e.Streams.In.(*os.File)
	if !ok {
		return nil
	}
	fi, err := in.Stat()
	if err != nil || fi.Mode()&(os.ModeDevice|os.ModeCharDevice) != 0 {
		return err
	}
	again := e.begun
	e.begun = true
	switch {
	case !fi.Mode().IsRegular() && again:
		return &job.UsageError{Text: "the program cannot begin again: its standard input is a pipe, which it has read", Fix: "give the input as a file, < FILE; or < /dev/null if the program reads none"}
	case !fi.Mode().IsRegular():
		return nil
	case again:
		_, err = in.Seek(e.inputAt, io.SeekStart)
	default:
		e.inputAt, err = in.Seek(0, io.SeekCurrent)
	}
	return err
}

// endProgram ends the program and DMTCP's coordinator, whatever they are doing.
func (a *agent) endProgram() {
	if a.server == nil || a.gone {
		return
	}
	a.gone = true
	var below []family.Process
	if a.program != nil {
		below = family.Descendants(a.program.self.PID)
	}
	if !a.server.child.ended() && a.ctx.Err() == nil { // else there is no time to wait
		ctx, done := context.WithTimeout(context.Background(), killTime)
		defer done()
		below = append(below, processesOf(a.server.workers(ctx))...)
		a.server.endProgram(ctx)
		family.Await(below, leaveTime)
	}
	for _, c := range []*child{a.program, a.server.child} {
		if c != nil {
			c.kill()
		}
	}
	e := a.e
	e.mu.Lock()
	defer e.mu.Unlock()
	endAll(append(below, e.state.Processes...))
	e.state.Processes, a.pids, a.byRank = nil, nil, nil
	if err := e.state.write(e.Job); err != nil {
		e.Warn(err.Error())
	}
}

// leaveTime is how long processes may take to end by themselves.
const leaveTime = 3 * time.Second

// awaitReady returns when all processes of the program compute and no more come.
func (a *agent) awaitReady() ([]worker, error) {
	began, changed, was := time.Now(), time.Now(), 0
	for {
		peers, running, err := a.server.status(a.ctx)
		if peers != was {
			changed, was = time.Now(), peers
		}
		calm := time.Since(changed) >= a.e.opt.Settle
		late := time.Since(began) > a.e.Limits.Phase/2 // some programs start others all the time
		if len(a.images) > 0 {
			calm = calm && peers == len(a.images)
		} else {
			calm = peers > 0 && (calm || late)
		}
		if err == nil && running && calm {
			list := a.server.workers(a.ctx)
			if len(a.images) > 0 || late || allRanks(a.e.Spec.Program.Command, list) {
				return list, nil
			}
		}
		select {
		case <-a.ctx.Done():
			return nil, a.ctx.Err()
		case <-a.program.over:
			return nil, errProgramEnded
		case <-time.After(pollEvery):
		}
	}
}

// progress is a number that changes as long as a restart makes progress: processes come,
// and the images are read. A process that waits or spins reads next to nothing, and one
// that computes reads no images.
func (a *agent) progress() int64 {
	const parts = 100
	below := family.Descendants(a.program.self.PID)
	return min(parts, family.BytesRead(below)/(a.bytes/parts+64<<10)) + int64(len(below))<<32
}

// checkSpace refuses a checkpoint for which the disk has too little space: the images and
// what the store keeps of them are both there for a while. They will be as large as the last
// ones, at least what the program holds in memory.
func (a *agent) checkSpace() error {
	e := a.e
	if err := e.dir.mend(); err != nil {
		return err
	}
	free, err := e.opt.Free()
	if err != nil {
		return err
	}
	e.mu.Lock()
	need, spare := family.Resident(e.state.Processes), e.state.Spare
	e.mu.Unlock()
	if spare != nil {
		need = max(need, e.dir.written(spare.Name))
	}
	if e.dir.local != "" && free < need {
		return fmt.Errorf("%w: %s has %d MiB free, a checkpoint needs %d MiB", durable.ErrStorageFull, e.dir.root, free>>20, need>>20)
	}
	if e.dir.local == "" && free < 2*need {
		return fmt.Errorf("%w: %s has %d MiB free, a checkpoint of %d MiB needs twice as much", durable.ErrStorageFull, e.dir.root, free>>20, need>>20)
	}
	return e.dir.renew(liveName)
}

// write has DMTCP write the images of a checkpoint, and checks them: DMTCP also says that
// it is done when it is not.
func (a *agent) write(t *taking, set *rawSet) (*dmtcp.Set, error) {
	e := a.e
	began := time.Now()
	var err error
	if set.Peers, _, err = a.server.status(a.ctx); err != nil {
		return nil, err
	}
	peers := a.server.workers(a.ctx)
	if err := a.whole(peers, set.Peers); err != nil {
		a.awaitEnd(leaveTime) // which tells more
		return nil, err
	}
	ctx, stop := context.WithCancel(a.ctx)
	defer stop()
	a.help(func() { a.watchWriters(ctx, t, processesOf(peers), stop) })
	err = a.server.checkpoint(ctx)
	set.Pause = time.Since(began)
	if err != nil {
		a.awaitEnd(time.Second) // DMTCP may know of it before us
		return nil, err
	}
	a.do(func() { a.captured(t, processesOf(peers)) })
	if err := a.whole(peers, set.Peers); err != nil {
		return nil, err
	}
	if name, err := e.dir.unfinished(liveName); err != nil || name != "" {
		return nil, errors.Join(err, fmt.Errorf("DMTCP has left %s unfinished", name))
	}
	if err := e.dir.settle(set.Name); err != nil {
		return nil, err
	}
	return e.collect(a.ctx, set)
}

// earlier returns what the checkpoint knows that the program restarted from, nil from the
// beginning. Without it only the zones of new checkpoints are worse.
func (e *Engine) earlier(ctx context.Context, number int) dmtcp.Earlier {
	if number == 0 {
		return nil
	}
	if e.known.from == number {
		return e.known.earlier
	}
	m, err := e.Job.Manifest(number)
	if err == nil {
		e.known.earlier, err = dmtcp.EarlierOf(ctx, e.Job, m)
		e.known.from = number
	}
	if err != nil {
		e.Warn(fmt.Sprintf("the zones of new checkpoints are those of restarted processes: %v", err))
	}
	return e.known.earlier
}

// awaitEnd waits until the program has ended, at most so long.
func (a *agent) awaitEnd(limit time.Duration) {
	select {
	case <-a.program.over:
	case <-a.ctx.Done():
	case <-time.After(limit):
	}
}

// whole refuses a checkpoint of a program that misses processes: its images would restart what
// cannot go on. Others than ranks may come and go, but the shell of the program waits for its
// command.
func (a *agent) whole(peers []worker, count int) error {
	if rank := a.lostRank(); rank >= 0 {
		return fmt.Errorf("process %d, a rank, has ended", a.ranks[rank].PID)
	}
	all := processesOf(peers)
	if i := slices.IndexFunc(all, hasEnded); i >= 0 {
		return fmt.Errorf("process %d has ended meanwhile", all[i].PID)
	}
	if a.ending() {
		return errors.New("the program is ending")
	}
	if len(peers) != count || count == 0 {
		return nil
	}
	root := slices.MinFunc(peers, func(a, b worker) int { return cmp.Compare(a.virtual, b.virtual) })
	for _, p := range family.Descendants(root.PID)[1:] {
		if slices.Contains(all, p) && p.Alive() {
			return nil
		}
	}
	return errors.New("the command of the program has ended")
}

func hasEnded(p family.Process) bool { return !p.Alive() }

// lostRank returns the place of a rank that has ended, or -1.
func (a *agent) lostRank() int { return slices.IndexFunc(a.ranks, hasEnded) }

// ending reports whether the command of the program has ended, but not its shell.
func (a *agent) ending() bool {
	mark := a.e.state.Mark
	return mark != "" && a.e.dir.read(mark+endingName) != ""
}

// collect reads the files of a set: every image to its end.
func (e *Engine) collect(ctx context.Context, set *rawSet) (*dmtcp.Set, error) {
	images, err := e.dir.images(set.Name)
	if err != nil {
		return nil, err
	}
	files, err := dmtcp.Collect(ctx, images, dmtcp.CollectOptions{Rules: e.rules, Earlier: e.earlier(ctx, set.From)})
	if err != nil {
		return nil, err
	}
	if n := len(files.Images); n != set.Peers {
		return nil, fmt.Errorf("the program has %d processes, DMTCP wrote %d images", set.Peers, n)
	}
	newest, err := e.Job.Latest()
	if err == nil && newest > 0 && files.NP != e.Spec.NP {
		err = fmt.Errorf("the images are of %d ranks, the job has %d", files.NP, e.Spec.NP)
	}
	return files, err
}

// store writes the files of a set into the checkpoint under way.
func (a *agent) store(ctx context.Context, set *rawSet, files *dmtcp.Set, progress func(int64)) (*image.Manifest, error) {
	e := a.e
	was := e.Spec
	err := e.describe(files)
	if err == nil && e.Spec != was {
		err = e.told(ctx, e.Spec)
	}
	if err != nil {
		return nil, err
	}
	tx, err := e.driver.Tx(ctx, e.limit)
	if err != nil {
		return nil, err
	}
	return files.Write(ctx, e.Job, tx, dmtcp.Options{Progress: progress, Notice: e.warn, Codec: e.packing(set, files),
		Describe: func(m *image.Manifest) { m.Parent, m.Pause = set.From, set.Pause.Seconds() }})
}

// describe writes into the description of the job what its first images tell.
func (e *Engine) describe(files *dmtcp.Set) error {
	if newest, err := e.Job.Latest(); newest > 0 || err != nil {
		return err
	}
	first, s := files.Images[0], *e.Spec
	s.App, s.MPI, s.NP, s.Mapping = first.Name, first.MPI, files.NP, files.Mapping
	text, err := s.Encode()
	if err != nil {
		return err
	}
	job.ForgetEnding(e.Job) // it names the digest of the description
	if err := e.Job.Redescribe(text); err != nil {
		return err
	}
	e.Spec = &s
	return nil
}

// told tells the driver of a description that says more than the one before.
func (e *Engine) told(ctx context.Context, s *job.Spec) error {
	resolved, err := s.Resolve()
	if err == nil {
		err = e.driver.Redescribe(ctx, resolved)
	}
	return err
}
