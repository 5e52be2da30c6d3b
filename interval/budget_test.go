package interval_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ckpt/interval"
)

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

// TestThesisExamples are Tables 4.5 and 4.6 of León Otero's thesis; the interval
// that Table 4.5 prints, 492.43 s, is a misprint.
func TestThesisExamples(t *testing.T) {
	for _, c := range []struct {
		app, ckpt       float64
		interval, total string
	}{
		{1137.53, 102.74, "492.93", "1343.01"},
		{3055.314, 259.06, "1323.97", "3573.43"},
	} {
		b := interval.Budget{Overhead: 0.30, App: seconds(c.app), Checkpoint: seconds(c.ckpt)}
		s, err := b.Schedule()
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("%d %.2f %.2f", s.Count, s.Interval.Seconds(), s.Total.Seconds())
		if want := "2 " + c.interval + " " + c.total; got != want || s.Late || s.Limit != interval.LimitOverhead {
			t.Errorf("%v: %s, want %s", b, got, want)
		}
	}
}

// TestStore checks what capacity and retention do to 9 affordable checkpoints.
func TestStore(t *testing.T) {
	for _, c := range []struct {
		keep           int
		capacity       int64
		count          int
		stored, peak   int64
		limit          interval.Limit
		intervalMillis int64
	}{
		{0, 0, 9, 900, 900, interval.LimitOverhead, 110_000},
		{2, 0, 9, 200, 300, interval.LimitOverhead, 110_000},
		{0, 450, 4, 400, 400, interval.LimitCapacity, 208_000}, // (1000 + 4·10)/5 s
		{2, 300, 9, 200, 300, interval.LimitOverhead, 110_000}, // two, and one being written
		{2, 299, 2, 200, 200, interval.LimitCapacity, 340_000}, // a third would cost one of the two
		{1, 100, 1, 100, 100, interval.LimitCapacity, 505_000},
		{1, 99, 0, 0, 0, interval.LimitCapacity, 1_000_000},
		{20, 0, 9, 900, 900, interval.LimitOverhead, 110_000},
	} {
		b := interval.Budget{Overhead: 0.1, App: 1000 * time.Second, Checkpoint: 10 * time.Second, Size: 100, Keep: c.keep, Capacity: c.capacity}
		s, err := b.Schedule()
		if err != nil {
			t.Fatal(err)
		}
		if s.Count != c.count || s.Stored != c.stored || s.Peak != c.peak || s.Limit != c.limit || s.Interval.Milliseconds() != c.intervalMillis {
			t.Errorf("keep %d, capacity %d: %+v", c.keep, c.capacity, s)
		}
	}
}

func TestNoCheckpointAffordable(t *testing.T) {
	for _, ckpt := range []time.Duration{60 * time.Second, 500 * time.Second} { // n = 1 and n = 0
		b := interval.Budget{Overhead: 0.1, App: 1000 * time.Second, Checkpoint: ckpt}
		s, err := b.Schedule()
		if err != nil || s.Count != 0 || s.Interval != 1100*time.Second || s.Total != b.App || s.Work != b.App || s.Late {
			t.Errorf("checkpoint of %v: %+v, %v", ckpt, s, err)
		}
	}
}

// TestExactMultiples: 29 % of 100 s pay for 29 checkpoints of 1 s, though
// 0.29·100 is below 29 in floating point.
func TestExactMultiples(t *testing.T) {
	for n := 1; n <= 300; n++ {
		b := interval.Budget{Overhead: float64(n) / 100, App: 100 * time.Second, Checkpoint: time.Second}
		if s, err := b.Schedule(); err != nil || s.Count != n-1 {
			t.Errorf("overhead %v: %d checkpoints, %v", b.Overhead, s.Count, err)
		}
	}
}

func TestLate(t *testing.T) {
	b := interval.Budget{Overhead: 10, App: 100 * time.Second, Checkpoint: 500 * time.Second}
	s, err := b.Schedule() // one checkpoint at 550 s of a run of 100 s
	if err != nil || s.Count != 1 || !s.Late || s.Work != 50*time.Second {
		t.Errorf("%+v, %v", s, err)
	}
}

func drawBudget(t *rapid.T) interval.Budget {
	return interval.Budget{
		Overhead:   rapid.Float64Range(1e-4, 3).Draw(t, "overhead"),
		App:        seconds(rapid.Float64Range(1, 1e6).Draw(t, "app")),
		Checkpoint: seconds(rapid.Float64Range(1, 1e4).Draw(t, "checkpoint")),
		Size:       rapid.Int64Range(1, 1<<36).Draw(t, "size"),
		Capacity:   rapid.Int64Range(0, 1<<44).Draw(t, "capacity"),
		Keep:       rapid.IntRange(0, 10).Draw(t, "keep"),
	}
}

func TestBudgetProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawBudget(t)
		s, err := b.Schedule()
		if err != nil {
			t.Fatal(err)
		}
		if s.Overhead > b.Overhead*(1+1e-9) {
			t.Fatalf("spends %v of %v", s.Overhead, b.Overhead)
		}
		if b.Capacity > 0 && s.Peak > b.Capacity || s.Stored > s.Peak {
			t.Fatalf("stores %d, at most %d, of %d", s.Stored, s.Peak, b.Capacity)
		}
		if s.Total != b.App+time.Duration(s.Count)*b.Checkpoint {
			t.Fatalf("total %v", s.Total)
		}
		if b.Overhead <= 0.5 && s.Limit == interval.LimitOverhead && s.Late {
			t.Fatalf("late: %+v", s)
		}
		// More budget, time or room never affords fewer checkpoints, a longer
		// checkpoint never more.
		more := b
		switch rapid.IntRange(0, 3).Draw(t, "change") {
		case 0:
			more.Overhead *= rapid.Float64Range(1, 10).Draw(t, "factor")
		case 1:
			more.App *= 2
		case 2:
			more.Capacity *= 2
		case 3:
			more.Checkpoint = max(1, more.Checkpoint/2)
		}
		if m, err := more.Schedule(); err != nil || m.Count < s.Count {
			t.Fatalf("%d checkpoints, with more %d, %v", s.Count, m.Count, err)
		}
	})
}

func TestBudgetRefuses(t *testing.T) {
	good := interval.Budget{Overhead: 0.1, App: time.Hour, Checkpoint: time.Minute}
	for _, c := range []struct {
		quantity string
		change   func(*interval.Budget)
	}{
		{"overhead", func(b *interval.Budget) { b.Overhead = 0 }},
		{"overhead", func(b *interval.Budget) { b.Overhead = math.NaN() }},
		{"overhead", func(b *interval.Budget) { b.Overhead = math.Inf(1) }},
		{"application time", func(b *interval.Budget) { b.App = 0 }},
		{"checkpoint time", func(b *interval.Budget) { b.Checkpoint = -1 }},
		{"checkpoint time", func(b *interval.Budget) { b.Checkpoint = 1 }},
		{"retention", func(b *interval.Budget) { b.Keep = -1 }},
		{"checkpoint size", func(b *interval.Budget) { b.Size = -1 }},
		{"checkpoint size", func(b *interval.Budget) { b.Size = math.MaxInt64 }},
		{"capacity", func(b *interval.Budget) { b.Capacity = -1 }},
		{"capacity", func(b *interval.Budget) { b.Capacity = 1 }},
		{"interval", func(b *interval.Budget) { b.Overhead, b.App, b.Checkpoint = 1000, math.MaxInt64, math.MaxInt64 }},
	} {
		b := good
		c.change(&b)
		_, err := b.Schedule()
		refused(t, err, c.quantity)
	}
}

// refused checks that an error names the quantity, and what to do.
func refused(t *testing.T, err error, quantity string) {
	t.Helper()
	var r *interval.RangeError
	if !errors.As(err, &r) || r.Quantity != quantity || r.Value == "" || r.Reason == "" || r.Hint() == "" {
		t.Errorf("%v, want %s refused", err, quantity)
	}
}

func ExampleBudget_Schedule() {
	// Table 4.5 of León Otero's thesis: BT.D on 64 processes, 30 % overhead.
	b := interval.Budget{Overhead: 0.30, App: 1137530 * time.Millisecond, Checkpoint: 102740 * time.Millisecond}
	s, err := b.Schedule()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d checkpoints, every %.2f s, %.2f s in all\n", s.Count, s.Interval.Seconds(), s.Total.Seconds())
	// Output: 2 checkpoints, every 492.93 s, 1343.01 s in all
}

func BenchmarkSchedule(b *testing.B) {
	budget := interval.Budget{Overhead: 0.30, App: seconds(1137.53), Checkpoint: seconds(102.74), Keep: 2, Size: 64 << 30, Capacity: 1 << 40}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := budget.Schedule(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestBudgetOfLag: the storage bounds the number of checkpoints that hardly cost the job anything.
// The last of 59 is taken at 59 minutes, and durable at the end.
func TestBudgetOfLag(t *testing.T) {
	b := interval.Budget{Overhead: 0.1, App: time.Hour, Checkpoint: time.Second, Lag: time.Minute}
	s, err := b.Schedule()
	if err != nil || s.Count != 59 || s.Limit != interval.LimitStorage {
		t.Errorf("%+v, %v; want 59 checkpoints, by the storage", s, err)
	}
}
