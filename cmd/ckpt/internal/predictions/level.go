package predictions

import (
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/predict"
	"ckpt/predict/eval"
)

// ofMemory are the flags of predict size that are for images of the whole memory.
var ofMemory = []string{"model", "engine", "codec", "layout", "async", "mpi", "io", "law", "vary", "manager-files", "plot"}

// predictSaved predicts a checkpoint at application level.
func (o *jobOptions) predictSaved(g *ui.Globals, f *pflag.FlagSet, app string) error {
	for _, name := range ofMemory {
		if f.Changed(name) {
			return ui.BadUsage(fmt.Sprintf("--level application, and --%s: that is for images of the whole memory", name), "leave one of them out")
		}
	}
	inst, err := dataset.ParseApp(app, o.np)
	if err != nil {
		return err
	}
	mapping, err := o.Resolve(inst.NP)
	if err != nil {
		return err
	}
	var buffer int64
	if o.buffer != "" {
		if buffer, err = ui.ParseSize("--buffer", o.buffer); err != nil {
			return err
		}
	}
	s, err := predict.ApplicationOf(inst, mapping, o.aggregators, buffer)
	if err == nil {
		err = eval.NoteMeasured(s)
	}
	if err != nil {
		return err
	}
	return g.Show(s, func() error { return printSaved(g, s) })
}

func printSaved(g *ui.Globals, s *predict.ApplicationSize) error {
	exact := func(bytes int64) string { return strconv.FormatFloat(float64(bytes)/mebi, 'f', 3, 64) }
	var rows [][]string
	for _, a := range s.Arrays {
		by := "each rank, its own"
		if a.Replicated {
			by = "rank 0, for all"
		}
		rows = append(rows, []string{a.Name, by, exact(a.Rank), exact(a.Stored)})
	}
	if s.Header > 0 {
		rows = append(rows, []string{"header", "", "", exact(s.Header)})
	}
	if err := g.Table([]string{"array", "stored by", "|MiB of a rank", "|stored MiB"}, rows); err != nil {
		return err
	}
	text := fmt.Sprintf("total %s MiB in 1 file, %d to %d writes by %s with a buffer of %s MiB\n", exact(s.Total), s.Writes, s.WritesHigh,
		ui.Count(s.Aggregators, "aggregator"), decimal(float64(s.Buffer)/mebi))
	if !g.Quiet {
		text += fmt.Sprintf("computed anew after a restart: %s MiB of each rank\nmodel %s\nbasis %s\n", exact(s.Recomputed), s.Model, s.Basis)
		if s.Note != "" {
			text += "note  " + s.Note + "\n"
		}
	}
	return g.Printf("%s", text)
}

// wholeMemory refuses a job whose checkpoints hold the arrays that have to be saved: what
// they store says nothing about the zones of a process.
func wholeMemory(j *image.Job) error {
	spec, err := job.ReadSpec(j)
	if err != nil || !spec.SavesArrays() {
		return err
	}
	return ui.BadUsage(fmt.Sprintf("job %s takes checkpoints at application level: models are of the whole memory", j.Name()),
		fmt.Sprintf("ckpt predict size %s --level application needs no model", spec.App))
}
