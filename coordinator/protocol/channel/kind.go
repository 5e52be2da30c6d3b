package channel

import "fmt"

// Kind is how messages between groups are logged; see the package comment.
type Kind uint8

// The kinds of logging.
const (
	None       Kind = iota // nothing is logged
	Receiver               // pessimistic, payload logged by the receiver
	Sender                 // pessimistic, payload kept by the sender
	Optimistic             // payload logged by the receiver, behind
)

var kindNames = [...]string{"none", "pessimistic-receiver", "pessimistic-sender", "optimistic"}

// String returns the name that users know the kind by.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// ParseKind is the inverse of String.
func ParseKind(name string) (Kind, error) {
	for k, n := range kindNames {
		if n == name {
			return Kind(k), nil
		}
	}
	return 0, fmt.Errorf("unknown log %q (want none, pessimistic-receiver, pessimistic-sender, optimistic)", name)
}

// Valid reports whether k is one of the kinds.
func (k Kind) Valid() bool { return int(k) < len(kindNames) }

// Logs reports whether a rank with this kind needs a log.
func (k Kind) Logs() bool { return k != None }
