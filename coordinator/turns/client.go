package turns

import (
	"sync/atomic"
	"time"

	"ckpt/internal/vfs"
)

// Who is the application that a client belongs to.
type Who struct {
	// App is the name of the job or command: all clients of a user with this name have
	// their turns together.
	App string
	// User is the user's name. A controller on the same host asks the kernel instead.
	User string
	Rank int
	// Weight compares applications of one user; 0 is 1.
	Weight float64
}

// Kinds of bursts.
const (
	Checkpoint = "checkpoint"
	Drain      = "drain"
	Restart    = "restart"
	Command    = "command"
)

// A Burst is what an application wants to move at one time.
type Burst struct {
	Kind          string
	File          string
	Offset, Bytes int64 // -1 if unknown
}

// ClientOptions say how a client waits. Zero values are defaults.
type ClientOptions struct {
	// FS has the directory; vfs.OS if nil.
	FS vfs.FS
	// Patience is how long a client waits for a controller that says nothing; 5 s.
	Patience time.Duration
	// MaxWait is how long one turn is awaited, whatever the controller says; 10 min.
	MaxWait time.Duration
	// OnWait is told of each time for which operations of a burst waited. It must return
	// soon.
	OnWait func(b Burst, from, to time.Time)
	// OnPass is told once why bytes pass without turns although there is a controller, and
	// once more after turns were possible again. It must return soon.
	OnPass func(why string)
}

const (
	defaultPatience = 5 * time.Second
	defaultMaxWait  = 10 * time.Minute
)

// A Client asks a controller for the turns of one process. A nil Client passes
// everything.
type Client struct {
	dir     string
	who     Who
	o       ClientOptions
	waiting atomic.Int64 // turns that were asked for and are not granted
	last    atomic.Uint64
}

// NewClient returns a client for the storage unit of a directory. It opens nothing
// before the first Begin.
func NewClient(dir string, who Who, o ClientOptions) *Client {
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	if o.Patience <= 0 {
		o.Patience = defaultPatience
	}
	if o.MaxWait <= 0 {
		o.MaxWait = defaultMaxWait
	}
	return &Client{dir: dir, who: who, o: o}
}

// Begin asks for a turn. It does not wait.
func (c *Client) Begin(b Burst) *Turn {
	if c == nil {
		return nil
	}
	t := &Turn{client: c, id: c.last.Add(1), burst: b, passed: ErrNone.Error()}
	return t
}

// Waits reports whether a burst was asked for and is not granted now: this process waits
// for others, and is not stuck.
func (c *Client) Waits() bool { return c != nil && c.waiting.Load() > 0 }

// Close ends the connection. Turns that are still open pass.
func (c *Client) Close() {}
