package jobs

import (
	"fmt"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/tune"
	"ckpt/image/pfs"
	"ckpt/predict/fit"
)

// A Forecast is a tune.Forecast as --json prints it.
type Forecast struct {
	Storage    string    `json:"storage_name"`
	Latency    fit.Parts `json:"latency_s"`
	Low        float64   `json:"low_s"`
	High       float64   `json:"high_s"`
	Pause      float64   `json:"pause_s"`
	PauseLow   float64   `json:"pause_low_s"`
	PauseHigh  float64   `json:"pause_high_s"`
	Packing    float64   `json:"packing_s"`
	Stored     int64     `json:"stored_bytes"`
	Files      int       `json:"files"`
	Bottleneck string    `json:"bottleneck"`
	LockWaits  int64     `json:"lock_waits"`
	Writers    []int     `json:"target_writer_list"`
	Phases     []Phase   `json:"phase_list"`
	Use        []Use     `json:"resource_list"`
	Doubts     []string  `json:"unknown_list,omitempty"`
	Codec      string    `json:"codec"`
}

// A Phase is where the time of writers goes.
type Phase struct {
	Name string  `json:"name"`
	Mean float64 `json:"writer_mean_s"`
	Max  float64 `json:"writer_max_s"`
}

// A Use is how busy a part of the storage is.
type Use struct {
	Kind  string  `json:"resource_kind"`
	Name  string  `json:"name"`
	Share float64 `json:"used_share"`
}

// forecastOf puts a forecast into the form that is printed.
func forecastOf(sys *pfs.System, f *tune.Forecast) Forecast {
	r := Forecast{Storage: sys.Name, Latency: fit.Parts{Coordination: f.Coordination, Management: f.Management, Storage: f.Storage, Total: f.Latency.Value},
		Low: f.Latency.Low, High: f.Latency.High, Pause: f.Pause.Value, PauseLow: f.Pause.Low, PauseHigh: f.Pause.High,
		Packing: f.Packing, Stored: f.Bytes, Files: f.Files, Bottleneck: f.Bottleneck, LockWaits: f.Job.LockWaits,
		Writers: f.Job.WritersPerTarget, Doubts: sys.Unknown, Codec: f.Codec, Use: []Use{}}
	if r.Writers == nil {
		r.Writers = []int{}
	}
	p := &f.Job.Phases
	for _, x := range []struct {
		name string
		pfs.Phase
	}{{"create", p.Create}, {"pack", p.Pack}, {"gather", p.Gather}, {"lock wait", p.LockWait}, {"write", p.Write}, {"sync", p.Sync}, {"wait", p.Wait}} {
		r.Phases = append(r.Phases, Phase{x.name, x.Mean, x.Max})
	}
	for _, u := range f.Use {
		r.Use = append(r.Use, Use{u.Kind, u.Name, u.Share})
	}
	return r
}

// Lines describes a forecast, each line with its label.
func (f *Forecast) Lines() [][2]string {
	lines := [][2]string{
		{"storage", f.Storage},
		{"latency", fmt.Sprintf("%s, 95 %% %s", ui.Seconds(f.Latency.Total), between(f.Low, f.High))},
		{"  parts", fmt.Sprintf("%s coordination + %s management + %s storage", ui.Seconds(f.Latency.Coordination), ui.Seconds(f.Latency.Management), ui.Seconds(f.Latency.Storage))},
	}
	if f.Pause != f.Latency.Total {
		lines = append(lines, [2]string{"pause", fmt.Sprintf("%s, 95 %% %s", ui.Seconds(f.Pause), between(f.PauseLow, f.PauseHigh))})
	}
	for _, p := range f.Phases {
		if p.Max > 0 {
			lines = append(lines, [2]string{"  " + p.Name, fmt.Sprintf("%s of the slowest writer, %s on average", ui.Seconds(p.Max), ui.Seconds(p.Mean))})
		}
	}
	lines = append(lines, [2]string{"bottleneck", f.Bottleneck})
	if len(f.Use) > 0 {
		lines = append(lines, [2]string{"busy", f.busy()})
	}
	if len(f.Writers) > 0 {
		lines = append(lines, [2]string{"targets", fmt.Sprintf("%s, %s on each", ui.Count(len(f.Writers), "target"), f.writers())})
	}
	if f.LockWaits > 0 {
		lines = append(lines, [2]string{"lock waits", fmt.Sprint(f.LockWaits)})
	}
	if len(f.Doubts) > 0 {
		lines = append(lines, [2]string{"unknown", strings.Join(f.Doubts, ", ")})
	}
	return lines
}

// between tells a range of times.
func between(low, high float64) string { return ui.Between(low, high, ui.Seconds) }

// writers is how many write to a target.
func (f *Forecast) writers() string {
	low, high := f.Writers[0], f.Writers[0]
	for _, n := range f.Writers {
		low, high = min(low, n), max(high, n)
	}
	if low == high {
		return ui.Count(low, "writer")
	}
	return fmt.Sprintf("%d to %s", low, ui.Count(high, "writer"))
}

// busy names the parts of the storage that are most used.
func (f *Forecast) busy() string {
	var parts []string
	for _, u := range f.Use {
		if u.Share >= 0.005 {
			parts = append(parts, fmt.Sprintf("%s %s", u.Kind, ui.Percent(u.Share)))
		}
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}
