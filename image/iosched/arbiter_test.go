package iosched_test

import (
	"fmt"
	"testing"
	"time"

	"ckpt/image/iosched"
)

const ms = time.Millisecond

// A table is an Arbiter whose actions a test compares as text.
type table struct {
	t *testing.T
	a *iosched.Arbiter
}

func newTable(t *testing.T, o iosched.TurnOptions) *table {
	t.Helper()
	a, err := iosched.NewArbiter("disk", o)
	if err != nil {
		t.Fatal(err)
	}
	return &table{t, a}
}

// at passes events at a time, in milliseconds, and wants actions such as
// "grant 1.1 #1": connection, burst, turn.
func (x *table) at(when int, want string, events ...iosched.Event) {
	x.t.Helper()
	got := ""
	for _, e := range events {
		actions, err := x.a.Step(time.Duration(when)*ms, e)
		if err != nil {
			x.t.Fatalf("%d ms, %#v: %v", when, e, err)
		}
		for _, a := range actions {
			if got != "" {
				got += ", "
			}
			got += fmt.Sprintf("%v %d.%d #%d", a.Verb, a.Conn, a.Burst, a.Turn)
		}
	}
	if got != want {
		x.t.Errorf("%d ms, %#v:\n got %q\nwant %q", when, events, got, want)
	}
}

func join(c iosched.Conn, app, user string) iosched.Event {
	return iosched.Join{Conn: c, App: app, User: user}
}

func ask(c iosched.Conn, b uint64, n int64) iosched.Event {
	return iosched.Ask{Conn: c, Burst: b, Bytes: n}
}

func end(c iosched.Conn, b uint64) iosched.Event { return iosched.End{Conn: c, Burst: b} }

func TestFIFOServesOneApplicationAfterTheOther(t *testing.T) {
	x := newTable(t, iosched.TurnOptions{Policy: "fifo"})
	x.at(0, "", join(1, "a", "u"), join(2, "a", "u"), join(3, "b", "u"))
	x.at(1, "grant 1.1 #1", ask(1, 1, 100))
	x.at(2, "", ask(3, 1, 1))
	x.at(3, "grant 2.1 #1", ask(2, 1, 100)) // a latecomer of the holder
	x.at(4, "", end(1, 1))
	x.at(5, "grant 3.1 #2", end(2, 1))
}
