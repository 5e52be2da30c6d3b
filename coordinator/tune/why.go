package tune

import (
	"fmt"
	"math"
	"strings"
)

// why says what an option relieves in comparison with the default: the part of the time
// that shrinks most, and where the option itself spends it.
func why(was, is *Option, objective Objective) string {
	if was.key() == is.key() {
		return "the default; " + waits(&is.Forecast)
	}
	a, b := &was.Forecast, &is.Forecast
	var parts []string
	if objective == Bytes || float64(b.Bytes) < 0.95*float64(a.Bytes) {
		parts = append(parts, change("stored bytes", float64(a.Bytes), float64(b.Bytes)))
	}
	if is.Async && !was.Async {
		parts = append(parts, fmt.Sprintf("the application waits for a copy of its memory, %s, not for the storage", seconds(b.Copy)))
	}
	if name, from, to := mostRelieved(a, b); name != "" {
		parts = append(parts, fmt.Sprintf("%s %s in place of %s", name, seconds(to), seconds(from)))
	}
	parts = append(parts, waits(b))
	return strings.Join(parts, "; ")
}

// waits says what a checkpoint waits for most.
func waits(f *Forecast) string {
	if f.Bottleneck == "" {
		return "nothing is waited for"
	}
	return "most time: " + f.Bottleneck
}

// A phase of a forecast with its name.
type phase struct {
	name string
	of   func(*Forecast) float64
}

// phases are compared between options, by what the slowest writer spends in them.
var phases = []phase{
	{"waiting for locks", func(f *Forecast) float64 { return f.Job.Phases.LockWait.Max }},
	{"creating files", func(f *Forecast) float64 { return f.Job.Phases.Create.Max }},
	{"packing", func(f *Forecast) float64 { return f.Packing }},
	{"gathering", func(f *Forecast) float64 { return f.Job.Phases.Gather.Max }},
	{"writing", func(f *Forecast) float64 { return f.Job.Phases.Write.Max }},
	{"making durable", func(f *Forecast) float64 { return f.Job.Phases.Sync.Max }},
	{"waiting for a turn", func(f *Forecast) float64 { return f.Job.Phases.Wait.Max }},
}

// mostRelieved returns the phase that loses most seconds; none if none loses a fiftieth of
// the latency.
func mostRelieved(a, b *Forecast) (name string, from, to float64) {
	most := a.Latency.Value / 50
	for _, p := range phases {
		if lost := p.of(a) - p.of(b); lost > most {
			most, name, from, to = lost, p.name, p.of(a), p.of(b)
		}
	}
	return name, from, to
}

func change(name string, from, to float64) string {
	if from <= 0 {
		return name
	}
	return fmt.Sprintf("%s %+.0f %%", name, 100*(to/from-1))
}

// seconds writes a time with three digits.
func seconds(s float64) string {
	switch {
	case s < 1e-3:
		return fmt.Sprintf("%.3g µs", s*1e6)
	case s < 1:
		return fmt.Sprintf("%.3g ms", s*1e3)
	case s < 1000:
		return fmt.Sprintf("%.3g s", s)
	}
	return fmt.Sprintf("%.0f s", math.Round(s))
}
