package modes

import "fmt"

// A Mode says which ranks take checkpoints together, and restart together.
type Mode string

// The modes, by the names that jobs use.
const (
	Coordinated   Mode = "coordinated"
	Semi          Mode = "semi"
	Uncoordinated Mode = "uncoordinated"
)

// Modes lists them.
func Modes() []Mode { return []Mode{Coordinated, Semi, Uncoordinated} }

// A Log says what is kept of messages between groups.
type Log string

// The logs, by the names that jobs use. In a coordinated job there is nothing to log.
const (
	NoGroups   Log = ""
	None       Log = "none"
	Receiver   Log = "pessimistic-receiver"
	Sender     Log = "pessimistic-sender"
	Optimistic Log = "optimistic"
)

// Logs lists the logs that a mode works with, the default first.
func (m Mode) Logs() []Log {
	switch m {
	case Semi:
		return []Log{Receiver, Sender}
	case Uncoordinated:
		return []Log{Receiver, Sender, Optimistic, None}
	}
	return []Log{NoGroups}
}

// Groups returns the group of each rank. Mode semi has the nodes as groups, or size ranks
// that follow each other.
func Groups(m Mode, mapping []int, size int) ([]int, error) {
	var out []int
	for node, n := range mapping {
		for range n {
			switch {
			case m == Coordinated:
				out = append(out, 0)
			case m == Uncoordinated:
				out = append(out, len(out))
			case m != Semi:
				return nil, fmt.Errorf("mode %q is unknown", m)
			case size > 0:
				out = append(out, len(out)/size)
			default:
				out = append(out, node)
			}
		}
	}
	return out, nil
}

// sizes counts the ranks of each group.
func sizes(groups []int) []int {
	var out []int
	for _, g := range groups {
		for g >= len(out) {
			out = append(out, 0)
		}
		out[g]++
	}
	return out
}
