package benchmarks

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/tune"
	"ckpt/image/pfs"
	"ckpt/internal/vfs"
)

// probeOptions are the flags of ckpt bench storage DIR.
type probeOptions struct {
	output, time, maxBytes string
}

func (o *probeOptions) addFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.output, "output", "o", "", "write the description of DIR to this file")
	f.StringVar(&o.time, "time", "1m", "time for the probes of DIR")
	f.StringVar(&o.maxBytes, "max-bytes", "512MiB", "have at most this many bytes in DIR at a time")
}

// probed is what was measured of a directory, and the description that fits.
type probed struct {
	Dir         string     `json:"dir"`
	Description string     `json:"description"` // as YAML
	Direct      bool       `json:"direct"`      // the file system takes direct I/O
	Took        float64    `json:"took_s"`
	Rounds      int        `json:"probe_rounds"` // that all probes had
	Most        int64      `json:"most_bytes"`   // in files at a time
	Written     int64      `json:"written_bytes"`
	Probes      []probe    `json:"probe_list"`
	Jobs        []trialRow `json:"trial_list"`
	Misfit      float64    `json:"misfit"`
	HeldOut     int        `json:"held_out_count"`
	Unknown     []string   `json:"unknown_list"` // what the probes could not find out
}

// A trialRow is a trial, and what the description gives for it.
type trialRow struct {
	of    trial
	App   string `json:"app"`
	NP    int    `json:"np"`
	Nodes int    `json:"nodes"`
	trialSettings
	HeldOut   bool    `json:"held_out"`
	Stored    int64   `json:"stored_bytes"`
	Measured  float64 `json:"median_s"`
	Predicted float64 `json:"predicted_s"`
	Low       float64 `json:"low_s"`
	High      float64 `json:"high_s"`
}

func newTrialRow(t trial, o outcome) trialRow {
	return trialRow{of: t, App: t.job(), NP: t.NP, Nodes: t.Nodes, trialSettings: t.settings(),
		Stored: o[len(o)-1].StoredBytes, Measured: o.latency()}
}

func (r *trialRow) predicted(f *tune.Forecast) {
	r.Predicted, r.Low, r.High = f.Latency.Value, f.Latency.Low, f.Latency.High
}

// Shares of the time: the rest is for jobs.
const probeShare = 0.5

// runProbeStorage measures a directory and writes its description.
func runProbeStorage(ctx context.Context, g *ui.Globals, dir string, o *storageOptions) error {
	limit, err := ui.ParseDuration("--time", o.probe.time)
	if err != nil {
		return err
	}
	most, err := ui.ParseSize("--max-bytes", o.probe.maxBytes)
	if err != nil {
		return err
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	begin := time.Now()
	out, sys, err := probeDir(ctx, g, dir, limit, most, o)
	if err != nil {
		return err
	}
	if free, err := (vfs.OS{}).Free(dir); err == nil {
		most = min(most, free/2)
	}
	c := &calibration{trials: trials{g: g, dir: dir, most: most}, sys: sys, until: begin.Add(limit)}
	if sys, out.Jobs, err = c.run(ctx); err != nil {
		return err
	}
	out.Took = time.Since(begin).Seconds()
	if err := out.describe(sys); err != nil {
		return err
	}
	if o.probe.output != "" {
		write := func(w io.Writer) error { _, err := io.WriteString(w, out.Description); return err }
		if err := g.WriteFile(ctx, o.probe.output, write); err != nil {
			return err
		}
	}
	return g.Show(out, func() error { return out.print(g, o.probe.output) })
}

func probeDir(ctx context.Context, g *ui.Globals, dir string, limit time.Duration, most int64, o *storageOptions) (*probed, *pfs.System, error) {
	host, err := tune.MeasureHost(ctx, noise(dataBytes))
	if err != nil {
		return nil, nil, err
	}
	bar := g.NewBar("probes", 1000, false)
	defer bar.Clear()
	r := &probing{time: time.Duration(float64(limit) * probeShare), maxBytes: most, seed: o.seed, writers: o.ranks, now: time.Now,
		progress: func(share float64) { bar.Set(int64(1000 * share)) }}
	p, err := r.run(ctx, vfs.OS{}, dir)
	if err != nil {
		return nil, nil, err
	}
	sys, err := p.fit(ctx, host)
	return p, sys, err
}

// describe names the description and writes it down.
func (p *probed) describe(s *pfs.System) error {
	s.Name = filepath.Base(p.Dir)
	if abs, err := filepath.Abs(p.Dir); err == nil {
		s.Name = filepath.Base(abs)
	}
	if host, err := os.Hostname(); err == nil {
		s.Title = p.Dir + " on " + host
	}
	s.Source = fmt.Sprintf("measured by ckpt bench storage on %s: %s of %s, %s", time.Now().UTC().Format(time.DateOnly),
		ui.Count(p.Rounds, "round"), ui.Count(len(p.Probes), "probe"), ui.Count(len(p.Jobs), "job"))
	s.Round(3)
	p.Misfit, p.HeldOut, p.Unknown = s.Misfit.Scatter, s.Misfit.Count, s.Unknown
	if err := s.Check(); err != nil {
		return fmt.Errorf("description of %s: %w", p.Dir, err)
	}
	var b strings.Builder
	err := s.Encode(&b)
	p.Description = b.String()
	return err
}

// print prints what was measured beside what the description gives.
func (p *probed) print(g *ui.Globals, output string) error {
	err := g.Printf("%s, %d rounds in %s, at most %s MiB at a time, %s MiB written\n\n", p.Dir, p.Rounds, ui.Seconds(p.Took), ui.MiB(p.Most), ui.MiB(p.Written))
	if err != nil {
		return err
	}
	var rows [][]string
	for _, r := range p.Probes {
		rows = append(rows, r.cells())
	}
	if err := g.Table([]string{"probe", "|writers", "|requests", "|KiB", "file", "way", "|measured ms", "|description ms", "|off", ""}, rows); err != nil {
		return err
	}
	rows = nil
	for _, r := range p.Jobs {
		rows = append(rows, r.cells())
	}
	g.Printf("\n")
	if err := g.Table(append(slices.Clone(trialHeader), "|stored MiB", "|measured ms", "|description ms", "|off", ""), rows); err != nil {
		return err
	}
	g.Printf("\nmisfit %.0f %% over %d held-out measurements\n", 100*p.Misfit, p.HeldOut)
	for _, u := range p.Unknown {
		g.Printf("unknown: %s\n", u)
	}
	if output != "" {
		return g.Printf("description in %s\n", output)
	}
	return nil
}

func (r *probe) cells() []string {
	file, way, given, off, mark := "own", "buffered", "-", "-", ""
	if r.Shared {
		file = "shared"
	}
	if r.Direct {
		way = "direct"
	}
	if r.Kind != probeWrite {
		file, way = "-", "-"
	}
	if r.Predicted > 0 {
		given, off = milliseconds(r.Predicted), percentOff(r.Predicted, r.Median)
	}
	if r.HeldOut && r.Predicted > 0 {
		mark = "held out"
	}
	return []string{string(r.Kind), fmt.Sprint(r.Writers), fmt.Sprint(r.Requests), fmt.Sprint(r.Request >> 10), file, way, milliseconds(r.Median), given, off, mark}
}

func (r *trialRow) cells() []string {
	mark := ""
	if r.HeldOut {
		mark = "held out"
	}
	return append(r.of.row(), ui.MiB(r.Stored), milliseconds(r.Measured), milliseconds(r.Predicted), percentOff(r.Predicted, r.Measured), mark)
}
