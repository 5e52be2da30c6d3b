package iosched

import (
	"testing"
	"time"
)

// TestSweep: the policy offset goes on upwards before it begins again.
func TestSweep(t *testing.T) {
	s := newSim(t, "offset", Options{Rate: unitRate}, seek)
	s.at(0, func() { s.addBlocks("", "f", Read, 50, 1) })
	s.at(ms, func() {
		s.addBlocks("", "f", Read, 10, 1)
		s.addBlocks("", "f", Read, 60, 1)
		s.addBlocks("", "g", Read, 0, 1)
	})
	s.run()
	if got := s.ranges(block); got != "50-51 60-61 0-1 10-11" {
		t.Errorf("served %s", got)
	}
}

// TestExpiry: a batch of the policy deadline begins with the oldest request if it has
// expired.
func TestExpiry(t *testing.T) {
	for expiry, want := range map[time.Duration]int64{10 * ms: 1000, time.Hour: 85} {
		s := newSim(t, "deadline", Options{Rate: unitRate, Deadline: &DeadlineOptions{Read: expiry, Write: time.Hour, Batch: 4, Starved: 2}}, seek)
		s.at(0, func() {
			s.addBlocks("", "f", Read, 1000, 1)
			for i := range int64(20) {
				s.addBlocks("", "f", Read, 100-i, 1)
			}
		})
		s.run()
		for i := range 4 {
			if got := s.order[i].Offset / block; got != 81+int64(i) {
				t.Errorf("expiry %v: service %d is at %d, want the batch from 81", expiry, i, got)
			}
		}
		if got := s.order[4].Offset / block; got != want {
			t.Errorf("expiry %v: the second batch begins at %d, want %d", expiry, got, want)
		}
	}
}

// TestStarvedWrite: reads go before a write in two batches, not in more.
func TestStarvedWrite(t *testing.T) {
	s := newSim(t, "deadline", Options{Rate: unitRate, Deadline: &DeadlineOptions{Read: time.Hour, Write: time.Hour, Batch: 4, Starved: 2}}, seek)
	s.at(0, func() {
		for i := range int64(20) {
			s.addBlocks("r", "f", Read, i, 1)
		}
		s.addBlocks("w", "g", Write, 0, 1)
	})
	s.run()
	for i, g := range s.order {
		if g.Request.App == "w" && i != 8 {
			t.Errorf("the write is service %d, want 8", i)
		}
	}
}

// TestSeeks: a request of another file is a seek, whatever its offset.
func TestSeeks(t *testing.T) {
	s := newSim(t, "fifo", Options{Rate: unitRate}, seek)
	s.at(0, func() {
		s.addBlocks("", "f", Read, 0, 1)
		s.addBlocks("", "f", Read, 1, 1)
		s.addBlocks("", "g", Read, 2, 1)
	})
	s.run()
	if stats := s.c.Stats(); seeks(stats) != 2 {
		t.Errorf("%d seeks, want 2", seeks(stats))
	}
}

// seeks is how many services of all files did not begin where the last one ended.
func seeks(s Stats) (n int) {
	for _, f := range s.Files {
		n += f.Seeks
	}
	return n
}
