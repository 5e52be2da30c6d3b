package nodes

import (
	"context"
	"slices"
	"testing"
)

// TestLife writes versions, finds them again, recovers one and drains it.
func TestLife(t *testing.T) {
	ctx := context.Background()
	for _, protection := range []string{"none", "partner", "xor:2", "rs:1+1"} {
		w := newWorld(t, protection, 2, 2)
		for number := 1; number <= 2; number++ {
			m, err := w.write(ctx, number, 10*number)
			if err == nil {
				err = w.tier.Commit(ctx, m)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.open(); err != nil {
			t.Fatal(err)
		}
		versions, errs := w.tier.Versions(ctx)
		if len(errs) > 0 || len(versions) != 2 || versions[1].Number != 2 || !slices.Equal(versions[1].Nodes, []int{0, 1}) {
			t.Fatalf("versions %+v, errors %v", versions, errs)
		}
		m := versions[1].Manifest
		sources, err := w.recovered(ctx, m)
		if want := slices.Repeat([]Source{FromLocal}, 4); err != nil || !slices.Equal(sources, want) {
			t.Errorf("%s: recovered from %v, %v", protection, sources, err)
		}
		if err := w.drain(ctx, m); err != nil {
			t.Fatal(err)
		}
		stored, err := w.store.Manifest(2)
		if err != nil || stored.ID != m.ID {
			t.Fatalf("the store has %+v, %v", stored, err)
		}
		for rank := range w.nodeOf {
			if err := check(ctx, w.store, stored, rank); err != nil {
				t.Error(err)
			}
		}
		if err := w.tier.Reclaim(2); err != nil {
			t.Fatal(err)
		}
		if versions, _ := w.tier.Versions(ctx); len(versions) != 1 {
			t.Errorf("%d versions after one was reclaimed", len(versions))
		}
	}
}
