package supervisor

import (
	"testing"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
)

// TestKeepSpare: with Keep 2, a group keeps the checkpoint before its newest, and
// goes back to it when the newest is damaged.
func TestKeepSpare(t *testing.T) {
	sc := newScript(t, Config{Log: channel.Receiver, Schedule: protocol.Schedule{Every: 10}, Keep: 2})
	zero := vector(make([]uint64, 3), make([]uint64, 3))
	var collected []string
	sc.watch = func(a Action) {
		if _, ok := a.Action.(protocol.Collect); ok {
			collected = append(collected, describe(a.Action))
		}
	}
	for k, number := range []int{2, 5, 8} {
		sc.checkpoint(1, number, 10*(k+1), zero)
	}
	want := []string{"collect before [0 2 0], remove []", "collect before [0 5 0], remove [2]"}
	if len(collected) != 2 || collected[0] != want[0] || collected[1] != want[1] {
		t.Errorf("%q, want %q", collected, want)
	}
	sc.dies(1)
	sc.got = nil
	sc.step(1, protocol.Unusable{Gen: sc.s.groups[1].gen, Damaged: true, Reason: "rot"})
	sc.want("-1: recovery of [1]: [1] from [5], 1 ranks", "1: spawn 3 from 5")
}
