package timing

import (
	"context"
	"strings"
	"testing"

	"ckpt/image/nodes"
	"ckpt/internal/race"
)

func mustScheme(t testing.TB, text string) nodes.Scheme {
	t.Helper()
	s, err := nodes.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustTake(t testing.TB, w Tier) *TierResult {
	t.Helper()
	r, err := w.Run(context.Background(), Setup{Machine: mustLoad(t, "lap06")})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustRecover(t testing.TB, w Tier, lost int) float64 {
	t.Helper()
	seconds, err := w.Recover(context.Background(), Setup{Machine: mustLoad(t, "lap06")}, lost)
	if err != nil {
		t.Fatal(err)
	}
	return seconds
}

// small is a checkpoint of 1.4 GB in all.
var small = Tier{Bytes: 16 << 20, Checkpoints: 2}

// TestTierOrder: protection by more copies costs more, parity takes less space than
// copies of the same strength, and all of them are faster than the storage.
func TestTierOrder(t *testing.T) {
	t.Parallel()
	take := func(text string) *TierResult {
		w := small
		w.Scheme = mustScheme(t, text)
		return mustTake(t, w)
	}
	direct := small
	direct.Store = true
	stored := mustTake(t, direct)
	last := take("none")
	for _, text := range []string{"partner", "partner:2", "partner:3", "partner:4"} {
		next := take(text)
		less(t, text+": the pause with a copy less", last.Pause, 1.1, next.Pause)
		last = next
	}
	less(t, "four copies, storage", last.Pause, 2, stored.Pause)
	for _, c := range []struct{ code, copies string }{{"xor:3", "partner"}, {"xor:6", "partner"}, {"rs:4+2", "partner:2"}} {
		code, copies := take(c.code), take(c.copies)
		less(t, c.code+", "+c.copies+": redundancy", float64(code.Redundancy), 1.9, float64(copies.Redundancy))
		same(t, c.code+", "+c.copies+": between nodes", 0.01, float64(code.Sent), float64(copies.Sent))
	}
}

// TestTierSize: saving and restoring take time in line with the size, and restoring less:
// from the tier, and from the storage.
func TestTierSize(t *testing.T) {
	t.Parallel()
	step := int64(8 << 20)
	if race.Nightly() {
		step = 4 << 20
	}
	for _, w := range []Tier{{Scheme: mustScheme(t, "none")}, {Scheme: mustScheme(t, "partner")}, {Scheme: mustScheme(t, "rs:4+2")}, {Store: true}} {
		name := w.Scheme.String()
		if w.Store {
			name = "storage"
		}
		var sizes, save, restore []float64
		for bytes := int64(4 << 20); bytes <= 20<<20; bytes += step {
			w.Bytes, w.Checkpoints = bytes, 1
			sizes = append(sizes, float64(bytes))
			save, restore = append(save, mustTake(t, w).Pause), append(restore, mustRecover(t, w, 0))
		}
		_, saving := fitLine(t, name+", saving", sizes, save, 0.999)
		_, restoring := fitLine(t, name+", restoring", sizes, restore, 0.999)
		less(t, name+": slopes of restoring, of saving", restoring, 0.999, saving)
		less(t, name+": restoring, saving", restore[len(restore)-1], 1, save[len(save)-1])
	}
}

// TestTierLost: a lost node costs more than none, and less than the storage; more nodes
// than the scheme can bring back cost as much as the storage.
func TestTierLost(t *testing.T) {
	t.Parallel()
	direct := small
	direct.Store = true
	storage := mustRecover(t, direct, 0)
	for _, text := range []string{"none", "partner", "partner:2", "xor:3", "rs:4+2"} {
		w := small
		w.Scheme = mustScheme(t, text)
		last := mustRecover(t, w, 0)
		for lost := 1; lost <= w.Scheme.Strength(); lost++ {
			next := mustRecover(t, w, lost)
			less(t, text+": a lost node less", last, 1, next)
			less(t, text+": lost nodes, storage", next, 2, storage)
			last = next
		}
		same(t, text+": beyond its strength", 1e-9, mustRecover(t, w, w.Scheme.Strength()+1), storage)
	}
}

// TestTierDrain: the job never waits while drains take less than the interval. It waits
// as long as drains take more: a checkpoint then takes as long as the storage needs for
// one.
func TestTierDrain(t *testing.T) {
	t.Parallel()
	w := small
	w.Checkpoints, w.DrainEvery, w.Scheme = 12, 1, mustScheme(t, "partner")
	direct := small
	direct.Store = true
	storage := mustTake(t, direct).Pause
	w.Interval = storage * 1.5
	slack := mustTake(t, w)
	less(t, "waits, of the pause", slack.Wait, 20, slack.Pause)
	w.Interval = storage / 4
	tight := mustTake(t, w)
	// The first two find free slots.
	cycle := (tight.Seconds - 2*(w.Interval+tight.Pause-tight.Wait)) / float64(w.Checkpoints-2)
	same(t, "a checkpoint that waits, the storage", 0.15, cycle, storage)
	less(t, "waiting, the storage directly", tight.Pause, 1.2, storage)
	w.DrainEvery = 4
	less(t, "waits when every fourth is drained", mustTake(t, w).Wait, 4, tight.Wait)
	w.DrainEvery, w.Interval, w.DrainRate = 1, 60, 100e6
	same(t, "a limited drain", 0.05, mustTake(t, w).Drain, 90*float64(w.Bytes)/w.DrainRate)
}

func TestTierRefuses(t *testing.T) {
	for _, c := range []struct {
		w     Tier
		nodes int
		want  string
	}{
		{Tier{Checkpoints: 1}, 6, "0 bytes"},
		{Tier{Bytes: 1}, 6, "0 checkpoints"},
		{Tier{Bytes: 1, Checkpoints: 1, Scheme: mustScheme(t, "rs:4+2")}, 5, "needs 6 nodes"},
		{small, 7, "lap06 has 1 to 6"},
	} {
		if _, err := c.w.Run(context.Background(), Setup{Machine: mustLoad(t, "lap06"), Nodes: c.nodes}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v on %d nodes: %v, want %q", c.w, c.nodes, err, c.want)
		}
	}
	if _, err := small.Recover(context.Background(), Setup{Machine: mustLoad(t, "lap06")}, 7); err == nil {
		t.Error("7 of 6 nodes were lost")
	}
}
