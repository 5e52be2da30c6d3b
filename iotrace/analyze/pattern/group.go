package pattern

import (
	"ckpt/internal/lazy"
	"ckpt/iotrace"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Grouper sorts ranks into groups, one sequence after the other.
type Grouper struct {
	trace  *iotrace.Trace
	number []int // of each process in the pattern; None if it is not a rank
	all    []int // numbers of the ranks
	names  map[string]*nameClass
	order  []string // skeletons in the order of their files
	key    []byte
	starts []int64
}

// A nameClass is a set of files whose names differ only in numbers.
type nameClass struct {
	groups map[string][]*rankGroup
	order  []string
	parts  []namePart
	files  int
	last   int // last file counted
}

type rankGroup struct {
	items           []item
	ranks           []int
	files           int
	last            int // last file counted
	first           int // rank
	starts, slopes  []int64
	sloped, spread  bool
	most            []int64 // largest bytes of each item, if ranks differ; the items have the smallest
	detail          Detail
	requests, bytes [2]int64
}

// NewGrouper begins the groups of a trace.
func NewGrouper(tr *iotrace.Trace) *Grouper {
	g := &Grouper{trace: tr, names: map[string]*nameClass{}}
	// Ranks keep their numbers if they look like MPI ranks: 0, 1, 2, … in any order,
	// or including 0, as for aggregators. Process ids, which jump, are replaced by
	// counting.
	seen := make(map[int]bool, len(tr.Ranks))
	last, ranks := 0, 0
	for _, r := range tr.Ranks {
		if r.Rank >= 0 {
			seen[r.Rank] = true
			ranks++
			last = max(last, r.Rank)
		}
	}
	own := len(seen) == ranks && (last < ranks || seen[0] || tr.Source == "ckpt" || tr.Source == "darshan")
	for _, r := range tr.Ranks {
		n := iotrace.None
		switch {
		case r.Rank < 0:
		case own:
			n = r.Rank
		default:
			n = len(g.all)
		}
		g.number = append(g.number, n)
		if n >= 0 {
			g.all = append(g.all, n)
		}
	}
	slices.Sort(g.all)
	g.number = append(g.number, iotrace.None) // events without a rank
	return g
}

// Add adds the sequence of a rank on a file.
func (g *Grouper) Add(file, rank int, s *Sequence, detail Detail, requests, bytes int64) {
	number := g.number[rank]
	skeleton := Skeleton(g.trace.Files[file])
	class := g.names[skeleton]
	if class == nil {
		class = &nameClass{groups: map[string][]*rankGroup{}, last: -1}
		g.names[skeleton] = class
		g.order = append(g.order, skeleton)
	}
	class.name(g.trace.Files[file], file, number)
	items := s.folded()
	g.key = g.key[:0]
	if number < 0 {
		g.key = append(g.key, '-') // never grouped with ranks
	}
	if items == nil {
		g.key = append(append(g.key, '~'), detail...)
	} else {
		g.key = shape(g.key, items)
	}
	g.starts = starts(g.starts[:0], items)
	groups, known := class.groups[string(g.key)]
	if !known {
		class.order = append(class.order, string(g.key))
	}
	for _, old := range groups[max(0, len(groups)-maxAlike):] {
		if old.join(file, number, g.starts, requests, bytes) {
			return
		}
	}
	class.groups[string(g.key)] = append(groups, &rankGroup{items: items, ranks: []int{number}, files: 1, last: file, first: number,
		starts: slices.Clone(g.starts), detail: detail, requests: [2]int64{requests, requests}, bytes: [2]int64{bytes, bytes}})
}

// join adds a rank to a group if it begins where a rank of the group would.
func (g *rankGroup) join(file, rank int, starts []int64, requests, bytes int64) bool {
	d := int64(rank - g.first)
	if d != 0 && !g.sloped {
		slopes := make([]int64, len(starts))
		for i, s := range starts {
			if (s-g.starts[i])%d != 0 {
				return false
			}
			slopes[i] = (s - g.starts[i]) / d
		}
		g.slopes, g.sloped = slopes, true
	}
	for i, s := range starts {
		if d == 0 && s != g.starts[i] || d != 0 && s != g.starts[i]+d*g.slopes[i] {
			return false
		}
	}
	g.merge(&rankGroup{ranks: []int{rank}, files: 1, requests: [2]int64{requests, requests}, bytes: [2]int64{bytes, bytes}}, file)
	return true
}

// merge adds the ranks of o. It counts a file of several ranks once.
func (g *rankGroup) merge(o *rankGroup, file int) {
	g.ranks = append(g.ranks, o.ranks...)
	if file != g.last {
		g.files += o.files
		g.last = file
	}
	g.requests = [2]int64{min(g.requests[0], o.requests[0]), max(g.requests[1], o.requests[1])}
	g.bytes = [2]int64{min(g.bytes[0], o.bytes[0]), max(g.bytes[1], o.bytes[1])}
}

// Pattern returns the groups with the most bytes: files in the order of the trace, ranks
// in their order.
func (g *Grouper) Pattern() Pattern {
	type named struct {
		*rankGroup
		name, skeleton string
		most           int // files
	}
	var all []named
	for _, skeleton := range g.order {
		class := g.names[skeleton]
		name := class.template(skeleton)
		groups := class.settled()
		for _, group := range groups {
			slices.Sort(group.ranks)
			group.ranks = slices.Compact(group.ranks)
		}
		slices.SortStableFunc(groups, func(a, b *rankGroup) int { return cmp.Compare(a.ranks[0], b.ranks[0]) })
		for _, group := range groups {
			all = append(all, named{group, name, skeleton, class.files})
		}
	}
	p := Pattern{Groups: []Group{}, More: max(0, len(all)-maxGroups)}
	for _, group := range heaviest(all, maxGroups, func(n *named) float64 { return weight(n.bytes, n.files, len(n.ranks)) }) {
		if group.ranks[0] < 0 {
			group.ranks = group.ranks[1:]
		}
		out := Group{File: group.name, Files: min(group.files, group.most), Ranks: g.ranks(group.ranks), Count: len(group.ranks), Spread: group.spread,
			Detail: group.detail, Requests: group.requests, Bytes: group.bytes, Names: group.skeleton}
		if out.Files == 1 && group.most > 1 {
			out.File = g.trace.Files[group.last] // and not how it is like others
		}
		next := 0
		out.Items = group.report(group.items, &next)
		p.Groups = append(p.Groups, out)
	}
	return p
}

// settled returns the groups of files with similar names, after joining groups if
// there are too many.
func (c *nameClass) settled() []*rankGroup {
	var all []*rankGroup
	for _, key := range c.order {
		groups := c.groups[key]
		if len(groups) > maxAlike/2 { // equal, but not linear in the rank
			for _, o := range groups[1:] {
				groups[0].merge(o, o.last)
			}
			groups[0].spread = true
			groups = groups[:1]
		}
		all = append(all, groups...)
	}
	all = joinSimilar(all)
	// If many ranks do something unique, they are described together. If there are
	// still too many groups, all are.
	alone := 0
	for _, g := range all {
		if len(g.ranks) == 1 {
			alone++
		}
	}
	if alone > maxAlone {
		all = joinGroups(all, func(g *rankGroup) bool { return len(g.ranks) == 1 || g.items == nil })
	}
	if len(all) > maxAlike {
		all = joinGroups(all, func(*rankGroup) bool { return true })
	}
	return all
}

const (
	maxSimilar  = 2  // groups that differ only in sizes; more are described together
	similarRuns = 16 // of a description with ranges of sizes
)

// joinSimilar joins groups that do the same with different sizes, as when each rank
// writes the output of a codec.
func joinSimilar(all []*rankGroup) []*rankGroup {
	times := map[string]int{}
	for _, g := range all {
		times[g.form()]++
	}
	var out []*rankGroup
	joined := map[string]*rankGroup{}
	for _, g := range all {
		form := g.form()
		if form == "" || times[form] <= maxSimilar {
			out = append(out, g)
			continue
		}
		first := joined[form]
		if first == nil {
			joined[form] = g
			out = append(out, g)
			for i := range g.items {
				g.most = append(g.most, g.items[i].size)
			}
			continue
		}
		for i := range g.items {
			first.items[i].size = min(first.items[i].size, g.items[i].size)
			first.most[i] = max(first.most[i], g.items[i].size)
		}
		first.merge(g, g.last)
	}
	return out
}

// form is the description of a group without its sizes, or "" if it is not a few
// consecutive runs from the same offset.
func (g *rankGroup) form() string {
	if len(g.items) == 0 || len(g.items) > similarRuns || g.spread {
		return ""
	}
	b := strconv.AppendInt(nil, g.starts[0], 36)
	at := g.starts[0]
	for i := range g.items {
		it := &g.items[i]
		if it.body != nil || it.count > 1 && it.step != it.size || g.starts[i] != at || g.sloped && g.slopes[i] != 0 {
			return ""
		}
		at += it.count * it.size
		b = append(b, ' ', 'r')
		if it.write {
			b[len(b)-1] = 'w'
		}
		b = strconv.AppendInt(b, it.count, 36)
	}
	return string(b)
}

// joinGroups joins the groups that which selects, by their patterns.
func joinGroups(all []*rankGroup, which func(*rankGroup) bool) []*rankGroup {
	var out []*rankGroup
	joined := map[Detail]*rankGroup{}
	for _, g := range all {
		if !which(g) {
			out = append(out, g)
		} else if j := joined[g.detail]; j != nil {
			j.merge(g, g.last)
		} else {
			g.items, g.spread = nil, false
			joined[g.detail] = g
			out = append(out, g)
		}
	}
	return out
}

func (g *rankGroup) report(items []item, next *int) []Item {
	var out []Item
	for i := range items {
		it := &items[i]
		if it.body != nil {
			body := g.report(it.body, next)
			out = append(out, Item{Offset: body[0].Offset, PerRank: body[0].PerRank, Body: body, Times: it.times, Shift: it.shift})
			continue
		}
		x := Item{Op: iotrace.Read.String(), Bytes: it.size, Count: it.count, Offset: g.starts[*next], Step: it.step}
		if it.write {
			x.Op = iotrace.Write.String()
		}
		if g.sloped && !g.spread {
			x.PerRank = g.slopes[*next]
			x.Offset -= x.PerRank * int64(g.first)
		}
		if g.most != nil {
			x.Step = x.Bytes
			if i > 0 {
				x.Offset = out[i-1].Offset + out[i-1].Count*out[i-1].Bytes
			}
			if g.most[i] > x.Bytes {
				x.BytesTo = g.most[i]
			}
		}
		*next++
		out = append(out, x)
	}
	return out
}

// ranks writes the numbers of the ranks, or of the missing ones if that is shorter.
func (g *Grouper) ranks(n []int) string {
	text := ranges(n)
	in := make(map[int]bool, len(n))
	for _, r := range n {
		in[r] = true
	}
	var others []int
	for _, r := range g.all {
		if !in[r] {
			others = append(others, r)
		}
	}
	if len(others) == 0 || 2*len(others) >= len(n) {
		return text
	}
	if but := "all but " + ranges(others); len(but) < len(text) {
		return but
	}
	return text
}

// ranges writes sorted numbers as ranges: 0-3, 8, 16-64/16.
func ranges(n []int) string {
	const most = 16 // ranges that are listed
	var parts []string
	for i := 0; i < len(n); {
		j := i + 1
		if j < len(n) {
			step := n[j] - n[i]
			for j+1 < len(n) && n[j+1]-n[j] == step {
				j++
			}
			switch {
			case j-i >= 2 || step == 1:
				part := fmt.Sprintf("%d-%d", n[i], n[j])
				if step != 1 {
					part += fmt.Sprintf("/%d", step)
				}
				parts = append(parts, part)
				i = j + 1
				continue
			}
		}
		parts = append(parts, strconv.Itoa(n[i]))
		i++
	}
	if len(parts) > most {
		parts = append(parts[:most], fmt.Sprintf("and others up to %d", n[len(n)-1]))
	}
	return strings.Join(parts, ", ")
}

// Numbers in file names, including hashes: eight or more hexadecimal digits.
var numbers = lazy.Regexp(`[0-9a-f]{8,}|[0-9]+`)

// numeric reports whether a match of numbers is a number: a word like "defaced" is
// not.
func numeric(s string) bool { return strings.ContainsAny(s, "0123456789") }

// hole stands for a number in a skeleton. Paths do not contain this byte.
const hole = "\x00"

// Skeleton returns a name without its numbers.
func Skeleton(name string) string {
	return numbers().ReplaceAllStringFunc(strings.ReplaceAll(name, hole, ""), func(s string) string {
		if numeric(s) {
			return hole
		}
		return s
	})
}

// A namePart is a number in the names of a class of files.
type namePart struct {
	value  string
	varies bool // differs between the files
	rank   bool // is the number of the rank in all files
}

// name records the numbers in the name of a file that a rank uses.
func (c *nameClass) name(name string, file, rank int) {
	i := 0
	for _, s := range numbers().FindAllString(strings.ReplaceAll(name, hole, ""), -1) {
		if !numeric(s) {
			continue
		}
		n, err := strconv.Atoi(s)
		is := err == nil && n == rank
		if c.files == 0 {
			c.parts = append(c.parts, namePart{value: s, rank: is})
		} else {
			c.parts[i].varies = c.parts[i].varies || c.parts[i].value != s
			c.parts[i].rank = c.parts[i].rank && is
		}
		i++
	}
	if file != c.last {
		c.files++
		c.last = file
	}
}

// template returns the name for all files of the class.
func (c *nameClass) template(skeleton string) string {
	var b strings.Builder
	for i, text := range strings.Split(skeleton, hole) {
		if i > 0 {
			switch p := c.parts[i-1]; {
			case !p.varies:
				b.WriteString(p.value)
			case p.rank:
				b.WriteString("{rank}")
			default:
				b.WriteByte('#')
			}
		}
		b.WriteString(text)
	}
	return b.String()
}
