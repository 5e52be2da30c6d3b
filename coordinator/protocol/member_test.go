package protocol

import (
	"fmt"
	"slices"
	"testing"
)

// drill drives a member by hand to the writing of checkpoint 1 at iteration 5;
// the next boundary is known only when it is resumed.
func drill(t *testing.T) *Member {
	m := NewMember(0, 4)
	expect(t, m, Received{Message{Kind: Start, Iter: 5, Number: 1}}, "proceed")
	expect(t, m, Reached{Iter: 5}, "stopped 1")
	expect(t, m, Received{Message{Kind: Drain, Number: 1}}, "begin drain")
	expect(t, m, DrainDone{}, "drained 1")
	expect(t, m, Received{Message{Kind: Write, Number: 1}}, "begin write 1")
	return m
}

func expect(t *testing.T, m *Member, ev MemberEvent, want ...string) {
	t.Helper()
	var got []string
	for _, a := range m.Step(ev) {
		switch a := a.(type) {
		case Tell:
			got = append(got, fmt.Sprintf("%v %d", a.Message.Kind, a.Message.Number))
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

func message(k Kind, number, iter int) Received {
	return Received{Message{Kind: k, Number: number, Iter: iter}}
}

func TestCaptureThenWritten(t *testing.T) {
	m := drill(t)
	expect(t, m, CaptureDone{1}, "captured 1")
	expect(t, m, CaptureDone{1})
	expect(t, m, message(Resume, 2, 7), "proceed")
	expect(t, m, Reached{Iter: 6}, "proceed")
	expect(t, m, Reached{Iter: 7}, "stopped 2")
	expect(t, m, WriteDone{}, "written 1")
	expect(t, m, message(Drain, 2, 0), "begin drain")
	expect(t, m, DrainDone{}, "drained 2")
	expect(t, m, message(Write, 2, 7), "begin write 2")
	expect(t, m, CaptureDone{1}) // of the write before
	expect(t, m, WriteEnded{}, "write-failed 2")
}

func TestWrittenThenCapture(t *testing.T) {
	m := drill(t)
	expect(t, m, WriteDone{}, "written 1")
	expect(t, m, CaptureDone{1})
	expect(t, m, CaptureDone{})
	expect(t, m, message(Resume, 2, 7), "proceed")
}

// TestAbortBehind: the application goes on, and the next boundary is kept.
func TestAbortBehind(t *testing.T) {
	m := drill(t)
	expect(t, m, CaptureDone{1}, "captured 1")
	expect(t, m, message(Resume, 2, 6), "proceed")
	expect(t, m, message(Abort, 1, 0), "cancel write")
	expect(t, m, Reached{Iter: 6}, "stopped 2")
	expect(t, m, WriteDone{}, "aborted 1")
	expect(t, m, message(Drain, 2, 0), "begin drain")
	expect(t, m, DrainDone{}, "drained 2")
}

func TestAbortBehindAfterWritten(t *testing.T) {
	m := drill(t)
	expect(t, m, WriteDone{}, "written 1")
	expect(t, m, message(Resume, 2, 7), "proceed")
	expect(t, m, message(Abort, 1, 0), "aborted 1")
	expect(t, m, Reached{Iter: 6}, "proceed")
}

// TestAbortBeforeResume: the checkpoint is still the one under way.
func TestAbortBeforeResume(t *testing.T) {
	m := drill(t)
	expect(t, m, message(Abort, 1, 0), "cancel write")
	expect(t, m, CaptureDone{1})
	expect(t, m, WriteEnded{}, "aborted 1")
	expect(t, m, message(Resume, 2, 0), "proceed")
}

// TestAbortNextLeavesBehind: the checkpoint stopped for is given up, the one
// written behind is not.
func TestAbortNextLeavesBehind(t *testing.T) {
	m := drill(t)
	expect(t, m, CaptureDone{1}, "captured 1")
	expect(t, m, message(Resume, 2, 7), "proceed")
	expect(t, m, message(Abort, 2, 0), "aborted 2")
	expect(t, m, Reached{Iter: 6}) // holds
	expect(t, m, message(Resume, 3, 9), "proceed")
	expect(t, m, WriteDone{}, "written 1")
}

// TestNoSecondWrite: the coordinator never asks for one, and gets none.
func TestNoSecondWrite(t *testing.T) {
	m := drill(t)
	expect(t, m, CaptureDone{1}, "captured 1")
	expect(t, m, message(Resume, 2, 6), "proceed")
	expect(t, m, Reached{Iter: 6}, "stopped 2")
	expect(t, m, message(Drain, 2, 0), "begin drain")
	expect(t, m, message(Write, 2, 6)) // nor while it drains
	expect(t, m, DrainDone{}, "drained 2")
	expect(t, m, message(Write, 2, 6))
	expect(t, m, WriteDone{}, "written 1")
}

func TestWriteAfterEnd(t *testing.T) {
	m := drill(t)
	expect(t, m, CaptureDone{1}, "captured 1")
	expect(t, m, message(Resume, 2, 0), "proceed")
	expect(t, m, Ended{}, "done 0")
	expect(t, m, message(Abort, 1, 0), "cancel write")
	expect(t, m, WriteEnded{}, "aborted 1")
}

func TestAbortWhileDraining(t *testing.T) {
	m := NewMember(0, 4)
	expect(t, m, message(Start, 1, 5), "proceed")
	expect(t, m, Reached{Iter: 5}, "stopped 1")
	expect(t, m, message(Drain, 1, 0), "begin drain")
	expect(t, m, message(Abort, 1, 0), "cancel drain")
	expect(t, m, DrainCancelled{}, "aborted 1")
	expect(t, m, message(Resume, 2, 6), "proceed")
}
