package strace

import (
	"bytes"
	"fmt"
	"time"

	"ckpt/iotrace"
	"ckpt/iotrace/line"
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

// entry works on a line that was taken apart.
func (im *importer) entry(e *entry, l []byte) error {
	switch e.kind {
	case unknownLine:
		return im.unknown(l, "this is no line of strace")
	case messageLine:
		return nil
	case attachedLine:
		if n, ok := line.Int(e.name); ok && im.tasks[n] == nil {
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

// mend puts a line together that strace has interrupted itself, as it does
// without -o: "clone(flags=CLONE_VMstrace: Process 5 attached", and on the next
// line ") = 5". It returns nil if the rest is still to come.
func (im *importer) mend(l []byte) []byte {
	const message = "strace: Process "
	if im.broken != nil {
		l = append(im.broken, l...)
		im.broken = nil
	}
	if !bytes.HasSuffix(l, []byte(" attached")) { // mostly: to look for it takes long
		return l
	}
	i := bytes.LastIndex(l, []byte(message))
	if i <= 0 || len(l) > line.MaxLength {
		return l
	}
	number, ok := bytes.CutSuffix(l[i+len(message):], []byte(" attached"))
	n, ok2 := line.Int(number)
	if !ok || !ok2 {
		return l
	}
	if im.tasks[n] == nil {
		im.attached[n] = true
	}
	im.broken = bytes.Clone(l[:i])
	return nil
}

// A course is how far the clock of a text has come.
type course struct {
	last int64 // time of the last line, in ns
	day  int64 // of midnights that went by
}

// time returns the time of a line, on the day of the last one or the next, and goes
// on to it if it is later.
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

// noTimes says that the text cannot be used, nor any part of it.
func (im *importer) noTimes(reason string) error {
	err := im.in.Errorf("%s", reason)
	err.Err = iotrace.ErrNoTimes
	return err
}

// stamp returns the time of a line, from the first one on.
func (im *importer) stamp(e *entry) (int64, error) {
	if im.clock != noClock && e.clock != im.clock {
		return 0, im.in.Errorf("the time is of another kind than in front")
	}
	at := im.seen.time(e)
	if im.clock == noClock {
		if e.clock == unixClock && e.time < 1e8*1e9 {
			return 0, im.noTimes("the times are relative to each other: run strace with -ttt instead of -r")
		}
		im.clock = e.clock
		if e.clock == unixClock { // else they count from midnight, so that texts fit together
			im.base, im.t.Origin = at, time.Unix(0, at).UTC()
		}
	}
	back := im.seen.last - at
	switch late := back > 0 && im.endsAfter(e, back); {
	case back <= 0, late && im.o.Lenient:
	case late:
		return 0, im.in.Errorf("the clock runs backwards, by %v, as strace -z writes calls when they end, which tells less: run strace without -z", time.Duration(back))
	case !im.o.Lenient:
		return 0, im.in.Errorf("the clock runs backwards, by %v", time.Duration(back))
	default:
		im.rep.Note(im.in.Number(), "", fmt.Sprintf("the clock runs backwards, by %v", time.Duration(back)))
	}
	return at - im.base, nil
}

// endsAfter reports a line that may be where it is because its call has ended, as
// with strace -z: that cuts lines in two, and what a descriptor was when a call began
// is not known. In a text of one task there is none. Times are rounded.
func (im *importer) endsAfter(e *entry, back int64) bool {
	const rounded = 5e3
	if e.kind != callLine || !im.numbered {
		return false
	}
	ns, _ := duration(e.text)
	return ns >= 0 && ns+rounded >= back
}
