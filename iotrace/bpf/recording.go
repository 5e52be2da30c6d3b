//go:build linux && amd64

package bpf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
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

	"ckpt/iotrace"
	"ckpt/iotrace/strace"
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

// drain copies records, each behind its length, until Finish is called and the ring is empty.
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

// Finish copies the last records. Its error is of the writer: the records then end
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

// WriteText writes the records that Start wrote as the text of strace. The environment is
// not in it, but for variables that name ranks.
func (x *Recording) WriteText(w io.Writer, records io.Reader) error {
	_, err := x.convert(w, records)
	return err
}

func (x *Recording) convert(w io.Writer, records io.Reader) (*converter, error) {
	c := newConverter(w, records)
	c.begin, c.zero, c.last = x.begin, x.zero, x.start
	return c, c.run()
}

// Import makes a trace of the records that Start wrote. Finish must have been called.
func (x *Recording) Import(records io.Reader, o iotrace.Options) (*iotrace.Trace, *iotrace.Report, error) {
	o.Lenient = true // calls are in the order in which they took effect, not of their begin
	r, w := io.Pipe()
	var c *converter
	done := make(chan error, 1)
	go func() {
		var err error
		c, err = x.convert(w, bufio.NewReaderSize(records, 1<<20))
		w.CloseWithError(err)
		done <- err
	}()
	t, rep, err := strace.Read(r, o)
	r.Close() // ends the converter if the importer did not read all
	if broken := <-done; err == nil && broken != nil {
		err = broken
	}
	if err != nil {
		return nil, rep, err
	}
	rep.Format, rep.Lines = iotrace.FormatKernel, 0
	t.Source = "eBPF"
	for i, w := range t.Warnings {
		if text := reworded(w); text != "" {
			t.Warnings[i].Text = text
		}
	}
	t.Warnings = append(t.Warnings, x.warnings(c)...)
	return t, rep, nil
}

// reworded is the text of a warning whose remedy is another one without strace.
func reworded(w iotrace.Warning) string {
	switch w.Code {
	case "unknown-descriptor":
		return fmt.Sprintf("%d reads and writes of %d bytes on descriptors that came from elsewhere, as through a socket, are missing: record with strace", w.Count, w.Bytes)
	case "aio-unlisted", "aio-unknown":
		return fmt.Sprintf("%d asynchronous requests (io_submit) of %d bytes are incomplete: one call had more than %d, or they began before the trace", w.Count, w.Bytes, maxListed)
	case "io_uring":
		return fmt.Sprintf("%d requests of io_uring are missing: the calls do not show their files and bytes. Have the program use other calls: fio with --ioengine=libaio or psync, programs of libuv with UV_USE_IO_URING=0; others may do so by themselves after sysctl kernel.io_uring_disabled=2 (Linux 6.6)", w.Count)
	case "io_uring-sqpoll":
		return fmt.Sprintf("%d queues of io_uring had the kernel poll for requests (SQPOLL): these need no calls, and cannot even be counted. Have the program use other calls", w.Count)
	case "not-understood":
		return fmt.Sprintf("%d records of calls were not understood: the calls are missing", w.Count)
	}
	return ""
}

// warnings says what the records lack.
func (x *Recording) warnings(c *converter) (out []iotrace.Warning) {
	add := func(code string, count int64, text string) {
		if count > 0 {
			out = append(out, iotrace.Warning{Code: code, Count: count, Text: fmt.Sprintf(text, count)})
		}
	}
	add("lost", x.lost, "%d records of calls were lost: the program was faster than the recorder. Leave a processor free for it, or record with strace")
	add("incomplete", c.missing, "%d calls are missing: their paths or lists could not be read from the memory of the program. Record with strace")
	add("32-bit", c.short, "%d programs of 32 bits ran, whose calls eBPF does not see: record them with strace")
	if x.err != nil {
		out = append(out, iotrace.Warning{Code: "cut", Count: 1, Text: fmt.Sprintf("the records end early: %v", x.err)})
	}
	return out
}
