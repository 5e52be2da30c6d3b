// Package rank is the process of one rank, which `ckpt rank` starts: the agent that follows the
// coordinator, the loop of the application, and the memory that checkpoints capture and restarts
// fill.
//
// [Run] returns when the coordinator lets the rank leave or is gone.
//
// # Promises
//
//   - A rank ends when its connection to the coordinator ends.
//   - Signs of life do not wait for any I/O.
//   - A checkpoint is reported written after its bytes are durable.
package rank

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/image/container"
	"ckpt/internal/family"
	"ckpt/internal/vfs"
)

// Run is the process of a rank; fsys holds the store. The environment tells its rank: CKPT_RANK,
// or what mpiexec and srun set (PMIX_RANK, PMI_RANK, OMPI_COMM_WORLD_RANK, SLURM_PROCID). It
// returns when the coordinator lets it go or is gone.
func Run(ctx context.Context, fsys vfs.FS, getenv func(string) string) error {
	if fd := getenv(wire.EnvClient); fd != "" {
		return runProgram(ctx, fsys, getenv, fd)
	}
	r := newProcess(fsys, getenv(wire.EnvToken))
	var err error
	if r.id, err = rankOf(getenv); err != nil {
		return err
	}
	period, err := r.identify(getenv)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := r.connect(ctx, getenv(wire.EnvSocket), nil); err != nil {
		return fmt.Errorf("rank %d: %w", r.id, err)
	}
	defer r.link.Close()
	go r.beat(ctx, period)
	if err := r.join(ctx); err != nil {
		return fmt.Errorf("rank %d: %w", r.id, err)
	}
	defer r.together.close()
	defer r.closePeers()
	defer func() { r.turns.Load().Close() }()
	if r.network.Remote() {
		if r.here, err = enterHost(func(path string) { r.link.Send(protocol.Placed{Path: path}) }); err != nil {
			r.link.Send(protocol.SetupFailed{Text: err.Error(), Body: wire.EncodeError(err)})
			return fmt.Errorf("rank %d: %w", r.id, err)
		}
		defer r.here.leave()
	}
	if r.cfg.Channels != nil {
		go r.serveNews(ctx)
	}
	go r.run(ctx)
	return r.serve(ctx)
}

func newProcess(fsys vfs.FS, token string) *process {
	return &process{fs: fsys, peers: map[int]*wire.PeerClient{}, mail: make(chan protocol.MemberEvent, 16), together: newMeeting(),
		channelMail: make(chan protocol.Message, 64), joined: make(chan *mpi.Comm, 1), proceed: make(chan struct{}, 1),
		failed: make(chan error, 1), token: token}
}

// identify reads from the environment which incarnation this is, and the period of its signs of
// life.
func (r *process) identify(getenv func(string) string) (beat time.Duration, err error) {
	if r.incarnation, err = strconv.Atoi(getenv(wire.EnvIncarnation)); err != nil {
		return 0, &job.UsageError{Text: wire.EnvIncarnation + " is not set", Fix: "coordinators start ranks"}
	}
	beat, err = time.ParseDuration(getenv(wire.EnvBeat))
	if err != nil || beat <= 0 {
		return 0, &job.UsageError{Text: fmt.Sprintf("%s=%q is not a period", wire.EnvBeat, getenv(wire.EnvBeat)), Fix: "coordinators start ranks"}
	}
	return beat, nil
}

func rankOf(getenv func(string) string) (int, error) {
	for _, name := range wire.RankVariables {
		if v := getenv(name); v != "" {
			id, err := strconv.Atoi(v)
			if err != nil || id < 0 {
				return 0, fmt.Errorf("%s=%q is not a rank", name, v)
			}
			return id, nil
		}
	}
	return 0, &job.UsageError{Text: "no rank in the environment", Fix: "coordinators start ranks"}
}

func (r *process) connect(ctx context.Context, socket string, described *wire.Process) error {
	conn, err := wire.Dial(ctx, socket, r.token)
	if err != nil {
		return err
	}
	if r.network, err = wire.NetworkOf(conn, r.token); err != nil {
		return err
	}
	if c, ok := conn.(*net.UnixConn); ok {
		if cred, err := family.Peer(c); err == nil {
			r.beside = cred.Pid > 0
		}
	}
	host, name := wire.ThisHost()
	if err := wire.Greet(conn, wire.Greeting{Token: r.token, Role: wire.RoleRank, Rank: r.id, Incarnation: r.incarnation,
		Host: host, HostName: name, Process: described}); err != nil {
		return err
	}
	if r.link, err = wire.NewLink(conn, bufio.NewReader(conn)); err != nil {
		return err
	}
	if r.listener, err = r.network.Listen(); err != nil {
		return err
	}
	r.link.Send(protocol.Hello{Address: r.listener.Addr().String(), Process: os.Getpid()})
	return nil
}

// join waits until all ranks have connected and the coordinator has looked at the checkpoint. On
// a slow machine or store, that takes long.
func (r *process) join(ctx context.Context) error {
	w, err := r.awaitWelcome()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(w.Body, &r.cfg); err != nil {
		return err
	}
	if r.spec, err = r.cfg.Spec.Resolve(); err != nil {
		return err
	}
	r.spec.Recut = r.cfg.Recut
	r.group = r.spec.Groups[r.spec.GroupOf[r.id]]
	if r.spec.StorageTurns != job.NoTurns {
		r.turns.Store(newTurns(r.fs, &r.cfg, r.id))
	}
	if err := r.openTier(ctx); err != nil {
		return err
	}
	return r.guardHost()
}

// awaitWelcome waits until the rank is let in. Until then it may be asked to serve its node's
// directory.
func (r *process) awaitWelcome() (protocol.Welcome, error) {
	for {
		m, err := r.link.Receive()
		if err != nil {
			return protocol.Welcome{}, fmt.Errorf("the coordinator is gone: %w", err)
		}
		switch m := m.(type) {
		case protocol.Welcome:
			return m, nil
		case protocol.Serve:
			r.serveNode(m)
		default:
			return protocol.Welcome{}, fmt.Errorf("the coordinator says %s instead of welcome", protocol.Name(m))
		}
	}
}

// serve is the agent: it owns the protocol of the rank.
func (r *process) serve(ctx context.Context) error {
	member := protocol.NewMember(r.cfg.Iter)
	gone := make(chan error, 1)
	go func() { gone <- r.hear(ctx) }()
	for {
		select {
		case err := <-gone:
			return fmt.Errorf("rank %d: the coordinator is gone: %w", r.id, err)
		case err := <-r.failed:
			return fmt.Errorf("rank %d: %w", r.id, err)
		case <-ctx.Done():
			return ctx.Err()
		case ev := <-r.mail:
			for _, a := range member.Step(ev) {
				if _, leave := a.(protocol.Leave); leave {
					return nil
				}
				r.act(ctx, a)
			}
			r.iter.Store(int64(member.Iteration()))
		}
	}
}

func (r *process) act(ctx context.Context, a protocol.MemberAction) {
	switch a := a.(type) {
	case protocol.Tell:
		r.link.Send(a.Message)
	case protocol.Proceed:
		r.proceed <- struct{}{}
	case protocol.BeginDrain:
		r.cancelDrain = r.background(ctx, func(ctx context.Context) protocol.MemberEvent {
			if err := r.comm.Drain(ctx, a.Expected); err != nil {
				return protocol.DrainCancelled{}
			}
			return protocol.DrainDone{}
		})
	case protocol.BeginCapture:
		r.background(ctx, func(ctx context.Context) protocol.MemberEvent {
			if err := r.capture(ctx, a.Number, a.Body); err != nil {
				return protocol.CaptureEnded{Number: a.Number, Text: err.Error(), Body: wire.EncodeError(err)}
			}
			return protocol.CaptureDone{Number: a.Number}
		})
	case protocol.DropCapture:
		r.state.copies.drop(a.Number)
	case protocol.BeginWrite:
		r.cancelWrite = r.background(ctx, func(ctx context.Context) protocol.MemberEvent {
			report, err := r.write(ctx, a)
			if err != nil {
				return protocol.WriteEnded{Text: err.Error(), Body: wire.EncodeError(err)}
			}
			return protocol.WriteDone{Body: job.Encode(report), Held: report.TurnWait}
		})
	case protocol.CancelDrain:
		r.cancelDrain()
	case protocol.CancelWrite:
		r.cancelWrite()
	}
}

func (r *process) write(ctx context.Context, a protocol.BeginWrite) (*wire.WriteReport, error) {
	number := a.Number
	var order wire.WriteOrder
	if err := json.Unmarshal(a.Body, &order); err != nil {
		return nil, fmt.Errorf("order to write: %w", err)
	}
	if err := r.state.follow(order.Way); err != nil {
		return nil, fmt.Errorf("order to write: %w", err)
	}
	var net *layoutNetwork
	if len(order.Group) > 0 {
		var err error
		if net, err = r.open(ctx, &r.together, number, r.state.joint.Ranks); err != nil {
			return nil, err
		}
	}
	var recording *job.Recording
	opt := container.WriteOptions{Progress: r.worked}
	if !a.Copied {
		opt.Staging, opt.Captured = r.state.staging, func() { r.mail <- protocol.CaptureDone{Number: number} }
	}
	if r.spec.Trace {
		recording = job.NewRecording(r.cfg.Job)
		opt.Trace = recording.OfRank(r.id, r.state.node, number)
	}
	report, err := r.store(ctx, a, order, net, opt)
	if err == nil && recording != nil {
		report.Trace, err = recording.End()
	}
	return report, err
}

// store stores the memory of this process, or of the one whose agent it is.
func (r *process) store(ctx context.Context, a protocol.BeginWrite, order wire.WriteOrder, net *layoutNetwork, opt container.WriteOptions) (*wire.WriteReport, error) {
	if a.Copied {
		t := r.state.copies.take(a.Number)
		defer t.end()
		if t.clean != nil {
			opt.Clean = t.clean(order.Base)
		}
		if t.ready != nil {
			if err := t.ready(ctx); err != nil {
				return nil, err
			}
		}
		return t.report, r.state.store(ctx, a.Number, order, net, t.regions, opt, t.report)
	}
	if r.program != nil {
		return r.program.store(ctx, a.Number, order, net, opt)
	}
	snap, err := r.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	t, err := r.state.take(order, snap)
	if err != nil {
		return nil, err
	}
	defer t.end()
	return t.report, r.state.store(ctx, a.Number, order, net, t.regions, opt, t.report)
}

// background does the work of one phase; its end comes in as an event.
func (r *process) background(ctx context.Context, work func(context.Context) protocol.MemberEvent) context.CancelFunc {
	ctx, cancel := context.WithCancel(ctx)
	// Cancelled is not over: the end is waited for in any case.
	go func() {
		defer cancel()
		r.mail <- work(ctx)
	}()
	return cancel
}
