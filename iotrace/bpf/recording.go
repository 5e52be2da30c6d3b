//go:build linux && amd64

package bpf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

// A Recording is a command that runs, or ran.
type Recording struct {
	recorder  *Recorder
	begin     begin
	zero      int64 // as in converter
	start     int64
	lost      int64 // before the command
	stop      chan struct{}
	drained   chan struct{}
	err       error        // of the writer; valid after drained
	idle      atomic.Int64 // how often the ring was found empty
	mu        sync.Mutex
	live      map[int64]int64 // threads, and their processes
	variables map[int64][]byte
}

// Start starts a command, and copies records to w until Finish. The processes of the
// command, and those that they start, are recorded from its first program on. No other
// command may be started meanwhile.
func (r *Recorder) Start(cmd *exec.Cmd, w io.Writer) (*Recording, error) {
	x := &Recording{
		recorder: r, begin: beginning(cmd), lost: r.lost(), stop: make(chan struct{}), drained: make(chan struct{}),
		live: make(map[int64]int64), variables: make(map[int64][]byte),
	}
	var clock unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &clock); err != nil {
		return nil, err
	}
	x.start = clock.Nano()
	x.zero = time.Now().UnixNano() - x.start
	if err := r.arm(1); err != nil {
		return nil, err
	}
	err := cmd.Start()
	if err := errors.Join(err, r.arm(0)); err != nil {
		return nil, err
	}
	go func() {
		defer close(x.drained)
		x.err = x.drain(w)
	}()
	return x, nil
}

// pause is how often the ring is looked at. It takes the records of a second and more.
const pause = 5 * time.Millisecond

// drain copies records, each behind its length, until Finish is called and none is left.
func (x *Recording) drain(w io.Writer) error {
	out := bufio.NewWriterSize(w, 1<<20)
	var r ringbuf.Record
	var failed error
	for last := false; ; {
		x.recorder.reader.SetDeadline(time.Now().Add(pause))
		err := x.recorder.reader.ReadInto(&r)
		switch {
		case err == nil:
			if failed == nil { // else the programs must find room
				failed = x.copy(out, r.RawSample)
			}
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return errors.Join(failed, err)
		case last && failed == nil:
			return out.Flush()
		case last:
			return failed
		default: // nothing is left
			x.idle.Add(1)
			select {
			case <-x.stop:
				last = true
			default:
			}
		}
	}
}

// copy writes a record, and notes which threads live.
func (x *Recording) copy(out *bufio.Writer, b []byte) error {
	switch kind(binary.LittleEndian.Uint16(b)) {
	case callRecord, closesRecord:
		return write(out, b)
	}
	var r record
	if err := decode(b, &r); err != nil {
		return err
	}
	switch r.kind {
	case pieceRecord:
		if r.index == slotEnvironment { // only some of it may be kept, and pieces cut words
			x.variables[r.thread] = append(x.variables[r.thread], r.text...)
			return nil
		}
	case forkRecord:
		x.lives(int64(r.regs[0]), int64(r.regs[1]))
	case execRecord:
		if err := x.environment(out, &r); err != nil {
			return err
		}
		x.ends(int64(r.regs[0]))
		x.lives(r.task, r.task)
	case exitRecord:
		x.ends(r.thread)
		delete(x.variables, r.thread)
	}
	return write(out, b)
}

// environment writes those variables of a program that name ranks.
func (x *Recording) environment(out *bufio.Writer, r *record) error {
	for thread := range maps.Keys(x.variables) {
		if thread != r.thread && thread != int64(r.regs[0]) {
			continue
		}
		kept := keepRanks(x.variables[thread])
		delete(x.variables, thread)
		if len(kept) > maxText {
			continue
		}
		if err := write(out, encodePiece(thread, slotEnvironment, kept)); err != nil {
			return err
		}
	}
	return nil
}

func write(out *bufio.Writer, b []byte) error {
	var length [4]byte
	binary.LittleEndian.PutUint32(length[:], uint32(len(b)))
	if _, err := out.Write(length[:]); err != nil {
		return err
	}
	_, err := out.Write(b)
	return err
}

func (x *Recording) lives(thread, process int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.live[thread] = process
}

func (x *Recording) ends(thread int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.live, thread)
}

// Live returns the recorded processes that have not ended.
func (x *Recording) Live() (processes []int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for thread, process := range x.live {
		if unix.Kill(int(thread), 0) == unix.ESRCH { // the record of its end was lost
			delete(x.live, thread)
			continue
		}
		processes = append(processes, int(process))
	}
	slices.Sort(processes)
	return slices.Compact(processes)
}

// Wait waits until all processes of the command have ended. The command itself must
// have ended.
func (x *Recording) Wait() {
	// The records of the past are copied when the ring was empty once more.
	for since := x.idle.Load(); ; {
		select {
		case <-x.drained: // it has failed
			return
		case <-time.After(2 * pause):
		}
		if x.idle.Load() >= since+2 && len(x.Live()) == 0 {
			return
		}
	}
}

// Finish copies the last records. Its error is that of the writer: the records then end
// where it failed.
func (x *Recording) Finish() error {
	close(x.stop)
	<-x.drained
	x.lost = x.recorder.lost() - x.lost
	return x.err
}

// beginning describes what a command inherits from this process. Go closes on exec what
// it opens.
func beginning(cmd *exec.Cmd) (b begin) {
	if b.directory = cmd.Dir; b.directory == "" {
		b.directory, _ = os.Getwd()
	}
	for i, stream := range []any{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		switch f := stream.(type) {
		case *os.File:
			b.add(i, int(f.Fd()))
		case nil:
			b.descriptors = append(b.descriptors, inherited{i, os.DevNull, unix.O_RDWR})
		default:
			b.descriptors = append(b.descriptors, inherited{i, "pipe:[0]", unix.O_RDWR})
		}
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return b
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			b.add(fd, fd)
		}
	}
	return b
}

// add adds a descriptor of this process, as the command will have it.
func (b *begin) add(number, fd int) {
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return
	}
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil {
		b.descriptors = append(b.descriptors, inherited{number, path, int64(flags)})
	}
}
