package image

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ckpt/internal/durable"
)

// A Retention says which checkpoints of a job stay: the newest Last, and the newest of each of
// the last Hourly hours and of the last Daily days in which some were taken, on the clock of
// this machine. Beside one whose header or index is damaged, the next of that time stays.
type Retention struct {
	Last   int `json:"last"`
	Hourly int `json:"hourly,omitempty"`
	Daily  int `json:"daily,omitempty"`
}

// maxPeriods bounds Hourly and Daily: a century of hours.
const maxPeriods = 1 << 20

// Check refuses a rule that is out of range.
func (r Retention) Check() error {
	if r.Last < 0 || min(r.Hourly, r.Daily) < 0 || max(r.Hourly, r.Daily) > maxPeriods {
		return fmt.Errorf("a retention of %d checkpoints, %d hours and %d days is out of range", r.Last, r.Hourly, r.Daily)
	}
	return nil
}

// Periods reports whether the rule keeps more than the newest checkpoints.
func (r Retention) Periods() bool { return r.Hourly > 0 || r.Daily > 0 }

// A Reason says why a checkpoint stays beyond the newest.
type Reason struct {
	Number int    `json:"number"`
	Reason string `json:"reason"` // as in "newest of day 2026-11-28"
}

// Numbers lists the checkpoints of reasons.
func Numbers(reasons []Reason) (list []int) {
	for _, r := range reasons {
		list = append(list, r.Number)
	}
	return list
}

// Retained returns the checkpoints that stay for an hour or a day, ascending. Of lists those
// that count, nil: all. It fails if one cannot be read for another reason than damage: it might
// have to stay.
func (j *Job) Retained(r Retention, of []int) (kept []Reason, err error) {
	if !r.Periods() {
		return nil, nil
	}
	list, err := j.counted(of)
	if err != nil {
		return nil, err
	}
	reasons := r.of(list, func(n int) bool { return j.sound(n) == nil })
	for _, s := range list {
		if why := reasons[s.Number]; why != "" {
			kept = append(kept, Reason{s.Number, why})
		}
	}
	return kept, nil
}

// counted describes the checkpoints whose manifests are sound, ascending; of those in a list, nil:
// of all.
func (j *Job) counted(of []int) (list []Summary, err error) {
	c, done, err := j.known()
	if err != nil {
		return nil, err
	}
	var records []*record
	for _, n := range c.numbers {
		if of == nil || slices.Contains(of, n) {
			records = append(records, c.records[n])
		}
	}
	done()
	for _, r := range records {
		s, err := j.summary(r)
		switch {
		case err == nil:
			list = append(list, s)
		case !errors.Is(err, ErrCheckpointNotFound) && !errors.As(err, new(*durable.DamageError)):
			return nil, err
		}
	}
	return list, nil
}

// olds returns how many checkpoints at the beginning of an ascending list are older than the newest
// ones that stay, and the reasons for which some of these old ones stay.
func (r Retention) olds(list []Summary, sound func(n int) bool) (n int, reasons map[int]string) {
	numbers := make([]int, len(list))
	for i, s := range list {
		numbers[i] = s.Number
	}
	n, _ = prunable(numbers, r.Last, sound)
	return n, r.of(list, sound)
}

// of returns why some of a list, ascending by time, stay. One that is not sound stays beside the
// next one of its hour or day: an error may have passed by then. One that is alone there stays,
// and is not looked into.
func (r Retention) of(list []Summary, sound func(n int) bool) map[int]string {
	reasons := make(map[int][]string)
	for _, p := range []struct {
		name, form string
		count      int
	}{{"hour", "2006-01-02 15", r.Hourly}, {"day", time.DateOnly, r.Daily}} {
		last, found := "", 0
		for i, s := range slices.Backward(list) {
			at := s.Created.Local().Format(p.form)
			if found == p.count || at == last {
				continue
			}
			why := "not sound, of "
			alone := i == 0 || list[i-1].Created.Local().Format(p.form) != at
			if alone || sound(s.Number) {
				last, found, why = at, found+1, "newest of "
			}
			reasons[s.Number] = append(reasons[s.Number], why+p.name+" "+at)
		}
	}
	texts := make(map[int]string)
	for n, list := range reasons {
		texts[n] = strings.Join(list, ", ")
	}
	return texts
}
