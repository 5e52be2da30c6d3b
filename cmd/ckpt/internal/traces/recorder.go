package traces

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/family"
	"ckpt/iotrace"
	"ckpt/iotrace/bpf"
	"ckpt/iotrace/read"
	"ckpt/iotrace/strace"
)

// A recorder records a command and all processes that it starts.
type recorder interface {
	name() string
	// prepare returns what is to be run.
	prepare(ctx context.Context, command []string) *exec.Cmd
	start(*exec.Cmd) error
	// wait waits until all of them have ended.
	wait(*exec.Cmd) error
	// told are the processes that a signal to this one is passed on to; all are all.
	told(*exec.Cmd) []int
	all(*exec.Cmd) []family.Process
	// trace makes a trace of the calls. With lenient they may be cut.
	trace(lenient bool) (*iotrace.Trace, *iotrace.Report, error)
	// cut returns an error if the calls were not kept to their end.
	cut() error
	// keep keeps the calls as text, and returns a hint to it with its use.
	keep(use string) string
	close()
}

// The ways to record.
const (
	withAuto   = "auto"
	withEBPF   = "ebpf"
	withStrace = "strace"
)

// newRecorder chooses a way to record. unable says why auto did not take eBPF.
func newRecorder(ctx context.Context, with string) (_ recorder, unable, err error) {
	text, err := newText()
	if err != nil {
		return nil, nil, err
	}
	if with != withStrace {
		r, err := newKernelRecorder(text)
		if err == nil {
			return r, nil, nil
		}
		if with == withEBPF {
			text.remove()
			return nil, nil, ui.WithHint(err, "--with strace takes longer, and needs no rights")
		}
		unable = err
	}
	r, err := newStraceRecorder(ctx, text)
	if err != nil {
		text.remove()
		return nil, nil, err
	}
	return r, unable, nil
}

// A straceRecorder runs the command under strace.
type straceRecorder struct {
	path   string
	filter bool
	text   *recordText
	file   *os.File
	pipe   *textPipe
	failed error
}

func newStraceRecorder(ctx context.Context, text *recordText) (*straceRecorder, error) {
	path, err := exec.LookPath("strace")
	if err != nil {
		return nil, ui.WithHint(errors.New("strace is not installed"), "install it (apt-get install strace); jobs of ckpt record themselves")
	}
	return &straceRecorder{path: path, filter: canFilter(ctx, path), text: text}, nil
}

func (r *straceRecorder) name() string { return withStrace }

func (r *straceRecorder) prepare(ctx context.Context, command []string) *exec.Cmd {
	return exec.CommandContext(ctx, r.path, slices.Concat(strace.Flags(r.filter), []string{"-o", pipeIn(r.text.dir), "--"}, command)...)
}

func (r *straceRecorder) start(run *exec.Cmd) (err error) {
	if r.file, err = os.OpenFile(r.text.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return err
	}
	if r.pipe, err = newTextPipe(pipeIn(r.text.dir), r.file); err != nil {
		return err
	}
	return run.Start()
}

func (r *straceRecorder) wait(run *exec.Cmd) error {
	err := run.Wait()
	r.failed = cmp.Or(r.pipe.finish(), r.file.Close())
	return err
}

// told is not strace, which ignores SIGTERM.
func (r *straceRecorder) told(run *exec.Cmd) []int { return childrenOf(run.Process.Pid) }

func (r *straceRecorder) all(run *exec.Cmd) []family.Process {
	below := family.Descendants(run.Process.Pid)
	list := below[min(1, len(below)):]
	for _, p := range family.Tracees(run.Process.Pid) { // those that have lost their parent, too
		if !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	return list
}

func (r *straceRecorder) trace(lenient bool) (*iotrace.Trace, *iotrace.Report, error) {
	dir, err := os.Getwd() // of the command as well
	if err != nil {
		dir = ""
	}
	return read.File(r.text.name, iotrace.Options{Lenient: lenient, Directory: dir})
}

func (r *straceRecorder) cut() error {
	if r.failed == nil {
		return nil
	}
	return fullTemp(r.text.dir, fmt.Errorf("the text of strace is cut: %w", r.failed))
}

func (r *straceRecorder) keep(use string) string { return r.text.keep(use) }
func (r *straceRecorder) close()                 { r.text.remove() }

// recordedTime records a command, and returns the mean seconds that its reads and writes take.
func (r *straceRecorder) recordedTime(ctx context.Context, command []string) (float64, error) {
	var text bytes.Buffer
	pipe, err := newTextPipe(pipeIn(r.text.dir), &text)
	if err != nil {
		return 0, err
	}
	if err := cmp.Or(r.prepare(ctx, command).Run(), pipe.finish()); err != nil {
		return 0, err
	}
	t, _, err := read.Stream(r.text.name, &text, iotrace.Options{})
	if err != nil {
		return 0, err
	}
	var all time.Duration
	calls := 0
	for _, e := range t.Events {
		if e.Op.Data() {
			all, calls = all+time.Duration(e.End-e.Start), calls+1
		}
	}
	return all.Seconds() / float64(max(1, calls)), nil
}

// A kernelRecorder has programs in the kernel (eBPF) record the calls.
type kernelRecorder struct {
	recorder *bpf.Recorder
	run      *bpf.Recording
	text     *recordText
	records  *os.File
	failed   error
}

func newKernelRecorder(text *recordText) (*kernelRecorder, error) {
	r, err := bpf.Open()
	if err != nil {
		return nil, fmt.Errorf("eBPF cannot record here: %w", err)
	}
	k := &kernelRecorder{recorder: r, text: text}
	// Its name is not needed, and must not stay.
	if k.records, err = os.OpenFile(text.name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		err = os.Remove(text.name)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return k, nil
}

func (k *kernelRecorder) name() string { return withEBPF }

func (k *kernelRecorder) prepare(_ context.Context, command []string) *exec.Cmd {
	return exec.Command(command[0], command[1:]...)
}

func (k *kernelRecorder) start(run *exec.Cmd) (err error) {
	k.run, err = k.recorder.Start(run, k.records)
	return err
}

func (k *kernelRecorder) wait(run *exec.Cmd) error {
	err := run.Wait()
	k.run.Wait() // for what it has left behind
	k.failed = k.run.Finish()
	return err
}

func (k *kernelRecorder) told(run *exec.Cmd) []int {
	if run.ProcessState == nil {
		return []int{run.Process.Pid}
	}
	return k.run.Live()
}

func (k *kernelRecorder) all(run *exec.Cmd) (list []family.Process) {
	pids := append(k.run.Live(), k.told(run)...) // the record of its start may not be read yet
	slices.Sort(pids)
	for _, pid := range slices.Compact(pids) {
		if p, ok := family.Find(pid); ok {
			list = append(list, p)
		}
	}
	return list
}

func (k *kernelRecorder) trace(bool) (*iotrace.Trace, *iotrace.Report, error) {
	if _, err := k.records.Seek(0, io.SeekStart); err != nil {
		return nil, nil, err
	}
	return k.run.Import(k.records, iotrace.Options{})
}

func (k *kernelRecorder) cut() error {
	if k.failed == nil {
		return nil
	}
	return fullTemp(k.text.dir, fmt.Errorf("the records are cut: %w", k.failed))
}

func (k *kernelRecorder) keep(use string) string {
	f, err := os.OpenFile(k.text.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Sprintf("the records were not kept: %v", err)
	}
	defer f.Close()
	if _, err = k.records.Seek(0, io.SeekStart); err == nil {
		err = k.run.WriteText(f, k.records)
	}
	if err != nil {
		return fmt.Sprintf("the records were not kept: %v", err)
	}
	k.text.kept = true
	return "the text is kept: " + fmt.Sprintf(use, k.text.name)
}

func (k *kernelRecorder) close() {
	k.recorder.Close()
	k.records.Close()
	k.text.remove()
}
