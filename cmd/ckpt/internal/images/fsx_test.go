package images_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"ckpt/internal/testkit"
)

// fsx [FLAGS] DIR MNT… has processes do random operations on files in mounts of DIR, some at the
// same time, and compares all that they see, and the files in DIR, with a model.
func fsxCommand(ts *testscript.TestScript, _ bool, args []string) {
	ops := 400
	if testkit.Nightly() {
		ops = 1_000_000
	}
	if n, err := strconv.Atoi(os.Getenv("CKPT_FSX_OPS")); err == nil {
		ops = n
	}
	flags := flag.NewFlagSet("fsx", flag.ContinueOnError)
	m := &fsx{model: make(map[string]*fsxFile)}
	seed := flags.Uint64("seed", 1, "")
	flags.Int64Var(&m.size, "size", 1<<18, "most bytes of a file")
	flags.BoolVar(&m.busy, "busy", false, "a file that is open cannot be renamed or removed")
	ts.Check(flags.Parse(args))
	m.rng = rand.New(rand.NewPCG(*seed, 1))
	m.under = ts.MkAbs(flags.Arg(0))
	mnt := flags.Args()[1:]
	m.nodes = len(mnt)
	ts.Defer(func() {
		for _, name := range mnt { // of a script that failed
			_ = exec.Command("fusermount3", "-uz", ts.MkAbs(name)).Run()
		}
	})
	for i := range fsxProcesses {
		p, err := startFSX(ts.MkAbs(mnt[i%len(mnt)]))
		ts.Check(err)
		defer p.end()
		m.processes = append(m.processes, p)
	}
	began := time.Now()
	if err := m.run(ops); err != nil {
		ts.Fatalf("seed %d, operation %d: %v\nbefore:\n%s", *seed, m.count, err, m.recent)
	}
	ts.Logf("%d operations in %v", m.count, time.Since(began).Round(time.Second))
}

const (
	fsxProcesses = 4
	fsxNames     = 3
	noName       = "(no name)"
)

// fsx is the model.
type fsx struct {
	rng       *rand.Rand
	under     string
	size      int64
	nodes     int // mounts
	busy      bool
	processes []*fsxProcess
	model     map[string]*fsxFile // by name
	count     int
	recent    history

	waits *fsxStep // drawn, and in the way of those that were drawn before
}

// A fsxFile outlives its name while processes have it open.
type fsxFile struct{ data []byte }

// A fsxStep is an operation and what it touches: others that touch that wait.
type fsxStep struct {
	op       fsxOp
	process  int
	name     string
	file     *fsxFile
	from, to int64 // of the file
	writes   bool
	alone    bool       // no other operation meanwhile
	byName   bool       // and not by an open file
	release  []*fsxFile // to be closed before
	after    func(fsxReply) error
}

func (s *fsxStep) conflicts(o *fsxStep) bool {
	return s.alone || o.alone || s.process == o.process || s.file == o.file && (s.writes || o.writes) && s.from < o.to && o.from < s.to
}

// history has the last operations.
type history []string

func (h *history) add(s string) {
	if len(*h) == 40 {
		*h = (*h)[1:]
	}
	*h = append(*h, s)
}

func (h history) String() string {
	var b bytes.Buffer
	for _, s := range h {
		fmt.Fprintln(&b, s)
	}
	return b.String()
}

// run does rounds of operations that do not touch each other.
func (m *fsx) run(ops int) error {
	for m.count < ops || m.waits != nil {
		var round []*fsxStep
		for {
			s := m.waits
			if m.waits = nil; s == nil {
				s = m.draw()
			}
			if slices.ContainsFunc(round, s.conflicts) {
				m.waits = s
				break
			}
			if err := m.begin(s); err != nil {
				return err
			}
			if round = append(round, s); s.alone {
				break // the model may change when it is done
			}
		}
		for _, s := range round {
			m.count++
			r, err := m.processes[s.process].receive()
			if err == nil {
				err = s.after(r)
			}
			if err != nil {
				return fmt.Errorf("process %d: %v of %s: %w", s.process, s.op, s.name, err)
			}
		}
	}
	return m.end()
}

// begin sends an operation, after the model was changed.
func (m *fsx) begin(s *fsxStep) error {
	for _, f := range s.release {
		for _, p := range m.processes {
			if err := p.close(f); err != nil {
				return fmt.Errorf("close before %v of %s: %w", s.op, s.name, err)
			}
		}
	}
	if s.after == nil {
		s.after = fsxReply.check
	}
	p := m.processes[s.process]
	s.op.Name = s.name
	if !s.byName {
		s.op.Handle = p.handle(s.file)
	}
	m.recent.add(fmt.Sprintf("%d: process %d: %v of %s", m.count, s.process, s.op, s.name))
	return p.send(s.op)
}

// draw makes an operation, and changes the model: those before it in the round touch other bytes.
func (m *fsx) draw() *fsxStep {
	s := &fsxStep{process: m.rng.IntN(len(m.processes)), name: "f" + strconv.Itoa(m.rng.IntN(fsxNames))}
	p := m.processes[s.process]
	if s.file = m.model[s.name]; s.file == nil {
		s.file = &fsxFile{}
		m.model[s.name] = s.file
		s.alone = true
	} else if orphans := p.without(m.model); len(orphans) > 0 && m.rng.IntN(3) == 0 {
		s.file, s.name = orphans[m.rng.IntN(len(orphans))], noName
	}
	kind := fsxKinds[m.rng.IntN(len(fsxKinds))]
	if s.name == noName && kind.named || s.alone {
		kind = fsxKinds[0]
	}
	s.op = fsxOp{Kind: kind.kind, Off: m.offset(), N: 1 + m.rng.Int64N(1+m.rng.Int64N(1<<16)), Seed: m.rng.Uint64()}
	s.op.N = min(s.op.N, m.size-s.op.Off)
	s.from, s.to = s.op.Off, s.op.Off+s.op.N
	kind.prepare(m, s)
	return s
}

// offset prefers the edges of stripes.
func (m *fsx) offset() int64 {
	const stripe, near = 1 << 20, 1 << 14
	if n := m.size / stripe; n > 0 && m.rng.IntN(2) == 0 {
		return min((1+m.rng.Int64N(n))*stripe-m.rng.Int64N(near), m.size-1)
	}
	return m.rng.Int64N(m.size)
}

// fsxKinds are the operations, those that come often more than once. named ones need the name.
var fsxKinds = func() (list []*fsxKind) {
	for _, k := range []struct {
		times int
		kind  fsxKind
	}{
		{25, fsxKind{fsxRead, false, (*fsx).reads}}, {25, fsxKind{fsxWrite, false, (*fsx).writes}},
		{6, fsxKind{fsxMapRead, false, (*fsx).maps}}, {8, fsxKind{fsxMapWrite, false, (*fsx).maps}},
		{6, fsxKind{fsxTruncate, false, (*fsx).truncates}}, {2, fsxKind{fsxTruncatePath, true, (*fsx).truncates}},
		{3, fsxKind{fsxAllocate, false, (*fsx).allocates}}, {4, fsxKind{fsxPunch, false, (*fsx).clears}}, {2, fsxKind{fsxZero, false, (*fsx).clears}},
		{4, fsxKind{fsxAppend, true, (*fsx).appends}}, {3, fsxKind{fsxSeek, false, (*fsx).seeks}}, {3, fsxKind{fsxStat, false, (*fsx).stats}},
		{3, fsxKind{fsxCopy, true, (*fsx).copies}}, {3, fsxKind{fsxSync, false, (*fsx).syncs}}, {4, fsxKind{fsxClose, false, (*fsx).closes}},
		{3, fsxKind{fsxRename, true, (*fsx).renames}}, {2, fsxKind{fsxRemove, true, (*fsx).removes}},
	} {
		for range k.times {
			list = append(list, &k.kind)
		}
	}
	return list
}()

type fsxKind struct {
	kind    fsxVerb
	named   bool
	prepare func(m *fsx, s *fsxStep)
}

func (f *fsxFile) resize(n int64) {
	if old := int64(len(f.data)); n <= old {
		f.data = f.data[:n]
		return
	}
	f.data = append(f.data, make([]byte, n-int64(len(f.data)))...)
}

func (m *fsx) reads(s *fsxStep) {
	data := s.file.data
	s.expect(data[min(s.from, int64(len(data))):min(s.to, int64(len(data)))])
}

// expect has the process compare what it reads.
func (s *fsxStep) expect(want []byte) {
	s.op.Want, s.op.Length = fsxSum(want), int64(len(want))
	want = slices.Clone(want)
	s.after = func(r fsxReply) error {
		if r.Errno != 0 || r.Same {
			return r.check()
		}
		for i := range min(len(want), len(r.Data)) {
			if want[i] != r.Data[i] {
				return fmt.Errorf("%d bytes, want %d; byte %d is %d, want %d", len(r.Data), len(want), s.op.Off+int64(i), r.Data[i], want[i])
			}
		}
		return fmt.Errorf("%d bytes, want %d", len(r.Data), len(want))
	}
}

func (m *fsx) writes(s *fsxStep) {
	old := int64(len(s.file.data))
	s.writes, s.from = true, min(s.from, old)
	s.file.resize(max(old, s.to))
	fsxFill(s.file.data[s.op.Off:s.to], s.op.Seed)
}

// maps touches whole pages.
func (m *fsx) maps(s *fsxStep) {
	const page = 4096
	size := int64(len(s.file.data))
	if size == 0 {
		s.op.Kind = fsxStat
		m.stats(s)
		return
	}
	s.op.Off = min(s.op.Off, size-1)
	s.op.N = min(s.op.N, size-s.op.Off)
	s.from, s.to = s.op.Off/page*page, (s.op.Off+s.op.N+page-1)/page*page
	// The kernel forgets the size that it was told when a write to the file ends meanwhile.
	s.alone = m.nodes > 1
	at := s.file.data[s.op.Off : s.op.Off+s.op.N]
	if s.op.Kind == fsxMapRead {
		s.expect(at)
		return
	}
	s.writes = true
	fsxFill(at, s.op.Seed)
}

func (m *fsx) truncates(s *fsxStep) {
	s.alone, s.byName = true, s.op.Kind == fsxTruncatePath
	s.file.resize(s.op.Off)
}

func (m *fsx) allocates(s *fsxStep) {
	s.alone = true
	s.file.resize(max(int64(len(s.file.data)), s.to))
}

// clears is a hole or zeros, where the file system has them.
func (m *fsx) clears(s *fsxStep) {
	s.alone = true
	size := int64(len(s.file.data))
	at := s.file.data[min(s.from, size):min(s.to, size)]
	s.after = func(r fsxReply) error {
		if r.Errno == 0 {
			clear(at)
		}
		return r.unlessUnsupported()
	}
}

func (m *fsx) appends(s *fsxStep) {
	s.alone = true
	old := int64(len(s.file.data))
	s.op.N = min(s.op.N, m.size-old)
	s.file.resize(old + s.op.N)
	fsxFill(s.file.data[old:], s.op.Seed)
}

func (m *fsx) seeks(s *fsxStep) {
	s.alone = true
	data := s.file.data
	s.after = func(r fsxReply) error {
		end := r.N
		if r.Errno == fsxNothing {
			end, r.Errno = int64(len(data)), 0
		}
		if from := min(s.op.Off, int64(len(data))); r.Errno == 0 && len(bytes.Trim(data[from:max(from, end)], "\x00")) > 0 {
			return fmt.Errorf("data begin at %d", r.N)
		}
		return r.check()
	}
}

func (m *fsx) stats(s *fsxStep) {
	s.alone = true
	want := int64(len(s.file.data))
	s.after = func(r fsxReply) error {
		if r.Errno == 0 && r.N != want {
			return fmt.Errorf("size %d, want %d", r.N, want)
		}
		return r.check()
	}
}

// copies copies a range into another file.
func (m *fsx) copies(s *fsxStep) {
	s.alone = true
	to := "f" + strconv.Itoa(m.rng.IntN(fsxNames))
	other := m.model[to]
	size := int64(len(s.file.data))
	s.op.Off = min(s.op.Off, size)
	s.op.N = min(s.op.N, size-s.op.Off)
	if other == nil || other == s.file || s.op.N == 0 {
		s.op.Kind = fsxStat
		m.stats(s)
		return
	}
	s.op.Target = to
	other.resize(max(int64(len(other.data)), s.op.Off+s.op.N))
	copy(other.data[s.op.Off:], s.file.data[s.op.Off:s.op.Off+s.op.N])
}

// syncs looks into the directory after fsync.
func (m *fsx) syncs(s *fsxStep) {
	s.alone = true
	s.after = func(r fsxReply) error {
		if r.Errno != 0 || m.model[s.name] != s.file {
			return r.check()
		}
		return m.below(s.name)
	}
}

func (m *fsx) below(name string) error {
	got, err := os.ReadFile(filepath.Join(m.under, name))
	want := m.model[name].data
	if err != nil || bytes.Equal(got, want) {
		return err
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	return fmt.Errorf("%s in the directory has %d bytes, want %d, other ones from %d on", name, len(got), len(want), at)
}

func (m *fsx) closes(s *fsxStep) {
	s.op.Kind, s.release = fsxStat, []*fsxFile{s.file} // which opens it again
	m.stats(s)
	if s.name == noName {
		s.release = nil
	}
}

func (m *fsx) renames(s *fsxStep) {
	s.alone, s.byName = true, true
	s.op.Target = "f" + strconv.Itoa(m.rng.IntN(fsxNames))
	s.after = func(r fsxReply) error {
		if r.Errno == 0 && s.op.Target != s.name {
			m.model[s.op.Target] = s.file
			delete(m.model, s.name)
		}
		return r.check()
	}
	m.release(s, m.model[s.op.Target])
}

func (m *fsx) removes(s *fsxStep) {
	s.alone, s.byName = true, true
	s.after = func(r fsxReply) error {
		if r.Errno == 0 {
			delete(m.model, s.name)
		}
		return r.check()
	}
	m.release(s, nil)
}

// release has processes close a file before its name goes, where that is needed, or now and then.
func (m *fsx) release(s *fsxStep, other *fsxFile) {
	if m.busy || m.rng.IntN(2) == 0 {
		s.release = []*fsxFile{s.file, other}
	}
}

// end closes all files, and looks into the directory.
func (m *fsx) end() error {
	for _, p := range m.processes {
		if err := p.close(nil); err != nil {
			return fmt.Errorf("close: %w", err)
		}
	}
	var errs []error
	for name := range m.model {
		errs = append(errs, m.below(name))
	}
	return errors.Join(errs...)
}
