package study

import (
	"bytes"
	"ckpt/cmd/ckpt/internal/predictions"
	"ckpt/predict"
	"ckpt/predict/plan"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
)

// A Result is what a study found, as --json prints it.
type Result struct {
	App   string    `json:"app"`
	NP    int       `json:"np"`
	Nodes int       `json:"nodes"`
	Dir   string    `json:"dir"`
	Page  string    `json:"output,omitempty"`
	Runs  []Run     `json:"small_run_list"`
	Why   string    `json:"reason"`
	Steps []StepRow `json:"step_list"`
	Left  []Left    `json:"missing_list"`

	Checks   []Check               `json:"check_list,omitempty"`
	Inside   *float64              `json:"inside_share,omitempty"` // of the checks
	Scores   []Score               `json:"-"`                      // of own jobs: bytes stored and latencies
	Size     *predict.Size         `json:"size_prediction,omitempty"`
	Time     *predict.Time         `json:"time_prediction,omitempty"`
	Kinds    []predict.StoredKind  `json:"checkpoint_kinds,omitempty"` // of own jobs, in place of Time
	Count    *predictions.Count    `json:"count_plan,omitempty"`
	Best     *plan.Option          `json:"best_option,omitempty"`
	Interval *predictions.Interval `json:"best_interval,omitempty"`
	Replays  []replayed            `json:"replay_list,omitempty"`

	faster  *plan.Option // with another number of nodes, nil if the best one has those asked for
	study   *Study
	own     *predict.StoredRow // what stands beside Kinds
	failure *StepError         // the first, nil if no step failed that has to succeed
}

// A StepRow is a step of a result.
type StepRow struct {
	Name    string `json:"name"`
	Phase   string `json:"method_phase"`
	Why     string `json:"reason"`
	Command string `json:"command"`
	Output  string `json:"output"`
	Kept    bool   `json:"done_before"`
	Failure string `json:"failure,omitempty"`

	warnings []string
}

// planned is a table of the planner.
type planned struct {
	Options []plan.Option `json:"options"`
}

// A Check compares a small run with the model of the others.
type Check struct {
	NP        int     `json:"np"`
	Measured  int64   `json:"measured_bytes"`
	Predicted int64   `json:"predicted_bytes"`
	Low       int64   `json:"low_bytes"`
	High      int64   `json:"high_bytes"`
	Error     float64 `json:"relative_difference"` // (predicted − measured) / measured
	Inside    bool    `json:"inside"`
}

// A Score compares what a small run stored, and how long that took, with the model of
// the others.
type Score struct {
	NP int
	predict.StoredScore
	Time *predict.TimeScore
}

// A replayed pattern is what one layout took on the storage of the user.
type replayed struct {
	Layout  string  `json:"layout"`
	Dir     string  `json:"dir"`
	Files   int     `json:"files"`
	Bytes   int64   `json:"bytes"`
	Wanted  int64   `json:"wanted_bytes"`
	Seconds float64 `json:"wall_s"`
}

// name returns the name of the target.
func (s *Study) name() string {
	if s.Command != "" {
		return s.Name
	}
	return s.App
}

// read decodes the output of a step into v. It reports false if the study has no such
// step, or the step failed.
func (s *Study) read(name string, v any) (bool, error) {
	i := slices.IndexFunc(s.Steps, func(step Step) bool { return step.Name == name })
	if i < 0 || s.state.Steps[name] == nil || s.state.Steps[name].Failure != "" {
		return false, nil
	}
	b, err := os.ReadFile(s.path(s.Steps[i].Output()))
	if err != nil {
		return false, err
	}
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(v); err != nil {
		return false, fmt.Errorf("%s: %w", s.path(s.Steps[i].Output()), err)
	}
	return true, nil
}

// readInto decodes the output of a step into a new T, nil without an output.
func readInto[T any](s *Study, name string, err *error) *T {
	if *err != nil {
		return nil
	}
	var v T
	found, failed := s.read(name, &v)
	if *err = failed; !found {
		return nil
	}
	return &v
}

// result collects the results of the steps.
func (s *Study) result() (*Result, error) {
	r := &Result{App: s.name(), NP: s.Target, Nodes: s.Nodes, Dir: s.Dir, Page: s.Page, Runs: s.Small, Why: s.Why, Left: slices.Clone(s.Left), study: s}
	r.steps(s)
	for _, step := range r.Steps {
		if step.Failure != "" {
			r.Left = append(r.Left, Left{step.Name, step.Failure})
		}
	}
	var err error
	if s.ofCkpt() {
		r.own = readInto[predict.StoredRow](s, "size", &err)
	} else {
		r.Size = readInto[predict.Size](s, "size", &err)
	}
	r.Time = readInto[predict.Time](s, "time", &err)
	r.Count, r.Interval = readInto[predictions.Count](s, "count", &err), readInto[predictions.Interval](s, "interval", &err)
	if err != nil {
		return nil, err
	}
	if own := readInto[predict.StoredRow](s, "time", &err); own != nil && len(own.Kinds) > 0 {
		r.own, r.Time = own, nil
	}
	if r.own != nil {
		r.Kinds = r.own.Kinds
	}
	if plan := readInto[planned](s, "plan", &err); plan != nil {
		r.Best, r.faster = chosen(plan.Options, s.Nodes)
	}
	if err == nil {
		err = r.replays(s)
	}
	if err == nil {
		err = r.checks(s)
	}
	return r, err
}

// chosen is the best option on the nodes that were asked for, and the best of all if that has
// others. Options are sorted, the best first.
func chosen(options []plan.Option, nodes int) (best, faster *plan.Option) {
	for i := range options {
		o := &options[i]
		if o.Best && o.Nodes != nodes {
			faster = o
		}
		if best == nil && o.Nodes == nodes && o.Fits && !o.Guess {
			best = o
		}
	}
	if best == nil {
		return faster, nil
	}
	return best, faster
}

// steps lists the steps.
func (r *Result) steps(s *Study) {
	for i := range s.Steps {
		step := &s.Steps[i]
		row := StepRow{Name: step.Name, Phase: step.Phase, Why: step.Why, Command: Command(s.argsNow(step)), Output: s.path(step.Output()), Kept: step.Kept}
		if s.state != nil && s.state.Steps[step.Name] != nil {
			rec := s.state.Steps[step.Name]
			row.Failure, row.warnings = rec.Failure, rec.Warnings
		}
		r.Steps = append(r.Steps, row)
	}
	if r.Left == nil {
		r.Left = []Left{}
	}
}

// replays reads the replays in all layouts; the first is the trace's.
func (r *Result) replays(s *Study) (err error) {
	for _, layout := range layouts {
		p := readInto[struct {
			Dir      string `json:"dir"`
			Wanted   int64  `json:"wanted_bytes"`
			Replayed struct {
				Files   int     `json:"files"`
				Written int64   `json:"bytes_written"`
				Wall    float64 `json:"wall_s"`
			} `json:"replayed"`
		}](s, replayStep(layout), &err)
		if p != nil {
			r.Replays = append(r.Replays, replayed{layout, p.Dir, p.Replayed.Files, p.Replayed.Written, p.Wanted, p.Replayed.Wall})
		}
	}
	return err
}

// checks compares each small run with the model of the others.
func (r *Result) checks(s *Study) error {
	inside := 0
	for _, run := range s.Small {
		name := "check-" + strconv.Itoa(run.NP)
		var c *Check
		var err error
		if !s.own() {
			c, err = s.checkProgram(name, run)
		} else {
			c, err = r.checkJob(name, run.NP)
		}
		if err != nil {
			return err
		}
		if c == nil {
			continue
		}
		c.NP = run.NP
		if c.Inside {
			inside++
		}
		r.Checks = append(r.Checks, *c)
	}
	if n := len(r.Checks); n > 0 {
		share := float64(inside) / float64(n)
		r.Inside = &share
	}
	return nil
}

// checkJob reads what ckpt predict eval said: of the images of the first checkpoint,
// and of what each checkpoint stored.
func (r *Result) checkJob(name string, np int) (*Check, error) {
	var err error
	score := readInto[predict.Scored](r.study, name, &err)
	if score == nil {
		return nil, err
	}
	for _, stored := range score.Stored {
		x := Score{NP: np, StoredScore: stored}
		for i := range score.Times {
			if score.Times[i].Number == x.Number {
				x.Time = &score.Times[i]
			}
		}
		r.Scores = append(r.Scores, x)
	}
	if len(score.Scores) == 0 { // no image of a program has all zones
		return nil, nil
	}
	first := &score.Scores[0]
	return &Check{Measured: first.Measured, Predicted: first.Predicted, Low: first.Low, High: first.High, Error: first.Error, Inside: first.Inside}, nil
}

// checkProgram compares a predicted size with the row that ckpt zones wrote.
func (s *Study) checkProgram(name string, run Run) (*Check, error) {
	var err error
	size := readInto[predict.Size](s, name, &err)
	if size == nil || len(size.Files) == 0 {
		return nil, err
	}
	text, err := s.value("zones-"+strconv.Itoa(run.NP), "ckpt_file_MiB")
	if err != nil {
		return nil, err
	}
	mib, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, err
	}
	f := size.Files[0]
	c := &Check{Measured: int64(math.Round(mib * (1 << 20))), Predicted: f.MiB.Bytes(), Low: f.Low.Bytes(), High: f.High.Bytes()}
	c.Error = float64(c.Predicted-c.Measured) / float64(c.Measured)
	c.Inside = c.Low <= c.Measured && c.Measured <= c.High
	return c, nil
}
