package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/family"
)

// announcement tells other processes of the user how to reach the coordinator of a running job.
// It lies beside the checkpoints, readable by the user only.
type announcement struct {
	PID     int       `json:"pid"`
	Start   string    `json:"start,omitempty"` // of the process, as family.Process has it
	Address string    `json:"address"`         // network, colon, address
	Token   string    `json:"token"`
	Host    string    `json:"host,omitempty"`
	Started time.Time `json:"started,omitzero"`
	// Store is the store of the job, which a copy is not; nil from earlier versions.
	Store *image.Owner `json:"store,omitempty"`
	Where string       `json:"where,omitempty"` // identity of the host, as ThisHost says it
}

const announcementName = image.RunName

// Announce writes the announcement of this process into the directory of a job.
func Announce(j *image.Job, address, token string) error {
	path := announcementPath(j)
	run := job.NewBeginning()
	here, _ := ThisHost()
	self, _ := family.Find(os.Getpid())
	owner, err := j.Store().Owner()
	if err != nil {
		return err
	}
	err = durable.ReplaceUnsynced(j.FS(), path, append(job.Encode(announcement{self.PID, self.Start, address, token, run.Host, run.Started, &owner, here}), '\n'))
	return durable.Op("write", path, -1, err)
}

// Announced says where and when the last run began that has not withdrawn its announcement: it
// runs, or was killed.
func Announced(j *image.Job) (job.Beginning, bool) {
	var a announcement
	b, err := durable.ReadFile(j.FS(), announcementPath(j), 1<<16)
	if err != nil || json.Unmarshal(b, &a) != nil {
		return job.Beginning{}, false
	}
	return job.Beginning{Host: a.Host, Started: a.Started}, true
}

func Withdraw(j *image.Job) { _ = j.FS().Remove(announcementPath(j)) }

func announcementPath(j *image.Job) string { return filepath.Join(j.Dir(), announcementName) }

// ErrNotRunning says that no process coordinates the job now.
var ErrNotRunning = errors.New("not running")

// errUnannounced is ErrNotRunning of a job that has no announcement to read.
var errUnannounced = fmt.Errorf("%w", ErrNotRunning)

// ErrSilent says that the coordinator of the job lives but does not answer, as after ^Z.
var ErrSilent = errors.New("the coordinator of the job does not answer")

// answerTime is how long a coordinator may take to say how it is.
const answerTime = 5 * time.Second

type Command struct {
	Op   string `json:"op"`
	Now  bool   `json:"now,omitempty"`
	Keep int    `json:"keep,omitempty"`
	But  []int  `json:"but,omitempty"` // checkpoints that stay besides
}

const (
	OpStatus     = "status"
	OpCheckpoint = "checkpoint"
	OpStop       = "stop"
	OpPrune      = "prune"
	// OpPreviewPrune is no flag of OpPrune: an older coordinator would not know the flag, and
	// prune.
	OpPreviewPrune = "preview prune"
	// OpPruneBut is OpPrune with checkpoints that stay, of which an older coordinator knows
	// nothing either.
	OpPruneBut = "prune but"
)

type Reply struct {
	Error      string               `json:"error,omitempty"`
	Detail     *errorReport         `json:"detail,omitempty"`
	Status     *Status              `json:"status,omitempty"`
	Checkpoint *job.CheckpointEvent `json:"checkpoint,omitempty"`
	Pruned     *job.Pruned          `json:"pruned,omitempty"`
}

// Status describes a running job.
type Status struct {
	Job           string      `json:"job"`
	ID            string      `json:"job_id,omitempty"` // random, of the description
	Phase         string      `json:"phase"`
	Iteration     int         `json:"iteration"`
	Iterations    int         `json:"iterations"`
	Incarnation   int         `json:"generation"`
	Mapping       job.Mapping `json:"mapping"`
	PIDs          []int       `json:"pids"` // of the ranks
	Since         time.Time   `json:"since"`
	Rate          float64     `json:"iterations_per_s"` // since the ranks began to compute, 0 if that is not known
	NextIteration int         `json:"next_iteration,omitempty"`
	NextSeconds   *float64    `json:"next_s,omitempty"`
	AtRisk        float64     `json:"at_risk_s,omitempty"`
	InFlight      int         `json:"checkpoints_in_flight,omitempty"`
}

// A Client speaks to the coordinator of a running job.
type Client struct {
	First *Status // as the job was when the client came
	conn  net.Conn
	out   *json.Encoder
	in    *json.Decoder
}

// Contact connects to the coordinator of a job. It fails with ErrNotRunning if there is none, and
// with an UnreachableError if there is one elsewhere.
func Contact(ctx context.Context, j *image.Job) (*Client, error) {
	b, err := durable.ReadFile(j.FS(), announcementPath(j), 1<<16)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errUnannounced
	} else if err != nil {
		return nil, err
	}
	var a announcement
	if json.Unmarshal(b, &a) != nil {
		return nil, ErrNotRunning // torn by a crash
	}
	if err := a.ofCopy(j); err != nil {
		return nil, err
	}
	conn, err := Dial(ctx, a.Address, a.Token)
	if err != nil {
		if unreachable := a.alive(j, err); unreachable != nil {
			return nil, unreachable
		}
		if here, herr := os.Hostname(); herr == nil && a.Host != "" && a.Host != here {
			return nil, fmt.Errorf("%w here: it was started on host %s", ErrNotRunning, a.Host)
		}
		return nil, ErrNotRunning // it was killed and could not withdraw
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	if err := Greet(conn, Greeting{Token: a.Token, Role: RoleControl}); err != nil {
		conn.Close()
		return nil, ErrNotRunning
	}
	c := &Client{conn: conn, out: json.NewEncoder(conn), in: json.NewDecoder(conn)}
	// Later requests may take long, but not this one.
	_ = conn.SetDeadline(time.Now().Add(answerTime))
	c.First, err = c.Status()
	if s := c.First; err == nil && s.Job != "" && s.Job != j.Name() {
		err = fmt.Errorf("%w: its directory is a copy of that of job %s, which runs", ErrNotRunning, s.Job)
	}
	if spec, serr := job.ReadSpec(j); err == nil && serr == nil && c.First.ID != "" && c.First.ID != spec.ID {
		err = fmt.Errorf("%w: process %d runs another job that has this name", ErrNotRunning, a.PID)
	}
	if err != nil {
		conn.Close()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, fmt.Errorf("%w: process %d", ErrSilent, a.PID)
		}
		return nil, err
	}
	return c, conn.SetDeadline(time.Time{})
}

// ofCopy fails with ErrNotRunning if the announcement was copied with the store of the job.
func (a *announcement) ofCopy(j *image.Job) error {
	if a.Store == nil {
		return nil
	}
	same, err := j.Store().Is(*a.Store)
	if err == nil && !same {
		err = fmt.Errorf("%w here: this store is a copy, and the job was running in the original, %s", ErrNotRunning, a.Store.Path)
	}
	return err
}

func (c *Client) Close() error { return c.conn.Close() }

// Status asks what the job is doing.
func (c *Client) Status() (*Status, error) {
	r, err := c.call(Command{Op: OpStatus})
	if err == nil && r.Status == nil {
		err = errors.New("the coordinator of the job answers without saying how it is")
	}
	return r.Status, err
}

func (c *Client) Checkpoint() (*job.CheckpointEvent, error) {
	r, err := c.call(Command{Op: OpCheckpoint})
	return r.Checkpoint, err
}

// Stop ends the job, after a last checkpoint unless now is set, and returns that checkpoint if
// there is one.
func (c *Client) Stop(now bool) (*job.CheckpointEvent, error) {
	r, err := c.call(Command{Op: OpStop, Now: now})
	return r.Checkpoint, err
}

// Prune removes all but the newest keep checkpoints and those in but.
func (c *Client) Prune(keep int, but ...int) (*job.Pruned, error) {
	op := OpPrune
	if len(but) > 0 {
		op = OpPruneBut
	}
	r, err := c.call(Command{Op: op, Keep: keep, But: but})
	return r.Pruned, err
}

func (c *Client) PreviewPrune(keep int, but ...int) (*job.Pruned, error) {
	r, err := c.call(Command{Op: OpPreviewPrune, Keep: keep, But: but})
	return r.Pruned, err
}

func (c *Client) call(cmd Command) (Reply, error) {
	var r Reply
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
			return r, &remoteError{r.Error, []error{r.Detail.error()}}
		}
		return r, errors.New(r.Error)
	}
	return r, nil
}

// An UnreachableError says that a process holds the lock of a job, and that its coordinator
// cannot be reached from here: it has other files or another network, or its socket was removed.
// It is image.ErrInUse.
type UnreachableError struct {
	Job  string
	PID  int    // of the coordinator, on its host
	Host string // "" if not known
	Here bool   // it is a process of this host, and has its number here, too
	Err  error  // why it cannot be reached
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("running, unreachable from here: %s has the lock of the job: %v", e.Process(), e.Err)
}

func (e *UnreachableError) Process() string {
	if e.Host == "" {
		return fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("process %d on host %s", e.PID, e.Host)
}

func (e *UnreachableError) Unwrap() []error { return []error{image.ErrInUse, e.Err} }

// alive returns an UnreachableError if a process that cannot be reached has the lock of the job,
// nil if it was killed.
func (a *announcement) alive(j *image.Job, why error) error {
	if locked, err := j.Locked(); err != nil || !locked {
		return nil
	}
	id, host := ThisHost()
	here := SameProcesses(a.Where, id) || a.Where == "" && a.Host == host
	is, found := family.Find(a.PID)
	if here && (!found || a.Start != "" && is.Start != a.Start) {
		return nil // another process is about to run it, or to remove it
	}
	if errors.Is(why, os.ErrNotExist) {
		why = fmt.Errorf("its socket %s is not here", a.Address)
	}
	return &UnreachableError{Job: j.Name(), PID: a.PID, Host: a.Host, Here: here, Err: why}
}

// SameProcesses reports whether two hosts share one space of process numbers, whatever files each
// sees.
func SameProcesses(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	return len(x) == 3 && len(y) == 3 && x[0] == y[0] && x[2] == y[2]
}

// ThisHost identifies the host of this process, and names it for people. Processes with equal
// identities share memory, and can signal each other. Under Slurm, which may run several nodes on
// one host, the name is the node's.
func ThisHost() (id, name string) {
	if name = os.Getenv("SLURMD_NODENAME"); name == "" {
		name, _ = os.Hostname()
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		boot = []byte(name)
	}
	parts := []string{strings.TrimSpace(string(boot))}
	for _, ns := range []string{"mnt", "pid"} { // a batch system may give a job a /dev/shm of its own
		link, _ := os.Readlink("/proc/self/ns/" + ns) // mnt:[4026531841]
		parts = append(parts, strings.Trim(strings.TrimPrefix(link, ns), ":[]"))
	}
	return strings.Join(parts, "."), name
}
