package jobs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/tune"
	"ckpt/image/pfs"
	"ckpt/image/plan"
	"ckpt/predict"
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
	predict.Objects
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
		Writers: f.Job.WritersPerTarget, Doubts: sys.Unknown, Codec: f.Codec, Use: []Use{}, Objects: ui.ObjectsOf(f)}
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
	lines = append(lines, f.Objects.Lines()...)
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

// schedule has the operations of one writer, round by round.
type schedule struct {
	Rank   int             `json:"rank"`
	Rounds []scheduleRound `json:"round_list"`
}

type scheduleRound struct {
	Gathers []scheduleGather `json:"gather_list"`
	Writes  []scheduleWrite  `json:"write_list"`
}

type scheduleGather struct {
	Rank   int    `json:"rank"` // whose bytes
	Region string `json:"region"`
	Offset int64  `json:"offset"` // in the region
	Bytes  int64  `json:"bytes"`
	Buffer int64  `json:"buffer_offset"` // where to; -1 in place
}

type scheduleWrite struct {
	File   int   `json:"file_index"`
	Offset int64 `json:"offset"`
	Bytes  int64 `json:"bytes"`
}

// schedule lists the rounds of the rank that the user named, at most most.
func (o *layoutOptions) schedule(p *plan.Plan, m *tune.PlannedMemory, most int) (*schedule, error) {
	s := &schedule{Rank: p.Writers[0].Rank, Rounds: []scheduleRound{}}
	if o.flags.Changed("rank") {
		s.Rank = o.rank
		if err := checkWriter(p, o.rank, len(m.Sources)); err != nil {
			return nil, err
		}
	}
	for r := range p.WriterPlan(s.Rank) {
		if len(s.Rounds) == most {
			break
		}
		var round scheduleRound
		for _, x := range r.Gathers {
			round.Gathers = append(round.Gathers, scheduleGather{x.From, m.Regions[x.Key], x.Offset, x.Bytes, x.Buffer})
		}
		for _, x := range r.Writes {
			round.Writes = append(round.Writes, scheduleWrite{x.File, x.Offset, x.Bytes})
		}
		s.Rounds = append(s.Rounds, round)
	}
	return s, nil
}

// checkWriter checks that a rank writes.
func checkWriter(p *plan.Plan, rank, np int) error {
	if rank < 0 || rank >= np {
		return ui.BadUsage(fmt.Sprintf("--rank %d: the job has ranks 0 to %d", rank, np-1), "give the number of a writer")
	}
	const most = 8
	var writers []string
	for _, w := range p.Writers {
		if w.Rank == rank {
			return nil
		}
		if len(writers) <= most {
			writers = append(writers, strconv.Itoa(w.Rank))
		}
	}
	if len(writers) > most {
		writers[most] = "…"
	}
	return ui.BadUsage(fmt.Sprintf("--rank %d: other ranks write its bytes", rank), "choose a writer: "+strings.Join(writers, ", "))
}

// printSchedule prints rounds. Offsets are whole KiB, which is exact.
func printSchedule(g *ui.Globals, d *writePlan) error {
	kib := func(n int64) string { return strconv.FormatInt(n>>10, 10) }
	var rows [][]string
	for i, r := range d.Schedule.Rounds {
		round := strconv.Itoa(i + 1)
		for _, x := range r.Gathers {
			step, buffer := "gather", ""
			if x.Buffer == plan.InPlace {
				step = "in place"
			} else {
				buffer = kib(x.Buffer)
			}
			rows = append(rows, []string{round, step, fmt.Sprintf("rank %d, %s", x.Rank, x.Region), kib(x.Offset), kib(x.Bytes), buffer})
		}
		for _, x := range r.Writes {
			rows = append(rows, []string{round, "write", fmt.Sprintf("file %d", x.File), kib(x.Offset), kib(x.Bytes), ""})
		}
	}
	i := slices.IndexFunc(d.Writers, func(w plan.WriterSummary) bool { return w.Rank == d.Schedule.Rank })
	w := &d.Writers[i]
	g.Printf("\nrank %d on node %d: %s\n", w.Rank, w.Node, ui.Count(int(w.Rounds), "round"))
	g.Table([]string{"|round", "step", "where", "|offset KiB", "|KiB", "|buffer KiB"}, rows)
	return printMore(g, int(w.Rounds)-len(d.Schedule.Rounds))
}
