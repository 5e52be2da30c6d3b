package coordinator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"ckpt/image"
	"ckpt/image/nodes"
)

// A scrubbing restores what protects a version, after a node was lost.
type scrubbing struct {
	number int
	cancel context.CancelFunc
	done   chan struct{} // closed when nothing of it goes on
}

// end ends it, and waits for that; nil is over.
func (s *scrubbing) end() {
	if s != nil {
		s.cancel()
		<-s.done
	}
}

// scrub restores what protects the version that the ranks have read, if some of it was
// lost, while they compute. None of them looks for its part any more.
func (t *tier) scrub() {
	m := t.kept[t.g.restored.number]
	lost := len(t.lost) > 0 || t.sources[nodes.FromLocal] < len(t.g.ranks)
	if m == nil || !lost || t.nodes.Setting().Protect.Kind() == nodes.None || t.g.d.over() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &scrubbing{number: m.Number, cancel: cancel, done: make(chan struct{})}
	t.scrubs = s
	began := time.Now()
	t.g.d.helpers.Go(func() {
		found, err := t.nodes.Scrub(ctx, m, nil)
		cancel()
		t.g.d.post(func() {
			if err == nil {
				t.scrubbed(m, found, time.Since(began))
			}
		})
		close(s.done)
	})
}

// scrubbed tells what has become of it.
func (t *tier) scrubbed(m *image.Manifest, found []nodes.Finding, took time.Duration) {
	var bytes int64
	for _, f := range found {
		if f.Condition == nodes.Sound {
			continue
		}
		if !f.Restored {
			t.g.d.out.Warn(fmt.Sprintf("checkpoint %d is less protected than it was: %v", m.Number, f.Err))
			return
		}
		bytes += lengthOf(m, f.Path)
	}
	clear(t.lost)
	t.ledger.Restored(m.Number)
	t.g.d.event(&RedundancyEvent{Type: "scrubbed", Number: m.Number, Bytes: bytes, Seconds: took.Seconds()})
	t.next()
}

// lengthOf returns the length of a file of a version.
func lengthOf(m *image.Manifest, path string) int64 {
	for _, f := range m.Files {
		if f.Path == path {
			return f.Bytes
		}
	}
	if i := slices.IndexFunc(m.Tier.Parities, func(p image.Parity) bool { return p.Path == path }); i >= 0 {
		return m.Tier.Parities[i].Bytes
	}
	return 0 // a manifest
}
