package tune_test

import (
	"testing"

	"ckpt/coordinator/tune"
	"ckpt/image/iosched"
	"ckpt/image/plan"
)

// The pattern of a plan has all bytes, and those of a rank side by side where the layout
// puts them so.
func TestAccesses(t *testing.T) {
	sys := system()
	sys.Targets.Seek = .01
	for _, c := range []struct {
		layout plan.Layout
		more   bool // than one block of each rank
	}{{plan.PerRank, false}, {plan.Aggregated, false}, {plan.Shared, true}} {
		one := caseOf(t, "bt.A.16", 4)
		one.Settings.Layout = c.layout
		m, err := tune.PlanMemory(one.Instance, one.Mapping, one.MPI)
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.New(m.Sources, one.Settings)
		if err != nil {
			t.Fatal(err)
		}
		a, ok := tune.Accesses(sys, m.Sources, p)
		if !ok || a.Processes != 16 || a.Seek != .01 || a.Disk != 400e6 || a.Network != 4e9 {
			t.Fatalf("%s: %+v, %v", c.layout, a, ok)
		}
		if (a.Blocks > 1) != c.more || c.more != (a.Span > a.Blocks*a.Block) {
			t.Errorf("%s: %d blocks of %d in %d", c.layout, a.Blocks, a.Block, a.Span)
		}
		if got, want := 16*a.Blocks*a.Block, p.Summary().Bytes; got > want || got < want-want/100 {
			t.Errorf("%s: %d bytes of %d", c.layout, got, want)
		}
		d, err := a.Continuity()
		if err != nil {
			t.Fatal(err)
		}
		if !c.more && d.Way != iosched.PlainAccess {
			t.Errorf("%s: %s, though each rank has one block: %+v", c.layout, d.Way, d)
		}
	}
	// Without bytes there is no pattern.
	none := []plan.Source{{Rank: 0, Pieces: []plan.Piece{{Bytes: 0}}}}
	p, err := plan.New(none, plan.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := tune.Accesses(sys, none, p); ok {
		t.Errorf("no bytes: %+v", a)
	}
}
