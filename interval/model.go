package interval

import (
	"fmt"
	"math"
	"time"
)

// Model is a job that takes checkpoints on a machine that fails. The zero Mode
// and Logging describe coordinated checkpoints.
type Model struct {
	Cost     time.Duration // δ, what the application loses to one checkpoint
	MTBF     time.Duration // M, of the whole job
	Restart  time.Duration // R, failures may strike during it
	Downtime time.Duration // D, after every failure, free of failures
	Mode     Mode
	Logging  Logging
}

// Mode is how ranks checkpoint.
type Mode uint8

const (
	Coordinated     Mode = iota // all together; all roll back
	Uncoordinated               // each on its own; one rolls back, all messages are logged
	Semicoordinated             // node by node; one node rolls back, messages between nodes are logged
)

// Logging has the costs and benefits of message logs. See the package comment.
type Logging struct {
	Slowdown float64 // share of the speed that is lost if all messages are logged, 0 to below 1
	Share    float64 // share of the messages that is logged, over 0 to 1
	Growth   float64 // β, seconds that a second of work adds to the next checkpoint if all messages are logged
	Replay   float64 // ρ, speed of computing again relative to the first time; 0 means 1
}

// limits of the model. Daly's formula holds for δ < 2M (2006), and a
// restart of 2M succeeds one time in seven.
const (
	maxRatio    = 2
	maxReplay   = 100
	maxExponent = 600 // e^600 is finite, and far over every run
)

func (m *Model) check() error {
	if err := positive("MTBF", m.MTBF); err != nil {
		return err
	}
	if err := positive("checkpoint cost", m.Cost); err != nil {
		return err
	}
	if err := notNegative("restart time", m.Restart); err != nil {
		return err
	}
	if err := notNegative("downtime", m.Downtime); err != nil {
		return err
	}
	if m.Cost/maxRatio >= m.MTBF {
		return outOfRange("checkpoint cost", m.Cost, fmt.Sprintf("is not below twice the MTBF of %v, so hardly any checkpoint would be finished", m.MTBF),
			"make checkpoints cheaper (fewer bytes, more writers, a node-local store), or run on fewer nodes: a job of half the nodes fails half as often")
	}
	if m.Restart/maxRatio >= m.MTBF {
		return outOfRange("restart time", m.Restart, fmt.Sprintf("is not below twice the MTBF of %v, so hardly any restart would succeed", m.MTBF),
			"make restarts cheaper (fewer bytes, more readers), or run on fewer nodes: a job of half the nodes fails half as often")
	}
	return m.checkLogging()
}

func (m *Model) checkLogging() error {
	l := m.Logging
	switch m.Mode {
	case Coordinated:
		if l != (Logging{}) {
			return outOfRange("mode", "coordinated", "needs no message logs", "leave the cost of logging out, or choose uncoordinated or semi")
		}
		return nil
	case Uncoordinated, Semicoordinated:
	default:
		return outOfRange("mode", uint8(m.Mode), "is unknown", "choose coordinated, uncoordinated or semi")
	}
	switch {
	case !(l.Slowdown >= 0 && l.Slowdown < 1):
		return outOfRange("logging slowdown", l.Slowdown, "must be at least 0 and below 1", "give the share of the speed that logging costs, like 0.02")
	case !(l.Share > 0 && l.Share <= 1):
		return outOfRange("logged share", l.Share, "must be over 0 and at most 1", "give the share of the messages that is logged, 1 for all; without logs the domino effect has no bound")
	case !(l.Growth >= 0 && l.Growth <= 1):
		return outOfRange("log growth", l.Growth, "must be 0 to 1", "give the seconds that the log of a second of work adds to a checkpoint")
	case l.Replay != 0 && !(l.Replay >= 1 && l.Replay <= maxReplay):
		return outOfRange("replay speed", l.Replay, "must be 1 to 100", "give the speed of computing again from logs, 1 for that of the first time")
	}
	return nil
}

// rates are a checked model in seconds.
type rates struct {
	cost, mtbf, restart, down float64
	growth                    float64 // β of the messages that are logged
	replay                    float64 // ρ
	speed                     float64 // work done per second, 1 without logs
}

func (m *Model) rates() rates {
	r := rates{
		cost: m.Cost.Seconds(), mtbf: m.MTBF.Seconds(), restart: m.Restart.Seconds(), down: m.Downtime.Seconds(),
		replay: 1, speed: 1,
	}
	if m.Mode == Coordinated {
		return r
	}
	r.growth = m.Logging.Growth * m.Logging.Share
	r.speed = 1 - m.Logging.Slowdown*m.Logging.Share
	r.replay = math.Max(1, m.Logging.Replay)
	return r
}

// RangeError reports a quantity outside of the range in which an answer is meaningful.
type RangeError struct {
	Quantity string // what is out of range, like "checkpoint cost"
	Value    string // with its unit
	Reason   string // which range it leaves
	Remedy   string // what to do about it
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("%s of %s: %s", e.Quantity, e.Value, e.Reason)
}

// Hint returns the remedy.
func (e *RangeError) Hint() string { return e.Remedy }

func outOfRange(quantity string, value any, reason, remedy string) *RangeError {
	return &RangeError{Quantity: quantity, Value: fmt.Sprint(value), Reason: reason, Remedy: remedy}
}

// positive and notNegative check a duration.
func positive(quantity string, d time.Duration) error {
	if d > 0 {
		return nil
	}
	return outOfRange(quantity, d, "must be over 0", "give a time like 90s, 5m or 24h")
}

func notNegative(quantity string, d time.Duration) error {
	if d >= 0 {
		return nil
	}
	return outOfRange(quantity, d, "must not be negative", "give 0, or a time like 90s or 5m")
}

// longest is the longest duration that time.Duration holds, 292 years, less the
// rounding of float64 at that size.
const longest = float64(math.MaxInt64-1<<11) / 1e9

// duration converts seconds, or refuses them if no run can last that long.
func duration(quantity string, seconds float64) (time.Duration, error) {
	if !(seconds < longest) { // also NaN
		return 0, outOfRange(quantity, "over 292 years", "the job makes no progress worth the name",
			"give a shorter interval or work, a cheaper checkpoint or restart, or a longer MTBF")
	}
	return time.Duration(math.Round(seconds * 1e9)), nil
}

// lasting is a time of some seconds, at most the longest that is counted.
func lasting(seconds float64) time.Duration {
	return time.Duration(min(seconds*1e9, longest*1e9))
}
