package nodes

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// ledger returns one for a scheme and a drain.
func ledger(t *testing.T, protection, drain string) *Ledger {
	t.Helper()
	d, err := ParseDrain(drain)
	if err != nil {
		t.Fatal(err)
	}
	return NewLedger(Setting{Protect: scheme(t, protection), Drain: d})
}

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// take begins and commits a version.
func take(t *testing.T, l *Ledger, number int) {
	t.Helper()
	if !l.Begin(number, 0) {
		t.Fatalf("version %d has to wait: %+v", number, l.Entries())
	}
	l.Commit(number)
}

// TestBackPressure has a third version wait until the first is in the store.
func TestBackPressure(t *testing.T) {
	l := ledger(t, "partner", "behind")
	take(t, l, 1)
	if n, ok := l.NextDrain(noon); n != 1 || !ok {
		t.Fatalf("drains %d, %v", n, ok)
	}
	take(t, l, 2)
	if l.Begin(3, 0) {
		t.Fatal("a third version found a slot")
	}
	if list := l.Reclaimable(); len(list) > 0 {
		t.Fatalf("%v may go while the first is drained", list)
	}
	if n, ok := l.NextDrain(noon); ok {
		t.Fatalf("drains %d as well", n)
	}
	l.Drained(1)
	if list := l.Reclaimable(); !slices.Equal(list, []int{1}) {
		t.Fatalf("%v may go", list)
	}
	l.Reclaimed(1)
	if !l.Begin(3, 0) || l.State(3) != Filling || l.State(2) != Protected || l.State(1) != Reclaimed {
		t.Errorf("after the first was drained: %+v", l.Entries())
	}
}

// TestPassedBy has a version go past the nodes: those before it are not drained any more, and
// make room.
func TestPassedBy(t *testing.T) {
	l := ledger(t, "partner", "behind")
	take(t, l, 1)
	take(t, l, 2)
	if n, ok := l.Unstored(); n != 2 || !ok {
		t.Fatalf("version %d is to be stored at the end, %v", n, ok)
	}
	l.PassedBy(3, 0)
	if n, ok := l.NextDrain(noon); ok {
		t.Errorf("drains %d, which is older than what is in the store", n)
	}
	if n, ok := l.Unstored(); ok {
		t.Errorf("version %d is to be stored at the end", n)
	}
	if list := l.Reclaimable(); !slices.Equal(list, []int{1}) {
		t.Errorf("%v may go", list)
	}
	l.Reclaimed(1)
	take(t, l, 4)
	if n, ok := l.NextDrain(noon); n != 4 || !ok {
		t.Errorf("drains %d, %v", n, ok)
	}
}

// TestFailedStore drains nothing: the job goes on with what the nodes have, attempts
// become rarer, and the newest version is tried.
func TestFailedStore(t *testing.T) {
	l := ledger(t, "partner", "behind")
	now, last := noon, time.Duration(0)
	for number := 1; number <= 12; number++ {
		if !l.Begin(number, 0) {
			list := l.Reclaimable()
			if !slices.Equal(list, []int{number - 2}) {
				t.Fatalf("version %d waits and %v may go", number, list)
			}
			l.Reclaimed(number - 2)
			if !l.Begin(number, 0) {
				t.Fatalf("version %d waits for ever: %+v", number, l.Entries())
			}
		}
		l.Commit(number)
		if n, ok := l.NextDrain(now); n != number || !ok {
			t.Fatalf("drains %d, %v; want %d", n, ok, number)
		}
		pause := l.DrainFailed(number, now)
		if pause < last || pause > lastPause || pause < firstPause {
			t.Errorf("pause %v after %v", pause, last)
		}
		if _, ok := l.NextDrain(now.Add(pause - 1)); ok {
			t.Error("drains within the pause")
		}
		now, last = l.Retry(), pause
	}
	if last != lastPause {
		t.Errorf("the last pause is %v", last)
	}
	if n, ok := l.NextDrain(now); n != 12 || !ok {
		t.Fatalf("drains %d, %v", n, ok)
	}
	l.Drained(12)
	if !l.Retry().IsZero() {
		t.Errorf("after the store works: retry %v, %+v", l.Retry(), l.Entries())
	}
}

// TestDrainEvery drains each fourth version, and the one after it if that fails.
func TestDrainEvery(t *testing.T) {
	l := ledger(t, "none", "every=4")
	var drained []int
	for number := 1; number <= 11; number++ {
		for _, n := range l.Reclaimable() {
			l.Reclaimed(n)
		}
		take(t, l, number)
		n, ok := l.NextDrain(noon.Add(time.Duration(number) * time.Hour))
		switch {
		case ok && n == 4:
			l.DrainFailed(n, noon)
		case ok:
			drained = append(drained, n)
			l.Drained(n)
		}
	}
	if n, ok := l.NextDrain(noon.Add(24 * time.Hour)); ok || !slices.Equal(drained, []int{5, 9}) {
		t.Errorf("drained %v, and then %d, %v", drained, n, ok)
	}
}

// TestRestored: a version that has lost more nodes than its protection allows is not
// drained before it is restored.
func TestRestored(t *testing.T) {
	l := ledger(t, "partner", "behind")
	take(t, l, 1)
	l.NodeLost(2)
	l.NodeLost(3)
	if n, ok := l.NextDrain(noon); ok {
		t.Errorf("drains %d, which is gone", n)
	}
	l.Restored(1)
	if n, ok := l.NextDrain(noon); n != 1 || !ok {
		t.Errorf("drains %d, %v after its files were restored", n, ok)
	}
}

// TestLedgerInvariants runs lives of any kind: no group ever has more than its slots, the
// newest version stays, nothing that is drained goes, and a job whose drains end is never
// stuck.
func TestLedgerInvariants(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		protection := rapid.SampledFrom([]string{"none", "partner", "partner:2", "xor:3"}).Draw(r, "protect")
		drain := rapid.SampledFrom([]string{"behind", "every=2", "every=3", "none"}).Draw(r, "drain")
		l := ledger(t, protection, drain)
		groups, next, now := rapid.IntRange(1, 3).Draw(r, "groups"), 1, noon
		newest := make(map[int]int)
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(r, "pause"))
			group := rapid.IntRange(0, groups-1).Draw(r, "group")
			switch rapid.IntRange(0, 5).Draw(r, "step") {
			case 0:
				if l.Begin(next, group) {
					next++
				}
			case 1:
				for _, e := range l.Entries() {
					if e.Group == group && e.State == Filling {
						l.Commit(e.Number)
						newest[group] = max(newest[group], e.Number)
						break
					}
				}
			case 2:
				l.NextDrain(now)
			case 3:
				if n, ok := l.Draining(); ok {
					if rapid.Bool().Draw(r, "fails") {
						l.DrainFailed(n, now)
					} else {
						l.Drained(n)
					}
				}
			case 4:
				for _, n := range l.Reclaimable() {
					if s := l.State(n); n == newest[group] || s == Draining || s == Filling {
						r.Fatalf("version %d, %s, may go: %+v", n, s, l.Entries())
					}
					l.Reclaimed(n)
				}
			case 5:
				l.NodeLost(group)
			}
			for g := range groups {
				if n := len(l.of(g)); n > Slots {
					r.Fatalf("group %d has %d slots: %+v", g, n, l.Entries())
				}
			}
		}
		if err := unstick(l, next, now); err != nil {
			r.Fatal(err)
		}
	})
}

// unstick has a store that works take what is due, and begins another version.
func unstick(l *Ledger, next int, now time.Time) error {
	for range 10 {
		for _, e := range l.Entries() {
			if e.State == Filling {
				l.Commit(e.Number)
			}
		}
		if l.Begin(next, 0) {
			return nil
		}
		if now = now.Add(lastPause); true {
			l.NextDrain(now)
		}
		if n, ok := l.Draining(); ok {
			l.Drained(n)
		}
		for _, n := range l.Reclaimable() {
			l.Reclaimed(n)
		}
	}
	return fmt.Errorf("no slot ever becomes free: %+v", l.Entries())
}
