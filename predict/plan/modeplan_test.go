package plan

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"ckpt/dataset"
	"ckpt/predict"
	"ckpt/predict/fit"
	"ckpt/predict/modes"
)

func modePlanning(t *testing.T) (*predict.Model, ModePlanning) {
	t.Helper()
	m, err := predict.Default()
	if err != nil {
		t.Fatal(err)
	}
	p := ModePlanning{AppS: 86400, MTBFS: 43200, Codec: "none", Modes: modes.Modes()}
	p.Mapping = []int{16, 16, 16, 16}
	if p.App, err = m.Application("bt.D.64", 0); err != nil {
		t.Fatal(err)
	}
	return m, p
}

func TestPlanModes(t *testing.T) {
	m, p := modePlanning(t)
	for _, p.Together = range []float64{0, 0.5, 1} {
		options, err := Modes(m, p)
		if err != nil {
			t.Fatal(err)
		}
		if len(options) != 7 {
			t.Fatalf("%d options, want 7", len(options))
		}
		for i, o := range options {
			if o.Best != (i == 0) || i > 0 && o.TotalS.Value < options[i-1].TotalS.Value {
				t.Errorf("option %d of %g s: best %v", i, o.TotalS.Value, o.Best)
			}
			if o.TotalS.Low > o.TotalS.Value || o.TotalS.High < o.TotalS.Value || o.TotalS.Low < p.AppS {
				t.Errorf("%s %s: total %+v", o.Mode, o.Log, o.TotalS)
			}
			if o.TotalS.Value > 3*p.AppS != (o.Log == modes.None) || o.TotalS.Low > 3*p.AppS {
				t.Errorf("%s %s: total %+v: a domino effect is possible, not certain", o.Mode, o.Log, o.TotalS)
			}
			if o.FailS.Value < o.RestartS.Value || o.LostS.Value > p.AppS {
				t.Errorf("%s %s: restart %+v with logs, %+v without; %g s lost", o.Mode, o.Log, o.FailS, o.RestartS, o.LostS.Value)
			}
		}
		if last := options[6]; last.Log != modes.None || last.LostS.Value < 10*options[0].LostS.Value {
			t.Errorf("the last is %s %s, which loses %g s", last.Mode, last.Log, last.LostS.Value)
		}
	}
}

// One group restarts sooner than all ranks, and a coordinated checkpoint of all is no
// cheaper than one of a group.
func TestGroupsRestartSooner(t *testing.T) {
	m, p := modePlanning(t)
	p.GroupSize = 8
	options, err := Modes(m, p)
	if err != nil {
		t.Fatal(err)
	}
	by := map[modes.Mode]ModeOption{}
	for _, o := range options {
		if o.Log == modes.NoGroups || o.Log == modes.Receiver {
			by[o.Mode] = o
		}
	}
	all, semi, one := by[modes.Coordinated], by[modes.Semi], by[modes.Uncoordinated]
	if !(all.RestartS.Value > semi.RestartS.Value && semi.RestartS.Value > one.RestartS.Value) {
		t.Errorf("restarts of %g, %g and %g s", all.RestartS.Value, semi.RestartS.Value, one.RestartS.Value)
	}
	if semi.GroupRanks != 8 || semi.GroupCount != 8 || !(all.GroupS.Value > semi.GroupS.Value && semi.GroupS.Value > one.GroupS.Value) {
		t.Errorf("checkpoints of %g, %g and %g s", all.GroupS.Value, semi.GroupS.Value, one.GroupS.Value)
	}
	if !(one.Logged.Bytes > semi.Logged.Bytes && all.Logged.Bytes == 0) {
		t.Errorf("logged %g, %g and %g bytes", all.Logged.Bytes, semi.Logged.Bytes, one.Logged.Bytes)
	}
}

// On one node mode semi has one group, and nothing to log.
func TestOneGroup(t *testing.T) {
	m, p := modePlanning(t)
	p.Mapping, p.Modes = []int{64}, []modes.Mode{modes.Coordinated, modes.Semi}
	options, err := Modes(m, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range options {
		if o.Log != modes.NoGroups || o.LogMiB != 0 || o.TotalS != options[0].TotalS {
			t.Errorf("%s %q logs %g MiB and ends after %+v s", o.Mode, o.Log, o.LogMiB, o.TotalS)
		}
	}
}

func TestPlanModesRefuses(t *testing.T) {
	for name, change := range map[string]func(*ModePlanning){
		"no time":      func(p *ModePlanning) { p.AppS = 0 },
		"no failures":  func(p *ModePlanning) { p.MTBFS = math.NaN() },
		"thesis":       func(p *ModePlanning) { p.Law = fit.Thesis },
		"group":        func(p *ModePlanning) { p.GroupSize = 65 },
		"share":        func(p *ModePlanning) { p.Together = 1.5 },
		"mapping":      func(p *ModePlanning) { p.Mapping = []int{63} },
		"semi, none":   func(p *ModePlanning) { p.Modes, p.Logs = []modes.Mode{modes.Semi}, []modes.Log{modes.None} },
		"codec":        func(p *ModePlanning) { p.Codec = "lzma" },
		"unknown mode": func(p *ModePlanning) { p.Modes = []modes.Mode{"all"} },
		"no messages":  func(p *ModePlanning) { p.App = predict.App{Name: p.App.Name, Class: p.App.Class, NP: p.App.NP} },
	} {
		m, p := modePlanning(t)
		change(&p)
		if _, err := Modes(m, p); !errors.As(err, new(*fit.InputError)) {
			t.Errorf("%s: %v, want an InputError", name, err)
		}
	}
}

// A rate that was measured on jobs of ckpt is that of reading data zones.
func TestMeasuredRestart(t *testing.T) {
	base, p := modePlanning(t)
	size, err := base.Size(p.Request)
	if err != nil {
		t.Fatal(err)
	}
	m := *base
	m.Modes = &modes.Machine{}
	m.Modes.FitRestarts([]dataset.JobRestart{
		{Ranks: 1, TotalS: 2.1, ReadS: 1, ReadBytes: 100 << 20}, {Ranks: 11, TotalS: 3.1, ReadS: 1, ReadBytes: 100 << 20},
	})
	options, err := Modes(&m, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range options {
		n := float64(o.RestartRanks)
		want := 1 + 0.1*n + n*size.Zones.Data/100
		if math.Abs(o.RestartS.Value-want) > 1e-9*want {
			t.Errorf("%s %s: %g ranks restart in %g s, want %g", o.Mode, o.Log, n, o.RestartS.Value, want)
		}
	}
	var text bytes.Buffer
	if err := m.Write(&text); err != nil {
		t.Fatal(err)
	}
	back, err := predict.ReadModel(&text)
	if err != nil || back.Modes == nil || *back.Modes.FixedS != *m.Modes.FixedS {
		t.Errorf("the model came back with %+v: %v", back, err)
	}
}
