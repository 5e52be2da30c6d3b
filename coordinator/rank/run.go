package rank

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

func (r *process) run(ctx context.Context) {
	state, err := newState(ctx, r.fs, r.id, &r.cfg, r.spec, r.tier, r.turns.Load(), r.here, r.worked)
	if err != nil {
		r.link.Send(protocol.SetupFailed{Damaged: job.Unrestorable(err), Unfit: job.Unfit(err), Text: err.Error(), Body: wire.EncodeError(err)})
		return
	}
	r.state = state
	state.logFailed = r.tellLog
	if err := r.joinEarly(ctx); err != nil {
		r.link.Send(protocol.SetupFailed{Text: err.Error(), Body: wire.EncodeError(err)})
		return
	}
	r.link.Send(protocol.Ready{})
	if err := r.compute(ctx); err != nil {
		r.fail(err)
	}
}

// tellLog tells the coordinator how the message log is. This rank waits for free space as long as
// it takes, but not for a disk that fails.
func (r *process) tellLog(err error) {
	r.logWaits.Store(err != nil)
	m := protocol.LogState{}
	if r.logTimer != nil {
		r.logTimer.Stop()
	}
	if err != nil && !errors.Is(err, durable.ErrStorageFull) {
		r.logTimer = time.AfterFunc(r.cfg.Silence, func() { r.fail(fmt.Errorf("message log: %w", err)) })
	}
	if err != nil {
		m = protocol.LogState{Text: err.Error(), Body: wire.EncodeError(err)}
	}
	r.link.Send(m)
}

func (r *process) compute(ctx context.Context) error {
	if !r.await(ctx) {
		return ctx.Err()
	}
	if r.here != nil && r.cfg.Leads { // all ranks have mapped it
		if err := r.state.segment.Unlink(); err != nil {
			return err
		}
	}
	// All ranks are ready, and their memory, the shared segment included, has been restored,
	// before any communicates.
	if r.comm == nil {
		if err := r.openComm(ctx); err != nil {
			return err
		}
	}
	if r.cfg.Again {
		r.link.Send(protocol.Restored{Body: job.Encode(r.state.restored)})
	}
	comm := r.comm
	return r.iterate(ctx, comm)
}

// joinEarly makes a rank that is alone in its group replay its log before it says that it is
// ready. The replay may cut the log, and the cut part must not come back.
func (r *process) joinEarly(ctx context.Context) error {
	if r.cfg.Channels == nil || len(r.group) > 1 {
		return nil // the others of its group are not ready
	}
	if err := r.openComm(ctx); err != nil {
		return err
	}
	if r.cfg.Channels.Line != nil && r.state.log != nil {
		r.early.Store(true) // however long a disk is full
		defer r.early.Store(false)
		return r.comm.Logged(ctx)
	}
	return nil
}

func (r *process) openComm(ctx context.Context) error {
	cfg := mpi.Config{Rank: r.id, Size: r.spec.NP, NodeOf: r.spec.Nodes,
		Segment: r.state.segment, Listener: r.listener, Dial: r.network.Dial, Peers: r.cfg.Peers, Token: []byte(r.token), Lost: r.lostPeer(ctx)}
	if r.cfg.Channels != nil {
		var err error
		if cfg.Channels, err = r.state.openChannels(r.state.pending); err != nil {
			return err
		}
	}
	comm, err := mpi.Join(cfg)
	if err != nil {
		return job.AsDamage(job.LogDir(r.state.job, r.id), err)
	}
	if r.cfg.Channels != nil {
		r.joined <- comm
	}
	r.comm = comm
	if r.cfg.Channels == nil && len(r.state.pending) > 0 {
		if err := comm.RestorePending(r.state.pending); err != nil {
			return err
		}
	}
	return nil
}

// lostPeer ends this rank after the loss of a connection within its group, whose messages do not
// come again, unless the coordinator does: the other end has most likely died.
func (r *process) lostPeer(ctx context.Context) func(peer int, err error) {
	return func(peer int, err error) {
		if !slices.Contains(r.group, peer) {
			return // it is dialled again
		}
		time.AfterFunc(r.cfg.Silence, func() {
			if ctx.Err() == nil {
				r.fail(fmt.Errorf("the connection to rank %d was lost: %w", peer, err))
			}
		})
	}
}

func (r *process) fail(err error) {
	select {
	case r.failed <- err:
	default:
	}
}

// Pace is called after each iteration, with its number and with how many the job has. Tests have
// ranks sleep in it that would else compute until the job is stopped, on all processors.
var Pace = func(iter, iterations int) {}

func (r *process) iterate(ctx context.Context, comm *mpi.Comm) error {
	for iter := r.cfg.Iter + 1; iter <= r.spec.Iterations; iter++ {
		if slices.Contains(r.cfg.InjectAt, iter) {
			r.link.Send(protocol.InjectDue{Iter: iter})
			<-ctx.Done() // the coordinator kills us
			return ctx.Err()
		}
		if err := r.state.app.Step(comm, iter); err != nil {
			return fmt.Errorf("iteration %d: %w", iter, err)
		}
		if err := r.output(comm, iter); err != nil {
			return err
		}
		Pace(iter, r.spec.Iterations)
		if r.cfg.Again && iter == r.cfg.Reach {
			r.link.Send(protocol.Beat{Iter: iter, Progress: r.progress.Load() + uint64(iter)})
		}
		hand(ctx, r.mail, protocol.MemberEvent(protocol.Reached{Iter: iter, Counts: comm.Sent()}))
		if !r.await(ctx) {
			return ctx.Err()
		}
	}
	hand(ctx, r.mail, protocol.MemberEvent(protocol.Ended{Body: job.Encode(r.state.result())}))
	return nil
}

// output puts the residual out to the world. The coordinator takes each number once, whoever goes
// back.
func (r *process) output(comm *mpi.Comm, iter int) error {
	every := r.spec.Residuals
	if every == 0 || r.id != 0 || iter%every != 0 {
		return nil
	}
	number := uint64(iter / every)
	if r.cfg.Channels != nil {
		var err error
		if number, err = comm.Output(); err != nil {
			return err
		}
	}
	r.link.Send(protocol.Output{Index: number,
		Text: fmt.Sprintf("iteration %d: residual %.12e", iter, r.state.app.Residual())})
	return nil
}

// A hostDir is what a rank of a job on several hosts has on its own host: a directory to run in
// and, if it is the first of its node, the shared memory.
type hostDir struct {
	run    *launch.RunDir
	placed func(path string)
}

// enterHost makes a directory on this host and changes to it.
func enterHost(placed func(string)) (*hostDir, error) {
	// The variable may come from the host of the coordinator, and name a directory there.
	if fi, err := os.Stat(os.TempDir()); err != nil || !fi.IsDir() {
		if err := os.Unsetenv("TMPDIR"); err != nil {
			return nil, err
		}
	}
	run, err := launch.NewRunDir(mpi.SegmentDir(0), 1)
	if err != nil {
		return nil, &launch.TempError{Err: err}
	}
	if err := os.Chdir(run.Scratch(0)); err != nil {
		return nil, errors.Join(err, run.Remove())
	}
	return &hostDir{run, placed}, nil
}

func (h *hostDir) leave() {
	if h != nil {
		_ = h.run.Remove() // the next run on this host sweeps
	}
}

// openSegment opens the shared memory of the node. On several hosts its first rank makes it.
func (s *state) openSegment(here *hostDir) (*mpi.Segment, error) {
	if here == nil || !s.cfg.Leads {
		return mpi.JoinSegment(s.cfg.Segment, s.spec.Implementation, s.cfg.Sharing)
	}
	dir := mpi.SegmentDir(mpi.SegmentBytes(s.spec.Implementation, s.cfg.Sharing))
	seg, err := here.make(s, dir)
	if errors.Is(err, syscall.ENOSPC) && dir != os.TempDir() {
		seg, err = here.make(s, os.TempDir()) // somebody else was quicker to take what there was
	}
	return seg, err
}

func (h *hostDir) make(s *state, dir string) (*mpi.Segment, error) {
	path := h.run.Segment(dir, s.spec.GroupOf[s.rank], 0, s.node)
	seg, err := mpi.OpenSegment(path, s.spec.Implementation, s.cfg.Sharing)
	if err != nil {
		_ = vfs.OS{}.Remove(path)
		return nil, err
	}
	h.placed(path)
	return seg, nil
}

// guardHost ends this process when the coordinator's host cannot be reached, before it is
// declared dead: it might compute on beside its successor.
func (r *process) guardHost() error { return r.link.SetPatience(r.cfg.Silence * 3 / 4) }
