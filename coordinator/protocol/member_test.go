package protocol

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// drill drives a member by hand to the writing of checkpoint 1 at iteration 5;
// the next boundary is known only when it is resumed.
func drill(t *testing.T) *Member {
	m := NewMember(4)
	expect(t, m, Received{Start{Boundary: 5, Number: 1}}, "proceed")
	expect(t, m, Reached{Iter: 5}, "stopped 1")
	expect(t, m, Received{Drain{Number: 1}}, "begin drain")
	expect(t, m, DrainDone{}, "drained 1")
	expect(t, m, Received{Write{Number: 1}}, "begin write 1")
	return m
}

func expect(t *testing.T, m *Member, ev MemberEvent, want ...string) {
	t.Helper()
	var got []string
	for _, a := range m.Step(ev) {
		switch a := a.(type) {
		case Tell:
			got = append(got, label(a.Message))
		case Proceed:
			got = append(got, "proceed")
		case BeginDrain:
			got = append(got, "begin drain")
		case BeginWrite:
			got = append(got, fmt.Sprintf("begin write %d", a.Number))
		case CancelDrain:
			got = append(got, "cancel drain")
		case CancelWrite:
			got = append(got, "cancel write")
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%#v: %v, want %v", ev, got, want)
	}
}

func TestCaptureThenWritten(t *testing.T) {
	m := drill(t)
	expect(t, m, CaptureDone{1}, "captured 1")
	expect(t, m, CaptureDone{1})
	expect(t, m, Received{Resume{Boundary: 7, Number: 2}}, "proceed")
	expect(t, m, Reached{Iter: 6}, "proceed")
	expect(t, m, Reached{Iter: 7}, "stopped 2")
	expect(t, m, WriteDone{}, "written 1")
	expect(t, m, Received{Drain{Number: 2}}, "begin drain")
	expect(t, m, DrainDone{}, "drained 2")
	expect(t, m, Received{Write{Number: 2}}, "begin write 2")
	expect(t, m, CaptureDone{1}) // of the write before
	expect(t, m, WriteEnded{}, "write-failed 2")
}

func TestWrittenThenCapture(t *testing.T) {
	m := drill(t)
	expect(t, m, WriteDone{}, "written 1")
	expect(t, m, CaptureDone{1})
	expect(t, m, CaptureDone{})
	expect(t, m, Received{Resume{Boundary: 7, Number: 2}}, "proceed")
}

// TestAbortBehind: the application goes on, and the next boundary is kept.
func TestAbortBehind(t *testing.T) {
	m := drill(t)
	expect(t, m, CaptureDone{1}, "captured 1")
	expect(t, m, Received{Resume{Boundary: 6, Number: 2}}, "proceed")
	expect(t, m, Received{Abort{Number: 1}}, "cancel write")
	expect(t, m, Reached{Iter: 6}, "stopped 2")
	expect(t, m, WriteDone{}, "aborted 1")
	expect(t, m, Received{Drain{Number: 2}}, "begin drain")
	expect(t, m, DrainDone{}, "drained 2")
}

func TestAbortBehindAfterWritten(t *testing.T) {
	m := drill(t)
	expect(t, m, WriteDone{}, "written 1")
	expect(t, m, Received{Resume{Boundary: 7, Number: 2}}, "proceed")
	expect(t, m, Received{Abort{Number: 1}}, "aborted 1")
	expect(t, m, Reached{Iter: 6}, "proceed")
}

// TestAbortBeforeResume: the checkpoint is still the one under way.
func TestAbortBeforeResume(t *testing.T) {
	m := drill(t)
	expect(t, m, Received{Abort{Number: 1}}, "cancel write")
	expect(t, m, CaptureDone{1})
	expect(t, m, WriteEnded{}, "aborted 1")
	expect(t, m, Received{Resume{Boundary: 0, Number: 2}}, "proceed")
}

// TestAbortNextLeavesBehind: the checkpoint stopped for is aborted, the one
// written behind is not.
func TestAbortNextLeavesBehind(t *testing.T) {
	m := drill(t)
	expect(t, m, CaptureDone{1}, "captured 1")
	expect(t, m, Received{Resume{Boundary: 7, Number: 2}}, "proceed")
	expect(t, m, Received{Abort{Number: 2}}, "aborted 2")
	expect(t, m, Reached{Iter: 6}) // holds
	expect(t, m, Received{Resume{Boundary: 9, Number: 3}}, "proceed")
	expect(t, m, WriteDone{}, "written 1")
}

// TestNoSecondWrite: the coordinator never asks for one, and gets none.
func TestNoSecondWrite(t *testing.T) {
	m := drill(t)
	expect(t, m, CaptureDone{1}, "captured 1")
	expect(t, m, Received{Resume{Boundary: 6, Number: 2}}, "proceed")
	expect(t, m, Reached{Iter: 6}, "stopped 2")
	expect(t, m, Received{Drain{Number: 2}}, "begin drain")
	expect(t, m, Received{Write{Number: 2}}) // nor while it drains
	expect(t, m, DrainDone{}, "drained 2")
	expect(t, m, Received{Write{Number: 2}})
	expect(t, m, WriteDone{}, "written 1")
}

func TestWriteAfterEnd(t *testing.T) {
	m := drill(t)
	expect(t, m, CaptureDone{1}, "captured 1")
	expect(t, m, Received{Resume{Boundary: 0, Number: 2}}, "proceed")
	expect(t, m, Ended{}, "done 0")
	expect(t, m, Received{Abort{Number: 1}}, "cancel write")
	expect(t, m, WriteEnded{}, "aborted 1")
}

func TestAbortWhileDraining(t *testing.T) {
	m := NewMember(4)
	expect(t, m, Received{Start{Boundary: 5, Number: 1}}, "proceed")
	expect(t, m, Reached{Iter: 5}, "stopped 1")
	expect(t, m, Received{Drain{Number: 1}}, "begin drain")
	expect(t, m, Received{Abort{Number: 1}}, "cancel drain")
	expect(t, m, DrainCancelled{}, "aborted 1")
	expect(t, m, Received{Resume{Boundary: 6, Number: 2}}, "proceed")
}

// TestLimit: an application that passes boundaries by itself stops where all others do.
func TestLimit(t *testing.T) {
	m := NewMember(0)
	limit := func(want int) {
		t.Helper()
		if got := m.Limit(); got != want {
			t.Errorf("limit %d, want %d", got, want)
		}
	}
	limit(0)
	expect(t, m, Received{Start{Boundary: 9, Number: 1}}, "proceed")
	limit(9)
	expect(t, m, Computing{Iter: 5}) // it has passed four by itself
	expect(t, m, Received{Propose{Number: 1}}, "holding 1")
	limit(0)
	if got := m.Iteration(); got != 5 {
		t.Errorf("in iteration %d", got)
	}
	expect(t, m, Reached{Iter: 5})
	expect(t, m, Received{StopAt{Number: 1, Iter: 6}}, "proceed")
	limit(6)
	expect(t, m, Computing{Iter: 6})
	expect(t, m, Reached{Iter: 6}, "stopped 1")
	expect(t, m, Computing{Iter: 7}) // it waits: the event comes late
	if got := m.Iteration(); got != 6 {
		t.Errorf("in iteration %d", got)
	}
	expect(t, m, Received{Abort{Number: 1}}, "aborted 1")
	limit(0)
	expect(t, m, Received{Resume{Number: 2}}, "proceed")
	limit(math.MaxInt)
}

// TestSave: a rank that demands a checkpoint waits for it, or for its abort.
func TestSave(t *testing.T) {
	m := NewMember(0)
	expect(t, m, Received{Start{Number: 1}}, "proceed")
	expect(t, m, Reached{Iter: 1, Save: true}, "demand 0")
	expect(t, m, Received{Resume{Number: 1}}) // after one that was written behind
	expect(t, m, Received{Propose{Number: 1}}, "holding 1")
	expect(t, m, Received{StopAt{Number: 1, Iter: 1}}, "stopped 1")
	expect(t, m, Received{Drain{Number: 1}}, "begin drain")
	expect(t, m, DrainDone{}, "drained 1")
	expect(t, m, Received{Write{Number: 1}}, "begin write 1")
	expect(t, m, WriteDone{}, "written 1")
	expect(t, m, Received{Resume{Boundary: 2, Number: 2}}, "proceed")
	expect(t, m, Reached{Iter: 2, Save: true}, "stopped 2") // the schedule has the same
	expect(t, m, Received{Abort{Number: 2}}, "aborted 2")
	expect(t, m, Received{Resume{Number: 3}}, "proceed")
	expect(t, m, Reached{Iter: 3, Save: true}, "demand 0")
	expect(t, m, Received{Abort{Number: 3}}, "aborted 3")
	expect(t, m, Received{Resume{Number: 4}}, "proceed")
}
