package dataset

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ckpt/zones"
	"ckpt/zones/global"
)

// A SeenRun is the arrays that the ranks of a run of a program protected.
type SeenRun struct {
	Job     string
	NP      int
	OpenMPI bool
	Arrays  []SeenArray
}

// A SeenArray is what the ranks of a run had of an array.
type SeenArray struct {
	Name string
	Elem zones.Elem
	// Bytes are of each rank. Parts are what each rank declared that it holds of an array of all
	// ranks, by a rule or not, nil without a declaration. Replicated says that all ranks declared it
	// to be alike.
	Bytes      []int64
	Parts      []*global.Part
	Replicated bool
}

// A Description is the workload spec of a program, from runs of it.
type Description struct {
	App    string           `json:"-"`
	Text   string           `json:"-"` // the spec, as YAML
	Counts int              `json:"-"` // different numbers of ranks that were seen
	Arrays []DescribedArray `json:"array_list"`
}

// A DescribedArray says how an array depends on the number of ranks.
type DescribedArray struct {
	Name string `json:"region"`
	Rule string `json:"rule"`
	// Declared says that a rule is known of who holds which cells. Exact says that it alone
	// agrees with the runs; else a run on Tells ranks would say which one holds, 0 if none would.
	Declared bool `json:"declared"`
	Exact    bool `json:"exact"`
	Tells    int  `json:"telling_np,omitempty"`
}

// Declared reports whether a rule is known of any array of all ranks.
func (d *Description) Declared() bool {
	return slices.ContainsFunc(d.Arrays, func(a DescribedArray) bool { return a.Declared })
}

// Known reports whether the sizes on other numbers of ranks follow: from a rule, or from laws of
// those that were seen.
func (d *Description) Known() bool { return d.Declared() || d.Counts > 1 }

// tellMost is up to how many ranks a run is proposed that would tell rules apart.
const tellMost = 64

// Describe writes the workload spec of a program from what its ranks declared in runs. An array
// without a declaration has the sizes that were seen.
func Describe(name, class string, runs []SeenRun) (*Description, error) {
	if len(runs) == 0 {
		return nil, errors.New("no run is given")
	}
	d := &Description{App: name}
	seen := map[int]bool{}
	for _, run := range runs {
		seen[run.NP] = true
	}
	d.Counts = len(seen)
	arrays, err := collect(runs)
	if err != nil {
		return nil, err
	}
	kinds := kindsOf(arrays)
	var text strings.Builder
	for i := range arrays {
		a := &arrays[i]
		fields := a.describe()
		d.Arrays = append(d.Arrays, a.found)
		fmt.Fprintf(&text, "  # %s\n  - name: %s\n%s", oneLine(a.found.Rule), strconv.Quote(a.name), fields)
	}
	if len(d.Arrays) == 0 {
		return nil, errors.New("the program protects no memory")
	}
	var of []string
	for _, run := range runs {
		of = append(of, fmt.Sprintf("%s (%d ranks)", run.Job, run.NP))
	}
	d.Text = fmt.Sprintf("name: %s\ntitle: %s\nsource: %s\nkernel: %s\nprocs: any\nclasses:\n  %s: {iterations: 1}\n%sarrays:\n%s",
		strconv.Quote(identified(name)), strconv.Quote("Program "+oneLine(name)), strconv.Quote("seen in "+strings.Join(of, ", ")),
		kernelProgram, strconv.Quote(class), kinds, text.String())
	if _, err := ParseWorkload([]byte(d.Text), name); err != nil {
		return nil, err
	}
	return d, nil
}

// identified makes a name one that a spec may have.
func identified(name string) string {
	if !isIdentifier(name) {
		name = "_" + name
	}
	return name[:min(len(name), maxName)]
}

func arrayNames(runs []SeenRun) (names []string) {
	for _, run := range runs {
		for _, a := range run.Arrays {
			if !slices.Contains(names, a.Name) {
				names = append(names, a.Name)
			}
		}
	}
	return names
}

// An arrayOf is an array of a program, as its runs have shown it.
type arrayOf struct {
	name  string
	seen  []SeenArray
	nps   []int        // of the runs
	cuts  []global.Cut // nil: no rule is known
	sized *global.Cut  // a cut that the sizes agree with, where none was declared
	part  part         // of the ranks that have it
	kinds []string     // their names; nil: all ranks
	found DescribedArray
}

// collect finds the rules of all arrays.
func collect(runs []SeenRun) (arrays []arrayOf, err error) {
	var cuts [][]global.Cut
	var at []int
	for i, name := range arrayNames(runs) {
		a := arrayOf{name: name, found: DescribedArray{Name: name}}
		if err := a.cut(runs); err != nil {
			return nil, &SpecError{Reason: Contradiction, Subject: "array " + name, Problem: err.Error(),
				hint: "describe runs of one problem size at a time", err: err}
		}
		if a.cuts != nil {
			cuts, at = append(cuts, a.cuts), append(at, i)
		}
		arrays = append(arrays, a)
	}
	global.Agree(cuts)
	for k, i := range at {
		arrays[i].cuts = cuts[k]
	}
	guess(arrays, runs)
	return arrays, nil
}

// guess finds cuts from the sizes of arrays that nobody declared.
func guess(arrays []arrayOf, runs []SeenRun) {
	cuts := make([][]global.Cut, len(arrays))
	for i := range arrays {
		a := &arrays[i]
		cuts[i] = a.cuts
		if a.cuts != nil || len(a.seen) < len(runs) {
			continue
		}
		var sized []global.Sized
		for k, s := range a.seen {
			sized = append(sized, global.Sized{Bytes: s.Bytes, OpenMPI: runs[k].OpenMPI})
		}
		cuts[i] = global.SizedCuts(sized, int64(a.seen[0].Elem.Size()))
	}
	for i, c := range global.Together(cuts) {
		if arrays[i].cuts == nil {
			arrays[i].sized = c
		}
	}
}

// cut finds the rules by which the array may be cut, if all ranks of all runs declared it.
func (a *arrayOf) cut(runs []SeenRun) error {
	var list []global.Run
	declared := true
	for _, run := range runs {
		i := slices.IndexFunc(run.Arrays, func(s SeenArray) bool { return s.Name == a.name })
		if i < 0 {
			declared = false
			continue
		}
		s := run.Arrays[i]
		a.seen, a.nps = append(a.seen, s), append(a.nps, run.NP)
		list = append(list, global.Run{Parts: s.Parts, OpenMPI: run.OpenMPI})
		declared = declared && len(s.Parts) == run.NP && !slices.ContainsFunc(s.Parts, func(p *global.Part) bool { return p == nil || !p.Ruled() })
	}
	if !declared {
		return nil
	}
	cuts, err := global.FindCuts(list)
	if errors.Is(err, global.ErrShapes) {
		return err
	}
	if err != nil {
		a.found.Rule = fmt.Sprintf("declared, but %v; ", err)
	}
	a.cuts = cuts
	return nil
}

// describe writes the fields of the array, and says what they rest on.
func (a *arrayOf) describe() string {
	if a.cuts == nil {
		return a.kindText() + a.sizesText()
	}
	f := &a.found
	f.Rule, f.Declared, f.Exact = a.cuts[0].Words(), true, len(a.cuts) == 1
	if !f.Exact {
		// Some rules are the same on every number of ranks.
		others := slices.DeleteFunc(slices.Clone(a.cuts[1:]), func(o global.Cut) bool {
			return a.cuts[0].Tells([]global.Cut{o}, tellMost) == 0
		})
		f.Exact = len(others) == 0
		if !f.Exact {
			f.Tells = a.cuts[0].Tells(others, tellMost)
		}
	}
	if f.Tells > 0 {
		f.Rule += fmt.Sprintf("; other rules agree with what was seen, and a run on %d ranks tells which one holds", f.Tells)
	}
	return cutText(a.cuts, a.seen[0].Elem)
}

// cutText writes the fields of an array that is cut by the first of the rules.
func cutText(cuts []global.Cut, elem zones.Elem) string {
	c := cuts[0]
	values := c.Elem / int64(elem.Size()) // of a cell
	list := func(values []string, more string) string {
		if more != "" {
			values = append(slices.Clip(values), more)
		}
		return "[" + strings.Join(values, ", ") + "]"
	}
	extra := func(text string) string {
		if values > 1 {
			return text
		}
		return ""
	}
	var halo, margins, kinds []string
	for _, m := range c.Margins {
		margins = append(margins, marginText(m))
	}
	for i := range c.Shape {
		halo = append(halo, strconv.FormatInt(c.Halo[i], 10))
		kinds = append(kinds, string(c.Dims[i].Kind))
	}
	var s strings.Builder
	line := func(name, text string) { fmt.Fprintf(&s, "      %s: %s\n", name, text) }
	fmt.Fprintf(&s, "    elem: %v\n    global:\n", elem)
	shape := func(c *global.Cut) [2]string {
		return [2]string{"shape", list(shapeOf(c), extra(strconv.FormatInt(values, 10)))}
	}
	line(shape(&c)[0], shape(&c)[1])
	line("halo", list(halo, extra("0")))
	if c.Margins != nil {
		line("margins", list(margins, extra("{}")))
	}
	if slices.ContainsFunc(c.Dims, func(d global.Dim) bool { return d.Kind != global.Block }) {
		line("distribution", list(kinds, extra(string(global.Block))))
		line("block", list(blockLengths(&c), extra("0")))
	}
	for _, field := range ruleOf(&c, values > 1) {
		line(field[0], field[1])
	}
	if len(cuts) > 1 {
		s.WriteString("      or:\n")
	}
	for i := range cuts[1:] {
		other := &cuts[i+1]
		if other.Order == nil && c.Order != nil {
			other.Order = natural(len(c.Sides))
		}
		var fields []string
		rule := func(c *global.Cut) [][2]string { return append(ruleOf(c, values > 1), shape(c)) }
		for _, field := range differing(rule(other), rule(&c)) {
			fields = append(fields, field[0]+": "+field[1])
		}
		fmt.Fprintf(&s, "        - {%s}\n", strings.Join(fields, ", "))
	}
	return s.String()
}

// marginText writes what memory has along an axis beside cells and halo.
func marginText(m global.Margin) string {
	var fields []string
	for _, f := range []struct {
		name string
		n    int64
	}{{"lower", m.Lower}, {"upper", m.Upper}, {"pad", m.Pad}} {
		if f.n > 0 {
			fields = append(fields, fmt.Sprintf("%s: %d", f.name, f.n))
		}
	}
	if m.Clipped {
		fields = append(fields, "clipped: true")
	}
	if m.Equal {
		fields = append(fields, "equal_room: true")
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// shapeOf are the lengths of the axes. One that grows has as many cells for each rank along it.
func shapeOf(c *global.Cut) (shape []string) {
	for i, n := range c.Shape {
		text := strconv.FormatInt(n, 10)
		if c.Each[i] {
			text = strconv.Quote(fmt.Sprintf("%d*%s", n, c.Sides[i]))
		}
		shape = append(shape, text)
	}
	return shape
}

func natural(axes int) (order []int) {
	for i := range axes {
		order = append(order, i)
	}
	return order
}

func blockLengths(c *global.Cut) (list []string) {
	for _, d := range c.Dims {
		list = append(list, strconv.FormatInt(d.Block, 10))
	}
	return list
}

// ruleOf are the fields of a description that say who has what.
func ruleOf(c *global.Cut, values bool) [][2]string {
	var grid, rests, order []string
	for i, side := range c.Sides {
		text := side.String()
		if strings.Contains(text, ",") {
			text = strconv.Quote(text)
		}
		grid = append(grid, text)
		rests = append(rests, strconv.Quote(string(c.Dims[i].Rest)))
	}
	for _, axis := range c.Order {
		order = append(order, strconv.Itoa(axis))
	}
	if values {
		grid, rests = append(grid, "1"), append(rests, `""`)
		if order != nil {
			order = append([]string{strconv.Itoa(len(c.Sides))}, order...)
		}
	}
	list := [][2]string{{"grid", "[" + strings.Join(grid, ", ") + "]"}}
	if slices.ContainsFunc(c.Dims, func(d global.Dim) bool { return d.Rest != "" }) {
		list = append(list, [2]string{"remainder", "[" + strings.Join(rests, ", ") + "]"})
	}
	if order != nil {
		list = append(list, [2]string{"order", "[" + strings.Join(order, ", ") + "]"})
	}
	return list
}

// differing are the fields that the other rule does not have.
func differing(rule, other [][2]string) (list [][2]string) {
	for _, field := range rule {
		if !slices.Contains(other, field) {
			list = append(list, field)
		}
	}
	return list
}

// smallArray is a size up to which an array of one run is taken to be the same on any number of
// ranks: counters, times, the state of a generator of random numbers.
const smallArray = zones.PageSize

// uneven is from how many times the mean on a rank that is larger is named.
const uneven = 2

// sizesText writes the fields of an array of which only sizes are known: of the ranks of its
// kinds, or of all.
func (a *arrayOf) sizesText() string {
	found, elem, replicated := &a.found, a.seen[0].Elem, true
	held := func(s *SeenArray) []int64 {
		if a.kinds != nil {
			return s.held()
		}
		return s.Bytes
	}
	first := held(&a.seen[0])
	same := true
	sums, counts := map[int]float64{}, map[int]int{}
	for i := range a.seen {
		s := &a.seen[i]
		for _, n := range held(s) {
			sums[a.nps[i]] += float64(n)
			counts[a.nps[i]]++
			same = same && n == first[0]
		}
		replicated = replicated && s.Replicated
		if s.Elem != elem {
			elem = zones.Bytes
		}
	}
	means := map[int]int64{}
	for _, np := range a.nps {
		means[np] = int64(math.Round(sums[np] / float64(max(1, counts[np]))))
	}
	for _, n := range means {
		if n%int64(elem.Size()) != 0 {
			elem = zones.Bytes
		}
	}
	text := fmt.Sprintf("    elem: %v\n", elem)
	if replicated {
		text += "    replicated: true\n"
	}
	if len(first) == 0 {
		first = []int64{0}
	}
	if same && (len(means) > 1 || replicated || first[0] <= smallArray) {
		found.Rule += "the same size on every rank"
		found.Exact = replicated
		return text + fmt.Sprintf("    count: %d\n", first[0]/int64(elem.Size()))
	}
	if a.sized != nil && !replicated {
		found.Rule += fmt.Sprintf("not declared, but the sizes seen on %s fit cells %s", counted(means), a.sized.Words())
		return cutText([]global.Cut{*a.sized}, elem) + measuredText(means)
	}
	if n := a.whole(); n > 0 && a.kinds == nil {
		found.Rule += fmt.Sprintf("no rule is known: equal shares of the %d bytes that all ranks own, and a law of what else they held on %s", n, counted(means))
		return text + fmt.Sprintf("    whole: %d\n", n) + measuredText(means)
	}
	found.Rule += fmt.Sprintf("no rule is known: a law of the sizes seen on %s", counted(means))
	for i := range a.seen {
		if bytes := held(&a.seen[i]); float64(slices.Max(bytes)) > uneven*float64(means[a.nps[i]]) {
			found.Rule += fmt.Sprintf(", as their mean: of %d ranks, each held %d to %d bytes", a.nps[i], slices.Min(bytes), slices.Max(bytes))
			break
		}
	}
	return text + measuredText(means)
}

// whole is the bytes of the cells that the ranks own, where they declared which: as many in all runs.
// It is 0 if that is not so.
func (a *arrayOf) whole() (bytes int64) {
	for i := range a.seen {
		s, sum := &a.seen[i], int64(0)
		if len(s.Parts) != len(s.Bytes) || slices.Contains(s.Parts, nil) {
			return 0
		}
		for _, p := range s.Parts {
			sum += p.Own() * p.Elem
		}
		if i > 0 && sum != bytes {
			return 0
		}
		bytes = sum
	}
	return bytes
}

func measuredText(means map[int]int64) string {
	var points []string
	for _, m := range measuredPoints(means) {
		points = append(points, fmt.Sprintf("%d: %d", m.NP, m.Bytes))
	}
	return "    measured: {" + strings.Join(points, ", ") + "}\n"
}

func counted(means map[int]int64) string {
	var list []string
	for _, m := range measuredPoints(means) {
		list = append(list, strconv.Itoa(m.NP))
	}
	return strings.Join(list, ", ") + " ranks"
}
