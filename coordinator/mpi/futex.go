package mpi

import (
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// From linux/futex.h. Without FUTEX_PRIVATE_FLAG the kernel identifies the word
// by file and offset, so that processes find each other.
const (
	futexWait = 0
	futexWake = 1
)

// A bell is a word in the segment on which one rank sleeps until another has
// done something for it: 0 is awake, 1 is asleep or about to be.
//
// No wake-up is lost. The sleeper sets the bell to 1 and then looks once more
// whether there is anything to do (arm, look, sleep). The waker does its deed
// (moves a tail or head, frees a cell, notes an abort) and then looks at the
// bell (ring). Go's atomics are sequentially consistent, so one of the two
// looks comes second and sees what the other wrote: either the sleeper sees the
// deed and does not sleep, or the waker sees 1, sets it to 0 and wakes. If that
// happens before the sleeper is in the kernel, FUTEX_WAIT finds 0 where it
// expects 1 and returns at once.
//
// That holds for what the race detector makes of them, too, as long as the store
// before the look is a swap: of its stores and loads alone, a processor may carry
// out the load first. Otherwise a swap costs what a store does.
//
// A 1 left behind, by a rank that was killed or in a restored segment, costs
// one wake-up that wakes nobody.
type bell struct{ word *uint32 }

func (b bell) arm()        { atomic.SwapUint32(b.word, 1) }
func (b bell) armed() bool { return atomic.LoadUint32(b.word) == 1 }

// ring wakes everybody who sleeps on the bell.
func (b bell) ring() {
	if b.armed() && atomic.SwapUint32(b.word, 0) == 1 {
		// The only error possible is a bad address, which would have
		// faulted in the swap.
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(b.word)), futexWake, math.MaxInt32, 0, 0, 0)
	}
}

// sleep returns when the bell is rung or timeout has passed (0 = never), or
// for no reason at all: the caller looks again. It has armed the bell.
func (b bell) sleep(timeout time.Duration) error {
	var ts *unix.Timespec
	if timeout > 0 {
		t := unix.NsecToTimespec(int64(timeout))
		ts = &t
	}
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(b.word)), futexWait, 1, uintptr(unsafe.Pointer(ts)), 0, 0)
	switch errno {
	case 0, unix.EAGAIN, unix.EINTR, unix.ETIMEDOUT:
		return nil
	}
	return errno // a kernel that forbids futexes: rather an error than a spin
}
