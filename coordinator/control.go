package coordinator

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/image"
	"ckpt/internal/durable"
)

// announcement tells other processes of the user how to reach the coordinator
// of a running job. It lies beside the job's checkpoints, readable by the user
// only.
type announcement struct {
	PID     int    `json:"pid"`
	Address string `json:"address"` // network, colon, address
	Token   string `json:"token"`
}

const announcementName = "run.json"

func announce(dir, address, token string) error {
	b, err := json.Marshal(announcement{os.Getpid(), address, token})
	if err != nil {
		return err
	}
	path := filepath.Join(dir, announcementName)
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(next, append(b, '\n'), 0o600); err != nil {
		return errors.Join(&durable.OpError{Op: "write", Path: path, Offset: -1, Err: err}, os.Remove(next))
	}
	return os.Rename(next, path)
}

func withdraw(dir string) { os.Remove(filepath.Join(dir, announcementName)) }

// ErrNotRunning says that nobody coordinates the job now.
var ErrNotRunning = errors.New("job is not running")

// ErrSilent says that the coordinator of the job lives but does not answer, as
// one that was stopped with ^Z does not.
var ErrSilent = errors.New("the coordinator of the job does not answer")

// answerTime is how long a coordinator may take to say how it is.
const answerTime = 5 * time.Second

// A command is a request from another process.
type command struct {
	Op   string `json:"op"`
	Now  bool   `json:"now,omitempty"`
	Keep int    `json:"keep,omitempty"`
}

const (
	opStatus     = "status"
	opCheckpoint = "checkpoint"
	opStop       = "stop"
	opPrune      = "prune"
)

// A reply answers a command.
type reply struct {
	Error      string           `json:"error,omitempty"`
	Detail     *errorReport     `json:"detail,omitempty"`
	Status     *Status          `json:"status,omitempty"`
	Checkpoint *CheckpointEvent `json:"checkpoint,omitempty"`
	Pruned     *Pruned          `json:"pruned,omitempty"`
}

// Status describes a running job.
type Status struct {
	Phase      string    `json:"phase"`
	Iteration  int       `json:"iteration"`
	Iterations int       `json:"iterations"`
	Generation int       `json:"generation"`
	Mapping    Mapping   `json:"mapping"`
	PIDs       []int     `json:"pids"` // of the ranks
	Since      time.Time `json:"since"`
}

// serveControl answers the commands on a connection.
func (d *driver) serveControl(conn net.Conn, r *bufio.Reader) {
	in := json.NewDecoder(r)
	for {
		var c command
		if err := in.Decode(&c); err != nil {
			return
		}
		answers := make(chan reply, 1)
		d.post(func() { d.obey(c, answers) })
		select {
		case a := <-answers:
			if err := json.NewEncoder(conn).Encode(a); err != nil {
				return
			}
		case <-d.done:
			// The answer may have been given at the last moment.
			select {
			case a := <-answers:
				_ = json.NewEncoder(conn).Encode(a)
			default:
			}
			return
		}
	}
}

// obey carries out a command in the loop.
func (d *driver) obey(c command, answers chan<- reply) {
	finish := func(a protocol.Answer, cp *CheckpointEvent, err error) {
		r := reply{Error: a.Err, Checkpoint: cp}
		if err != nil {
			detail := reportError(err)
			r.Detail = &detail
		}
		answers <- r
	}
	switch c.Op {
	case opStatus:
		answers <- reply{Status: d.status()}
	case opCheckpoint:
		d.request(protocol.Request{}, finish)
	case opStop:
		d.request(protocol.Request{Stop: true, Now: c.Now}, finish)
	case opPrune:
		d.prune(c.Keep, answers)
	default:
		answers <- reply{Error: fmt.Sprintf("command %q is unknown", c.Op)}
	}
}

func (d *driver) status() *Status {
	s := &Status{Phase: d.machine.Phase(), Iteration: d.machine.Iteration(), Iterations: d.spec.Iterations,
		Generation: d.groups[0].gen, Mapping: d.mapping, Since: d.since}
	for _, m := range d.members {
		if m != nil {
			s.PIDs = append(s.PIDs, m.proc.pid())
		}
	}
	return s
}

// A Client speaks to the coordinator of a running job.
type Client struct {
	conn net.Conn
	out  *json.Encoder
	in   *json.Decoder
}

// Contact connects to the coordinator of a job, given the job's directory. It
// fails with ErrNotRunning if there is none.
func Contact(ctx context.Context, jobDir string) (*Client, error) {
	b, err := os.ReadFile(filepath.Join(jobDir, announcementName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrNotRunning
	} else if err != nil {
		return nil, err
	}
	var a announcement
	if json.Unmarshal(b, &a) != nil {
		return nil, ErrNotRunning // torn by a crash
	}
	conn, err := dialCoordinator(ctx, a.Address)
	if err != nil {
		return nil, ErrNotRunning // it was killed and could not withdraw
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	if err := greet(conn, greeting{Token: a.Token, Role: roleControl}); err != nil {
		conn.Close()
		return nil, ErrNotRunning
	}
	c := &Client{conn, json.NewEncoder(conn), json.NewDecoder(conn)}
	// What follows may take its time, but not this.
	_ = conn.SetDeadline(time.Now().Add(answerTime))
	if _, err := c.Status(); err != nil {
		conn.Close()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, fmt.Errorf("%w: process %d", ErrSilent, a.PID)
		}
		return nil, err
	}
	return c, conn.SetDeadline(time.Time{})
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Status asks what the job is doing.
func (c *Client) Status() (*Status, error) {
	r, err := c.call(command{Op: opStatus})
	return r.Status, err
}

// Checkpoint takes a checkpoint now and returns when it is committed.
func (c *Client) Checkpoint() (*CheckpointEvent, error) {
	r, err := c.call(command{Op: opCheckpoint})
	return r.Checkpoint, err
}

// Stop ends the job, after a last checkpoint unless now is set, and returns
// that checkpoint if there is one.
func (c *Client) Stop(now bool) (*CheckpointEvent, error) {
	r, err := c.call(command{Op: opStop, Now: now})
	return r.Checkpoint, err
}

// AwaitEnd returns when nobody coordinates the job any more, so that it can be
// restarted: a coordinator answers a stop before it clears up.
func AwaitEnd(ctx context.Context, job *image.Job) error {
	for {
		err := job.Lock()
		if err == nil {
			return job.Unlock()
		}
		if !errors.Is(err, image.ErrInUse) {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Prune removes all but the newest keep checkpoints.
func (c *Client) Prune(keep int) (*Pruned, error) {
	r, err := c.call(command{Op: opPrune, Keep: keep})
	return r.Pruned, err
}

func (c *Client) call(cmd command) (reply, error) {
	var r reply
	if err := c.out.Encode(cmd); err != nil {
		return r, fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	err := c.in.Decode(&r)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return r, err
	}
	if err != nil {
		return r, fmt.Errorf("%w any more: it ended before it answered", ErrNotRunning)
	}
	if r.Error != "" {
		if r.Detail != nil {
			return r, &remoteError{r.Error, r.Detail.error()}
		}
		return r, errors.New(r.Error)
	}
	return r, nil
}
