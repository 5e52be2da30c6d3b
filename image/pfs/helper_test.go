package pfs

import (
	"context"
	"testing"

	"ckpt/image/plan"
)

func mustLoad(t testing.TB, name string) *System {
	t.Helper()
	s, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sources are ranks with so many bytes each, some of them on a node.
func sources(ranks, perNode int, bytes int64) []plan.Source {
	all := make([]plan.Source, ranks)
	for i := range all {
		all[i] = plan.Source{Rank: i, Node: i / perNode, Pieces: []plan.Piece{{Bytes: bytes, Align: true}}}
	}
	return all
}

func mustRun(t testing.TB, s *System, jobs ...Job) *Result {
	t.Helper()
	r, err := Run(context.Background(), s, jobs, Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustPlan(t testing.TB, sources []plan.Source, s plan.Settings) *plan.Plan {
	t.Helper()
	p, err := plan.New(sources, s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
