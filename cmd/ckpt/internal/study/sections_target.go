package study

import (
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/predict"
	"ckpt/predict/plan"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func (r *Result) model() (sec section, err error) {
	fit := readInto[struct {
		Laws []predict.FitRow `json:"laws"`
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
	if r.Size == nil && r.own == nil {
		return sec, nil
	}
	sec = section{Phase: Model, Title: "A checkpoint of the target", Commands: r.commands("size", "time", "replay", "replay-aggregated", "replay-shared", "scale")}
	if r.own != nil {
		sec.Tables = append(sec.Tables, r.kinds())
		if len(r.own.Ranks) > 0 {
			sec.Tables = append(sec.Tables, r.ranks())
		}
	}
	if r.Size != nil {
		sec.Tables = append(sec.Tables, r.images())
	}
	if t := r.Time; t != nil {
		sec.Tables = append(sec.Tables, table{Head: []string{"|coordination", "|management", "|storage", "|latency", "|95 % interval", "|stored"},
			Rows: [][]string{{ui.Seconds(t.Latency.Coordination), ui.Seconds(t.Latency.Management), ui.Seconds(t.Latency.Storage), ui.Seconds(t.Latency.Total), seconds(t.LowS, t.HighS), size(t.StoredMiB.Bytes())}},
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
	return sec, r.study.picture(&sec, "size", "size.plot.json", "The data zone of a rank over the number of ranks: measured, predicted, and the target.")
}

// images shows the files of whole processes.
func (r *Result) images() table {
	s := r.Size
	t := table{Head: []string{"|ranks per node", "|files", "|library", "|data", "|shared", "|file", "|95 % interval"}, Note: "Model: " + s.Model + ". Basis: " + s.Basis + "."}
	for _, f := range s.Files {
		t.Rows = append(t.Rows, []string{strconv.Itoa(f.PPN), strconv.Itoa(f.Count), size(f.Zones.Library.Bytes()), size(f.Zones.Data.Bytes()), size(f.Zones.Shared.Bytes()), size(f.MiB.Bytes()), sizes(f.Low.Bytes(), f.High.Bytes())})
	}
	t.Rows = append(t.Rows, []string{"all", strconv.Itoa(r.fileCount()), "", "", "", size(s.TotalMiB.Bytes()), sizes(s.LowMiB.Bytes(), s.HighMiB.Bytes())})
	if r.own != nil {
		t.Note = "As the thesis stores them: an image of each process, with all that it has. " + t.Note
	}
	return t
}

// ranks shows what each rank holds of the arrays that the program declares.
func (r *Result) ranks() table {
	t := table{Head: []string{"ranks", "|number", "|bytes of each", "|at least", "|at most"}, Note: "Of the arrays that the program declares, by the rule of their cut."}
	for _, k := range r.own.Ranks[:min(len(r.own.Ranks), 12)] {
		t.Rows = append(t.Rows, []string{cmp.Or(k.Ranks, "not known which"), strconv.Itoa(k.Count), size(k.Bytes), size(k.Low), size(k.High)})
	}
	if more := len(r.own.Ranks) - len(t.Rows); more > 0 {
		t.Note += fmt.Sprintf(" %d kinds more are in size.json.", more)
	}
	return t
}

// kinds shows what ckpt stores.
func (r *Result) kinds() table {
	what := "the library once for the job, a segment once for a node"
	if r.own.Level != "" {
		what = "the arrays that the workload saves"
	}
	t := table{Head: []string{"checkpoint", "|files", "|data", "|shared", "|index", "|stored", "|95 % interval", "|latency", "|95 % interval", "|pause"},
		Note: fmt.Sprintf("Stored by ckpt: codec %s, layout %s; %s. Model: %s. Basis: %s.", r.own.Codec, r.own.Layout, what, r.own.Model, r.own.Basis)}
	for _, k := range r.Kinds {
		name := "first"
		if !k.Full {
			name = "next"
		}
		row := []string{name, strconv.Itoa(k.Files), size(k.Zones.Data), size(k.Zones.Shared), size(k.Index), size(k.Stored), sizes(k.Low, k.High), "", "", ""}
		if k.Latency != nil {
			row = append(row[:7], ui.Seconds(k.Latency.Total), seconds(*k.LowS, *k.HighS), ui.Seconds(*k.Pause))
		}
		t.Rows = append(t.Rows, row)
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

// note joins the notes of size and time, of which the second often holds the first.
func (r *Result) note() string {
	switch {
	case r.Size == nil:
		return r.own.Note
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
	for _, f := range r.Size.Files {
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

// A section of the page: what a few steps say.
type section struct {
	Phase    string    `json:"method_phase,omitempty"`
	Title    string    `json:"title"`
	Text     []string  `json:"paragraphs,omitempty"`
	Facts    []fact    `json:"facts,omitempty"`
	Findings []fact    `json:"findings,omitempty"` // of the analysis, with advice
	Tables   []table   `json:"tables,omitempty"`
	Pictures []picture `json:"pictures,omitempty"`
	Commands []string  `json:"commands,omitempty"`
}

// A table of the page. The heads of columns of numbers begin with |.
type table struct {
	Head []string   `json:"head"`
	Rows [][]string `json:"rows"`
	Note string     `json:"note,omitempty"`
}

// sections lays out the page, in the order of the thesis.
func (r *Result) sections() ([]section, error) {
	var list []section
	for _, of := range []func() (section, error){r.smallRuns, r.access, r.stored, r.model, r.predicted, r.planned, r.protected} {
		sec, err := of()
		if err != nil {
			return nil, err
		}
		if len(sec.Facts)+len(sec.Tables)+len(sec.Pictures)+len(sec.Text) > 0 {
			list = append(list, sec)
		}
	}
	return list, nil
}

// commands returns the command lines of steps that ran.
func (r *Result) commands(names ...string) (list []string) {
	for _, name := range names {
		for _, s := range r.Steps {
			if s.Name == name && s.Failure == "" {
				list = append(list, s.Command)
			}
		}
	}
	return list
}

// each returns the names of the steps that a prefix has, one for each small run.
func (r *Result) each(prefix string) (names []string) {
	for i := range r.Runs {
		names = append(names, prefix+strconv.Itoa(r.Runs[i].NP))
	}
	return names
}

// mpi returns the MPI library of the target.
func (r *Result) mpi() string {
	if name, err := r.study.value("size", "mpi"); err == nil {
		return name
	}
	return r.study.mpi()
}

// runName returns the name of the small run on np ranks.
func (r *Result) runName(np int) string {
	for i := range r.Runs {
		if r.Runs[i].NP == np {
			return r.Runs[i].Name
		}
	}
	return ""
}

func (r *Result) planned() (sec section, err error) {
	sec = section{Phase: Plan, Title: "The plan", Commands: r.commands("count", "plan", "interval")}
	if c := r.Count; c != nil {
		sec.Facts = append(sec.Facts, fact{"number", r.counted()}, fact{"the run then takes", span(c.Total) + " without a failure"})
		if c.Run != nil {
			alone := "over 292 years"
			if c.Run.Alone != nil {
				alone = span(*c.Run.Alone)
			}
			sec.Facts = append(sec.Facts, fact{"with failures", span(c.Run.Total) + ", without any checkpoint " + alone})
		}
	}
	if i := r.Interval; i != nil {
		sec.Facts = append(sec.Facts, fact{"best interval", span(i.Interval) + " from the end of a checkpoint to the next; " + ui.Percent(i.Waste) + " of the time is wasted, for an MTBF of " + span(i.MTBF)})
	}
	sec.Text = r.advice()
	if err := r.study.picture(&sec, "interval", "waste.plot.json", "The share of the time that checkpoints and failures waste, over the interval between checkpoints."); err != nil {
		return sec, err
	}
	plan := readInto[planned](r.study, "plan", &err)
	if plan == nil {
		return sec, err
	}
	t := table{Head: []string{"", "|nodes × ranks", "MPI", "codec", "|stored", "|latency", "|95 % interval", "|number", "|every", "|run", "|extrapolated"},
		Note: "The best is marked with *, on any number of nodes. Extrapolated: how far outside the measurements."}
	for _, o := range plan.Options[:min(8, len(plan.Options))] {
		mark, far := "", "no"
		if o.Best {
			mark = "*"
		}
		if o.Extrapolation > 1.05 {
			far = fmt.Sprintf("×%.2g", o.Extrapolation)
		}
		t.Rows = append(t.Rows, []string{mark, fmt.Sprintf("%d × %d", o.Nodes, o.PPN), o.MPI, o.Codec, size(o.GstoredMiB.Bytes()), ui.Seconds(o.CheckpointS), seconds(o.LowS, o.HighS),
			strconv.Itoa(o.Count), span(o.IntervalS), span(o.TotalS), far})
	}
	if len(t.Rows) > 0 {
		sec.Tables = append(sec.Tables, t)
	}
	return sec, nil
}

// protected compares the modes.
func (r *Result) protected() (sec section, err error) {
	modes := readInto[struct {
		Options []plan.Option `json:"mode_options"`
	}](r.study, "modes", &err)
	if modes == nil {
		return sec, err
	}
	sec = section{Phase: Plan, Title: "Modes and message logs", Commands: r.commands("modes")}
	t := table{Head: []string{"", "mode", "log", "|checkpoint", "|95 % interval", "|every", "|log per interval", "|restart", "|95 % interval", "|run", "|95 % interval"},
		Note: "The run includes checkpoints and failures. The best is marked with *; where intervals overlap, others may be as good."}
	if len(modes.Options) > 0 && r.own != nil && r.Size != nil && modes.Options[0].GstoredMiB >= r.Size.LowMiB {
		sec.Text = []string{"These numbers are of whole images of each process, as the thesis stores them. Those of ckpt are smaller."}
	}
	var assumed []string
	for _, o := range modes.Options {
		mark, log := "", string(o.Log)
		if o.Best {
			mark = "*"
		}
		if log == "" {
			log = "needs none"
		}
		t.Rows = append(t.Rows, []string{mark, string(o.Mode), log, ui.Seconds(o.CostS), seconds(o.LowS, o.HighS), span(o.IntervalS), size(o.LogMiB.Bytes() + o.KeptMiB.Bytes()),
			ui.Seconds(o.RestartS), seconds(o.RestartLowS, o.RestartHighS), expected(o.Expected), expected(o.Failing.Low) + " to " + expected(o.Failing.High)})
		for _, a := range o.Assumes {
			if !slices.Contains(assumed, a) {
				assumed = append(assumed, a)
			}
		}
	}
	if len(assumed) > 0 {
		t.Note += " Assumed: " + strings.Join(assumed, "; ") + "."
	}
	sec.Tables = []table{t}
	return sec, nil
}

// expected formats the expected time of a run.
func expected(t plan.Finite) string {
	if !t.Ends() {
		return "never ends"
	}
	return span(float64(t))
}

// advice says what bounds the number of checkpoints.
func (r *Result) advice() []string {
	if r.Count == nil || r.Interval == nil || r.Count.Count == 0 {
		return nil
	}
	switch r.Count.Limit {
	case "failures":
		return []string{"The overhead pays for more checkpoints than the failures ask for: more of them would cost more than they save."}
	case "capacity":
		return []string{"The store bounds the number of checkpoints."}
	}
	return []string{"The failures ask for more checkpoints than the overhead pays for: the overhead bounds their number."}
}
