package iotrace

import (
	"slices"
	"strings"
)

// A split is in progress.
type split struct {
	t          *Trace
	files      []splitFile // of the trace
	ranks      []splitRank // likewise
	mpi        bool        // ranks are numbered by MPI
	candidates bool        // some file or process may be set apart
	left, gone bool        // something is left of the job, or set apart
}

// A splitFile is how a file was used.
type splitFile struct {
	kind       fileKind
	index      int32 // in the new trace
	written    bool
	posix      bool // it was read or written below MPI-IO
	left, gone bool // some operation is left, or set apart
}

// A splitRank is the same for a process.
type splitRank struct {
	launcher   bool
	index      int32
	left, gone bool
}

func newSplit(t *Trace, o Scope) *split {
	s := &split{t: t, files: make([]splitFile, len(t.Files)), ranks: make([]splitRank, len(t.Ranks))}
	programs := map[string]bool{}
	for _, p := range t.Properties {
		if p.Name == ProgramProperty {
			programs[p.Value] = true
		}
	}
	include, exclude := patterns(o.Include), patterns(o.Exclude)
	for i, name := range t.Files {
		name = strings.TrimSuffix(name, deleted)
		names := components(name)
		k := judge(name, names)
		if k == jobs && programs[name] {
			k = ifRead
		}
		if k != jobs && anyOf(include, names) {
			k = jobs
		}
		if anyOf(exclude, names) {
			k = systems
		}
		s.files[i].kind = k
		s.candidates = s.candidates || k != jobs
	}
	for i, r := range t.Ranks {
		s.ranks[i].launcher = r.Rank == None && launcher(r.Node)
		s.candidates = s.candidates || s.ranks[i].launcher
		// Rank 0 is no process id that a program can have.
		s.mpi = s.mpi || r.Rank == 0
	}
	return s
}

// look finds how files are used, and whether anything is set apart.
func (s *split) look() {
	// Whether a file is written decides on its reads, too.
	for i := range s.t.Events {
		e := &s.t.Events[i]
		if f := s.file(e.File); f != nil {
			f.written = f.written || e.Op == Write
			f.posix = f.posix || e.Op.Data() && e.Module != MPIIO
		}
	}
	for i := range s.t.Counters {
		c := &s.t.Counters[i]
		if f := s.file(c.File); f != nil {
			f.written = f.written || c.Writes > 0 || c.BytesWritten > 0
			f.posix = f.posix || c.Module != MPIIO && (c.Reads > 0 || c.Writes > 0)
		}
	}
	for i := range s.files {
		if f := &s.files[i]; f.kind == ifRead && !f.written {
			f.kind = systems
		} else if f.kind == ifRead {
			f.kind = jobs
		}
	}
	for i := range s.t.Events {
		e := &s.t.Events[i]
		s.note(e.File, e.Rank, e.Op.Step())
	}
	for i := range s.t.Counters {
		s.note(s.t.Counters[i].File, s.t.Counters[i].Rank, false)
	}
}

// note notes an operation of a rank on a file.
func (s *split) note(fileIndex, rankIndex int32, step bool) {
	f, r := s.file(fileIndex), s.rank(rankIndex)
	apart := s.apart(f, r)
	if apart {
		s.gone = true
	} else if f != nil || step {
		s.left = true
	}
	if f != nil {
		f.left, f.gone = f.left || !apart, f.gone || apart
	}
	if r != nil && (apart || f != nil || step) { // a file without a name shows no job
		r.left, r.gone = r.left || !apart, r.gone || apart
	}
}

// apart reports whether an operation is set apart.
func (s *split) apart(f *splitFile, r *splitRank) bool {
	return f != nil && f.kind == systems || r != nil && r.launcher
}

func (s *split) file(i int32) *splitFile {
	if uint(i) < uint(len(s.files)) {
		return &s.files[i]
	}
	return nil
}

func (s *split) rank(i int32) *splitRank {
	if uint(i) < uint(len(s.ranks)) {
		return &s.ranks[i]
	}
	return nil
}

// apply moves the job's part to the front of the trace's memory.
func (s *split) apply() (*Trace, Aside) {
	out, aside := *s.t, Aside{}
	aside.Files = s.keepFiles(&out)
	aside.Processes = s.keepRanks(&out)
	kept := s.t.Events[:0]
	for i := range s.t.Events {
		e := &s.t.Events[i]
		f, r := s.file(e.File), s.rank(e.Rank)
		if s.apart(f, r) {
			aside.add(e.Op, e.Bytes, e.Module, f)
			continue
		}
		kept = append(kept, *e)
		k := &kept[len(kept)-1]
		k.File, k.Rank, k.Peer = s.newFile(e.File), s.newRank(e.Rank), s.newRank(e.Peer)
	}
	out.Events = kept
	counters := s.t.Counters[:0]
	for _, c := range s.t.Counters {
		f := s.file(c.File)
		if s.apart(f, s.rank(c.Rank)) {
			if len(s.t.Events) == 0 { // else events tell the same
				aside.addCounters(&c, f)
			}
			continue
		}
		c.File, c.Rank = s.newFile(c.File), s.newRank(c.Rank)
		counters = append(counters, c)
	}
	out.Counters = counters
	s.keepRest(&out)
	return &out, aside
}

func (a *Aside) add(op Op, bytes int64, m Module, f *splitFile) {
	a.Operations++
	if m == MPIIO && f != nil && f.posix {
		return
	}
	switch op {
	case Read:
		a.BytesRead += max(bytes, 0)
	case Write:
		a.BytesWritten += max(bytes, 0)
	}
}

func (a *Aside) addCounters(c *Counters, f *splitFile) {
	for _, n := range []int64{c.Opens, c.Reads, c.Writes, c.Seeks, c.Stats, c.Syncs, c.Maps} {
		a.Operations += int(max(n, 0))
	}
	if c.Module == MPIIO && f != nil && f.posix {
		return
	}
	a.BytesRead += max(c.BytesRead, 0)
	a.BytesWritten += max(c.BytesWritten, 0)
}

// keepFiles makes the new table of the job's files, even if untouched.
func (s *split) keepFiles(out *Trace) (apart int) {
	out.Files = make([]string, 0, len(s.t.Files))
	for i := range s.files {
		f := &s.files[i]
		if f.kind == systems || f.gone && !f.left {
			f.index = None
			if f.gone {
				apart++
			}
			continue
		}
		f.index = int32(len(out.Files))
		out.Files = append(out.Files, s.t.Files[i])
	}
	return apart
}

// keepRanks does the same with processes. A rank of MPI stays: that it does nothing
// to the files of the job is worth knowing.
func (s *split) keepRanks(out *Trace) (apart int) {
	out.Ranks = make([]Rank, 0, len(s.t.Ranks))
	for i := range s.ranks {
		r := &s.ranks[i]
		member := s.mpi && s.t.Ranks[i].Rank != None
		if r.launcher || r.gone && !r.left && !member {
			r.index = None
			apart++
			continue
		}
		r.index = int32(len(out.Ranks))
		out.Ranks = append(out.Ranks, s.t.Ranks[i])
	}
	return apart
}

func (s *split) newFile(i int32) int32 {
	if f := s.file(i); f != nil {
		return f.index
	}
	return i
}

func (s *split) newRank(i int32) int32 {
	if r := s.rank(i); r != nil {
		return r.index
	}
	return i
}

// keepRest splits renames, stripes and warnings.
func (s *split) keepRest(out *Trace) {
	out.Renames = slices.Clone(s.t.Renames)[:0]
	for _, r := range s.t.Renames {
		if r.From, r.To = s.newFile(r.From), s.newFile(r.To); r.From != None && r.To != None {
			out.Renames = append(out.Renames, r)
		}
	}
	out.Striping = slices.Clone(s.t.Striping)[:0]
	for _, st := range s.t.Striping {
		if st.File = s.newFile(st.File); st.File != None {
			out.Striping = append(out.Striping, st)
		}
	}
	out.Warnings = slices.Clone(s.t.Warnings)[:0]
	for _, w := range s.t.Warnings {
		if w, ok := s.warning(w); ok {
			out.Warnings = append(out.Warnings, w)
		}
	}
}

// warning returns the job's share of a warning.
func (s *split) warning(w Warning) (Warning, bool) {
	if len(w.Files) == 0 {
		return w, true
	}
	var files []WarnedFile
	for _, f := range w.Files {
		if to := s.newFile(f.File); to != None {
			f.File = to
			files = append(files, f)
			continue
		}
		w.Count -= f.Count
		w.Bytes -= f.Bytes
	}
	w.Files = files
	return w, len(files) > 0
}

// A Scope says what belongs to the job. The zero value has the rules of the package.
//
// A pattern is a path or has the signs of path.Match; "**" stands for any number of
// directories. It matches a file and, if it names a directory, all below. From a slash
// on it matches from the root; without one it matches anywhere in a path, so that *.nc
// and results do what one expects.
type Scope struct {
	Include []string // patterns of files that are the job's
	Exclude []string // patterns of files that are not
	All     bool     // everything is the job's
}

// ProgramProperty is the name of a property (Property) whose value is the path of a
// program that the job executed, or of a script.
const ProgramProperty = "program"

// An Aside counts what was set apart.
type Aside struct {
	Files      int `json:"files"`     // that nothing is left of
	Processes  int `json:"processes"` // likewise
	Operations int `json:"operations"`
	// Bytes that those read and wrote. Bytes of a file that went through MPI-IO and
	// POSIX count once.
	BytesRead    int64 `json:"bytes_read"`
	BytesWritten int64 `json:"bytes_written"`
	// Kept is set if all of it was kept, since the job has nothing else. The counts
	// are 0 then.
	Kept bool `json:"nothing_else"`
}

// Apart returns the job's part of a trace, without the system around it. It may use the memory
// of t: t must not be used any more. If nothing is set apart, it returns t.
//
// A recorder sees all that a program does: the loader that reads libraries, the MPI
// library that reads its settings, the launcher that reads /proc. Users cannot change
// that, and in a short run it hides the job's own files.
//
// # The system's files
//
// These are set apart by name:
//
//   - /proc, /sys, the devices in /dev that are no disks, and / itself;
//   - sockets, pipes, anonymous memory, and standard streams that go to no file;
//   - session directories and shared memory of MPI libraries, in /tmp, /dev/shm or
//     elsewhere, also after their removal.
//
// These are set apart if the job only reads them. A job that writes there made the file:
//
//   - /etc, /usr, /bin, /sbin, /lib, /lib64 and the like, /boot, /run, /snap, /nix/store;
//   - elsewhere, as in /opt or a home: libraries (*.so, *.so.6), compiled Python
//     (*.pyc), Java (*.jar), packages of Python, Perl, R, Julia and Spack, locales,
//     settings of MPI libraries;
//   - the programs that were executed, if the trace names them (Program).
//
// Disks (/dev/sda, /dev/nvme0n1) and the other files in /dev/shm are the job's.
//
// # The system's processes
//
// Launchers of MPI jobs and their proxies have Rank None, and the name of their
// program as Node. All that they do is set apart. A process that is no MPI rank, and
// has done nothing to the files of the job, does not count as its process either.
//
// # Promises
//
//   - Scope.Exclude goes before Scope.Include, and that before the rules above.
//   - If nothing of the job would be left, everything is.
//   - Events keep their order. Nothing but events, counters, renames, stripes and
//     warnings of the system goes: the other warnings, properties and the time of the
//     job stay.
//   - Apart takes no memory that grows with the events, and looks at no event if no
//     file and no process can be the system's.
func Apart(t *Trace, o Scope) (*Trace, Aside) {
	if o.All {
		return t, Aside{}
	}
	s := newSplit(t, o)
	if !s.candidates {
		return t, Aside{}
	}
	s.look()
	switch {
	case !s.gone:
		return t, Aside{}
	case !s.left:
		return t, Aside{Kept: true}
	}
	return s.apply()
}
