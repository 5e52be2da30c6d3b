package strace

import (
	"bytes"
	"fmt"
	"time"

	"ckpt/iotrace"
)

func (im *importer) line(l []byte) error {
	im.lineNumber = im.in.Number()
	if len(bytes.TrimSpace(l)) == 0 {
		return nil
	}
	if l = im.mend(l); l == nil {
		return nil
	}
	e := split(l)
	im.numbered = im.numbered || e.pid != 0
	return im.entry(&e, l)
}

// entry handles a line that split has taken apart.
func (im *importer) entry(e *entry, l []byte) error {
	switch e.kind {
	case unknownLine:
		if im.summary = im.summary || iotrace.StraceSummary(l); im.summary || iotrace.BesideStrace(l) {
			return nil
		}
		return im.unknown(l, "this is not a line of strace")
	case messageLine:
		return nil
	case attachedLine:
		if n, ok := iotrace.Int(e.name); ok && im.tasks[n] == nil {
			im.attached[n] = true
		}
		return nil
	}
	if e.clock == noClock {
		if im.clock == noClock {
			return im.noTimes("the line has no time: run strace with -ttt and -T")
		}
		return im.unknown(l, "the line has no time, as others have")
	}
	at, err := im.stamp(e)
	if err != nil {
		return err
	}
	return im.give(e, at)
}

// give hands a line to its task.
func (im *importer) give(e *entry, at int64) error {
	t := im.taskOf(e)
	if t == nil {
		return im.hold(e, at)
	}
	return im.take(t, e, im.in.Number(), at)
}

// mend joins a line that strace itself has interrupted, as happens without -o:
// "clone(flags=CLONE_VMstrace: Process 5 attached", and on the next line ") = 5". It
// returns nil while the rest is missing.
func (im *importer) mend(l []byte) []byte {
	const message = "strace: Process "
	if im.broken != nil {
		l = append(im.broken, l...)
		im.broken = nil
	}
	if !bytes.HasSuffix(l, []byte(" attached")) { // cheap test first: the search takes long
		return l
	}
	i := bytes.LastIndex(l, []byte(message))
	if i <= 0 || len(l) > iotrace.MaxLine {
		return l
	}
	number, ok := bytes.CutSuffix(l[i+len(message):], []byte(" attached"))
	n, ok2 := iotrace.Int(number)
	if !ok || !ok2 {
		return l
	}
	if im.tasks[n] == nil {
		im.attached[n] = true
	}
	im.broken = bytes.Clone(l[:i])
	return nil
}

// A course is the progress of a text's clock.
type course struct {
	last int64 // time of the last line, in ns
	day  int64 // number of midnights so far
}

// time returns the time of a line on the day of the last line or the next day, and
// advances the clock if the line is later.
func (c *course) time(e *entry) int64 {
	at := e.time + c.day*dayLength
	if e.clock == dayClock && c.last-at > dayLength/2 { // past midnight
		c.day++
		at += dayLength
	}
	c.last = max(c.last, at)
	return at
}

const dayLength = 24 * 3600e9

// noTimes ends the reading of a text without times.
func (im *importer) noTimes(reason string) error {
	err := im.in.Errorf("%s", reason)
	err.Err = iotrace.ErrNoTimes
	return err
}

// stamp returns the time of a line relative to the first one.
func (im *importer) stamp(e *entry) (int64, error) {
	if im.clock != noClock && e.clock != im.clock {
		return 0, im.in.Errorf("the line has another kind of time than the lines before")
	}
	at := im.seen.time(e)
	if im.clock == noClock {
		if e.clock == unixClock && e.time < 1e8*1e9 {
			return 0, im.noTimes("the times are relative to each other: run strace with -ttt instead of -r")
		}
		im.clock = e.clock
		if e.clock == unixClock { // other clocks count from midnight, so that texts fit together
			im.base, im.t.Origin = at, time.Unix(0, at).UTC()
		}
	}
	back := im.seen.last - at
	switch late := back > 0 && im.endsAfter(e, back); {
	case back <= 0, late && im.o.Lenient:
	case late:
		return 0, im.in.Errorf("the clock runs backwards by %v: strace -z prints calls when they end; run strace without -z", time.Duration(back))
	case !im.o.Lenient:
		return 0, im.in.Errorf("the clock runs backwards by %v", time.Duration(back))
	default:
		im.rep.Note(im.in.Number(), "", fmt.Sprintf("the clock runs backwards by %v", time.Duration(back)))
	}
	im.since, im.until = min(im.since, at-im.base), max(im.until, at-im.base)
	return at - im.base, nil
}

// endsAfter reports whether a line may stand at the end of its call, as strace -z
// prints it. That cuts lines in two and hides the state of descriptors when a call
// began. A text of one task has no such lines. Times are rounded.
func (im *importer) endsAfter(e *entry, back int64) bool {
	const rounded = 5e3
	if e.kind != callLine || !im.numbered {
		return false
	}
	ns, _ := duration(e.text)
	return ns >= 0 && ns+rounded >= back
}
