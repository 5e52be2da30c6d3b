package plan

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"testing"

	"ckpt/dataset"
	"ckpt/predict"
	"ckpt/predict/fit"
	"ckpt/predict/service"
)

func modePlanning(t *testing.T) (*predict.Model, Planning) {
	t.Helper()
	m, err := predict.Default()
	if err != nil {
		t.Fatal(err)
	}
	p := Planning{AppSeconds: 86400, MTBFS: 43200, MPI: []string{"mpich"}, Codecs: []string{"none"}, Modes: service.Modes()}
	p.Mapping = []int{16, 16, 16, 16}
	if p.App, err = m.Application("bt.D.64", 0); err != nil {
		t.Fatal(err)
	}
	return m, p
}

func TestPlanModes(t *testing.T) {
	m, p := modePlanning(t)
	for _, p.Together = range [][]float64{{0}, {0.5}, {1}} {
		options, err := Compare(m, p)
		if err != nil {
			t.Fatal(err)
		}
		if len(options) != 7 {
			t.Fatalf("%d options, want 7", len(options))
		}
		for i, o := range options {
			if o.Best != (i == 0) || i > 0 && float64(o.Expected) < float64(options[i-1].Expected) {
				t.Errorf("option %d of %g s: best %v", i, float64(o.Expected), o.Best)
			}
			if float64(o.Failing.Low) > float64(o.Expected) || float64(o.Failing.High) < float64(o.Expected) || float64(o.Failing.Low) < p.AppSeconds {
				t.Errorf("%s %s: total %+v", o.Mode, o.Log, *o.Failing)
			}
			if float64(o.Expected) > 3*p.AppSeconds != (o.Log == service.None) || float64(o.Failing.Low) > 3*p.AppSeconds {
				t.Errorf("%s %s: total %+v: a domino effect is possible, not certain", o.Mode, o.Log, *o.Failing)
			}
			if o.RestartS < o.ModeCosts.RestartS.Value || o.LostS > p.AppSeconds {
				t.Errorf("%s %s: restart %+v with logs, %+v without; %g s lost", o.Mode, o.Log, o.RestartS, o.ModeCosts.RestartS, o.LostS)
			}
		}
		if last := options[6]; last.Log != service.None || last.LostS < 10*options[0].LostS {
			t.Errorf("the last is %s %s, which loses %g s", last.Mode, last.Log, last.LostS)
		}
	}
}

// One group restarts sooner than all ranks, and a coordinated checkpoint of all is no
// cheaper than one of a group.
func TestGroupsRestartSooner(t *testing.T) {
	m, p := modePlanning(t)
	p.GroupSize = 8
	options, err := Compare(m, p)
	if err != nil {
		t.Fatal(err)
	}
	by := map[service.Mode]Option{}
	for _, o := range options {
		if o.Log == service.NoGroups || o.Log == service.Receiver {
			by[o.Mode] = o
		}
	}
	all, semi, one := by[service.Coordinated], by[service.Semi], by[service.Uncoordinated]
	if !(all.ModeCosts.RestartS.Value > semi.ModeCosts.RestartS.Value && semi.ModeCosts.RestartS.Value > one.ModeCosts.RestartS.Value) {
		t.Errorf("restarts of %g, %g and %g s", all.ModeCosts.RestartS.Value, semi.ModeCosts.RestartS.Value, one.ModeCosts.RestartS.Value)
	}
	if semi.GroupRanks != 8 || semi.GroupCount != 8 || !(all.GroupS > semi.GroupS && semi.GroupS > one.GroupS) {
		t.Errorf("checkpoints of %g, %g and %g s", all.GroupS, semi.GroupS, one.GroupS)
	}
	if !(one.Iteration > semi.Iteration && all.Iteration == 0) {
		t.Errorf("logged %g, %g and %g bytes", all.Iteration, semi.Iteration, one.Iteration)
	}
}

// On one node mode semi has one group, and nothing to log.
func TestOneGroup(t *testing.T) {
	m, p := modePlanning(t)
	p.Mapping, p.Modes = []int{64}, []service.Mode{service.Coordinated, service.Semi}
	options, err := Compare(m, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range options {
		if o.Log != service.NoGroups || o.LogMiB != 0 || !reflect.DeepEqual(o.Failing, options[0].Failing) {
			t.Errorf("%s %q logs %g MiB and ends after %+v s", o.Mode, o.Log, o.LogMiB, *o.Failing)
		}
	}
}

func TestPlanModesRefuses(t *testing.T) {
	for name, change := range map[string]func(*Planning){
		"no time":      func(p *Planning) { p.AppSeconds = 0 },
		"no failures":  func(p *Planning) { p.MTBFS = math.NaN() },
		"thesis":       func(p *Planning) { p.Law = fit.Thesis },
		"group":        func(p *Planning) { p.GroupSize = 65 },
		"share":        func(p *Planning) { p.Together = []float64{1.5} },
		"mapping":      func(p *Planning) { p.Mapping = []int{63} },
		"semi, none":   func(p *Planning) { p.Modes, p.Logs = []service.Mode{service.Semi}, []service.Log{service.None} },
		"codec":        func(p *Planning) { p.Codecs = []string{"lzma"} },
		"unknown mode": func(p *Planning) { p.Modes = []service.Mode{"all"} },
		"no messages":  func(p *Planning) { p.App = predict.App{Name: p.App.Name, Class: p.App.Class, NP: p.App.NP} },
	} {
		m, p := modePlanning(t)
		change(&p)
		if _, err := Compare(m, p); !errors.As(err, new(*fit.InputError)) {
			t.Errorf("%s: %v, want an InputError", name, err)
		}
	}
}

// A rate that was measured on jobs of ckpt is that of reading data zones.
func TestMeasuredRestart(t *testing.T) {
	base, p := modePlanning(t)
	size, err := base.Size(predict.Request{App: p.App, Mapping: p.Mapping})
	if err != nil {
		t.Fatal(err)
	}
	m := *base
	m.Modes = &service.Machine{}
	m.Modes.FitRestarts([]dataset.JobRestart{
		{Ranks: 1, TotalS: 1.1 + 0.5, ReadS: 0.5, ReadBytes: 50 << 20}, {Ranks: 11, TotalS: 2.1 + 10, ReadS: 10, ReadBytes: 1000 << 20},
		{Ranks: 32, TotalS: 4.2 + 40, ReadS: 40, ReadBytes: 4000 << 20}, {Ranks: 64, TotalS: 7.4 + 200, ReadS: 200, ReadBytes: 20000 << 20},
	})
	options, err := Compare(&m, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range options {
		n := float64(o.RestartRanks)
		want := 1 + 0.1*n + n*float64(size.Zones.Data)/100
		if math.Abs(o.ModeCosts.RestartS.Value-want) > 0.1*want || !o.ModeCosts.RestartS.Contains(want) {
			t.Errorf("%s %s: %g ranks restart in %g s, want %g", o.Mode, o.Log, n, o.ModeCosts.RestartS.Value, want)
		}
	}
	var text bytes.Buffer
	if err := m.Write(&text); err != nil {
		t.Fatal(err)
	}
	back, err := predict.ReadModel(&text)
	if err != nil || back.Modes == nil || back.Modes.Restart(5, 100).Total != m.Modes.Restart(5, 100).Total {
		t.Errorf("the model came back with %+v: %v", back, err)
	}
}
