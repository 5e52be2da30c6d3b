package iosched

import "time"

// A Conn is the number that the owner of an Arbiter gives to a connection.
type Conn uint64

// An Event is something that a connection said, that happened to it, or a Tick.
type Event interface{ event() }

type (
	// Join is the first event of a connection.
	Join struct {
		Conn Conn
		// App is the application: all connections of a user with this name
		// have their turns together.
		App  string
		User string
		Rank int
		// Weight compares applications of one user; 0 is 1. The shares of
		// users come from Options, not from what a client says.
		Weight float64
	}

	// Ask wants a turn for a burst.
	Ask struct {
		Conn Conn
		// Burst is a number that the connection has not used before.
		Burst uint64
		// Kind says what the bytes are for; it is only shown.
		Kind   string
		File   string
		Offset int64
		// Bytes is how much the burst has left to move; below 0: unknown.
		Bytes int64
		// Whole, if positive, is how much the application is about to move with
		// all its bursts together, of which others may ask later.
		Whole int64
	}

	// Progress says that a burst has moved so many bytes more.
	Progress struct {
		Conn  Conn
		Burst uint64
		Bytes int64
	}

	// Idle says that a burst has the turn and nothing under way on the unit
	// for now. Its next Progress ends that. A client need not send it.
	Idle struct {
		Conn  Conn
		Burst uint64
	}

	// Release answers a revocation: nothing of the burst is under way, and it
	// waits for its next turn. Turn is the number of the revoked turn.
	Release struct {
		Conn  Conn
		Burst uint64
		Turn  uint64
	}

	// End says that a burst is over, complete or not.
	End struct {
		Conn  Conn
		Burst uint64
	}

	// Alive is a sign of life. All events of a connection are, too.
	Alive struct{ Conn Conn }

	// Leave says that a connection has closed or died.
	Leave struct{ Conn Conn }

	// Tick says that time has passed.
	Tick struct{}
)

func (Join) event()     {}
func (Ask) event()      {}
func (Progress) event() {}
func (Idle) event()     {}
func (Release) event()  {}
func (End) event()      {}
func (Alive) event()    {}
func (Leave) event()    {}
func (Tick) event()     {}

// A Verb is what an Action tells a connection.
type Verb uint8

const (
	// GrantTurn lets a burst use the unit.
	GrantTurn Verb = iota + 1
	// RevokeTurn asks a burst to finish its current operation, and no more, and
	// to answer with Release.
	RevokeTurn
	// EvictTurn says that a burst has lost its turn already.
	EvictTurn
)

// An Action is a message to a connection about one of its bursts.
type Action struct {
	Verb  Verb
	Conn  Conn
	Burst uint64
	Turn  uint64
	// Window and Lease are set for Grant: how long the turn lasts before the
	// others are looked at, and how long the connection may be silent.
	Window, Lease time.Duration
}
