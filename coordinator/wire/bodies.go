package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/image"
	"ckpt/zones"
)

// The bodies of messages between coordinator and ranks are JSON: they are few per checkpoint, and
// the protocol does not look at them.

// Welcome configures a rank.
type Welcome struct {
	Spec     job.Spec      `json:"spec"`
	Recut    *job.Recut    `json:"recut,omitempty"` // what the job begins with; nil: nothing
	Job      string        `json:"job"`
	StoreDir string        `json:"store"`
	Program  string        `json:"program"`            // file whose content is the library zone
	Segment  string        `json:"segment"`            // path of the node's shared memory
	Sharing  int           `json:"sharing"`            // how many ranks share it
	Leads    bool          `json:"leads"`              // this one stands for them
	Channels *ChannelSetup `json:"channels,omitempty"` // to other groups, if there are any
	Peers    []string      `json:"peers"`              // addresses, by rank
	InjectAt []int         `json:"inject_at"`          // iterations at which to ask for a failure
	Silence  time.Duration `json:"silence"`
	From     int           `json:"from"`           // checkpoint to restore, 0 none
	Iter     int           `json:"iter"`           // its iteration: of a program, the boundaries passed
	Step     int64         `json:"step,omitempty"` // of a program: its own number of that boundary
	// Local says that the directories of the nodes have the checkpoint, and Stored that the store
	// has it.
	Local  bool   `json:"local,omitempty"`
	Stored bool   `json:"stored,omitempty"`
	ID     string `json:"id,omitempty"`
	// Served says where the directories of the nodes are reached, by rank; nil: on this host.
	Served []Served `json:"served,omitempty"`
	// Again says that the rank was restarted: it tells what it read, and beats when it has
	// completed iteration Reach, where it had been before.
	Again bool `json:"again,omitempty"`
	Reach int  `json:"reach,omitempty"`
}

type ServeOrder struct {
	Dir string `json:"dir"` // of its node
	Job string `json:"job"`
	// Lose has the node lose its files of the job, for an injected failure.
	Lose bool `json:"lose,omitempty"`
}

type Served struct {
	Address  string `json:"address"`
	Host     string `json:"host"`
	HostName string `json:"host_name"`
}

// WriteOrder says what a rank has to write, and where.
type WriteOrder struct {
	Local bool     `json:"local,omitempty"` // into the directory of the node
	Rank  string   `json:"rank,omitempty"`  // its own file,
	Group []string `json:"group,omitempty"` // or those that the ranks write together
	// WithShared says that the shared zone comes with the rank's other regions.
	WithShared bool `json:"with_shared,omitempty"`
	// WithLibrary says the same of the library zone.
	WithLibrary bool `json:"with_library,omitempty"`
	// Way is how to write; nil: as the description says.
	Way *job.Way `json:"way,omitempty"`
	// Base is the checkpoint whose extents may be referred to, or 0.
	Base int `json:"base,omitempty"`
	// Oldest is the oldest checkpoint that references may lead to.
	Oldest int `json:"oldest,omitempty"`
}

type StoreOrder struct {
	Path string `json:"path,omitempty"` // of its own file,
	// Group are the files that the ranks write together, and Way is how, as in WriteOrder.
	Group []string `json:"group,omitempty"`
	Way   *job.Way `json:"way,omitempty"`
	ID    string   `json:"id"`             // of the checkpoint
	Rate  int64    `json:"rate,omitempty"` // bytes per second, 0 no limit
	// Basis is what the copy may refer to.
	Basis job.Basis `json:"basis,omitzero"`
}

type StoreReport struct {
	Copied job.Copied `json:"copied"`
	// As in WriteReport.
	TurnWait   time.Duration `json:"turn_wait,omitempty"`
	TurnPassed string        `json:"turn_passed,omitempty"`
}

type WriteReport struct {
	File       string          `json:"file"`               // that holds its regions
	Files      []WrittenFile   `json:"files"`              // that it has completed
	Zones      zones.Sizes     `json:"zones"`              // of the rank, as in memory
	Pending    int64           `json:"pending"`            // bytes of messages in the image
	Channels   int64           `json:"channels,omitempty"` // bytes of the state of channels
	Vector     json.RawMessage `json:"vector,omitempty"`   // a channel.Vector
	Log        *image.LogStats `json:"log,omitempty"`      // since the checkpoint before
	LogFrom    uint64          `json:"log_from,omitempty"`
	Management time.Duration   `json:"management"`
	Storage    time.Duration   `json:"storage"`
	Trace      []byte          `json:"trace,omitempty"`   // what was done, as an events file
	Step       int64           `json:"step,omitempty"`    // of a program: its own number of the boundary
	Regions    int             `json:"regions,omitempty"` // of a program: how many it has protected
	Refused    []string        `json:"refused,omitempty"` // of a program: calls that the kernel refuses the agent
	// Global and Replicated are as in the manifest.
	Global     []image.GlobalPart `json:"global,omitempty"`
	Replicated []string           `json:"replicated,omitempty"`
	// TurnWait is how long the writing waited for other jobs, and TurnPassed why it wrote without
	// a turn; empty if it had one.
	TurnWait   time.Duration `json:"turn_wait,omitempty"`
	TurnPassed string        `json:"turn_passed,omitempty"`
	// Parities protect the file, on the nodes.
	Parities []image.Parity `json:"parities,omitempty"`
}

type WrittenFile struct {
	Kind  string `json:"kind"`
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	Holes int64  `json:"holes,omitempty"`
	Index string `json:"index"`
}

type RestoreReport struct {
	Read      time.Duration `json:"read"` // reading and unpacking its image
	ReadBytes int64         `json:"read_bytes"`
	Log       time.Duration `json:"log,omitempty"` // reading its message log
	LogBytes  int64         `json:"log_bytes,omitempty"`
	Trace     []byte        `json:"trace,omitempty"` // as in WriteReport
	// With directories of the nodes: where the image was found, and what was wrong with nearer
	// places.
	Source string   `json:"source,omitempty"`
	Passed []string `json:"passed,omitempty"`
	// As in WriteReport.
	TurnWait   time.Duration `json:"turn_wait,omitempty"`
	TurnPassed string        `json:"turn_passed,omitempty"`
}

// A Field is the digest of a rank's part of an array that all ranks hold together: they add up
// over the ranks.
type Field struct {
	Name string    `json:"name"`
	Sum  [2]uint64 `json:"sum"`
}

type DoneReport struct {
	Fields   []Field         `json:"fields,omitempty"`
	Digest   string          `json:"digest"`        // of its data zone
	Residual *float64        `json:"residual"`      // nil if it is not a finite number
	Log      *image.LogStats `json:"log,omitempty"` // since the last checkpoint
}

type ChannelSetup struct {
	Incarnation  uint64   `json:"incarnation"`
	Incarnations []uint64 `json:"incarnations"`
	Line         []uint64 `json:"line,omitempty"`
}

// An Exchange collects what the ranks that write a checkpoint together tell each
// other, round after round. It belongs to the driver's loop.
type Exchange struct {
	number, round int
	ranks         []int
	told          [][]byte
	left          int
}

// NewExchange is for a checkpoint that ranks write together, in ascending order.
func NewExchange(number int, ranks []int) *Exchange {
	return &Exchange{number: number, ranks: ranks, told: make([][]byte, len(ranks)), left: len(ranks)}
}

// Add takes what a rank tells and, when it was the last of its round, returns what
// all have told.
func (x *Exchange) Add(rank int, m protocol.Share) (all []byte, complete bool) {
	if x == nil || m.Number != x.number || m.Round != x.round {
		return nil, false // of a checkpoint that was aborted
	}
	i, ok := slices.BinarySearch(x.ranks, rank)
	if !ok || x.told[i] != nil {
		return nil, false
	}
	x.told[i] = append([]byte{}, m.Body...)
	if x.left--; x.left > 0 {
		return nil, false
	}
	for _, b := range x.told {
		all = binary.AppendUvarint(all, uint64(len(b)))
		all = append(all, b...)
	}
	clear(x.told)
	x.left = len(x.told)
	x.round++
	return all, true
}

// Split takes apart what an Exchange of so many ranks has put together.
func Split(b []byte, ranks int) ([][]byte, error) {
	all := make([][]byte, 0, ranks)
	for range ranks {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)-k) {
			return nil, fmt.Errorf("what %d ranks tell each other ends with rank %d", ranks, len(all))
		}
		all = append(all, b[k:k+int(n)])
		b = b[k+int(n):]
	}
	return all, nil
}
