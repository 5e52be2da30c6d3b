package coordinator

import (
	"fmt"
	"slices"
)

// cannotAccept ends a job whose ranks wait to be let in. A job that computes does not
// need connections.
func (d *driver) cannotAccept(err error) {
	d.post(func() {
		waits := func(m *member) bool { return m != nil && m.link == nil }
		if !d.over() && slices.ContainsFunc(d.members, waits) {
			d.fail(fmt.Errorf("ranks cannot connect: %w", err))
		}
	})
}
