package filecache

import (
	"cmp"
	"encoding/csv"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

// LogLevel says how much a Monitor writes.
type LogLevel uint8

// The levels of logging.
const (
	Errors LogLevel = iota // what failed
	Info                   // and each request, and what the file as a whole does
	Detail                 // and when each request arrived and was answered
)

// A Monitor writes what happens to files as lines of CSV: one stream for all, one for
// each manager, and one of statistics. The package says what the columns mean.
type Monitor struct {
	Level LogLevel
	// Global, if not nil, gets the events of files as a whole.
	Global io.Writer
	// Manager, if not nil, returns what gets the events of the manager on a node.
	Manager func(file string, node int) io.Writer
	// Statistics, if not nil, gets sums over Interval, and what is left at the end.
	Statistics io.Writer
	Interval   time.Duration
	Now        func() time.Time // nil: the machine's clock

	mu      sync.Mutex
	begun   bool
	start   time.Time
	period  time.Time
	sums    map[sumKey]*sum
	streams map[io.Writer]*csv.Writer
	err     error
}

type sumKey struct {
	file           string
	kind           Kind
	source, target int
}

type sum struct {
	requests, bytes         int64
	waited, served, longest time.Duration
}

// The columns of the three streams.
var (
	globalColumns    = []string{"time_s", "event", "phase", "file", "seconds", "detail", "error"}
	managerColumns   = []string{"time_s", "event", "process", "source", "sequence", "part", "offset", "bytes", "wait_s", "service_s", "error"}
	statisticColumns = []string{"from_s", "to_s", "file", "request", "source", "target", "requests", "bytes", "wait_s", "service_s", "longest_s"}
)

// now returns the time, zero without a monitor.
func (m *Monitor) now() time.Time {
	switch {
	case m == nil:
		return time.Time{}
	case m.Now != nil:
		return m.Now()
	}
	return time.Now()
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 9, 64) }

// begin starts the clock and the streams.
func (m *Monitor) begin(now time.Time) {
	if m.begun {
		return
	}
	m.begun, m.start, m.period = true, now, now
	m.sums, m.streams = make(map[sumKey]*sum), make(map[io.Writer]*csv.Writer)
}

// line writes a line, after the columns if it is the first of its stream.
func (m *Monitor) line(w io.Writer, columns []string, fields ...string) {
	if w == nil {
		return
	}
	out := m.streams[w]
	if out == nil {
		out = csv.NewWriter(w)
		m.streams[w] = out
		m.keep(out.Write(columns))
	}
	m.keep(out.Write(fields))
	out.Flush()
	m.keep(out.Error())
}

func (m *Monitor) keep(err error) {
	if m.err == nil {
		m.err = err
	}
}

// Err returns the first error of writing to a stream. Events go on without it.
func (m *Monitor) Err() error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// event records what a file does as a whole. The function that it returns records
// the end.
func (m *Monitor) event(file, name, detail string) func(error) {
	if m == nil {
		return func(error) {}
	}
	start := m.now()
	m.global(start, file, name, "begin", "", detail, nil)
	return func(err error) {
		now := m.now()
		m.global(now, file, name, "end", seconds(now.Sub(start)), detail, err)
	}
}

func (m *Monitor) global(now time.Time, file, name, phase, took, detail string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin(now)
	if m.Level < Info && err == nil {
		return
	}
	m.line(m.Global, globalColumns, seconds(now.Sub(m.start)), name, phase, file, took, detail, text(err))
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// served records a request that a manager has served.
func (m *Monitor) served(file string, node int, r *Request, began time.Time, err error) {
	if m == nil {
		return
	}
	arrived := r.arrived
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin(arrived)
	if m.Manager != nil && (m.Level >= Info || err != nil) {
		w := m.Manager(file, node)
		if m.Level >= Detail {
			m.request(w, arrived, "receive", r, "", "", nil)
		}
		m.request(w, began, r.Kind.String(), r, seconds(began.Sub(arrived)), seconds(now.Sub(began)), err)
		if m.Level >= Detail {
			m.request(w, now, "answer", r, "", "", err)
		}
	}
	m.count(file, node, r, arrived, began, now)
}

func (m *Monitor) request(w io.Writer, at time.Time, event string, r *Request, wait, service string, err error) {
	m.line(w, managerColumns, seconds(at.Sub(m.start)), event, strconv.Itoa(r.Process), strconv.Itoa(r.Source),
		strconv.FormatUint(r.Seq, 10), strconv.Itoa(r.Part), strconv.FormatInt(r.Off, 10), strconv.FormatInt(r.bytes(), 10), wait, service, text(err))
}

func (r *Request) bytes() int64 {
	if r.Kind == Load || r.Kind == Put {
		return r.Length
	}
	return int64(len(r.Data))
}

// count adds a request to the statistics of its interval.
func (m *Monitor) count(file string, node int, r *Request, arrived, began, now time.Time) {
	if m.Statistics == nil {
		return
	}
	if m.Interval > 0 && now.Sub(m.period) >= m.Interval {
		m.flush(m.period.Add(now.Sub(m.period).Truncate(m.Interval)))
	}
	key := sumKey{file, r.Kind, r.Source, node}
	s := m.sums[key]
	if s == nil {
		s = &sum{}
		m.sums[key] = s
	}
	s.requests++
	s.bytes += r.bytes()
	s.waited += began.Sub(arrived)
	s.served += now.Sub(began)
	s.longest = max(s.longest, now.Sub(arrived))
}

// flush writes the statistics up to a time.
func (m *Monitor) flush(to time.Time) {
	keys := slices.SortedFunc(maps.Keys(m.sums), func(a, b sumKey) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.kind, b.kind), cmp.Compare(a.source, b.source), cmp.Compare(a.target, b.target))
	})
	for _, k := range keys {
		s := m.sums[k]
		m.line(m.Statistics, statisticColumns, seconds(m.period.Sub(m.start)), seconds(to.Sub(m.start)), k.file, k.kind.String(),
			strconv.Itoa(k.source), strconv.Itoa(k.target), strconv.FormatInt(s.requests, 10), strconv.FormatInt(s.bytes, 10),
			seconds(s.waited), seconds(s.served), seconds(s.longest))
	}
	clear(m.sums)
	m.period = to
}

// Flush writes the statistics of the interval that has begun.
func (m *Monitor) Flush() error {
	if m == nil {
		return nil
	}
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.begun && len(m.sums) > 0 {
		m.flush(now)
	}
	return m.err
}
