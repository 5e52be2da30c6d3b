package iotracetest_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

func TestValid(t *testing.T) {
	ok := func() *iotrace.Trace {
		return &iotrace.Trace{
			Ranks: []iotrace.Rank{{Rank: 0, Node: "a"}, {Rank: 0, Node: "b"}},
			Files: []string{"/f"},
			Events: []iotrace.Event{
				{Op: iotrace.Open, Rank: 0, File: 0, Peer: iotrace.None, Offset: iotrace.None},
				{Op: iotrace.Write, Rank: 1, File: iotrace.None, Peer: 1, Offset: math.MaxInt64 - 1, Bytes: 1, Start: 5, End: 5},
			},
		}
	}
	if err := iotracetest.Valid(ok()); err != nil {
		t.Fatal(err)
	}
	for want, damage := range map[string]func(*iotrace.Trace){
		"year":                       func(t *iotrace.Trace) { t.Origin = time.Unix(-1e9, 0) },
		"is listed twice":            func(t *iotrace.Trace) { t.Files = append(t.Files, "/f") },
		"has no name":                func(t *iotrace.Trace) { t.Files = append(t.Files, "") },
		`node "a" is listed twice`:   func(t *iotrace.Trace) { t.Ranks[1].Node = "a" },
		"event 1: op(0)":             func(t *iotrace.Trace) { t.Events[1].Op = 0 },
		"module(3) is unknown":       func(t *iotrace.Trace) { t.Events[0].Module = 3 },
		"rank 2 of 2":                func(t *iotrace.Trace) { t.Events[0].Rank = 2 },
		"rank -2 of 2":               func(t *iotrace.Trace) { t.Events[0].Rank = -2 },
		"file 1 of 1":                func(t *iotrace.Trace) { t.Events[0].File = 1 },
		"peer 2 of 2":                func(t *iotrace.Trace) { t.Events[0].Peer = 2 },
		"checkpoint -1":              func(t *iotrace.Trace) { t.Events[0].Checkpoint = -1 },
		"round -1":                   func(t *iotrace.Trace) { t.Events[0].Round = -1 },
		"offset -2 is negative":      func(t *iotrace.Trace) { t.Events[0].Offset = -2 },
		"length -1 is negative":      func(t *iotrace.Trace) { t.Events[0].Bytes = -1 },
		"beyond what a file":         func(t *iotrace.Trace) { t.Events[1].Bytes = 2 },
		"out of range":               func(t *iotrace.Trace) { t.Events[1].End = iotrace.MaxTime + 1 },
		"ends 1 ns before":           func(t *iotrace.Trace) { t.Events[1].End = 4 },
		"starts 6 ns before the one": func(t *iotrace.Trace) { t.Events[0].Start, t.Events[0].End = 11, 11 },
	} {
		tr := ok()
		damage(tr)
		if err := iotracetest.Valid(tr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
