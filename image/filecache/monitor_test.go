package filecache

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A ticking clock goes on by a millisecond whenever it is read.
type ticking struct {
	mu sync.Mutex
	at time.Time
}

func (c *ticking) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(time.Millisecond)
	return c.at
}

type streams struct {
	global, statistics bytes.Buffer
	managers           map[int]*bytes.Buffer
}

func monitored(level LogLevel) (*Monitor, *streams) {
	s := &streams{managers: make(map[int]*bytes.Buffer)}
	m := &Monitor{Level: level, Global: &s.global, Statistics: &s.statistics, Interval: 20 * time.Millisecond, Now: (&ticking{at: time.Unix(1e9, 0)}).now}
	m.Manager = func(_ string, node int) io.Writer {
		if s.managers[node] == nil {
			s.managers[node] = &bytes.Buffer{}
		}
		return s.managers[node]
	}
	return m, s
}

func rows(t *testing.T, b *bytes.Buffer, columns []string) [][]string {
	t.Helper()
	if b == nil || b.Len() == 0 {
		return nil
	}
	all := must(csv.NewReader(bytes.NewReader(b.Bytes())).ReadAll())(t)
	if !slices.Equal(all[0], columns) {
		t.Errorf("columns %v", all[0])
	}
	return all[1:]
}

// TestMonitorAddsUp: the lines of all managers and the statistics speak of the same
// requests, as many as were made.
func TestMonitorAddsUp(t *testing.T) {
	c, _ := cluster(3)
	m, s := monitored(Detail)
	c.Monitor = m
	f := must(c.Open(background, "x", Options{Create: true, Size: 300, Levels: Levels{Records: true, Replicas: 1}, Processes: []int{0, 1, 2}}))(t)
	for i := range 30 {
		must(f.Process(i%3).WriteAt(make([]byte, 10), int64(i*10)))(t)
	}
	must(f.Process(2).ReadAt(make([]byte, 300), 0))(t) // of all three managers
	check(t, f.Close(background))
	check(t, m.Err())

	requests, events, local := 0, make(map[string]int), 0
	for node, b := range s.managers {
		for _, r := range rows(t, b, managerColumns) {
			events[r[1]]++
			if r[1] == "write" || r[1] == "read" {
				requests++
				if r[3] == strconv.Itoa(node) {
					local++
				}
			}
			if r[10] != "" {
				t.Errorf("error %q", r[10])
			}
		}
	}
	if want := (map[string]int{"write": 30, "read": 3, "store": 3, "rotate": 3, "receive": 39, "answer": 39}); fmt.Sprint(events) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", events, want)
	}
	sums, bytesWritten, intervals := 0, 0, make(map[string]bool)
	for _, r := range rows(t, &s.statistics, statisticColumns) {
		n := must(strconv.Atoi(r[6]))(t)
		intervals[r[0]] = true
		switch r[3] {
		case "read":
			sums += n
		case "write":
			sums += n
			bytesWritten += must(strconv.Atoi(r[7]))(t)
		}
	}
	if sums != requests || bytesWritten != 300 || local != 13 || len(intervals) < 2 {
		t.Errorf("%d requests of %d in %d intervals, %d bytes, %d local", sums, requests, len(intervals), bytesWritten, local)
	}
	var global []string
	for _, r := range rows(t, &s.global, globalColumns) {
		global = append(global, r[1]+" "+r[2])
	}
	if got := strings.Join(global, ", "); got != "open begin, open end, close begin, store begin, store end, close end" {
		t.Error(got)
	}
}

// TestMonitorLevels: each level has the lines of the one below, and more.
func TestMonitorLevels(t *testing.T) {
	lines := make(map[LogLevel]int)
	for _, level := range []LogLevel{Errors, Info, Detail} {
		c, _ := cluster(2)
		m, s := monitored(level)
		c.Monitor = m
		f := must(c.Open(background, "x", Options{Create: true, Size: 20, Processes: []int{0}}))(t)
		must(f.Process(0).WriteAt(make([]byte, 20), 0))(t)
		f.managers[1].err = io.ErrClosedPipe
		if _, err := f.Process(0).WriteAt(make([]byte, 20), 0); err == nil {
			t.Error("no error")
		}
		check(t, f.Abandon())
		for _, b := range s.managers {
			lines[level] += len(rows(t, b, managerColumns))
		}
		lines[level] += len(rows(t, &s.global, globalColumns))
	}
	if lines[Errors] != 1 || lines[Info] != 4+2 || lines[Detail] != 12+2 {
		t.Errorf("%v", lines)
	}
}
