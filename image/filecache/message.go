package filecache

import "context"

// Verb is what one daemon asks another one.
type Verb uint8

// The verbs. A file has a home: the daemon that opens, stores and closes it for all.
const (
	Serve   Verb = iota + 1 // to an owner: a request
	Enter                   // to the home: programs of a node begin to use a file
	Leave                   // to the home: they have closed it
	Settle                  // to the home: store it
	Resize                  // to the home: cut it to Length
	Join                    // to a member: start its manager
	Pause                   // to a member: hold all requests until Resume
	Resume                  // to a member
	Drop                    // to a member: stop its manager
	Abandon                 // to all: abandon a file, since it is recovered
	Look                    // to the home: whether programs have it open, and where it ends
	Greet                   // to all: whether the daemon is there
)

var verbNames = map[Verb]string{Serve: "serve", Enter: "open", Leave: "close", Settle: "sync", Resize: "truncate",
	Join: "begin", Pause: "pause", Resume: "go on with", Drop: "end", Abandon: "abandon", Look: "look for", Greet: "greet"}

func (v Verb) String() string { return verbNames[v] }

// A Lane is a way to a daemon that messages of other lanes cannot fill. Those of a lane wait
// only for messages of later ones.
type Lane int

// The lanes. Files of a node's directory have a lane of their own, behind these.
const (
	ToHome Lane = iota
	ToMember
	ToOwner
	Lanes = iota
)

// Lane returns the lane of a verb.
func (v Verb) Lane() Lane {
	switch v {
	case Serve, Greet:
		return ToOwner
	case Join, Pause, Resume, Drop, Abandon:
		return ToMember
	}
	return ToHome
}

// A Message is what a daemon says to another one. The data of a request go beside it.
type Message struct {
	Verb    Verb     `json:"verb"`
	Name    string   `json:"name"`
	From    int      `json:"from"`
	Length  int64    `json:"length,omitempty"`
	Session *session `json:"session,omitempty"` // of Join
	Request *Request `json:"request,omitempty"` // of Serve
}

// An Answer is what a daemon says to a message.
type Answer struct {
	Reply Reply `json:"reply"`
	Dirty bool  `json:"dirty,omitempty"` // Pause: written since the store had it
	Open  bool  `json:"open,omitempty"`  // Look: programs have it open
}

// Peers reach the daemons of the other nodes.
type Peers interface {
	// Ask sends a message, with the data of its request, and returns the answer. Bytes that
	// were read come into the data. An error of the daemon itself may be any.
	Ask(ctx context.Context, node int, m Message) (Answer, error)
	// Reach sees to it that all daemons, and their directories, can be reached.
	Reach(ctx context.Context) error
}
