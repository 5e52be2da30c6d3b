package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/predictions"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/tune"
	"ckpt/dataset"
	"ckpt/image/codec"
	"ckpt/image/pfs"
	"ckpt/image/plan"
)

type tuneOptions struct {
	ui.Placement
	writePath
	storage ui.StorageOptions
	chosenTargets
	np                            int
	mpi, codec, objective, memory string
	model, level                  string
	async, incremental, following bool
	all                           bool
}

func newTuneCommand(g *ui.Globals) *cobra.Command {
	var o tuneOptions
	cmd := &cobra.Command{
		Use:   "tune APP",
		Short: "Find the settings with which a checkpoint costs least on a storage",
		Long: `Find the settings with which a checkpoint costs least on a described storage: layout,
strategy, aggregators, buffer, stripes, codec and --async. The command simulates
checkpoints (docs/STORAGE.md), and runs and writes nothing.

The flags of ckpt launch say what the others are compared with; without them that is
what ckpt launch does by itself. --objective says what is to be least:

  pause      the time for which the application stands still
  latency    the time until the checkpoint is durable
  bytes      what is stored

The last line has the flags for ckpt launch. Another setting is proposed only if it is
better by more than the description can be relied on. Before it the command says how
long a restart reads the best and the default: each rank reads and unpacks its own
bytes, as ckpt does, or aggregators read, unpack and send memory.`,
		Example: `  ckpt tune bt.C.64 --nodes 4 --on eos-spider2
  ckpt tune bt.C.64 --nodes 4 --on ./scratch.yaml --objective latency
  ckpt tune cg.B --np 32 --nodes 4 --on local-nvme --memory 1GiB --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ui.Positive(cmd, "np", "nodes"); err != nil {
				return err
			}
			defer g.Busy(cmd.CommandPath())()
			return runTune(cmd.Context(), g, &o, args[0])
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.np, "np", 0, "number of ranks, if APP does not have it")
	o.Placement.AddFlags(f)
	o.storage.AddFlags(f, "on", "find settings for this storage")
	o.chosenTargets.addFlag(f)
	f.StringVar(&o.objective, "objective", string(tune.Pause), "what is to be least: pause, latency or bytes")
	ui.Choices(f, "objective", string(tune.Pause), string(tune.Latency), string(tune.Bytes))
	f.StringVar(&o.memory, "memory", "", "memory of a node that buffers and copies may take, like 4GiB (default any)")
	f.StringVar(&o.mpi, "mpi", "mpich", "layout of the shared segment: mpich or openmpi")
	ui.Choices(f, "mpi", "mpich", "openmpi")
	f.StringVar(&o.level, "level", string(job.System), "what checkpoints hold: system (all of the memory) or application (the arrays that the workload saves)")
	ui.Choices(f, "level", string(job.System), string(job.Application))
	f.StringVar(&o.model, "model", "", "store what the jobs behind this model of ckpt predict fit did")
	f.BoolVar(&o.following, "following", false, "a checkpoint that stores only what has changed, not the first")
	f.StringVar(&o.codec, "codec", codec.UseAuto.String(), "compare with this compression: "+codec.Choices())
	ui.Choices(f, "codec", codec.Names()...)
	f.BoolVar(&o.incremental, "incremental", true, "store only bytes that changed since the previous checkpoint")
	f.BoolVar(&o.async, "async", false, "compare with checkpoints that are written from a copy of the memory")
	o.writePath.addFlags(f)
	o.addTuningFlags(f)
	f.BoolVar(&o.all, "all", false, "show all that was compared, not the best of each way to write")
	return cmd
}

// tuneCase is the checkpoint that the flags describe.
func (o *tuneOptions) tuneCase(app string) (tune.Case, error) {
	inst, err := dataset.ParseApp(app, o.np)
	if err != nil && o.model != "" {
		inst, err = predictions.Program(o.model, app, o.np)
	}
	if err != nil {
		return tune.Case{}, err
	}
	c := tune.Case{Instance: inst, Saved: o.level == string(job.Application), MPI: o.mpi, Codec: o.codec, Async: o.async, Incremental: o.incremental, Following: o.following}
	if c.Mapping, err = o.Resolve(inst.NP); err != nil {
		return c, err
	}
	if _, err := codec.ParseSetting(o.codec); err != nil {
		return c, &job.UsageError{Text: err.Error(), Fix: "--codec takes " + codec.Choices()}
	}
	if o.memory != "" {
		if c.Limit, err = ui.ParseSize("--memory", o.memory); err != nil {
			return c, err
		}
	}
	switch {
	case o.level != string(job.System) && !c.Saved:
		return c, ui.BadUsage(fmt.Sprintf("level %q is unknown", o.level), "--level takes system or application")
	case c.Saved && o.flags.Changed("mpi"):
		return c, ui.BadUsage("--level application, and --mpi: the application level stores no segments", "leave one of them out")
	case c.Saved && inst.SavedBytes() == 0:
		return c, ui.BadUsage(inst.String()+" saves no array", "leave --level out")
	}
	if c.Background, err = o.storage.Background(); err != nil {
		return c, err
	}
	if c.Settings, err = o.settings(); err != nil {
		return c, err
	}
	err = predictions.AddContents(o.model, &c)
	return c, err
}

func runTune(ctx context.Context, g *ui.Globals, o *tuneOptions, app string) error {
	objective, err := tune.ParseObjective(o.objective)
	if err != nil {
		return ui.BadUsage("--objective "+o.objective+": want pause, latency or bytes", "")
	}
	if err := o.combination(); err != nil {
		return err
	}
	c, err := o.tuneCase(app)
	if err != nil {
		return err
	}
	sys, err := o.storage.Load()
	if err != nil {
		return err
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	if c.Targets, err = o.chosenTargets.of(sys); err != nil {
		return err
	}
	choice, err := tune.Search(ctx, sys, c, objective)
	if err != nil {
		return o.usage(tuneError(err))
	}
	r := tunedOf(&c, &choice, sys)
	if err := errors.Join(r.Best.addRestarts(ctx, sys, c, &choice.Best), r.Default.addRestarts(ctx, sys, c, &choice.Default)); err != nil {
		return err
	}
	return g.Show(r, func() error { return printTuned(g, &r, &choice, &o.chosenTargets, o.all) })
}

// tuneError words the errors of a search for its flags.
func tuneError(err error) error {
	if limit, ok := asLimit(err); ok {
		return ui.BadUsage(fmt.Sprintf("--memory %s: even the settings given need %s", ui.FlagSize(limit.Limit), ui.MiB(limit.Need)+" MiB"),
			"give more memory, or a smaller --buffer")
	}
	return err
}

// tunedResult is what a search has found, as --json prints it.
type tunedResult struct {
	App       string         `json:"app"`
	NP        int            `json:"np"`
	Mapping   job.Mapping    `json:"mapping"`
	MPI       string         `json:"mpi"`
	Storage   string         `json:"storage_name"`
	Objective tune.Objective `json:"objective"`
	Default   wayResult      `json:"default_way"`
	Best      wayResult      `json:"best_way"`
	Gain      float64        `json:"gain_ratio"`
	Flags     []string       `json:"launch_flags"`
	Ways      []wayLine      `json:"way_list"`
}

// restartLine is how long a restart reads a checkpoint that is unpacked at a place.
type restartLine struct {
	Place      tune.Place `json:"unpack_place"`
	Seconds    float64    `json:"restart_read_s"`
	Low        float64    `json:"low_s"`
	High       float64    `json:"high_s"`
	Bottleneck string     `json:"bottleneck"`
}

// addRestarts predicts how long a restart reads the way, at the fastest place first.
func (w *wayResult) addRestarts(ctx context.Context, sys *pfs.System, c tune.Case, o *tune.Option) error {
	c.Settings, c.Async = o.Settings, o.Async
	list, err := tune.Restarts(ctx, o.Parts.On(sys), c, &o.Forecast)
	w.Restarts = []restartLine{}
	for _, x := range list {
		w.Restarts = append(w.Restarts, restartLine{x.Place, x.Seconds.Value, x.Seconds.Low, x.Seconds.High, x.Bottleneck})
	}
	slices.SortStableFunc(w.Restarts, func(a, b restartLine) int { return cmp.Compare(a.Seconds, b.Seconds) })
	return err
}

// restartText says how fast a restart reads, and where it unpacks.
func (w *wayResult) restartText(mark string) string {
	verb := map[tune.Place]string{tune.AtRanks: "each rank reads and unpacks its own", tune.AtAggregators: "aggregators read, unpack and send"}
	text := ""
	for _, x := range w.Restarts {
		text += fmt.Sprintf("read %s %s by a restart, 95 %% %s: %s; most time: %s\n", mark, ui.Seconds(x.Seconds), between(x.Low, x.High), verb[x.Place], x.Bottleneck)
	}
	return text
}

// wayResult is one way to write, with its forecast.
type wayResult struct {
	Settings settingsLine `json:"settings"`
	Codec    string       `json:"codec"`
	Async    bool         `json:"async"`
	Forecast Forecast     `json:"forecast"`
	Why      string       `json:"why"`
	// Restarts are by the place where bytes are unpacked, the fastest first.
	Restarts []restartLine `json:"restart_read_list"`
	// Of a storage of objects.
	Part        int64 `json:"part_bytes,omitempty"`
	Connections int   `json:"connection_count,omitempty"`
}

// wayLine is one of many.
type wayLine struct {
	Settings   settingsLine `json:"settings"`
	Codec      string       `json:"codec"`
	Async      bool         `json:"async"`
	Pause      float64      `json:"pause_s"`
	Checkpoint float64      `json:"checkpoint_s"`
	Stored     int64        `json:"stored_bytes"`
	Files      int          `json:"files"`
	Buffers    int64        `json:"node_buffered_bytes"`
	Bottleneck string       `json:"bottleneck"`
	Why        string       `json:"why"`
}

func tunedOf(c *tune.Case, choice *tune.Choice, sys *pfs.System) tunedResult {
	r := tunedResult{App: c.Instance.String(), NP: c.Instance.NP, Mapping: c.Mapping, MPI: c.MPI, Storage: sys.Name, Objective: choice.Objective,
		Default: wayOf(sys, &choice.Default), Best: wayOf(sys, &choice.Best), Gain: choice.Gain, Flags: launchFlagsOf(&choice.Best)}
	if c.Saved {
		r.Flags = append([]string{"--level", string(job.Application)}, r.Flags...)
	}
	for i := range choice.Ranking {
		o := &choice.Ranking[i]
		f := &o.Forecast
		r.Ways = append(r.Ways, wayLine{settingsLine(f.Settings), o.Codec, o.Async, f.Pause.Value, f.Latency.Value, f.Bytes, f.Files, f.Buffers, f.Bottleneck, o.Why})
	}
	return r
}

func wayOf(sys *pfs.System, o *tune.Option) wayResult {
	w := wayResult{Settings: settingsLine(o.Forecast.Settings), Codec: o.Codec, Async: o.Async, Forecast: forecastOf(sys, &o.Forecast), Why: o.Why}
	if sys.Objects() {
		at := o.Parts.On(sys)
		w.Part, w.Connections = int64(at.RPC), at.Connections.Count
	}
	return w
}

// launchFlagsOf are the flags that have ckpt launch write in this way. Its own settings
// defaults are left out.
func launchFlagsOf(o *tune.Option) []string {
	d, s, is := plan.Defaults(), &o.Settings, &o.Forecast.Settings
	flags := []string{}
	add := func(given bool, name, value string) {
		if given {
			flags = append(flags, "--"+name, value)
		}
	}
	gathers := is.Strategy != plan.Individual
	add(is.Layout != d.Layout, "layout", string(is.Layout))
	add(is.Layout != plan.PerRank && is.Strategy != d.Strategy, "strategy", string(is.Strategy))
	add((gathers || is.Layout == plan.Aggregated) && s.Aggregators != 0, "aggregators", strconv.Itoa(is.Aggregators))
	add(is.Buffer != d.Buffer, "buffer", ui.FlagSize(is.Buffer))
	add(is.StripeSize != d.StripeSize, "stripe-size", ui.FlagSize(is.StripeSize))
	add(is.StripeCount != d.StripeCount, "stripe-count", strconv.Itoa(is.StripeCount))
	for _, b := range []struct {
		on, usual bool
		name      string
	}{{is.P1, d.P1, "p1"}, {is.P2, d.P2, "p2"}, {is.P3, d.P3, "p3"}, {is.P4, d.P4, "p4"}, {o.Async, false, "async"}} {
		if b.on != b.usual {
			flags = append(flags, fmt.Sprintf("--%s=%t", b.name, b.on))
		}
	}
	add(o.Codec != codec.UseAuto.String(), "codec", o.Codec)
	for i, f := range flags {
		flags[i] = strings.TrimSuffix(f, "=true")
	}
	return flags
}

func printTuned(g *ui.Globals, r *tunedResult, choice *tune.Choice, o *chosenTargets, all bool) error {
	g.Printf("%s on %s (%s), %s, storage %s: least %s\n\n", r.App, ui.Count(len(r.Mapping), "node"), r.Mapping.Short(), r.MPI, r.Storage, r.Objective)
	header := []string{"", "layout", "|aggregators", "|buffer", "|stripes", "codec", "async", "|pause", "~|latency", "~|stored MiB", "~|files", "most time"}
	var rows [][]string
	seen := make(map[string]bool)
	for i := range choice.Ranking {
		o := &choice.Ranking[i]
		kind := fmt.Sprint(o.Forecast.Settings.Layout, o.Forecast.Settings.Strategy)
		isDefault, isBest := o.Same(&choice.Default), o.Same(&choice.Best)
		if seen[kind] && !all && !isDefault && !isBest {
			continue
		}
		seen[kind] = true
		rows = append(rows, tunedRow(o, isBest, isDefault))
	}
	if err := g.Table(header, rows); err != nil {
		return err
	}
	return g.Printf("%s", tunedText(g, r, choice, o))
}

func tunedRow(o *tune.Option, best, isDefault bool) []string {
	mark := ""
	switch {
	case best:
		mark = "*"
	case isDefault:
		mark = "="
	}
	s, f := &o.Forecast.Settings, &o.Forecast
	layout, aggregators, async := string(s.Layout), "", ""
	if s.Layout != plan.PerRank {
		layout += ", " + string(s.Strategy)
	}
	if s.Strategy != plan.Individual {
		aggregators = strconv.Itoa(s.Aggregators)
	}
	if o.Async {
		async = "yes"
	}
	return []string{mark, layout, aggregators, ui.Size(s.Buffer), fmt.Sprintf("%d × %s", s.StripeCount, ui.Size(s.StripeSize)), o.Codec, async,
		ui.Seconds(f.Pause.Value), ui.Seconds(f.Latency.Value), ui.MiB(f.Bytes), strconv.Itoa(f.Files), f.Bottleneck}
}

// tunedText says what is best, why and by how much, and with which flags.
func tunedText(g *ui.Globals, r *tunedResult, choice *tune.Choice, o *chosenTargets) string {
	text := ""
	if !g.Quiet {
		text = "* best, = default\n"
	}
	if full := choice.Default.Forecast.Full(); full != nil {
		text += fmt.Sprintf("space  the default does not fit: %v\n", full)
	}
	if choice.Gain == 1 {
		text += "nothing is better than the default by more than the description can be relied on\n"
	} else {
		text += fmt.Sprintf("gain   %s: a factor of %.3g\nwhy    %s\n", gained(r), choice.Gain, choice.Best.Why)
	}
	text += r.Best.restartText("*")
	if choice.Gain != 1 {
		text += r.Default.restartText("=")
	}
	s, d := &choice.Best.Forecast.Settings, &choice.Default.Forecast.Settings
	if s.StripeCount != d.StripeCount || s.StripeSize != d.StripeSize || o.text != "" {
		pool, among := "", ""
		if o.text != "" {
			pool, among = "-p POOL ", "; POOL has the OSTs "+o.text
		}
		text += fmt.Sprintf("note   stripe the directory so: lfs setstripe -c %d -S %s %sDIR%s\n", s.StripeCount, strings.TrimSuffix(ui.FlagSize(s.StripeSize), "iB"), pool, among)
	}
	if b := &r.Best; b.Part > 0 {
		text += fmt.Sprintf("parts  of %s, %s of a rank: part=%s&connections=%d in the URL of the store\n", ui.Size(b.Part),
			ui.Count(b.Connections, "connection"), ui.FlagSize(b.Part), b.Connections)
		for _, line := range b.Forecast.Objects.Lines() {
			text += fmt.Sprintf("%-6s %s\n", line[0], line[1])
		}
	}
	if len(r.Flags) == 0 {
		return text + "flags  none: ckpt launch does this by itself\n"
	}
	return text + "flags  " + strings.Join(r.Flags, " ") + "\n"
}

// gained compares the best with the default.
func gained(r *tunedResult) string {
	was, is := &r.Default.Forecast, &r.Best.Forecast
	switch r.Objective {
	case tune.Bytes:
		return fmt.Sprintf("%s MiB in place of %s", ui.MiB(is.Stored), ui.MiB(was.Stored))
	case tune.Latency:
		return fmt.Sprintf("%s in place of %s", ui.Seconds(is.Latency.Total), ui.Seconds(was.Latency.Total))
	}
	return fmt.Sprintf("%s in place of %s", ui.Seconds(is.Pause), ui.Seconds(was.Pause))
}

// asLimit finds the error of a limit of memory.
func asLimit(err error) (*tune.LimitError, bool) { return errors.AsType[*tune.LimitError](err) }

// tuneSpec has a job begin with the best way to write on the storage of --tune.
func (o *launchOptions) tuneSpec(ctx context.Context, s *job.Spec) error {
	if o.tune.On == "" {
		return nil
	}
	objective, err := tune.ParseObjective(o.objective)
	if err != nil {
		return ui.BadUsage("--objective "+o.objective+": want pause, latency or bytes", "")
	}
	sys, err := o.tune.Load()
	if err != nil {
		return err
	}
	if s.Tier != nil && !o.flags.Changed("objective") {
		objective = tune.Latency // the pause is on the nodes
	}
	s.Tuning = &job.Tuning{Objective: string(objective), Before: s.Way(), BeforeAsync: s.Async}
	var text strings.Builder
	if err := sys.Encode(&text); err != nil {
		return err
	}
	s.Tuning.Storage = text.String()
	if s.Program != nil {
		return nil // its checkpoints tell what it stores
	}
	r, err := s.Resolve()
	if err != nil {
		return err
	}
	c, err := tune.OfJob(r, r.Way())
	if err != nil {
		return err
	}
	c.Codec = r.Codec.String()
	if c.Limit, err = copiesLimit(r); err != nil {
		return err
	}
	if err := predictions.AddContents(o.model, &c); err != nil {
		return err
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	choice, err := tune.SearchIn(ctx, sys, c, objective, tune.SpaceOf(r, tune.Start, objective))
	if err != nil {
		return o.usage(err)
	}
	best := &choice.Best
	s.WritePath, s.Codec, s.Async, s.Tuning.Why = best.Settings, best.Codec, best.Async, best.Why
	if !s.Async {
		s.InFlight = 0
	}
	return nil
}

// copiesLimit is how much of a node copies may take: they must fit this machine, if all ranks run
// here; 0: any.
func copiesLimit(r *job.Resolved) (int64, error) {
	data, shared, err := r.Memory()
	if have, ok := launch.AvailableMemory(); err == nil && ok && r.Launcher == job.LocalLauncher {
		return max(1, (have-data-shared)/int64(len(r.Mapping))/2), nil
	}
	return 0, err
}
