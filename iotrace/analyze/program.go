package analyze

import (
	"cmp"
	"math"
	"path"
	"slices"
	"strings"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/finding"
	"ckpt/iotrace/analyze/pattern"
)

// ours reports whether a trace is of a job of ckpt, or of a checkpoint that is modelled
// like one.
func ours(r *Report) bool { return r.Source == "ckpt" || r.Source == "synth" }

// parallel reports whether an MPI program has the ranks, and its library for
// MPI-IO. Processes of other programs have process ids, which do not begin with 0.
func parallel(tr *iotrace.Trace) (mpi bool, library string) {
	var numbers []int
	for i, r := range tr.Ranks {
		if isRank(tr, i) {
			numbers = append(numbers, r.Rank)
		} else {
			library = cmp.Or(library, libraryOf(r.Node))
		}
	}
	for _, p := range tr.Properties {
		if p.Name == iotrace.ProgramProperty {
			library = cmp.Or(library, libraryOf(p.Value))
		}
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	return len(numbers) > 1 && numbers[0] == 0 && numbers[len(numbers)-1] == len(numbers)-1, library
}

// libraryOf returns the library for MPI-IO that a launcher comes with, or "".
func libraryOf(program string) string {
	switch name := path.Base(program); {
	case strings.HasPrefix(name, "hydra"), name == "mpiexec.hydra", strings.Contains(name, "mpich"):
		return "ROMIO"
	case name == "orted", name == "prted", name == "prte", name == "orterun", name == "prterun", strings.Contains(name, "openmpi"):
		return "OMPIO"
	}
	return ""
}

// layoutOf returns the layout of a job of ckpt, or 0 if its trace does not tell. The
// names of its images do, of the last checkpoint if the layout has changed
// (package image, Tx). The number of processes that write them does not: a single
// aggregator may write the file of all.
func layoutOf(r *Report) finding.Remedy {
	for i := len(r.Files) - 1; i >= 0 && r.Source == "ckpt"; i-- {
		switch name, image := strings.CutSuffix(path.Base(r.Files[i].Name), ".img"); {
		case !image || r.Files[i].Writes == 0:
		case name == "job":
			return finding.LayoutShared
		case strings.HasPrefix(name, "aggregator-"):
			return finding.LayoutAggregated
		case strings.HasPrefix(name, "rank-"):
			return finding.LayoutPerRank
		}
	}
	switch gathers := r.operation(iotrace.Gather).Count > 0; {
	case gathers && r.Access == Independent:
		return finding.LayoutAggregated
	case gathers:
		return finding.LayoutShared
	case r.Source == "ckpt" && r.Access == Independent:
		return finding.LayoutPerRank
	}
	return 0
}

// A storage knows the file systems and stripes of files.
type storage struct {
	mounts  []iotrace.Property // directories, the longest first
	striped map[int32]int
}

func newStorage(tr *iotrace.Trace) storage {
	s := storage{striped: map[int32]int{}}
	for _, p := range tr.Properties {
		if dir, ok := p.Name, strings.HasPrefix(p.Name, "/"); ok {
			s.mounts = append(s.mounts, iotrace.Property{Name: dir, Value: p.Value})
		}
	}
	slices.SortStableFunc(s.mounts, func(a, b iotrace.Property) int { return cmp.Compare(len(b.Name), len(a.Name)) })
	for _, x := range tr.Striping {
		s.striped[x.File] = int(x.Count)
	}
	return s
}

func (s *storage) stripes(file int32) int { return s.striped[file] }

func (s *storage) of(file int32, name string) finding.Storage {
	if s.striped[file] > 0 {
		return finding.Lustre
	}
	for _, m := range s.mounts {
		if dir := strings.TrimSuffix(m.Name, "/"); name == dir || strings.HasPrefix(name, dir+"/") {
			switch m.Value {
			case "lustre":
				return finding.Lustre
			case "gpfs", "beegfs", "panfs", "ceph", "pvfs2", "orangefs", "daos":
				return finding.Striped
			case "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "overlayfs", "rootfs", "ramfs", "f2fs", "nfs", "nfs4":
				return finding.Local
			}
			return finding.AnyStorage
		}
	}
	return finding.AnyStorage
}

// phases finds the patterns of the requests in each burst of a file. A file with a
// single burst does without: the burst has the pattern of the file.
type phases struct {
	bursts *bursts
	list   []phase
	blocks [2]block
}

type phase struct {
	tallies [2]tally
	ranks   int
	last    int32 // rank that was counted, plus one
	// The size of the majority, if there is one (Boyer and Moore 1981), the votes for
	// it, and its count.
	size, votes, equal int64
}

func (p *phases) reset(b *bursts) {
	p.bursts, p.list = b, p.list[:0]
	if b.total > 1 {
		for range b.list {
			p.list = append(p.list, phase{})
		}
	}
}

// A walk visits the bursts of a direction.
type walk struct {
	stints []stint
	cut    int32
	next   int32 // first event behind the burst
	over   bool  // behind the last burst that is kept
}

func (p *phases) walk(d int) walk {
	w := walk{stints: p.bursts.stints[d], cut: p.bursts.cut[d]}
	w.over = len(w.stints) == 0
	w.find()
	return w
}

func (w *walk) find() {
	switch {
	case len(w.stints) > 1:
		w.next = w.stints[1].first
	case w.cut > 0:
		w.next = w.cut
	default:
		w.next = math.MaxInt32
	}
}

// step goes on to the next burst.
func (w *walk) step() {
	w.stints = w.stints[1:]
	w.over = len(w.stints) == 0
	w.find()
}

// stream processes the requests of a rank.
func (p *phases) stream(x *activity, s *stream) {
	if len(p.list) == 0 {
		return
	}
	walks := [2]walk{p.walk(0), p.walk(1)}
	judge := func(d int) {
		if w := &walks[d]; !w.over {
			x.class.judge(&p.blocks[d], &p.list[w.stints[0].place].tallies[d])
		}
	}
	p.blocks[0].pass, p.blocks[1].pass = pass{}, pass{}
	opens, counts := 0, isRank(x.a.trace, int(s.rank))
	for k := range s.requests {
		q := &s.requests[k]
		opens = s.opensBefore(q, opens)
		d := direction(q.read())
		w := &walks[d]
		for !w.over && q.event() >= w.next {
			judge(d)
			w.step()
		}
		if w.over {
			continue
		}
		ph := &p.list[w.stints[0].place]
		if counts && ph.last != s.rank+1 {
			ph.ranks, ph.last = ph.ranks+1, s.rank+1
		}
		switch {
		case ph.votes == 0:
			ph.size, ph.votes = q.size, 1
		case ph.size == q.size:
			ph.votes++
		default:
			ph.votes--
		}
		switch {
		case q.size == 0:
			continue
		case q.off < 0:
			ph.tallies[d].add(pattern.Verdict{Detail: x.a.unplaced}, 1)
			continue
		}
		b := &p.blocks[d]
		x.class.pass(b, q.off, opens, &ph.tallies[d])
		if b.add(q.off, end(q.off, q.size)) {
			judge(d)
		}
	}
	judge(0)
	judge(1)
}

// finish counts the requests with the winning size.
func (p *phases) finish(all []stream) {
	if len(p.list) == 0 {
		return
	}
	for s := range all {
		walks := [2]walk{p.walk(0), p.walk(1)}
		for k := range all[s].requests {
			q := &all[s].requests[k]
			w := &walks[direction(q.read())]
			for !w.over && q.event() >= w.next {
				w.step()
			}
			if w.over {
				continue
			}
			if ph := &p.list[w.stints[0].place]; q.size == ph.size {
				ph.equal++
			}
		}
	}
}
