package channel

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Whatever happens, each message is received once, in order, with the content that
// its sender remembers to have sent.
func TestHistoriesAgree(t *testing.T) {
	for kind := None; kind <= Optimistic; kind++ {
		t.Run(kind.String(), func(t *testing.T) {
			crashes := 0
			rapid.Check(t, func(t *rapid.T) {
				rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
				size := rapid.IntRange(2, 4).Draw(t, "ranks")
				progs := drawPrograms(rng, size, rapid.IntRange(0, 150).Draw(t, "ops"), rapid.Bool().Draw(t, "any source"))
				w := newWorld(t, rng, kind, progs, drawGroups(rng, size, kind))
				w.run(rapid.IntRange(0, 1500).Draw(t, "events"))
				w.check()
				w.settle()
				crashes += w.crashes
			})
			if crashes == 0 {
				t.Error("nothing has crashed")
			}
		})
	}
}

// Without receives from any source there is one result, whatever happens.
func TestSameResultAsWithoutFailures(t *testing.T) {
	for kind := None; kind <= Optimistic; kind++ {
		t.Run(kind.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				seed := rapid.Uint64().Draw(t, "seed")
				rng := rand.New(rand.NewPCG(seed, 0))
				size := rapid.IntRange(2, 4).Draw(t, "ranks")
				progs := drawPrograms(rng, size, rapid.IntRange(0, 150).Draw(t, "ops"), false)
				group := drawGroups(rng, size, kind)
				calm := newWorld(t, rng, kind, progs, group)
				calm.run(0)
				w := newWorld(t, rng, kind, progs, group)
				w.run(rapid.IntRange(0, 1500).Draw(t, "events"))
				for r := range w.ranks {
					if w.ranks[r].mem.hash != calm.ranks[r].mem.hash || !slices.Equal(w.printed[r], calm.printed[r]) {
						t.Fatalf("rank %d ends in %x, %x without failures; has put out %x, %x without", r,
							w.ranks[r].mem.hash, calm.ranks[r].mem.hash, w.printed[r], calm.printed[r])
					}
				}
			})
		})
	}
}

// A program that names its sources loses nothing by losing the tail of an
// optimistic log: nobody else goes back.
func TestOptimisticWithoutMatchesRollsNobodyBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		w := newWorld(t, rng, Optimistic, drawPrograms(rng, 3, 60, false), []int{0, 1, 2})
		for range 300 {
			w.event(false)
		}
		before := []uint64{w.ranks[0].incarnation, w.ranks[1].incarnation, w.ranks[2].incarnation}
		w.crash(1)
		for r, k := range w.ranks {
			if want := before[r] + uint64(r%2); k.incarnation != want {
				t.Fatalf("rank %d is in incarnation %d, not %d", r, k.incarnation, want)
			}
		}
		w.run(0)
		w.check()
	})
}

// A rank depends on a match that its peer has heard of, though nobody in between has
// made one.
func TestDependenciesAreTransitive(t *testing.T) {
	var eps []*Endpoint
	for r := range 3 {
		e, err := New(Config{Kind: Optimistic, Rank: r, Size: 3})
		if err != nil {
			t.Fatal(err)
		}
		eps = append(eps, e)
	}
	send := func(from, to int) {
		eps[from].Send(to, Message{})
		kept := eps[from].peers[to].kept
		if _, err := eps[to].Arrive(from, kept[len(kept)-1]); err != nil {
			t.Fatal(err)
		}
	}
	send(0, 1)
	if v := eps[1].Vector(); slices.Max(v.Depends) != 0 {
		t.Errorf("depends on %v before there was a match", v.Depends)
	}
	if _, _, err := eps[0].ReceivedAny(2, 0); err != nil {
		t.Fatal(err)
	}
	send(0, 1)
	send(1, 2)
	if v := eps[2].Vector(); !slices.Equal(v.Depends, []uint64{1, 0, 0}) {
		t.Errorf("depends on %v", v.Depends)
	}
}

func TestGapAndStale(t *testing.T) {
	e, err := New(Config{Kind: Sender, Rank: 0, Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Arrive(1, Message{Seq: 2}); err != ErrGap {
		t.Errorf("error %v", err)
	}
	var stale *StaleError
	if err := errors.Join(e.Admit(1, 3), e.Admit(1, 3)); err != nil {
		t.Error(err)
	}
	if err := e.Admit(1, 2); !errors.As(err, &stale) || stale.Known != 3 {
		t.Errorf("error %v", err)
	}
	// A peer that goes back behind what its checkpoint covered.
	e.Send(1, Message{Data: []byte("one")})
	e.Send(1, Message{Data: []byte("two")})
	e.Collected(1, 1)
	var lost *LostError
	if _, err := e.PeerUp(1, 0); !errors.As(err, &lost) || lost.First != 2 {
		t.Errorf("error %v", err)
	}
	if acts, err := e.PeerUp(1, 1); err != nil || len(acts) != 1 || acts[0].(Transmit).Message.Seq != 2 {
		t.Errorf("%v, %v", acts, err)
	}
}

func TestReplayDiverges(t *testing.T) {
	cfg := Config{Kind: Sender, Rank: 0, Size: 3}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	st := e.Snapshot()
	frames := []Frame{{Kind: Determined, Peer: 2, Number: 1, Message: Message{Seq: 4}}}
	e, _, err = Restore(cfg, st, reading(frames), nil)
	if err != nil {
		t.Fatal(err)
	}
	var re *ReplayError
	if _, _, err := e.ReceivedAny(1, 4); !errors.As(err, &re) || re.WantSource != 2 {
		t.Errorf("error %v", err)
	}
	if _, _, err := e.ReceivedAny(2, 5); !errors.As(err, &re) {
		t.Errorf("error %v", err)
	}
	if src, seq, ok := e.Recorded(); !ok || src != 2 || seq != 4 {
		t.Errorf("%d %d %v", src, seq, ok)
	}
	if wait, acts, err := e.ReceivedAny(2, 4); wait != 0 || acts != nil || err != nil {
		t.Errorf("%d %v %v", wait, acts, err)
	}
	for name, frames := range map[string][]Frame{
		"message missing":     {{Kind: Received, Peer: 1, Message: Message{Seq: 2}}},
		"determinant missing": {{Kind: Determined, Peer: 1, Number: 2}},
		"no such rank":        {{Kind: Received, Peer: 3, Message: Message{Seq: 1}}},
		"own group":           {{Kind: Received, Peer: 0, Message: Message{Seq: 1}}},
		"no such kind":        {{Kind: 9}},
		"bad cut":             {{Kind: Cut, Message: Message{Data: []byte("x")}}},
	} {
		if _, _, err := Restore(cfg, st, reading(frames), nil); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
