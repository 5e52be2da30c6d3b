package predictions

import (
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/predict"
	"ckpt/predict/eval"
	"ckpt/predict/fit"
	"ckpt/predict/service"
	"cmp"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
)

// storingOptions are the flags that say whose files are predicted, and how they are
// written.
type storingOptions struct {
	engine, codec, layout string
	level                 string // "" is all of the memory
	async                 ui.InFlight
}

// addLevelFlag adds the flag of commands that predict what a checkpoint holds.
func (o *storingOptions) addLevelFlag(f *pflag.FlagSet) {
	f.StringVar(&o.level, "level", string(job.System), "what ckpt stores: system (all of the memory) or application (the arrays that the workload saves)")
	ui.Choices(f, "level", string(job.System), string(job.Application))
}

func (o *storingOptions) saved() bool { return o.level == string(job.Application) }

// codecChoices are the codecs of both engines.
var codecChoices = append([]string{"auto"}, fit.Codecs()...)

func (o *storingOptions) addFlags(f *pflag.FlagSet) {
	addEngineFlag(f, &o.engine)
	f.StringVar(&o.codec, "codec", "", "compression: auto, none, s2, zstd, gzip (default none, or that of the measured jobs)")
	ui.Choices(f, "codec", codecChoices...)
	f.StringVar(&o.layout, "layout", "", "files of ckpt: per-rank, aggregated or shared (default per-rank)")
	ui.Choices(f, "layout", "per-rank", "aggregated", "shared")
	o.async.AddFlag(f, "ckpt writes while the application computes; with a number, while up to N checkpoints are in flight")
}

func addEngineFlag(f *pflag.FlagSet, engine *string) {
	f.StringVar(engine, "engine", "", "checkpointer that writes: ckpt or dmtcp (default that of the model's measurements)")
	ui.Choices(f, "engine", "ckpt", "dmtcp")
}

// own reports whether the files of ckpt are predicted.
func (o *storingOptions) own(m *predict.Model) (bool, error) {
	if o.saved() && o.engine == "" {
		return true, nil
	}
	engine, err := m.EngineOf(dataset.Engine(o.engine))
	switch level := job.Level(o.level); {
	case level != "" && level != job.System && level != job.Application:
		return false, ui.BadUsage(fmt.Sprintf("level %q is unknown", o.level), "--level takes system or application")
	case o.saved() && err == nil && engine != dataset.Ckpt:
		return false, ui.BadUsage("--level application: DMTCP stores all of the memory", "leave --engine dmtcp out")
	}
	if err == nil && engine != dataset.Ckpt && (o.layout != "" || o.async > 0) {
		return false, ui.BadUsage("--layout and --async are for files of ckpt", "add --engine ckpt")
	}
	return engine == dataset.Ckpt, err
}

// storing is how ckpt writes files.
func (o *jobOptions) storing() predict.Storing {
	s := predict.Storing{Codec: o.codec, Layout: o.layout, Aggregators: o.aggregators, Saved: o.saved()}
	s.Async, s.InFlight = o.async.Setting()
	return s
}

// requestFor is the job that the flags describe, for an engine. Aggregators of files of ckpt
// are not the application's.
func (o *jobOptions) requestFor(m *predict.Model, app string, engine dataset.Engine) (predict.Request, error) {
	plain := *o
	if engine == dataset.Ckpt && o.managers {
		return predict.Request{}, ui.BadUsage("--manager-files is for images of dmtcp", "add --engine dmtcp, or leave it out")
	}
	if engine == dataset.Ckpt && o.layout != "" {
		plain.aggregators = 0
	}
	return plain.request(m, app)
}

func printStored(g *ui.Globals, s *predict.Stored) error {
	row := func(name string, c *service.Checkpoint) []string {
		return []string{name, strconv.Itoa(c.Files), ui.Bytes(c.Data.Value), ui.Bytes(c.Shared.Value), ui.Bytes(c.Overhead.Value), ui.Bytes(c.Total.Value), amount(c.Total)}
	}
	explainEngine(g, dataset.Ckpt, ", codec "+s.Codec+", layout "+s.Layout)
	if err := g.Table([]string{"checkpoint", "|files", "|data", "|shared", "|index", "|stored", "|95 %"},
		[][]string{row("full", &s.Full), row("incremental", &s.Next)}); err != nil {
		return err
	}
	text := ""
	if s.Library.Value > 0 {
		text = fmt.Sprintf("library %s once for the job, 95 %% %s\n", ui.Bytes(s.Library.Value), amount(s.Library))
	}
	return g.Printf("%s%s%s", text, rankLines(s.Ranks), explainStored(g, s, s.Row(false).Note))
}

func printStoredTime(g *ui.Globals, s *predict.Stored) error {
	row := func(name string, c *service.Checkpoint, t *service.Time) []string {
		return []string{name, ui.Bytes(c.Total.Value), ui.Seconds(t.Coordination), ui.Seconds(t.Management), ui.Seconds(t.Storage), ui.Seconds(t.Total.Value),
			times(t.Total.Low, t.Total.High), ui.Seconds(t.Pause.Value)}
	}
	explainEngine(g, dataset.Ckpt, ", codec "+s.Codec+", layout "+s.Layout)
	if err := g.Table([]string{"checkpoint", "|stored", "~|coordination", "~|management", "~|storage", "|latency", "|95 %", "|pause"},
		[][]string{row("full", &s.Full, &s.FullTime), row("incremental", &s.Next, &s.NextTime)}); err != nil {
		return err
	}
	lag := ""
	if s.Async {
		l := s.NextTime.Total
		lag = fmt.Sprintf("durability lag %s of a checkpoint that does not wait for another, 95 %% %s", ui.Seconds(l.Value), times(l.Low, l.High))
		if n := float64(s.InFlight); n > 1 {
			lag += fmt.Sprintf("; %s, %s, with %s in flight", ui.Seconds(n*l.Value), times(n*l.Low, n*l.High), ui.Count(s.InFlight, "checkpoint"))
		}
		lag += "\n"
	}
	for _, of := range []struct {
		kind string
		predict.Objects
	}{{"full", s.FullObjects}, {"incremental", s.NextObjects}} {
		for _, line := range of.Lines() {
			lag += fmt.Sprintf("%s, %s: %s\n", line[0], of.kind, line[1])
		}
	}
	return g.Printf("%s%s", lag, explainStored(g, s, s.Note))
}

func explainStored(g *ui.Globals, s *predict.Stored, note string) string {
	if g.Quiet {
		return ""
	}
	text := fmt.Sprintf("model  %s\nbasis  %s\n", s.Model, s.Basis)
	if note != "" {
		text += "note   " + note + "\n"
	}
	return text
}

func amount(a fit.Range) string { return ui.Between(a.Low, a.High, ui.Bytes) }

// explainEngine says first whose checkpoints are predicted, and how: the two engines store
// very different amounts.
func explainEngine(g *ui.Globals, e dataset.Engine, way string) {
	if g.Quiet {
		return
	}
	is, other := "an image of each process, with all of its memory", "--engine ckpt predicts what ckpt stores"
	if e == dataset.Ckpt {
		is, other = "what ckpt stores", "--engine dmtcp predicts an image of each process, with all of its memory"
	}
	g.Printf("engine %s%s: %s (%s)\n", cmp.Or(e, dataset.DMTCP), way, is, other)
}

// ofCkpt are the flags that ask what ckpt stores at application level, in place of the file that
// an application writes itself; ofMemory are those for images of the whole memory.
var (
	ofCkpt   = []string{"model", "engine", "codec", "layout"}
	ofMemory = []string{"mpi", "io", "law", "manager-files", "plot"}
)

// checkMemory refuses flags for images of the whole memory at application level.
func checkMemory(f *pflag.FlagSet) error {
	level := f.Lookup("level")
	if name := changed(f, ofMemory...); name != "" && level != nil && level.Value.String() == string(job.Application) {
		return ui.BadUsage(fmt.Sprintf("--level application, and --%s: that is for images of the whole memory", name), "leave one of them out")
	}
	return nil
}

// predictSaved predicts a checkpoint at application level.
func (o *jobOptions) predictSaved(g *ui.Globals, app string) error {
	s, err := o.savedSize(app)
	if err == nil {
		err = eval.NoteMeasured(s)
	}
	if err != nil {
		return err
	}
	return g.Show(s, func() error { return printSaved(g, s) })
}

// savedSize is what an application stores that saves the arrays it has to.
func (o *jobOptions) savedSize(app string) (*predict.ApplicationSize, error) {
	m, err := o.load(app)
	if err != nil {
		return nil, err
	}
	r, err := o.request(m, app)
	if err == nil && r.App.Inst == nil {
		_, err = dataset.ParseApp(app, o.np)
	}
	if err != nil {
		return nil, err
	}
	return predict.ApplicationOf(r.App.Inst, r.Mapping, o.aggregators, int64(r.BufferMiB*mebi))
}

func printSaved(g *ui.Globals, s *predict.ApplicationSize) error {
	exact := func(bytes int64) string { return ui.Bytes(float64(bytes)) }
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
	if err := g.Table([]string{"array", "stored by", "|of a rank", "|stored"}, rows); err != nil {
		return err
	}
	text := fmt.Sprintf("total %s in 1 file, %d to %d writes by %s with a buffer of %s\n", exact(s.Total), s.Writes, s.WritesHigh,
		ui.Count(s.Aggregators, "aggregator"), ui.Bytes(float64(s.Buffer)))
	text += rankLines(s.Ranks)
	if !g.Quiet {
		text += fmt.Sprintf("computed anew after a restart: %s of each rank\nmodel %s\nbasis %s\n", exact(s.Recomputed), s.Model, s.Basis)
		if s.Note != "" {
			text += "note  " + s.Note + "\n"
		}
	}
	return g.Printf("%s", text)
}
