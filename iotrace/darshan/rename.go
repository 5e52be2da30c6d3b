package darshan

import (
	"cmp"
	"slices"

	"ckpt/iotrace"
)

// A renamed file has another name from some time on.
type renamed struct {
	from uint64 // record of the old name
	to   int32
}

// rename keeps which files were renamed. Darshan does not know when: a program renames
// a file that it has closed, so the last time in the records of the old name stands
// for it.
func (l *reading) rename() {
	if len(l.renamed) == 0 {
		return
	}
	last := make(map[int32]int64)
	for i := range l.t.Counters {
		c := &l.t.Counters[i]
		last[c.File] = max(last[c.File], c.LastOpen, c.LastReadEnd, c.LastWriteEnd, c.LastClose)
	}
	seen := make(map[iotrace.Renaming]bool) // ranks may rename the same file
	for _, r := range l.renamed {
		n := iotrace.Renaming{From: l.file(r.from), To: r.to}
		n.At = last[n.From]
		if n.From != n.To && !seen[n] {
			seen[n] = true
			l.t.Renames = append(l.t.Renames, n)
		}
	}
	slices.SortStableFunc(l.t.Renames, func(a, b iotrace.Renaming) int { return cmp.Compare(a.At, b.At) })
}
