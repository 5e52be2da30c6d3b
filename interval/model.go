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

// Lasting is a time of some seconds, at most the longest that is counted.
func Lasting(seconds float64) time.Duration {
	return time.Duration(min(seconds*1e9, longest*1e9))
}

// segment returns the expected time of w seconds of running followed by a checkpoint
// of c seconds, in units of (M+D)·e^{R/M}: the bracket in the package comment. It
// returns +Inf if the job would never finish.
func (r *rates) segment(w, c float64) float64 {
	a := w / (r.replay * r.mtbf)
	b := a + c/r.mtbf
	if b > maxExponent {
		return math.Inf(1)
	}
	return (r.replay-1)*math.Expm1(a) + math.Expm1(b)
}

// factor is the unit of segment.
func (r *rates) factor() float64 { return (r.mtbf + r.down) * math.Exp(r.restart/r.mtbf) }

// Total returns the expected time of a run of work at an interval with Daly's cost:
// every interval, even a broken last one, pays its share of a checkpoint. Failures are
// exponential.
func (m *Model) Total(work, interval time.Duration) (time.Duration, error) {
	if err := m.checkRun(work, interval); err != nil {
		return 0, err
	}
	r := m.rates()
	return duration("total time", r.total(work.Seconds(), interval.Seconds()))
}

func (r *rates) total(work, w float64) float64 {
	return r.factor() * r.segment(w, r.cost+r.growth*w) * work / (r.speed * w)
}

// Expected returns the expected time of a run of work of whole intervals and a
// last, shorter one, without a checkpoint at its end: the run that [Simulation]
// replays. Failures are exponential.
func (m *Model) Expected(work, interval time.Duration) (time.Duration, error) {
	if err := m.checkRun(work, interval); err != nil {
		return 0, err
	}
	r := m.rates()
	full, w, rest := r.divide(work.Seconds(), interval.Seconds())
	sum := r.segment(rest, 0)
	if full > 0 { // 0·∞ is not 0
		sum += full * r.segment(w, r.cost+r.growth*w)
	}
	return duration("total time", r.factor()*sum)
}

// divide divides work into full segments of w seconds of running, which end
// with a checkpoint, and the rest, which is not 0.
func (r *rates) divide(work, w float64) (full, length, rest float64) {
	run := work / r.speed
	// A remainder of rounding errors is 0.
	full = math.Max(0, math.Ceil(run/w-1e-9)-1)
	return full, w, run - full*w
}

// Waste returns the expected share of the time that is not work, in [0, 1), by
// Daly's cost.
func (m *Model) Waste(interval time.Duration) (float64, error) {
	if err := m.checkRun(1, interval); err != nil {
		return 0, err
	}
	r := m.rates()
	total := r.total(1, interval.Seconds())
	return math.Max(0, 1-1/total), nil // rounding may leave −1e−16
}

// FirstOrderWaste returns the waste to first order in 1/M (Hérault, Robert 2015). It
// returns a [*RangeError] if that order is not sufficient, because a failure costs
// more than the time to the next one.
func (m *Model) FirstOrderWaste(interval time.Duration) (float64, error) {
	if err := m.checkRun(1, interval); err != nil {
		return 0, err
	}
	r := m.rates()
	w := interval.Seconds()
	c := r.cost + r.growth*w
	period := w + c
	// On average half the period is lost. Of a checkpoint in progress and the work
	// before it, only the work is computed again ρ times faster.
	lost := (w*w/2/r.replay + c*w/r.replay + c*c/2) / period
	perFailure := r.down + r.restart + lost
	if perFailure >= r.mtbf {
		return 0, outOfRange("loss per failure", time.Duration(perFailure*1e9), "is not below the MTBF, so the first-order waste means nothing",
			"use the exact waste, or a shorter interval")
	}
	return 1 - r.speed*(1-c/period)*(1-perFailure/r.mtbf), nil
}

func (m *Model) checkRun(work, interval time.Duration) error {
	if err := m.check(); err != nil {
		return err
	}
	if err := positive("application time", work); err != nil {
		return err
	}
	return positive("interval", interval)
}
