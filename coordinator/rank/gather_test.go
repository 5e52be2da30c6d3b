package rank

import (
	"context"
	"errors"
	"testing"

	"ckpt/coordinator/wire"
	"ckpt/image/exec"
	"ckpt/internal/testkit"
)

// TestPullCancelled cancels pulls at the moment in which the other side refuses
// them, as it does when a checkpoint is aborted. None may fail over the connection
// that is being ended, and the next one works.
func TestPullCancelled(t *testing.T) {
	const token = "token"
	var gs []*gatherer
	var peers []string
	for rank := range 2 {
		g, err := newGatherer(wire.Self{Rank: rank, Token: token, Network: wire.Loopback})
		if err != nil {
			t.Fatal(err)
		}
		defer g.close()
		gs, peers = append(gs, g), append(peers, g.address())
	}
	for _, g := range gs {
		g.setPeers(peers)
	}
	rounds := 3000
	if testkit.Enabled {
		rounds = 300
	}
	for range rounds {
		ctx, cancel := context.WithCancel(t.Context())
		gs[1].serveFrom(t.Context(), func(context.Context, int) ([]byte, error) {
			cancel()
			return nil, errors.New("aborted")
		})
		if err := gs[0].Pull(ctx, 1, []exec.Range{{P: make([]byte, 1)}}); err == nil {
			t.Fatal("a pull of what is not served succeeded")
		}
	}
	gs[1].serveFrom(t.Context(), func(context.Context, int) ([]byte, error) { return []byte{7}, nil })
	p := make([]byte, 1)
	if err := gs[0].Pull(t.Context(), 1, []exec.Range{{P: p}}); err != nil || p[0] != 7 {
		t.Errorf("pulled %v, %v", p, err)
	}
}
