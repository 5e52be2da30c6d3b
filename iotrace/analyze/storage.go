package analyze

import (
	"cmp"
	"slices"
	"strings"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/finding"
)

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
