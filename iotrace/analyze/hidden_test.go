package analyze

import (
	"math"
	"slices"
	"strings"
	"testing"

	"ckpt/iotrace"
)

// step returns a write of 64 MiB that takes 50 ms, and the sync behind it.
func step(k, at int64) []iotrace.Event {
	return []iotrace.Event{
		{Op: iotrace.Write, Offset: k * 64 << 20, Bytes: 64 << 20, Start: at * ms, End: (at + 50) * ms},
		{Op: iotrace.Sync, Offset: iotrace.None, Start: (at + 50) * ms, End: (at + 200) * ms}}
}

// TestSyncsAreNoComputation: time of syncs, openings and locks is none to hide I/O in.
func TestSyncsAreNoComputation(t *testing.T) {
	var busy, idle []iotrace.Event
	for k := range int64(6) {
		busy = append(busy, step(k, 200*k)...)
		idle = append(idle, step(k, 300*k)...)
	}
	if i := found(Analyze(script(1, busy...), Options{}), "CK09"); i != nil {
		t.Errorf("writes and syncs only: %+v", i)
	}
	i := found(Analyze(script(1, idle...), Options{}), "CK09")
	if i == nil || math.Abs(*i.Gain-0.5) > 1e-9 || math.Abs(evidence(i, "busy_share")-1.2/1.7) > 1e-9 {
		t.Errorf("500 ms of computation: %+v", i)
	}
	for _, op := range []iotrace.Op{iotrace.Open, iotrace.LockWait} {
		var events []iotrace.Event
		for k := range int64(6) {
			events = append(append(events, step(k, 300*k)...), iotrace.Event{Op: op, Offset: iotrace.None, Start: (200 + 300*k) * ms, End: (300 + 300*k) * ms})
		}
		if i := found(Analyze(script(1, events...), Options{}), "CK09"); i != nil {
			t.Errorf("%v in place of computation: %+v", op, i)
		}
	}
}

// TestPhases: a burst of a few bytes is no second phase, and advice is about the
// direction that takes the time.
func TestPhases(t *testing.T) {
	at := func(op iotrace.Op, bytes, start, end int64) iotrace.Event {
		return iotrace.Event{Op: op, Offset: bytes + start, Bytes: bytes, Start: start * ms, End: end * ms}
	}
	write := at(iotrace.Write, 256<<20, 1000, 2000)
	if i := found(Analyze(script(1, at(iotrace.Read, 80, 0, 1), write), Options{}), "CK09"); i != nil {
		t.Errorf("80 bytes: %+v", i)
	}
	i := found(Analyze(script(1, at(iotrace.Read, 256<<20, 0, 100), write, at(iotrace.Read, 80, 3000, 3001)), Options{}), "CK09")
	if i == nil || evidence(i, "bursts") != 2 || !strings.HasPrefix(i.Advice, "Write ") {
		t.Errorf("two phases, and 80 bytes: %+v", i)
	}
	i = found(Analyze(script(1, at(iotrace.Read, 256<<20, 0, 1000), at(iotrace.Write, 64<<20, 2000, 2500)), Options{}), "CK09")
	if i == nil || !strings.HasPrefix(i.Advice, "Read ahead") {
		t.Errorf("most time is that of reads: %+v", i)
	}
}

// TestCompareTimes: a difference of wall time that syncs and locks make has rows.
func TestCompareTimes(t *testing.T) {
	of := func(took int64) *Report {
		return Analyze(script(1, iotrace.Event{Op: iotrace.LockWait, Offset: iotrace.None, End: took * ms},
			iotrace.Event{Op: iotrace.Sync, Offset: iotrace.None, Start: took * ms, End: 4 * took * ms}), Options{})
	}
	c := Compare(of(100), of(50))
	for quantity, want := range map[string]float64{"sync_s": 0.3, "lock_wait_s": 0.1} {
		i := slices.IndexFunc(c.Job, func(d Difference) bool { return d.Quantity == quantity })
		if i < 0 || math.Abs(c.Job[i].A-want) > 1e-9 || *c.Job[i].Relative != 1 {
			t.Errorf("%s: %+v", quantity, c.Job)
		}
	}
}
