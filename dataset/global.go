package dataset

import (
	"errors"
	"fmt"
	"maps"
	"slices"

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
	for name, list := range map[string][]*expression{
		"shape": g.Shape, "block": g.Block, "grid": g.Grid, "halo": g.Halo} {
		if slices.Contains(list, nil) {
			return fmt.Errorf("%s: a value is missing", name)
		}
	}
	return errors.Join(g.Block.spread("block", n), g.Grid.spread("grid", n),
		g.Halo.spread("halo", n), g.Distribution.spread("distribution", n))
}

// array evaluates the description: launched are the parameters at launch, now in
// this run.
func (g *globalSpec) array(elem int, launched, now map[string]int64) (*global.Array, error) {
	a := &global.Array{Elem: int64(elem)}
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
	if g.Distribution != nil || blocks != nil {
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

// size returns the number of elements of an array in the memory of rank 0, which has the
// most, and, of one that all ranks hold together, where they are.
func (a *arraySpec) size(inst *Instance, launched map[string]int64) (int64, *global.Layout, error) {
	if a.Global == nil {
		n, err := a.Count.size(inst.Params)
		if err != nil {
			err = fmt.Errorf("count: %w", err)
		}
		return n, nil, err
	}
	desc, err := a.Global.array(a.Elem.Size(), launched, inst.Params)
	if err != nil {
		return 0, nil, fmt.Errorf("global: %w", err)
	}
	layout, err := desc.On(inst.NP)
	if err != nil {
		return 0, nil, fmt.Errorf("global: %w", err)
	}
	return layout.Elements(0), layout, nil
}

// InstanceOn evaluates the spec for a job that was launched on so many ranks and runs on
// np: the arrays that all ranks hold together stay what they were.
func (w *Workload) InstanceOn(className string, launched, np int) (*Instance, error) {
	inst, err := w.instanceOn(className, launched, np)
	if errors.Is(err, global.ErrTooManyRanks) {
		return nil, &SpecError{Reason: BadProcs, Subject: fmt.Sprintf("%s.%s", w.Name, className),
			Problem: fmt.Sprintf("%d processes are too many: %v", np, errors.Unwrap(err)), hint: "choose a smaller process count or a larger class", err: err}
	}
	return inst, err
}

// Global reports whether ranks hold arrays together.
func (inst *Instance) Global() bool {
	return slices.ContainsFunc(inst.Arrays, func(a Array) bool { return a.Layout != nil })
}

// Of returns the array as a rank has it: Count is for the rank.
func (a Array) Of(rank int) Array {
	if a.Layout != nil {
		a.Count = a.Layout.Elements(rank)
	}
	return a
}

// Total returns the bytes of the array in the memories of np ranks.
func (a Array) Total(np int) int64 {
	if a.Layout != nil {
		return a.Layout.All() * int64(a.Elem.Size())
	}
	return a.Bytes() * int64(np)
}

// TotalBytes returns the size of the data zones of all ranks.
func (inst *Instance) TotalBytes() int64 {
	total := inst.Runtime * int64(inst.NP)
	for _, a := range inst.Arrays {
		total += a.Total(inst.NP)
	}
	return total
}
