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

	// Lag is the time until a checkpoint is durable that is written behind the job, 0 if the job
	// waits for it: the storage takes no more of them than the run has lags.
	Lag time.Duration

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
	LimitFailures              // more would cost more time than they save
	LimitStorage               // the storage takes no more of them behind the job
)

func (l Limit) String() string {
	switch l {
	case LimitStorage:
		return "storage"
	case LimitCapacity:
		return "capacity"
	case LimitFailures:
		return "failures"
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
	// Of n checkpoints n + 1 lags apart the last is durable at the end of the run.
	if b.Lag > 0 && float64(s.Count+1) > app/float64(b.Lag) {
		s.Count, s.Limit = max(0, int(app/float64(b.Lag))-1), LimitStorage
		length = b.evenly(s.Count)
	}
	if images := b.images(); int64(s.Count) > images {
		s.Count, s.Limit = int(images), LimitCapacity
		length = b.evenly(s.Count)
	}
	if err := b.complete(&s, length); err != nil {
		return Schedule{}, err
	}
	return s, nil
}

// ScheduleFor is Schedule on a machine that fails: of the checkpoints that the budget
// pays for, a run takes as many as shorten it. The cost of the model does not matter: it
// is the budget's. Run has the expected times.
func (b *Budget) ScheduleFor(m Model) (Schedule, Run, error) {
	s, err := b.Schedule()
	if err != nil {
		return Schedule{}, Run{}, err
	}
	m.Cost = b.Checkpoint
	run, err := m.BestUpTo(b.App, s.Count)
	if err != nil {
		return Schedule{}, Run{}, err
	}
	if run.Count < s.Count {
		s = Schedule{Count: run.Count, Limit: LimitFailures}
		err = b.complete(&s, b.evenly(s.Count))
	}
	return s, run, err
}

// evenly is the interval, in ns, that divides the time which a run takes that does not
// use its budget.
func (b *Budget) evenly(count int) float64 {
	return (float64(b.App) + float64(count)*float64(b.Checkpoint)) / float64(count+1)
}

// complete sets what follows from the number of checkpoints and the interval in ns.
func (b *Budget) complete(s *Schedule, length float64) error {
	app, ckpt := float64(b.App), float64(b.Checkpoint)
	var err error
	if s.Interval, err = duration("interval", length/1e9); err != nil {
		return err
	}
	if s.Total, err = duration("total time", (app+float64(s.Count)*ckpt)/1e9); err != nil {
		return err
	}
	s.Work = b.App / time.Duration(s.Count+1)
	s.Overhead = float64(s.Count) * ckpt / app
	s.Late = s.Count > 0 && float64(s.Count)*length-float64(s.Count-1)*ckpt >= app
	return b.store(s)
}

// MostKept is the largest Keep that leaves space for one checkpoint more, which is written
// before the oldest goes.
func (b *Budget) MostKept() int {
	if b.Capacity == 0 || b.Size == 0 {
		return maxCount
	}
	return int(min(maxCount, b.Capacity/b.Size-1))
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
