package darshan

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"time"

	"ckpt/iotrace"
)

const (
	jobBytes      = 4096 // of the region, at most
	metadataBytes = 1024
)

// lastSecond is the end of the year 9999.
const lastSecond = 253402300799

// readJob reads the record of the job, its command line and the mounted file systems.
func (l *reading) readJob() error {
	g, err := l.open("data of the job", l.head.job)
	if err != nil {
		return err
	}
	b, err := g.upTo(jobBytes)
	if err != nil {
		return err
	}
	fine := !l.head.before(41) // there are nanoseconds
	numbers := 5
	if fine {
		numbers = 7
	}
	if len(b) < 8*numbers+metadataBytes {
		return truncated(g.at(), "the data of the job have %d of %d bytes", len(b), 8*numbers+metadataBytes)
	}
	next := func() int64 {
		n := int64(l.head.order.Uint64(b))
		b = b[8:]
		return n
	}
	moment := func() (at time.Time, ok bool) {
		s, ns := next(), int64(0)
		if fine {
			ns = next()
		}
		return time.Unix(s, ns).UTC(), s >= 0 && s <= lastSecond && ns >= 0 && ns < 1e9
	}
	user := next()
	start, ok1 := moment()
	end, ok2 := moment()
	if !ok1 || !ok2 {
		return damaged(g.at(), "the job has an impossible start or end")
	}
	nprocs, job := next(), next()
	if nprocs < 0 || nprocs > math.MaxInt32 {
		return damaged(g.at(), "the job has %d processes", nprocs)
	}
	if start.Unix() != 0 {
		l.t.Origin = start
	}
	switch took := end.Sub(start); {
	case end.Unix() == 0 || took < 0 || took > iotrace.MaxTime: // the end was not recorded
	case fine:
		l.t.Runtime = took
	default: // whole seconds: Darshan counts the one that has begun
		l.t.Runtime = took + time.Second
	}
	l.property("darshan log", l.head.String())
	l.property("user", fmt.Sprint(user))
	l.property("job", fmt.Sprint(job))
	l.property("processes", fmt.Sprint(nprocs))
	for line := range strings.Lines(untilZero(b[:metadataBytes])) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && key != "" {
			l.property(key, value)
		}
	}
	exe, mounts, _ := strings.Cut(untilZero(b[metadataBytes:]), "\n")
	for line := range strings.Lines(mounts) {
		if words := strings.Fields(line); len(words) > 1 && strings.HasPrefix(words[1], "/") {
			l.property(words[1], words[0])
		}
	}
	l.t.Job = strings.TrimSpace(exe)
	if l.t.Job == "" && job != 0 {
		l.t.Job = fmt.Sprintf("job %d", job)
	}
	if nprocs <= maxRanks { // else those of the records only
		l.nprocs = nprocs
		for i := range l.nprocs {
			l.tables.Rank(iotrace.Rank{Rank: int(i)})
		}
	}
	return nil
}

func (l *reading) property(name, value string) {
	l.t.Properties = append(l.t.Properties, iotrace.Property{Name: name, Value: value})
}

// untilZero returns the text in front of the first zero byte.
func untilZero(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return strings.ToValidUTF8(string(b), "\uFFFD")
}
