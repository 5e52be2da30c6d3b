package dataset

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	yaml "go.yaml.in/yaml/v3"

	"ckpt/zones/global"
)

// documentGlobal describes an array that all ranks hold together. In shape, block and
// halo p is the number of ranks when the job was launched, in grid that of the run: what
// the array is does not change when the job restarts on another number of ranks.
type documentGlobal struct {
	Shape        texts `yaml:"shape"`
	Distribution texts `yaml:"distribution"`
	Block        texts `yaml:"block"`
	Grid         texts `yaml:"grid"`
	Halo         texts `yaml:"halo"`
}

// texts is one text for all axes, or one for each.
type texts []string

func (t *texts) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*t = texts{n.Value}
		return nil
	}
	return n.Decode((*[]string)(t))
}

// forAxes returns a text for each axis, nil if none is given.
func (t texts) forAxes(n int) ([]string, error) {
	switch len(t) {
	case 0, n:
		return t, nil
	case 1:
		return slices.Repeat(t, n), nil
	}
	return nil, fmt.Errorf("%d values for %d axes", len(t), n)
}

// globalSpec is a documentGlobal whose expressions are parsed.
type globalSpec struct {
	kinds                    []global.Kind
	shape, block, grid, halo []*expression
}

func (g *documentGlobal) parse() (*globalSpec, error) {
	n := len(g.Shape)
	if n == 0 || n > global.MaxAxes {
		return nil, fmt.Errorf("shape has %d axes (want 1 to %d)", n, global.MaxAxes)
	}
	out := &globalSpec{}
	for _, field := range []struct {
		name  string
		texts texts
		to    *[]*expression
	}{{"shape", g.Shape, &out.shape}, {"block", g.Block, &out.block}, {"grid", g.Grid, &out.grid}, {"halo", g.Halo, &out.halo}} {
		list, err := field.texts.forAxes(n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field.name, err)
		}
		for _, text := range list {
			e, err := parseExpression(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", field.name, err)
			}
			*field.to = append(*field.to, e)
		}
	}
	kinds, err := g.Distribution.forAxes(n)
	if err != nil {
		return nil, fmt.Errorf("distribution: %w", err)
	}
	for _, k := range kinds {
		if !slices.Contains(global.Kinds(), global.Kind(k)) {
			return nil, fmt.Errorf("distribution %q is unknown (want block, cyclic or block-cyclic)", k)
		}
		out.kinds = append(out.kinds, global.Kind(k))
	}
	return out, nil
}

// array evaluates the description: launched are the parameters at launch, now those of
// the run.
func (g *globalSpec) array(elem int, launched, now map[string]int64) (*global.Array, error) {
	a := &global.Array{Elem: int64(elem)}
	var err error
	if a.Shape, err = sizes(g.shape, launched); err != nil {
		return nil, fmt.Errorf("shape: %w", err)
	}
	if a.Halo, err = sizes(g.halo, launched); err != nil {
		return nil, fmt.Errorf("halo: %w", err)
	}
	blocks, err := sizes(g.block, launched)
	if err != nil {
		return nil, fmt.Errorf("block: %w", err)
	}
	if g.kinds != nil || blocks != nil {
		a.Dims = make([]global.Dim, len(a.Shape))
	}
	for i := range a.Dims {
		a.Dims[i].Kind = global.Block
		if g.kinds != nil {
			a.Dims[i].Kind = g.kinds[i]
		}
		if blocks != nil && a.Dims[i].Kind != global.Cyclic {
			a.Dims[i].Block = blocks[i]
		}
	}
	grid, err := sizes(g.grid, now)
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
	params := maps.Clone(c.params)
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
	if a.global == nil {
		n, err := a.count.size(inst.Params)
		if err != nil {
			err = fmt.Errorf("count: %w", err)
		}
		return n, nil, err
	}
	desc, err := a.global.array(a.elem.Size(), launched, inst.Params)
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

// Of returns the array as a rank has it: Count is that of the rank.
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
