package iosched_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"ckpt/image/iosched"
)

const second = time.Second

func predict(t *testing.T, o iosched.TurnOptions, c iosched.Cost, bursts []iosched.Expected) []iosched.Flow {
	t.Helper()
	flows, err := iosched.Predict(o, c, bursts)
	if err != nil {
		t.Fatal(err)
	}
	return flows
}

// Table 5.1 of Lebre 2006: p = 50, 5, 20; r = 0, 10, 15.
func TestPredictTable51(t *testing.T) {
	bursts := []iosched.Expected{
		{App: "A1", User: "u", Alone: 50 * second, Bytes: 50e8},
		{App: "A2", User: "u", Arrival: 10 * second, Alone: 5 * second, Bytes: 5e8},
		{App: "A3", User: "u", Arrival: 15 * second, Alone: 20 * second, Bytes: 20e8},
	}
	for policy, want := range map[string][3]float64{
		"fifo": {50, 45, 60},
		"srpt": {75, 5, 20},
		"wsjf": {75, 5, 20},
		"none": {75, 12.5, 42.5},
		"rr":   {75, 12.5, 42.5}, // windows of 0.5 s, so nearly sharing
	} {
		flows := predict(t, iosched.TurnOptions{Policy: policy, MaxWait: time.Hour}, iosched.Cost{}, bursts)
		for i, f := range flows {
			if off := math.Abs(f.Flow.Seconds() - want[i]); off > 0.01 && policy != "rr" || off > 1 {
				t.Errorf("%s: flow time of %s is %v, want %v s", policy, bursts[i].App, f.Flow, want[i])
			}
		}
	}
}

func TestPredictTwoEqualBursts(t *testing.T) {
	for _, users := range [][2]string{{"u", "u"}, {"u", "v"}} {
		bursts := []iosched.Expected{
			{App: "a", User: users[0], Alone: 40 * second, Bytes: 4e9},
			{App: "b", User: users[1], Alone: 40 * second, Bytes: 4e9},
		}
		side := predict(t, iosched.TurnOptions{Policy: "none"}, iosched.Cost{}, bursts)
		turns := predict(t, iosched.TurnOptions{}, iosched.Cost{Switch: 10 * ms}, bursts)
		if mean := (turns[0].Flow + turns[1].Flow).Seconds() / (side[0].Flow + side[1].Flow).Seconds(); mean > 0.752 {
			t.Errorf("users %v: mean flow time is %.4f of side by side, want 0.75", users, mean)
		}
		if total := turns[1].Finish.Seconds() / side[1].Finish.Seconds(); total > 1.001 {
			t.Errorf("users %v: both take %.4f of the time, want 1", users, total)
		}
	}
}

// TestUnknownSizes: bursts that do not say how much they move are done as soon as under fifo,
// whether they are of one user or of two, and a short one behind a long one is done sooner.
func TestUnknownSizes(t *testing.T) {
	mean := func(policy string, users []string, alone ...time.Duration) time.Duration {
		var list []iosched.Expected
		for i, d := range alone {
			list = append(list, iosched.Expected{App: fmt.Sprint("command", i), User: users[i%len(users)], Arrival: time.Duration(i) * 100 * time.Millisecond, Alone: d, Bytes: -1})
		}
		flows, err := iosched.Predict(iosched.TurnOptions{Policy: policy}, iosched.Cost{Switch: 20 * time.Millisecond, Together: 0.9}, list)
		if err != nil {
			t.Fatal(err)
		}
		sum := time.Duration(0)
		for _, f := range flows {
			sum += f.Flow
		}
		return sum / time.Duration(len(flows))
	}
	const s = second
	for _, users := range [][]string{{"ana"}, {"ana", "ben"}} {
		for _, alone := range [][]time.Duration{{s, s}, {3 * s, 3 * s}, {10 * s, 10 * s, 10 * s}, {8 * s, s, 2 * s}, {s / 5, 15 * s}, {15 * s, s / 5}} {
			wsjf, fifo, none := mean("wsjf", users, alone...), mean("fifo", users, alone...), mean("none", users, alone...)
			if wsjf > fifo {
				t.Errorf("%v of %v: mean flow %v under wsjf, %v under fifo, %v without turns", alone, users, wsjf, fifo, none)
			}
		}
		if wsjf, fifo := mean("wsjf", users, 300*s, 2*s, 3*s), mean("fifo", users, 300*s, 2*s, 3*s); wsjf > fifo/2 {
			t.Errorf("short ones behind a long one: mean flow %v under wsjf, %v under fifo", wsjf, fifo)
		}
		if wsjf, none := mean("wsjf", users, 60*s, 60*s), mean("none", users, 60*s, 60*s); wsjf > none {
			t.Errorf("two long ones: mean flow %v under wsjf, %v without turns", wsjf, none)
		}
	}
}
