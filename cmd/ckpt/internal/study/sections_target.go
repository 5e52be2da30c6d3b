package study

import (
	"fmt"
	"strconv"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
)

func (r *Result) model() (sec section, err error) {
	fit := readInto[struct {
		Laws []law `json:"laws"`
	}](r.study, "fit", &err)
	if fit == nil {
		return sec, err
	}
	sec = section{Phase: Model, Title: "The model, and how far to trust it", Commands: r.commands(append([]string{"fit"}, append(r.each("fit-without-"), r.each("check-")...)...)...)}
	checks := table{Head: []string{"run", "|measured", "|predicted", "|95 % interval", "|error", "inside"}, Note: "Image of a rank. The error is (predicted − measured) / measured."}
	for _, c := range r.Checks {
		inside := "no"
		if c.Inside {
			inside = "yes"
		}
		checks.Rows = append(checks.Rows, []string{r.runName(c.NP), size(c.Measured), size(c.Predicted), sizes(c.Low, c.High), signed(c.Error), inside})
	}
	laws := table{Head: []string{"quantity", "law", "|points", "|left-out error", "|weight"}, Note: "Laws with a weight of 0 are not used."}
	other := map[string]string{"mpich": "openmpi", "openmpi": "mpich"}[r.mpi()]
	for _, l := range fit.Laws {
		if strings.Contains(l.Series, other) {
			continue // it is of the built-in tables
		}
		loo := "not known"
		if l.LOO > 0 {
			loo = ui.Percent(l.LOO)
		}
		laws.Rows = append(laws.Rows, []string{l.Series, l.Law, strconv.Itoa(l.Points), loo, strconv.FormatFloat(l.Weight, 'f', 2, 64)})
	}
	if len(r.Checks) > 0 {
		sec.Text = []string{"Each small run was predicted from the others, which had not seen it."}
		sec.Tables = []table{checks}
	}
	if len(r.Scores) > 0 {
		sec.Tables = append(sec.Tables, r.scores())
	}
	sec.Tables = append(sec.Tables, laws)
	return sec, nil
}

// scores shows what each checkpoint of the small runs stored, beside the predictions.
func (r *Result) scores() table {
	t := table{Head: []string{"run", "|checkpoint", "|stored", "|predicted", "|95 % interval", "|error", "inside", "|latency", "|predicted", "|95 % interval", "inside"},
		Note: "Bytes that each checkpoint added to the store, and its latency. The first is full."}
	yes := map[bool]string{true: "yes", false: "no"}
	for _, x := range r.Scores {
		row := []string{r.runName(x.NP), strconv.Itoa(x.Number), size(x.Stored), size(x.Predicted), sizes(x.Low, x.High), signed(x.Error), yes[x.Inside], "", "", "", ""}
		if l := x.Time; l != nil {
			row = append(row[:7], ui.Seconds(l.Measured), ui.Seconds(l.Predicted), seconds(l.Low, l.High), yes[l.Inside])
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (r *Result) predicted() (sec section, err error) {
	if r.Size == nil {
		return sec, nil
	}
	s := r.Size
	sec = section{Phase: Model, Title: "A checkpoint of the target", Commands: r.commands("size", "time", "replay", "replay-aggregated", "replay-shared", "scale")}
	files := table{Head: []string{"|ranks per node", "|files", "|library", "|data", "|shared", "|file", "|95 % interval"}, Note: "Model: " + s.Model + ". Basis: " + s.Basis + "."}
	for _, f := range r.files {
		files.Rows = append(files.Rows, []string{strconv.Itoa(f.PPN), strconv.Itoa(f.Count), size(f.Zones.Library), size(f.Zones.Data), size(f.Zones.Shared), size(f.Bytes), sizes(f.Low, f.High)})
	}
	files.Rows = append(files.Rows, []string{"all", strconv.Itoa(r.fileCount()), "", "", "", size(s.Total), sizes(s.Low, s.High)})
	if r.own != nil {
		sec.Tables = append(sec.Tables, r.kinds())
		files.Note = "As the thesis stores them: an image of each process, with all that it has. " + files.Note
	}
	sec.Tables = append(sec.Tables, files)
	if t := r.Time; t != nil {
		sec.Tables = append(sec.Tables, table{Head: []string{"|coordination", "|management", "|storage", "|latency", "|95 % interval", "|stored"},
			Rows: [][]string{{ui.Seconds(t.Latency.Coordination), ui.Seconds(t.Latency.Management), ui.Seconds(t.Latency.Storage), ui.Seconds(t.Latency.Total), seconds(t.Low, t.High), size(t.Stored)}},
			Note: "Valid for " + t.Valid + "."})
	}
	if note := r.note(); note != "" {
		sec.Text = append(sec.Text, "Note: "+note+".")
	}
	if len(r.Replays) > 0 {
		sec.Tables = append(sec.Tables, r.replayTable())
	}
	if err := r.scale(&sec); err != nil {
		return sec, err
	}
	return sec, r.study.picture(&sec, "size", "size.svg", "The data zone of a rank over the number of ranks: measured, predicted, and the target.")
}

// kinds shows what ckpt stores.
func (r *Result) kinds() table {
	t := table{Head: []string{"checkpoint", "|files", "|data", "|shared", "|index", "|stored", "|95 % interval", "|latency", "|95 % interval", "|pause"},
		Note: fmt.Sprintf("Stored by ckpt: codec %s, layout %s; the library once for the job, a segment once for a node. Model: %s. Basis: %s.", r.own.Codec, r.own.Layout, r.own.Model, r.own.Basis)}
	for _, k := range r.Kinds {
		name := "first"
		if !k.Full {
			name = "next"
		}
		t.Rows = append(t.Rows, []string{name, strconv.Itoa(k.Files), size(k.Zones.Data), size(k.Zones.Shared), size(k.Index), size(k.Stored), sizes(k.Low, k.High),
			ui.Seconds(k.Latency.Total), seconds(k.LowS, k.HighS), ui.Seconds(k.Pause)})
	}
	return t
}

// replayTable shows the replays on the storage of the user.
func (r *Result) replayTable() table {
	t := table{Head: []string{"layout", "|files", "|written", "|of", "|time"},
		Note: "The pattern replayed in " + r.Replays[0].Dir + ", at the predicted size or what the limit and the free space allow. Measured once each, so without an interval."}
	for _, p := range r.Replays {
		t.Rows = append(t.Rows, []string{p.Layout, strconv.Itoa(p.Files), size(p.Bytes), size(p.Wanted), ui.Seconds(p.Seconds)})
	}
	return t
}

// note is that of size and time, of which the second often holds the first.
func (r *Result) note() string {
	switch {
	case r.own != nil && r.own.Note != "" && !strings.Contains(r.Size.Note, r.own.Note):
		return strings.TrimPrefix(r.Size.Note+"; "+r.own.Note, "; ")
	case r.Time == nil || strings.Contains(r.Size.Note, r.Time.Note):
		return r.Size.Note
	case strings.Contains(r.Time.Note, r.Size.Note):
		return r.Time.Note
	}
	return r.Size.Note + "; " + r.Time.Note
}

func (r *Result) fileCount() (n int) {
	for _, f := range r.files {
		n += f.Count
	}
	return n
}

// scale tells on how many ranks a run is fastest.
func (r *Result) scale(sec *section) (err error) {
	scale := readInto[struct {
		Fastest struct {
			Alone      int `json:"alone_np"`
			Protected  int `json:"protected_np"`
			Compressed int `json:"compressed_np"`
		} `json:"fastest"`
		Codec string `json:"codec"`
	}](r.study, "scale", &err)
	if scale != nil {
		sec.Text = append(sec.Text, fmt.Sprintf("A run is fastest on %d ranks alone, on %d with a checkpoint, on %d with one compressed by %s.",
			scale.Fastest.Alone, scale.Fastest.Protected, scale.Fastest.Compressed, scale.Codec))
	}
	return err
}
