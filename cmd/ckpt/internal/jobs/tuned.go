package jobs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"ckpt/cmd/ckpt/internal/predictions"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/tune"
	"ckpt/image/codec"
	"ckpt/image/pfs"
	"ckpt/image/plan"
)

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

// wayResult is one way to write, with its forecast.
type wayResult struct {
	Settings settingsLine         `json:"settings"`
	Codec    string               `json:"codec"`
	Async    bool                 `json:"async"`
	Forecast predictions.Forecast `json:"forecast"`
	Why      string               `json:"why"`
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
	for i := range choice.Ranking {
		o := &choice.Ranking[i]
		f := &o.Forecast
		r.Ways = append(r.Ways, wayLine{settingsLine(f.Settings), o.Codec, o.Async, f.Pause.Value, f.Latency.Value, f.Bytes, f.Files, f.Buffers, f.Bottleneck, o.Why})
	}
	return r
}

func wayOf(sys *pfs.System, o *tune.Option) wayResult {
	return wayResult{settingsLine(o.Forecast.Settings), o.Codec, o.Async, predictions.ForecastOf(sys, &o.Forecast), o.Why}
}

// launchFlagsOf are the flags that have ckpt launch write in this way. Those of its own
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

func printTuned(g *ui.Globals, r *tunedResult, choice *tune.Choice, all bool) error {
	g.Printf("%s on %s (%s), %s, storage %s: least %s\n\n", r.App, ui.Count(len(r.Mapping), "node"), r.Mapping.Short(), r.MPI, r.Storage, r.Objective)
	header := []string{"", "layout", "|aggregators", "|buffer", "|stripes", "codec", "async", "|pause", "~|latency", "~|stored MiB", "~|files", "most time"}
	var rows [][]string
	seen := make(map[string]bool)
	for i := range choice.Ranking {
		o := &choice.Ranking[i]
		kind := fmt.Sprint(o.Forecast.Settings.Layout, o.Forecast.Settings.Strategy)
		isDefault, isBest := o.Settings == choice.Default.Settings && o.Codec == choice.Default.Codec && o.Async == choice.Default.Async,
			o.Settings == choice.Best.Settings && o.Codec == choice.Best.Codec && o.Async == choice.Best.Async
		if seen[kind] && !all && !isDefault && !isBest {
			continue
		}
		seen[kind] = true
		rows = append(rows, tunedRow(o, isBest, isDefault))
	}
	if err := g.Table(header, rows); err != nil {
		return err
	}
	return g.Printf("%s", tunedText(g, r, choice))
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
func tunedText(g *ui.Globals, r *tunedResult, choice *tune.Choice) string {
	text := ""
	if !g.Quiet {
		text = "* best, = default\n"
	}
	if choice.Gain == 1 {
		text += "nothing is better than the default by more than the description can be relied on\n"
	} else {
		text += fmt.Sprintf("gain   %s: a factor of %.3g\nwhy    %s\n", gained(r), choice.Gain, choice.Best.Why)
	}
	s, d := &choice.Best.Forecast.Settings, &choice.Default.Forecast.Settings
	if s.StripeCount != d.StripeCount || s.StripeSize != d.StripeSize {
		text += fmt.Sprintf("note   stripe the directory so: lfs setstripe -c %d -S %s DIR\n", s.StripeCount, strings.TrimSuffix(ui.FlagSize(s.StripeSize), "iB"))
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
