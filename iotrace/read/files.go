package read

import (
	"bytes"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"ckpt/iotrace"
	"ckpt/iotrace/strace"
)

// Files reads traces that were recorded together, such as by the ranks of one
// job; one reads a single file. The result may have fewer traces than names, but has a
// report for each name.
//
// A text of strace whose lines do not name their process is of one process. Its number
// is at the end of the name, as strace -ff -o PREFIX writes it; such files with the
// same prefix are read as one text. Other texts are numbered from 0 in the order of
// the names. Two texts with a process of the same number are of different machines or
// containers: the name of the text becomes the node of their ranks.
func Files(names []string, o iotrace.Options, one func(name string) (*iotrace.Trace, *iotrace.Report, error)) ([]Recording, []*iotrace.Report, error) {
	var all []Recording
	reports := make([]*iotrace.Report, len(names))
	families := familiesOf(names)
	taken := make(map[int]bool)
	var texts []text
	unnumbered := make(map[int]*iotrace.Trace) // by index of the name
	for i, name := range names {
		if reports[i] != nil {
			continue
		}
		var t *iotrace.Trace
		var err error
		if family := families[i]; len(family) > 1 {
			t, err = readFamily(names, family, reports, o)
		} else if t, reports[i], err = one(name); err == nil && reports[i].Unnumbered {
			unnumbered[i] = t
		}
		if err != nil {
			return nil, nil, err
		}
		all = append(all, Recording{name, t})
		if unnumbered[i] == nil && reports[i].Format == iotrace.FormatStrace {
			texts = append(texts, text{name, t})
		}
		if unnumbered[i] == nil {
			for _, r := range t.Ranks {
				taken[r.Rank] = true
			}
		}
	}
	next := 0
	for _, i := range slices.Sorted(maps.Keys(unnumbered)) {
		_, n := taskOf(names[i])
		if n == 0 || taken[n] {
			for taken[next] {
				next++
			}
			n = next
		}
		taken[n] = true
		for k := range unnumbered[i].Ranks {
			if r := &unnumbered[i].Ranks[k]; r.Rank != iotrace.None {
				r.Rank = n
			}
		}
	}
	tellApart(texts)
	return all, reports, nil
}

// A text is a trace of strace with known process numbers.
type text struct {
	name string
	*iotrace.Trace
}

// tellApart gives a node to texts with processes of the same numbers.
func tellApart(texts []text) {
	of := make(map[int]int) // first text with each number
	same := make(map[int]bool)
	for i, t := range texts {
		for _, r := range t.Ranks {
			if r.Rank == iotrace.None {
				continue
			}
			if first, ok := of[r.Rank]; !ok {
				of[r.Rank] = i
			} else if first != i {
				same[first], same[i] = true, true
			}
		}
	}
	for i := range same {
		for k := range texts[i].Ranks {
			texts[i].Ranks[k].Node = texts[i].name
		}
	}
}

// readFamily reads files of strace -ff as one text, and sets their reports.
func readFamily(names []string, family []int, reports []*iotrace.Report, o iotrace.Options) (*iotrace.Trace, error) {
	files := make([]strace.TaskFile, len(family))
	for k, i := range family {
		_, pid := taskOf(names[i])
		files[k] = strace.TaskFile{Name: names[i], PID: int64(pid)}
		if n, err := linesOf(names[i]); err == nil { // reading reports the error
			o.Events += n
		}
	}
	t, reps, err := strace.ReadTasks(files, o)
	for k, i := range family {
		reports[i] = reps[k]
	}
	return t, err
}

func linesOf(name string) (int, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return countLines(f)
}

// familiesOf finds files of strace -ff with the same prefix, and returns them for each
// member.
func familiesOf(names []string) map[int][]int {
	prefixes := make(map[string][]int)
	for i, name := range names {
		if prefix, pid := taskOf(name); pid != 0 {
			prefixes[prefix] = append(prefixes[prefix], i)
		}
	}
	families := make(map[int][]int)
	for _, family := range prefixes {
		pids := make(map[int]bool)
		for _, i := range family {
			if _, pid := taskOf(names[i]); isTaskText(names[i]) {
				pids[pid] = true
			}
		}
		if len(pids) < len(family) { // another kind of file, or the same file twice
			continue
		}
		for _, i := range family {
			families[i] = family
		}
	}
	return families
}

// taskOf splits the process number that strace -ff appends off the name of a file. The
// number is 0 if it is missing.
func taskOf(name string) (prefix string, pid int) {
	const most = 1 << 22 // largest process number of the kernel
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return name, 0
	}
	n, err := strconv.Atoi(name[i+1:])
	if err != nil || n < 1 || n > most || strconv.Itoa(n) != name[i+1:] {
		return name, 0
	}
	return name[:i], n
}

// isTaskText reports whether a file may be from strace -ff: text of strace whose lines
// have no process. The file of a process that was killed at once is empty.
func isTaskText(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return false
	}
	head := make([]byte, iotrace.HeadBytes)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return false
	}
	return n == 0 || iotrace.Detect(head[:n]) == iotrace.FormatStrace && !strace.HasNumbers(head[:n]) && !namesLater(f)
}

// namesLater reports whether a later line names a process: without -o, strace -f does
// so only while there are several processes.
func namesLater(f *os.File) bool {
	mark := []byte("\n[pid ")
	buf := make([]byte, 1<<20)
	for at := int64(0); ; at += int64(len(buf) - len(mark)) { // a mark may cross the edge
		n, err := f.ReadAt(buf, at)
		if bytes.Contains(buf[:n], mark) {
			return true
		}
		if err != nil { // mostly the end; reading the trace reports other errors
			return false
		}
	}
}
