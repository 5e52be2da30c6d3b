package analyze

import (
	"slices"
	"strings"
	"testing"

	"ckpt/iotrace"
)

// sieve is data sieving by four ranks: each waits for the lock of a block, reads the
// block, changes it and writes it, one after the other.
func sieve() *iotrace.Trace {
	const block = 512 << 10
	var events []iotrace.Event
	for k := range int64(32) {
		for r := range int64(4) {
			from, turn := 40*k*ms, (40*k+10*r)*ms
			on := iotrace.Event{Rank: int32(r), Offset: k * block}
			wait, read, write := on, on, on
			wait.Op, wait.Start, wait.End = iotrace.LockWait, from, turn+8*ms
			read.Op, read.Bytes, read.Start, read.End = iotrace.Read, block, turn+8*ms, turn+9*ms
			write.Op, write.Bytes, write.Start, write.End = iotrace.Write, block, turn+9*ms, turn+10*ms
			events = append(events, wait, read, write)
		}
	}
	slices.SortStableFunc(events, func(a, b iotrace.Event) int { return int(a.Start - b.Start) })
	return script(4, events...)
}

// TestLockWaits: what ROMIO's data sieving costs is the waiting, and its hint mends it.
func TestLockWaits(t *testing.T) {
	r := Analyze(sieve(), Options{})
	f := found(r, "CK26")
	if f == nil || r.Insights[0].Code != "CK26" {
		t.Fatalf("%+v", r.Insights)
	}
	// Of 40 ms of each round, ranks read or write in 4 × 2.
	if *f.Gain < 1.023 || *f.Gain > 1.025 || f.File != "f" || f.Files != 1 {
		t.Errorf("gain %v s in %q, %d files; want 1.024 in f", *f.Gain, f.File, f.Files)
	}
	if evidence(f, "lock_waits") != 128 || evidence(f, "sieved_share") != 1 {
		t.Errorf("%+v", f.Evidence)
	}
	if len(f.Hints) == 0 || !strings.Contains(f.Hints[0].Text, "romio_ds_write=disable") {
		t.Errorf("%+v", f.Hints)
	}
	// Locks that are free cost nothing, those of a launcher are not the job's, and a
	// job of ckpt gives its ranks their turns itself.
	free, launcher, ours := sieve(), sieve(), sieve()
	for i := range free.Events {
		if e := &free.Events[i]; e.Op == iotrace.LockWait {
			e.Start = e.End
		}
	}
	for i := range launcher.Ranks {
		launcher.Ranks[i].Rank = iotrace.None
	}
	ours.Source = "ckpt"
	for name, tr := range map[string]*iotrace.Trace{"free": free, "launcher": launcher, "ours": ours} {
		if f := found(Analyze(tr, Options{}), "CK26"); f != nil {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
