package interval

import (
	"math"
	"time"
)

// Budget is the amount of time and storage that a user accepts to spend on
// checkpoints.
type Budget struct {
	Overhead   float64       // accepted share of App, like 0.30 for 30 %
	App        time.Duration // time of the run without checkpoints
	Checkpoint time.Duration // time of one checkpoint

	// Keep is the number of newest checkpoints that stay in the store, 0 for all. They
	// stay while the next one is written.
	Keep int
	// Size is the size of one checkpoint in bytes, Capacity that of the store;
	// with Capacity 0 the store is large enough.
	Size, Capacity int64
}

// Limit is the reason for a number of checkpoints.
type Limit uint8

const (
	LimitOverhead Limit = iota // the accepted overhead
	LimitCapacity              // the capacity of the store
)

func (l Limit) String() string {
	if l == LimitCapacity {
		return "capacity"
	}
	return "overhead"
}

// Schedule is the result of a budget.
type Schedule struct {
	Count    int           // checkpoints during the run
	Interval time.Duration // from the begin of one to the begin of the next
	Work     time.Duration // work between two if they divide it evenly: App/(Count+1)
	Total    time.Duration // App + Count·Checkpoint
	Overhead float64       // share of App that is spent, Count·Checkpoint/App
	Stored   int64         // bytes in the store at the end
	Peak     int64         // bytes in the store while a checkpoint is written
	Limit    Limit         // why there are not more
	// Late is set if at Interval the run would end before its last checkpoint. The
	// rule divides the time that the budget allows, and a large overhead (over 50 %,
	// for large Count) leaves much of it unused. Use Work in that case.
	Late bool
}

// maxCount keeps counts within int32 on all platforms.
const maxCount = math.MaxInt32

// Schedule returns the result of the budget. A Count of 0 is a result, not an error:
// the whole run is then one interval.
func (b *Budget) Schedule() (Schedule, error) {
	if err := b.check(); err != nil {
		return Schedule{}, err
	}
	app, ckpt := float64(b.App), float64(b.Checkpoint)
	// The tolerance lets 30 % of 1000 s pay for 3 checkpoints of 100 s.
	affordable := math.Floor(b.Overhead * app / ckpt * (1 + 1e-12))
	if affordable > maxCount {
		return Schedule{}, outOfRange("checkpoint time", b.Checkpoint, "the budget affords over 2147483647 checkpoints", "check the unit of the checkpoint time")
	}
	n := max(1, int(affordable)) // intervals
	s := Schedule{Count: n - 1, Limit: LimitOverhead}
	length := (1 + b.Overhead) * app / float64(n)
	if images := b.images(); int64(s.Count) > images {
		s.Count, s.Limit = int(images), LimitCapacity
		// The run will not use its budget: divide the time that it really takes.
		length = (app + float64(s.Count)*ckpt) / float64(s.Count+1)
	}
	total := app + float64(s.Count)*ckpt
	var err error
	if s.Interval, err = duration("interval", length/1e9); err != nil {
		return Schedule{}, err
	}
	if s.Total, err = duration("total time", total/1e9); err != nil {
		return Schedule{}, err
	}
	s.Work = b.App / time.Duration(s.Count+1)
	s.Overhead = float64(s.Count) * ckpt / app
	if err := b.store(&s); err != nil {
		return Schedule{}, err
	}
	s.Late = s.Count > 0 && float64(s.Count)*length-float64(s.Count-1)*ckpt >= app
	return s, nil
}

// images returns how many checkpoints fit into the store during the run, if Keep of
// them must survive each commit.
func (b *Budget) images() int64 {
	if b.Capacity == 0 || b.Size == 0 {
		return math.MaxInt64
	}
	room := b.Capacity / b.Size
	if b.Keep > 0 && room > int64(b.Keep) {
		return math.MaxInt64 // removing the oldest frees its space
	}
	return room
}

// store sets the bytes that the checkpoints of s take.
func (b *Budget) store(s *Schedule) error {
	stored := b.kept(s.Count)
	peak := min(s.Count, stored+1)
	if b.Size > 0 && int64(peak) > math.MaxInt64/b.Size {
		return outOfRange("checkpoint size", b.Size, "the checkpoints would take over 8 EiB", "keep fewer of them")
	}
	s.Stored, s.Peak = int64(stored)*b.Size, int64(peak)*b.Size
	return nil
}

func (b *Budget) kept(count int) int {
	if b.Keep == 0 {
		return count
	}
	return min(count, b.Keep)
}

func (b *Budget) check() error {
	if !(b.Overhead > 0 && b.Overhead <= 1000) {
		return outOfRange("overhead", b.Overhead, "must be over 0 and at most 1000 times the run", "give the accepted share of the run time, like 10% or 0.1")
	}
	if err := positive("application time", b.App); err != nil {
		return err
	}
	if err := positive("checkpoint time", b.Checkpoint); err != nil {
		return err
	}
	switch {
	case b.Keep < 0:
		return outOfRange("retention", b.Keep, "must not be negative", "give the number of checkpoints to keep, 0 for all")
	case b.Size < 0:
		return outOfRange("checkpoint size", b.Size, "must not be negative", "give the size of one checkpoint in bytes")
	case b.Capacity < 0:
		return outOfRange("capacity", b.Capacity, "must not be negative", "give the size of the store in bytes, 0 for no limit")
	case b.Capacity > 0 && b.Size == 0:
		return outOfRange("capacity", b.Capacity, "says nothing without the size of a checkpoint", "give the size of one checkpoint, too")
	}
	return nil
}
