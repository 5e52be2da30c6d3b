package predictions

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/dataset"
)

// programs is what the jobs of users' programs say of their arrays.
type programs struct {
	names []string // of the programs, in the order of the jobs
	class map[string]string
	of    map[string]*dataset.Description // by job; the same one for all jobs of a program
}

// A programRun is one job of a program.
type programRun struct {
	job       string
	arguments []string
	seen      dataset.SeenRun
}

// describe reads the arrays of the jobs that are of programs, and checks --spec.
func (o *fitOptions) describe(g *ui.Globals) error {
	runs, err := o.programRuns(g)
	if err != nil {
		return err
	}
	o.programs = programs{class: map[string]string{}, of: map[string]*dataset.Description{}}
	for _, name := range o.programs.order(runs) {
		class := o.class
		if class == "" {
			class = commonClass(runs[name])
		}
		var seen []dataset.SeenRun
		for _, r := range runs[name] {
			o.programs.class[r.job] = class
			seen = append(seen, r.seen)
		}
		d, err := dataset.Describe(name, class, seen)
		if err != nil {
			return ui.AsUsage(err)
		}
		for _, r := range runs[name] {
			o.programs.of[r.job] = d
		}
	}
	return o.checkSpec()
}

// programRuns reads the jobs that are of programs, by the name of the program.
func (o *fitOptions) programRuns(g *ui.Globals) (map[string][]programRun, error) {
	runs := map[string][]programRun{}
	for _, name := range o.jobs {
		j, err := g.OpenJob(name)
		if err != nil {
			return nil, err
		}
		spec, err := job.ReadSpec(j)
		if err != nil {
			return nil, err
		}
		if spec.Program == nil || spec.Origin != "" {
			continue
		}
		seen, err := job.ReadArrays(j)
		if err != nil {
			return nil, err
		}
		app := strings.ToLower(spec.App)
		runs[app] = append(runs[app], programRun{name, spec.Program.Arguments(), seen})
	}
	return runs, nil
}

// order notes the programs, sorted by name.
func (p *programs) order(runs map[string][]programRun) []string {
	for name := range runs {
		p.names = append(p.names, name)
	}
	slices.Sort(p.names)
	return p.names
}

// commonClass is the class of the arguments that all jobs have: numbers of steps, and whatever
// goes with the number of ranks, differ.
func commonClass(runs []programRun) string {
	var common []string
	for i, word := range runs[0].arguments {
		if !slices.ContainsFunc(runs, func(r programRun) bool {
			return len(r.arguments) != len(runs[0].arguments) || r.arguments[i] != word
		}) {
			common = append(common, word)
		}
	}
	return job.ClassOf(common)
}

func (o *fitOptions) checkSpec() error {
	if o.spec == "" {
		return nil
	}
	if len(o.programs.names) != 1 {
		return ui.BadUsage(fmt.Sprintf("--spec %s: the jobs are of %s", o.spec, ui.Count(len(o.programs.names), "program")),
			"name jobs of one program with --from-job: the workload of a simulated job is a file already")
	}
	if !dataset.IsPath(o.spec) {
		return ui.BadUsage(fmt.Sprintf("--spec %s: workload files end in .yaml", o.spec), "write --spec "+o.spec+".yaml")
	}
	return nil
}

// writeSpec writes the file of --spec, if there is one.
func (o *fitOptions) writeSpec(ctx context.Context, g *ui.Globals) error {
	if o.spec == "" {
		return nil
	}
	for _, d := range o.programs.of {
		return g.WriteFile(ctx, o.spec, func(w io.Writer) error {
			_, err := io.WriteString(w, d.Text)
			return err
		})
	}
	return nil
}

// A describedArray is an array of a program as --json prints it.
type describedArray struct {
	App   string `json:"app"`
	Class string `json:"class"`
	dataset.DescribedArray
}

func (p *programs) arrays() (list []describedArray) {
	seen := map[*dataset.Description]bool{}
	for _, name := range p.jobs() {
		d := p.of[name]
		if seen[d] {
			continue
		}
		seen[d] = true
		for _, a := range d.Arrays {
			list = append(list, describedArray{d.App, p.class[name], a})
		}
	}
	return list
}

func (p *programs) jobs() (names []string) {
	for name := range p.of {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// print says what is known of the arrays.
func (p *programs) print(g *ui.Globals) error {
	if g.Quiet {
		return nil
	}
	for _, a := range p.arrays() {
		if err := g.Printf("array %s: %s\n", a.Name, a.Rule); err != nil {
			return err
		}
	}
	return nil
}
