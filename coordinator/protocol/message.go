package protocol

import "ckpt/coordinator/protocol/channel"

// A Message travels between the coordinator and one rank.
type Message interface{ message() }

// A Count is a number of messages exchanged with one peer.
type Count = channel.Count

// A Life is one incarnation of a rank.
type Life struct {
	Rank        int
	Incarnation uint64
}

// The messages from a rank to the coordinator. A Body is opaque to the protocol.
type (
	// Hello is the first: Address takes connections of other ranks.
	Hello struct {
		Address string
		Process int // its number in the system
	}
	// Ready says that memory is allocated and filled, and that channels are open.
	Ready struct{}
	// Restored follows Ready where the rank was restarted. Body tells what was read.
	Restored struct{ Body []byte }
	// SetupFailed comes in place of Ready.
	SetupFailed struct {
		Damaged bool // the checkpoint is to blame
		Unfit   bool // it is sound, but not for these ranks
		Text    string
		Body    []byte
		Final   bool // trying again is no use
	}
	// Holding answers Propose with the iteration in progress.
	Holding struct{ Number, Iter int }
	// Stopped says that the rank stands at the boundary of checkpoint Number, after iteration
	// Iter, having sent so many messages to each peer.
	Stopped struct {
		Number, Iter int
		Sent         []Count
	}
	// Drained answers Drain.
	Drained struct{ Number int }
	// Captured says that the rank has a copy of its memory and need not wait for its image.
	Captured struct{ Number int }
	// Written says that the image is durable. Body tells what was written. Held is for how many
	// nanoseconds the writing stood still for other jobs.
	Written struct {
		Number int
		Body   []byte
		Held   uint64
	}
	// WriteFailed says that there will be no image.
	WriteFailed struct {
		Number int
		Text   string
		Body   []byte
	}
	// Aborted answers Abort: this rank writes nothing of checkpoint Number any more.
	Aborted struct{ Number int }
	// Beat is a sign of life. Progress counts iterations and other work. Step is the number that
	// a program gave the boundary Iter. Waits says that other jobs have the storage, and this
	// rank waits for its turn.
	Beat struct {
		Iter     int
		Progress uint64
		Step     uint64
		Waits    bool
	}
	// InjectDue says that the rank has reached an iteration at which a failure is to be injected.
	InjectDue struct{ Iter int }
	// Done brings the result of a rank that has ended.
	Done struct{ Body []byte }
	// Share is what a rank tells all that write with it, once in each round.
	Share struct {
		Number, Round int
		Body          []byte
	}
	// Fenced answers Fence with the present state of the channels.
	Fenced struct {
		Round  int
		Vector channel.Vector
	}
	// Output is what the rank prints. The index begins at 1.
	Output struct {
		Index uint64
		Text  string
	}
	// Demand asks for a checkpoint at boundary Iter, where the rank waits for its end.
	Demand struct{ Iter int }
	// Placed says where the first rank of a node has made its shared memory, before it is ready.
	Placed struct{ Path string }
	// Serving says where this rank serves the directory of its node, as Serve has asked, or why
	// it does not.
	Serving struct {
		Address string
		Text    string
		Body    []byte
	}
	// Stored says that this rank's part of a checkpoint is durable in the store, and StoreFailed
	// why it is not there.
	Stored struct {
		Number int
		Body   []byte
	}
	StoreFailed struct {
		Number int
		Text   string
		Body   []byte
	}
	// LogState says why the message log has failed, or, with an empty text, that it is in order
	// again.
	LogState struct {
		Text string
		Body []byte
	}
)

// The messages from the coordinator to a rank.
type (
	// Welcome brings the configuration of the rank.
	Welcome struct{ Body []byte }
	// Start and Resume let the application compute up to a boundary, 0 for none, at which
	// checkpoint Number is taken.
	Start  struct{ Boundary, Number int }
	Resume struct{ Boundary, Number int }
	// Propose has a rank hold at its next boundary.
	Propose struct{ Number int }
	// StopAt has a rank go on to boundary Iter.
	StopAt struct{ Number, Iter int }
	// Drain says how many messages to expect from each peer.
	Drain struct {
		Number   int
		Expected []Count
	}
	// Capture has a rank copy its memory for checkpoint Number at boundary Iter. Write follows
	// once the checkpoints before it are written.
	Capture struct {
		Number, Iter int
		Body         []byte
	}
	// Write orders the image of checkpoint Number at boundary Iter. Last says that the job
	// stops after it.
	Write struct {
		Number, Iter int
		Body         []byte
		Last         bool
	}
	// Abort ends all work for checkpoint Number.
	Abort struct{ Number int }
	// Quit ends the rank. A program's process is told to stop, and ends by itself.
	Quit struct{}
	// KillProcess ends the process of a program at once, and its rank.
	KillProcess struct{}
	// Shares is what all ranks that write together have told.
	Shares struct {
		Number, Round int
		Body          []byte
	}
	// Fence has a rank exchange nothing with other groups any more. Unfence ends that and names
	// the ranks that went back, in their new incarnations.
	Fence   struct{ Round int }
	Unfence struct {
		Round int
		Moved []Life
	}
	// Moved says where a rank of another group is.
	Moved struct {
		Life
		Address string
	}
	// Collected says up to which number messages to other ranks can be forgotten.
	Collected struct{ Received []Count }
	// Serve has a rank serve the directory of its node to the others, before it is let in.
	Serve struct{ Body []byte }
	// Store has a rank copy its part of a checkpoint into the store, while it computes.
	Store struct {
		Number int
		Body   []byte
	}
	// Truncate says which frame of the message log is the first that is still needed.
	Truncate struct{ First uint64 }
)

func (Hello) message()       {}
func (Ready) message()       {}
func (Restored) message()    {}
func (SetupFailed) message() {}
func (Holding) message()     {}
func (Stopped) message()     {}
func (Drained) message()     {}
func (Captured) message()    {}
func (Written) message()     {}
func (WriteFailed) message() {}
func (Aborted) message()     {}
func (Beat) message()        {}
func (InjectDue) message()   {}
func (Done) message()        {}
func (Share) message()       {}
func (Fenced) message()      {}
func (Output) message()      {}
func (Demand) message()      {}
func (KillProcess) message() {}
func (LogState) message()    {}
func (Placed) message()      {}
func (Serve) message()       {}
func (Serving) message()     {}
func (Store) message()       {}
func (Stored) message()      {}
func (StoreFailed) message() {}
func (Welcome) message()     {}
func (Start) message()       {}
func (Resume) message()      {}
func (Propose) message()     {}
func (StopAt) message()      {}
func (Drain) message()       {}
func (Capture) message()     {}
func (Write) message()       {}
func (Abort) message()       {}
func (Quit) message()        {}
func (Shares) message()      {}
func (Fence) message()       {}
func (Unfence) message()     {}
func (Moved) message()       {}
func (Collected) message()   {}
func (Truncate) message()    {}
