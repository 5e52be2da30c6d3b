package dataset

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	yaml "go.yaml.in/yaml/v3"

	"ckpt/zones/global"
)

// A globalSpec describes an array that all ranks hold together. In shape, block and
// halo p is the number of ranks when the job was launched, in grid in this run: what
// the array is does not change when the job restarts on another number of ranks.
type globalSpec struct {
	Shape        perAxis[*expression] `yaml:"shape"`
	Distribution perAxis[global.Kind] `yaml:"distribution"`
	Block        perAxis[*expression] `yaml:"block"`
	Grid         perAxis[*expression] `yaml:"grid"`
	Halo         perAxis[*expression] `yaml:"halo"`
	// Margins are what memory has along each axis beside that, in a program.
	Margins perAxis[global.Margin] `yaml:"margins"`
	// Remainder says which ranks have more where blocks are uneven, Order along which axis of
	// the grid ranks run slowest, then slower, …
	Remainder perAxis[global.Rest] `yaml:"remainder"`
	Order     []int                `yaml:"order"`
	// Or has other rules that agree with what is known of the array.
	Or []globalRule `yaml:"or"`
}

// A globalRule replaces parts of the description of an array.
type globalRule struct {
	Shape     perAxis[*expression] `yaml:"shape"`
	Grid      perAxis[*expression] `yaml:"grid"`
	Remainder perAxis[global.Rest] `yaml:"remainder"`
	Order     []int                `yaml:"order"`
}

// with is the description with another rule.
func (g globalSpec) with(rule globalRule) *globalSpec {
	if rule.Shape != nil {
		g.Shape = rule.Shape
	}
	if rule.Grid != nil {
		g.Grid = rule.Grid
	}
	if rule.Remainder != nil {
		g.Remainder = rule.Remainder
	}
	if rule.Order != nil {
		g.Order = rule.Order
	}
	g.Or = nil
	return &g
}

// perAxis is one value for all axes, or one for each.
type perAxis[T any] []T

func (p *perAxis[T]) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*p = make([]T, 1)
		return n.Decode(&(*p)[0])
	}
	return n.Decode((*[]T)(p))
}

func (p *perAxis[T]) spread(name string, n int) error {
	switch len(*p) {
	case 0, n:
	case 1:
		*p = slices.Repeat(*p, n)
	default:
		return fmt.Errorf("%s: %d values for %d axes", name, len(*p), n)
	}
	return nil
}

func (g *globalSpec) check() error {
	n := len(g.Shape)
	if n == 0 || n > global.MaxAxes {
		return fmt.Errorf("shape has %d axes (want 1 to %d)", n, global.MaxAxes)
	}
	for _, k := range g.Distribution {
		if !slices.Contains(global.Kinds(), k) {
			return fmt.Errorf("distribution %q is unknown (want block, cyclic or block-cyclic)", k)
		}
	}
	if len(g.Or) > maxItems {
		return fmt.Errorf("or: more than %d rules", maxItems)
	}
	for i := range g.Or {
		rule := &g.Or[i]
		if rule.Shape != nil && len(rule.Shape) != n {
			return fmt.Errorf("or: shape has %d axes, want %d", len(rule.Shape), n)
		}
		if err := errors.Join(rule.Grid.spread("grid", n), rule.Remainder.spread("remainder", n)); err != nil {
			return fmt.Errorf("or: %w", err)
		}
	}
	return errors.Join(g.Block.spread("block", n), g.Grid.spread("grid", n),
		g.Halo.spread("halo", n), g.Margins.spread("margins", n), g.Distribution.spread("distribution", n), g.Remainder.spread("remainder", n))
}

// array evaluates the description: launched are the parameters at launch, now in
// this run.
func (g *globalSpec) array(elem int, launched, now map[string]int64) (*global.Array, error) {
	a := &global.Array{Elem: int64(elem), Order: g.Order, Margins: g.Margins}
	var err error
	if a.Shape, err = sizes(g.Shape, launched); err != nil {
		return nil, fmt.Errorf("shape: %w", err)
	}
	if a.Halo, err = sizes(g.Halo, launched); err != nil {
		return nil, fmt.Errorf("halo: %w", err)
	}
	blocks, err := sizes(g.Block, launched)
	if err != nil {
		return nil, fmt.Errorf("block: %w", err)
	}
	if g.Distribution != nil || blocks != nil || g.Remainder != nil {
		a.Dims = make([]global.Dim, len(a.Shape))
	}
	for i := range a.Dims {
		a.Dims[i].Kind = global.Block
		if g.Distribution != nil {
			a.Dims[i].Kind = g.Distribution[i]
		}
		if blocks != nil && a.Dims[i].Kind != global.Cyclic {
			a.Dims[i].Block = blocks[i]
		}
		if g.Remainder != nil {
			a.Dims[i].Rest = g.Remainder[i]
		}
	}
	grid, err := sizes(g.Grid, now)
	if err != nil {
		return nil, fmt.Errorf("grid: %w", err)
	}
	for _, n := range grid {
		a.Grid = append(a.Grid, int(n))
	}
	return a, nil
}

func sizes(list []*expression, params map[string]int64) ([]int64, error) {
	var out []int64
	for _, e := range list {
		n, err := e.size(params)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// paramsOf evaluates the parameters of a class for np ranks.
func (w *Workload) paramsOf(c class, np int) (map[string]int64, error) {
	params := maps.Clone(c.Params)
	if params == nil {
		params = map[string]int64{}
	}
	params["p"] = int64(np)
	for _, d := range w.derived {
		v, err := d.expr.whole(params)
		if err != nil {
			return nil, fmt.Errorf("derived %s: %w", d.name, err)
		}
		params[d.name] = v
	}
	return params, nil
}

// layouts returns where the elements of an array are that all ranks hold together, under its
// description and then under each other rule.
func (a *arraySpec) layouts(inst *Instance, launched map[string]int64) ([]*global.Layout, error) {
	rules := []*globalSpec{a.Global}
	for _, rule := range a.Global.Or {
		rules = append(rules, a.Global.with(rule))
	}
	var list []*global.Layout
	for i, rule := range rules {
		desc, err := rule.array(a.Elem.Size(), launched, inst.Params)
		if err != nil {
			return nil, fmt.Errorf("global: %w", err)
		}
		desc.Empty = inst.Workload.IsProgram()
		if desc.Margins != nil && !desc.Empty {
			return nil, fmt.Errorf("global: margins are of programs: kernel %s has none", inst.Workload.Kernel)
		}
		if err := desc.Check(); err != nil {
			return nil, fmt.Errorf("global: %w", err)
		}
		layout, err := desc.On(inst.NP)
		if err != nil && i > 0 {
			continue // another rule need not hold for any number of ranks
		}
		if err != nil {
			return nil, fmt.Errorf("global: %w", err)
		}
		list = append(list, layout)
	}
	return list, nil
}

// hold finds how many elements the array has in the memories of the ranks.
func (out *Array) hold(a *arraySpec, inst *Instance, launched map[string]int64) error {
	switch {
	case a.Global != nil:
		layouts, err := a.layouts(inst, launched)
		if err != nil {
			return err
		}
		out.Layout, out.Others, out.Count = layouts[0], layouts[1:], layouts[0].Most()
		if a.Measured != nil {
			out.Measured = measuredPoints(a.Measured)
		}
	case a.Measured != nil:
		out.Measured = measuredPoints(a.Measured)
		for i := range out.Measured {
			out.Measured[i].Whole = a.Whole
		}
		bytes := measuredAt(out.Measured, inst.NP)
		if bytes > math.MaxInt64/4 {
			return fmt.Errorf("measured: the sizes lead to %.3g bytes on %d ranks", bytes, inst.NP)
		}
		out.Count, out.holders = int64(bytes)/int64(a.Elem.Size()), inst.holders(a.Kind)
	default:
		n, err := a.Count.size(inst.Params)
		if err != nil {
			return fmt.Errorf("count: %w", err)
		}
		out.Count, out.holders = n, inst.holders(a.Kind)
		if a.Blocks != nil {
			out.Blocks = sync.OnceValues(func() (*Blocks, error) { return a.Blocks.of(a.Elem.Size(), n, launched, inst.Params) })
		}
	}
	return nil
}

// InstanceOn evaluates the spec for a job that was launched on so many ranks and runs on
// np: the arrays that all ranks hold together stay what they were.
func (w *Workload) InstanceOn(className string, launched, np int) (*Instance, error) {
	inst, err := w.instanceOn(className, launched, np)
	if errors.Is(err, global.ErrTooManyRanks) {
		return nil, &SpecError{Reason: BadProcs, Subject: fmt.Sprintf("%s.%s", w.Name, className),
			Problem: fmt.Sprintf("%d processes are too many: %v", np, errors.Unwrap(err)), hint: "choose another process count or a larger class" + Nearest(np, func(n int) bool {
				was := launched
				if launched == np {
					was = n
				}
				_, err := w.instanceOn(className, was, n)
				return err == nil
			}), err: err}
	}
	return inst, err
}

// Nearest names the number of ranks next to np that is possible.
func Nearest(np int, possible func(np int) bool) string {
	for away := 1; away < 1<<12; away++ {
		for _, n := range []int{np - away, np + away} {
			if n > 0 && possible(n) {
				return fmt.Sprintf(": the nearest possible is %d", n)
			}
		}
	}
	return ""
}

// Global reports whether ranks hold arrays together.
func (inst *Instance) Global() bool { return slices.ContainsFunc(inst.Arrays, Array.Shared) }

// Of returns the array as a rank has it: Count is for the rank.
func (a Array) Of(rank int) Array {
	switch {
	case a.Layout != nil:
		a.Count = a.Layout.Elements(rank)
	case !a.holders.has(rank):
		a.Count = 0
	}
	return a
}

// Total returns the bytes of the array in the memories of np ranks.
func (a Array) Total(np int) int64 {
	if a.Layout != nil {
		return a.Layout.All() * int64(a.Elem.Size())
	}
	return a.Bytes() * int64(a.holders.of(np))
}

// TotalBytes returns the size of the data zones of all ranks.
func (inst *Instance) TotalBytes() int64 {
	total := inst.Runtime * int64(inst.NP)
	for _, a := range inst.Arrays {
		total += a.Total(inst.NP)
	}
	return total
}

// A blocksSpec says where in the memories of the ranks the elements of an array are that all ranks
// hold together, where a rank has several blocks of it, or room for more than its own. In at, r is
// the rank and c the number of its block. Shape is of the launch, as in a globalSpec.
type blocksSpec struct {
	Shape  perAxis[*expression] `yaml:"shape"`
	Each   *expression          `yaml:"each"`   // blocks of a rank; nil: 1
	Places perAxis[*expression] `yaml:"places"` // blocks along each axis
	At     perAxis[*expression] `yaml:"at"`     // the place of a block along each axis
	Room   perAxis[*expression] `yaml:"room"`   // elements along each axis in memory
	Halo   perAxis[*expression] `yaml:"halo"`   // of them before the first; nil: none
	// Copies is how many times all ranks together hold the array: rank r what rank
	// r % (p/copies) does. nil: once.
	Copies    *expression          `yaml:"copies"`
	Remainder perAxis[global.Rest] `yaml:"remainder"`
}

func (b *blocksSpec) check() error {
	n := len(b.Shape)
	if n == 0 || n > global.MaxAxes {
		return fmt.Errorf("shape has %d axes (want 1 to %d)", n, global.MaxAxes)
	}
	for name, list := range map[string]*perAxis[*expression]{"shape": &b.Shape, "places": &b.Places, "at": &b.At, "room": &b.Room, "halo": &b.Halo} {
		if len(*list) == 0 && name != "halo" {
			return fmt.Errorf("%s: a value is missing", name)
		}
		if err := list.spread(name, n); err != nil {
			return err
		}
	}
	return b.Remainder.spread("remainder", n)
}

// maxBlocks bounds the blocks of a rank.
const maxBlocks = 1 << 12

// Blocks say what each rank holds of an array of all ranks in an array of its own.
type Blocks struct {
	spec   *blocksSpec
	params map[string]int64
	layout *global.Layout // of the blocks, each as if it were a rank
	room   []int64
	bytes  int64 // of an array of a rank
	whole  int64 // bytes of a block with all its room
	before int64 // bytes before its first own element
	each   int64
	ranks  int // that hold the array once; others have copies
}

// of evaluates the description.
func (b *blocksSpec) of(elem int, count int64, launched, now map[string]int64) (*Blocks, error) {
	out := &Blocks{spec: b, params: now, bytes: count * int64(elem), whole: int64(elem)}
	var copies int64
	var shape, places, halo []int64
	err := errors.Join(one(b.Each, now, maxBlocks, &out.each), one(b.Copies, now, now["p"], &copies), list(b.Shape, launched, &shape),
		list(b.Places, now, &places), list(b.Room, now, &out.room), list(b.Halo, now, &halo))
	if err != nil {
		return nil, err
	}
	out.ranks = int(now["p"] / copies)
	if out.layout, err = b.cut(shape, places, elem); err != nil {
		return nil, err
	}
	for i, n := range slices.Backward(out.room) {
		if halo != nil {
			out.before += halo[i] * out.whole
		}
		if n < 1 || n > count || out.whole > out.bytes {
			return nil, fmt.Errorf("room: %d elements along axis %d of an array of %d", n, i, count)
		}
		out.whole *= n
	}
	return out, nil
}

func one(e *expression, params map[string]int64, most int64, to *int64) error {
	*to = 1
	if e == nil {
		return nil
	}
	n, err := e.size(params)
	if err == nil && (n < 1 || n > most) {
		err = fmt.Errorf("expression %q is %d (want 1 to %d)", e.text, n, most)
	}
	*to = max(1, n)
	return err
}

func list(of []*expression, params map[string]int64, to *[]int64) (err error) {
	*to, err = sizes(of, params)
	return err
}

// cut cuts the array into its blocks.
func (b *blocksSpec) cut(shape, places []int64, elem int) (*global.Layout, error) {
	a := &global.Array{Shape: shape, Elem: int64(elem), Empty: true}
	for _, rest := range b.Remainder {
		a.Dims = append(a.Dims, global.Dim{Kind: global.Block, Rest: rest})
	}
	all := 1
	for i, n := range places {
		if n < 1 || n > maxProcs || all > math.MaxInt32 {
			return nil, fmt.Errorf("places: %d blocks along axis %d", n, i)
		}
		a.Grid, all = append(a.Grid, int(n)), all*int(n)
	}
	return a.On(all)
}

// Of returns what a rank holds.
func (b *Blocks) Of(rank int) ([]*global.Part, error) {
	params := maps.Clone(b.params)
	params["r"] = int64(rank % b.ranks)
	var parts []*global.Part
	for c := range b.each {
		params["c"] = c
		place, err := sizes(b.spec.At, params)
		if err != nil {
			return nil, fmt.Errorf("at: %w", err)
		}
		at := make([]int, len(place))
		for i, k := range place {
			if n := b.layout.Grid()[i]; k >= int64(n) {
				return nil, fmt.Errorf("at: block %d of rank %d is at %d of %d along axis %d", c, rank, k, n, i)
			}
			at[i] = int(k)
		}
		part := b.layout.Part(b.layout.RankAt(at)).Within(b.room, c*b.whole+b.before)
		if err := part.CheckRoom(b.bytes); err != nil {
			return nil, fmt.Errorf("block %d of rank %d: %w", c, rank, err)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// Held returns what the ranks hold that have the array once. It fails if that is not each element
// once.
func (b *Blocks) Held() (held []global.Held, err error) {
	for rank := range b.ranks {
		parts, err := b.Of(rank)
		if err != nil {
			return nil, err
		}
		for _, p := range parts {
			held = append(held, global.Held{Rank: rank, Part: p})
		}
	}
	return held, global.CheckTiles(held)
}

// Copied reports whether a lower rank holds what a rank does.
func (b *Blocks) Copied(rank int) bool { return rank >= b.ranks }

// Shared reports whether all ranks hold the array together.
func (a Array) Shared() bool { return a.Layout != nil || a.Blocks != nil }

// CheckBlocks reports why the blocks of all ranks do not make up an array.
func (inst *Instance) CheckBlocks() error {
	for _, a := range inst.Arrays {
		if a.Blocks == nil {
			continue
		}
		b, err := a.Blocks()
		if err == nil {
			_, err = b.Held()
		}
		if err != nil {
			return &SpecError{Reason: BadSpec, Subject: "spec " + inst.String(), Problem: fmt.Sprintf("array %s: blocks: %v", a.Name, err),
				hint: "correct the expression, or choose another class or process count", err: err}
		}
	}
	return nil
}
