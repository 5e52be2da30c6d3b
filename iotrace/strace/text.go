package strace

import (
	"bytes"
	"fmt"
	"time"

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
			return im.in.Errorf("the line has no time: run strace with -ttt and -T")
		}
		return im.unknown(l, "the line has no time, as others have")
	}
	at, err := im.stamp(e)
	if err != nil {
		return err
	}
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

// stamp returns the time of a line, from the first one on.
func (im *importer) stamp(e *entry) (int64, error) {
	const day = 24 * 3600e9
	if im.clock == noClock {
		if e.clock == unixClock && e.time < 1e8*1e9 {
			return 0, im.in.Errorf("the times are relative to each other: run strace with -ttt instead of -r")
		}
		im.clock, im.base = e.clock, e.time
		if e.clock == unixClock {
			im.t.Origin = time.Unix(0, e.time).UTC()
		}
	}
	if e.clock != im.clock {
		return 0, im.in.Errorf("the time is of another kind than in front")
	}
	at := e.time - im.base + im.day*day
	if im.clock == dayClock && im.last-at > day/2 { // past midnight
		im.day++
		at += day
	}
	if at < im.last {
		if !im.o.Lenient {
			return 0, im.in.Errorf("the clock runs backwards, by %v", time.Duration(im.last-at))
		}
		im.rep.Note(im.in.Number(), "", fmt.Sprintf("the clock runs backwards, by %v", time.Duration(im.last-at)))
		return at, nil
	}
	im.last = at
	return at, nil
}
