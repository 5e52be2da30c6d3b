package process

import "fmt"

// A Kind is the kind of a call that waits for an answer.
type Kind uint32

// The calls of a program that wait for an answer. The values are those of the link.
const (
	Restore  Kind = 4
	Boundary Kind = 5
	Wait     Kind = 6
	Query    Kind = 7
	Finalize Kind = 8
)

func (k Kind) String() string {
	switch k {
	case Restore:
		return "restore"
	case Boundary:
		return "boundary"
	case Wait:
		return "wait"
	case Query:
		return "query"
	case Finalize:
		return "finalize"
	}
	return fmt.Sprintf("kind(%d)", uint32(k))
}

// A Call is a call of the program that waits for [Process.Answer].
type Call struct {
	Kind Kind
	// Save, Count and Step belong to a Boundary: the program asks for a checkpoint, the
	// number of boundaries so far, and the program's own number of the step.
	Save        bool
	Count, Step int64
	// Name is the region that a Query asks for. An empty one asks for the step.
	Name string
}

// A Status is the result of a call, as the program sees it.
type Status int32

// The results. Negative ones are errors.
const (
	OK       Status = 0
	Stop     Status = 1  // leave the loop
	None     Status = -1 // there is no checkpoint to resume from
	Argument Status = -2 // an argument of the call is wrong
	Service  Status = -3 // the coordinator or the agent is gone
	Damage   Status = -4 // a checkpoint is damaged
	Full     Status = -5 // the disk is full
	Mismatch Status = -6 // the checkpoint does not fit the program
	IO       Status = -7 // another error of a disk
)

// An Answer ends a call. Value is the step to resume from, or what a Query asked for: the
// bytes of a region, or the step. Text says what failed, and a hint.
type Answer struct {
	Status Status
	Value  int64
	Text   string
}

// maxText is the longest text that a client keeps.
const maxText = 500

// parseCall returns the call that a message makes.
func parseCall(m message) (c Call, ok bool) {
	c.Kind = Kind(m.kind)
	switch c.Kind {
	case Restore, Wait, Finalize:
		return c, true
	case Boundary:
		c.Save, c.Count, c.Step = m.value&saveBit != 0, m.a, m.b
		return c, c.Count > 0
	case Query:
		c.Name = string(m.payload)
		return c, c.Name == "" || validName(c.Name) == nil
	}
	return c, false
}
