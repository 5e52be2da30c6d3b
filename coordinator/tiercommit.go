package coordinator

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/image"
)

// commit makes a version exist on the nodes.
func (t *tier) commit(cp protocol.Checkpoint, m *image.Manifest, err error) {
	past := t.attempt.past
	t.attempt = tierAttempt{}
	if past {
		t.level.commit(cp, m, err)
		return
	}
	g, recorded := t.g, t.g.recorded
	if err == nil {
		m.Tier = t.nodes.Describe(nil)
		m.Tier.Parities, err = paritiesOf(cp)
	}
	g.committing = true
	g.d.helpers.Go(func() {
		if err == nil {
			err = t.nodes.Commit(context.Background(), m)
		}
		if err != nil {
			_ = t.nodes.Discard(cp.Number) // what is left of it is removed with the next of its slot
		}
		g.d.post(func() {
			g.committing, g.complete = false, false
			if err != nil {
				t.ledger.Aborted(cp.Number)
				g.d.step(g.id, commitFailed(cp.Number, err))
				return
			}
			g.taken = m
			g.lineage.committed(m.Number)
			state := t.committed(m)
			g.landed = string(state)
			g.d.step(g.id, protocol.Committed{Number: cp.Number})
			t.tellCommitted(m, state)
		})
		if err == nil && recorded != nil {
			g.d.keepTrace(m, recorded, cp.Bodies)
		}
	})
}

// paritiesOf collects the parities that the ranks of a set report alike.
func paritiesOf(cp protocol.Checkpoint) ([]image.Parity, error) {
	var list []image.Parity
	for _, body := range cp.Bodies {
		var w wire.WriteReport
		if err := json.Unmarshal(body, &w); err != nil {
			return nil, err
		}
		for _, p := range w.Parities {
			i := slices.IndexFunc(list, func(o image.Parity) bool { return o.Path == p.Path })
			if i < 0 {
				list = append(list, p)
			} else if list[i] != p {
				return nil, fmt.Errorf("ranks do not agree on %s", p.Path)
			}
		}
	}
	slices.SortFunc(list, func(a, b image.Parity) int { return cmp.Compare(a.Path, b.Path) })
	return list, nil
}
