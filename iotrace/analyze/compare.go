package analyze

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/pattern"
)

// Comparison has the differences between two traces.
type Comparison struct {
	Job   []Difference     `json:"differences"`
	Files []FileComparison `json:"compared_files"` // in both traces
	// OnlyA and OnlyB list files without a counterpart.
	OnlyA []string `json:"only_a"`
	OnlyB []string `json:"only_b"`
	// SamePattern reports whether the descriptions of the patterns are equal, apart
	// from the names of matching files.
	SamePattern bool `json:"same_pattern"`
}

// FileComparison has the differences between two files, or between a file in two
// traces.
type FileComparison struct {
	A           string       `json:"a"`
	B           string       `json:"b"`
	Differences []Difference `json:"differences"`
}

// A Difference is a quantity in both traces. A and B are numbers, TextA and TextB
// words. Relative is (a-b)/b, or null if b is 0 and a is not. So the second trace
// is the reference, as Darshan and strace in León's Tables 2.5 and 2.6, which print it
// without its sign.
type Difference struct {
	Quantity string   `json:"quantity"`
	A        float64  `json:"value_a"`
	B        float64  `json:"value_b"`
	TextA    string   `json:"text_a,omitempty"`
	TextB    string   `json:"text_b,omitempty"`
	Relative *float64 `json:"relative_difference"`
	Same     bool     `json:"same"`
}

// comparedBursts is how many bursts of a file are compared one by one, from the first
// on. The thesis has two.
const comparedBursts = 4

// Compare returns the differences between two traces: operations, bytes, bursts and
// pattern. It matches files by path, then by name without directories, and then the
// rest in the order of names, if both have equally many: images of DMTCP have process
// ids in their names.
func Compare(a, b *Report) *Comparison {
	c := &Comparison{Job: activityDifferences(&a.Activity, &b.Activity), Files: []FileComparison{}, OnlyA: []string{}, OnlyB: []string{}}
	c.Job = append(c.Job,
		number("files", float64(len(a.Files)), float64(len(b.Files))),
		number("wall_s", a.Wall, b.Wall),
		number("lock_wait_s", a.operation(iotrace.LockWait).Time, b.operation(iotrace.LockWait).Time),
		number("concurrency_mean", a.Concurrency.Mean, b.Concurrency.Mean),
		number("insights", float64(len(a.Insights)), float64(len(b.Insights))))
	if a.Period.Periodic || b.Period.Periodic {
		c.Job = append(c.Job, number("period_s", a.Period.Period, b.Period.Period)) // 0 if not periodic
	}
	left := restOf(a.Files)
	right := restOf(b.Files)
	var pairs [][2]*File
	match := func(key func(*File) string) {
		byKey := map[string][]*File{}
		for _, f := range right {
			byKey[key(f)] = append(byKey[key(f)], f)
		}
		taken := map[*File]bool{}
		left = slices.DeleteFunc(left, func(f *File) bool {
			// A name that several files share is no evidence.
			m := byKey[key(f)]
			if len(m) != 1 || taken[m[0]] {
				return false
			}
			taken[m[0]] = true
			pairs = append(pairs, [2]*File{f, m[0]})
			return true
		})
		right = slices.DeleteFunc(right, func(f *File) bool { return taken[f] })
	}
	match(func(f *File) string { return f.Name })
	match(func(f *File) string { return path.Base(f.Name) })
	if len(left) == len(right) {
		for i := range left {
			pairs = append(pairs, [2]*File{left[i], right[i]})
		}
		left, right = nil, nil
	}
	slices.SortStableFunc(pairs, func(x, y [2]*File) int { return compareNumbered(x[0].Name, y[0].Name) })
	for _, p := range pairs {
		c.Files = append(c.Files, FileComparison{A: p[0].Name, B: p[1].Name, Differences: activityDifferences(&p[0].Activity, &p[1].Activity)})
	}
	c.SamePattern = samePattern(&a.Pattern, &b.Pattern, pairs)
	for _, f := range left {
		c.OnlyA = append(c.OnlyA, f.Name)
	}
	for _, f := range right {
		c.OnlyB = append(c.OnlyB, f.Name)
	}
	return c
}

// samePattern compares the patterns of the files of each kind, in any order of the
// files: a replay has other names, and creates files in another order.
func samePattern(a, b *pattern.Pattern, pairs [][2]*File) bool {
	if a.More != b.More {
		return false
	}
	other := map[string]string{} // kind of file in b for each in a
	taken := map[string]string{} // and the reverse
	for _, p := range pairs {
		if p[0].Writes+p[0].Reads == 0 {
			continue
		}
		kind, of := pattern.Skeleton(p[0].Name), pattern.Skeleton(p[1].Name)
		if had, ok := other[kind]; ok && had != of {
			return false
		}
		if had, ok := taken[of]; ok && had != kind {
			return false
		}
		other[kind], taken[of] = of, kind
	}
	texts := func(p *pattern.Pattern, name func(skeleton string) string) map[string]string {
		m := map[string]string{}
		for _, g := range p.Groups {
			kind := name(g.Names)
			g.File = ""
			m[kind] += pattern.Pattern{Groups: []pattern.Group{g}}.String()
		}
		return m
	}
	return maps.Equal(
		texts(a, func(s string) string {
			if of, ok := other[s]; ok {
				return of
			}
			return "\x00" + s // matches no file of b
		}),
		texts(b, func(s string) string { return s }))
}

// restOf returns all files, sorted by name.
func restOf(files []File) []*File {
	out := make([]*File, len(files))
	for i := range files {
		out[i] = &files[i]
	}
	slices.SortStableFunc(out, func(a, b *File) int { return compareNumbered(a.Name, b.Name) })
	return out
}

// compareNumbered compares names with numbers by value: rank-2 before rank-10.
func compareNumbered(a, b string) int {
	return cmp.Or(cmp.Compare(pattern.Skeleton(a), pattern.Skeleton(b)), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

func activityDifferences(a, b *Activity) []Difference {
	d := []Difference{
		number("writes", float64(a.Writes), float64(b.Writes)),
		number("bytes_written", float64(a.BytesWritten), float64(b.BytesWritten)),
		number("reads", float64(a.Reads), float64(b.Reads)),
		number("bytes_read", float64(a.BytesRead), float64(b.BytesRead)),
		number("metadata_ops", float64(a.Metadata), float64(b.Metadata)),
		number("seeks", float64(a.Seeks), float64(b.Seeks)),
		number("syncs", float64(a.Syncs), float64(b.Syncs)),
		number("ranks", float64(a.Ranks), float64(b.Ranks)),
		number("bursts", float64(a.BurstsTotal), float64(b.BurstsTotal)),
	}
	for i := range min(comparedBursts, max(len(a.Bursts), len(b.Bursts))) {
		var x, y Burst
		if i < len(a.Bursts) {
			x = a.Bursts[i]
		}
		if i < len(b.Bursts) {
			y = b.Bursts[i]
		}
		name := fmt.Sprintf("burst_%d_", i+1)
		d = append(d, word(name+"op", x.Op, y.Op), number(name+"count", float64(x.Count), float64(y.Count)), number(name+"bytes", float64(x.Bytes), float64(y.Bytes)))
	}
	return append(d,
		number("write_s", a.WriteTime, b.WriteTime),
		number("read_s", a.ReadTime, b.ReadTime),
		number("metadata_s", a.MetadataTime, b.MetadataTime),
		number("sync_s", a.SyncTime, b.SyncTime),
		number("mean_size", a.Sizes.Mean, b.Sizes.Mean),
		word("access", string(a.Access), string(b.Access)),
		word("spatial", string(a.Spatial), string(b.Spatial)),
		word("detail", string(a.Detail), string(b.Detail)),
		word("sizes", a.Sizes.Kind, b.Sizes.Kind),
	)
}

func number(quantity string, a, b float64) Difference {
	d := Difference{Quantity: quantity, A: a, B: b, Same: a == b}
	if b != 0 || a == 0 {
		p := ratio(a-b, b)
		d.Relative = &p
	}
	return d
}

func word(quantity, a, b string) Difference {
	return Difference{Quantity: quantity, TextA: a, TextB: b, Same: a == b}
}
