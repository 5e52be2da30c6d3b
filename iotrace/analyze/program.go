package analyze

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/finding"
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
