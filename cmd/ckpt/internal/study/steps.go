// Package study is the methodology of León's thesis (UAB 2022) as one path: choose
// small runs, run them, characterise their I/O, fit, predict the large run, plan its
// checkpoints, and tell all of it on one page.
//
//	s, err := study.New(ctx, study.Options{App: "bt.A", Target: 64, Nodes: 4, Dir: "study"})
//	err = s.Run(ctx, runner)
//
// A study is a directory and a list of steps. Each step is a command line of ckpt that
// a user could type; its output is a file of the directory. The study adds nothing to
// what these commands say: it chooses their arguments, and lays out their results.
//
// # Promises
//
//   - A step whose command line, inputs and output are as they were does not run
//     again. A study that was killed continues where it was.
//   - An output is there whole or not at all.
//   - Steps run in the process of the study, so that no job outlives it.
//   - The page is one file that loads nothing and runs no script but its own.
package study

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ckpt/cmd/ckpt/internal/predictions"
)

// Checkpoints of a small run: some iterations, a full checkpoint, and others that
// store what has changed.
const iterations, every = 8, 2

// list lists the steps.
func (s *Study) list() {
	if s.own() {
		s.ownRuns()
	} else {
		s.programRuns()
	}
	s.predictions()
	s.replay()
	s.planning()
}

func (s *Study) add(steps ...Step) { s.Steps = append(s.Steps, steps...) }

func (s *Study) leave(what, reason string) { s.Left = append(s.Left, Left{what, reason}) }

// store is the store of the small runs.
func (s *Study) store() string { return s.path("store") }

func (s *Study) model() string { return s.path("study.model") }

// workload returns the workload file of the user, if there is one.
func (s *Study) workload() []string {
	if path, _, _ := strings.Cut(s.App, ":"); strings.ContainsAny(s.App, "/") || strings.HasSuffix(path, ".yaml") || strings.HasSuffix(path, ".yml") {
		return []string{path}
	}
	return nil
}

// ownRuns runs jobs of ckpt, looks at their I/O, and fits a model; then it fits one
// without each run, and compares.
func (s *Study) ownRuns() {
	var names, runs []string
	for _, r := range s.Small {
		step := s.launch(r)
		names, runs = append(names, r.Name), append(runs, step.Name)
		s.add(step)
	}
	last := len(names) - 1
	s.add(Step{Name: "io", Phase: Characterise, After: runs[last:], Why: "The access, the spatial and the temporal pattern of a full checkpoint.",
		Args: []string{"trace", "analyze", names[last] + "@1", "--store", s.store(), "--json"}},
		Step{Name: "io-plot", Phase: Characterise, After: runs[last:], Why: "The sizes of its requests, in their order.", Makes: []string{s.path("io.plot.json")},
			Args: []string{"trace", "report", names[last] + "@1", "--kind", "sizes", "-o", s.path("io.plot.json"), "--store", s.store(), "--json"}},
		s.fit(names, runs))
	for i, r := range s.Small {
		others, after := without(names, i), without(runs, i)
		np := strconv.Itoa(r.NP)
		model := s.path("without-" + np + ".model")
		s.add(Step{Name: "fit-without-" + np, Phase: Model, Optional: true, After: after, Why: "A model that has not seen the run on " + np + " ranks.", Makes: []string{model},
			Args: []string{"predict", "fit", "--from-job", strings.Join(others, ","), "--store", s.store(), "-o", model, "--json"}},
			Step{Name: "check-" + np, Phase: Model, Optional: true, After: []string{"fit-without-" + np, runs[i]}, Why: "Its prediction of that run, beside what was measured.",
				Args: []string{"predict", "eval", r.Name, "--model", model, "--store", s.store(), "--json"}})
	}
}

// launch is a small run. A program that calls ckpt runs to its end.
func (s *Study) launch(r Run) Step {
	np := strconv.Itoa(r.NP)
	step := Step{Name: "run-" + np, Phase: Small, Files: s.workload(), Makes: []string{s.jobDir(r.Name)},
		Why: fmt.Sprintf("A run on %d ranks, %d per node, with three checkpoints.", r.NP, r.PPN()),
		Args: []string{"launch", r.App, "--np", np, "--nodes", strconv.Itoa(r.Nodes), "--mpi", s.mpi(),
			"--iterations", strconv.Itoa(iterations), "--every", strconv.Itoa(every), "--job", r.Name, "--store", s.store(), "--json"}}
	step.Args = append(step.Args, s.level()...)
	if s.Command != "" {
		words := s.commandFor(r.NP)
		step.Files, step.Why = programFiles(words), fmt.Sprintf("A run on %d ranks, with a checkpoint every %d boundaries.", r.NP, s.Every)
		step.Args = append([]string{"launch", "--every", strconv.Itoa(s.Every), "--job", r.Name, "--store", s.store(), "--json", "--"}, words...)
	}
	return step
}

// fit fits the model of all small runs. The runs of a program say how its arrays are cut, too.
func (s *Study) fit(names, runs []string) Step {
	step := Step{Name: "fit", Phase: Model, After: runs, Why: "The model of all small runs.", Makes: []string{s.model()},
		Args: []string{"predict", "fit", "--from-job", strings.Join(names, ","), "--store", s.store()}}
	if s.Command != "" {
		step.Why = "The model of all small runs, and the workload file of the arrays that the program declares."
		step.Makes, step.Args = append(step.Makes, s.spec()), append(step.Args, "--spec", s.spec())
	}
	step.Args = append(step.Args, "-o", s.model(), "--json")
	return step
}

// spec is the workload file of a program that calls ckpt.
func (s *Study) spec() string { return s.path(s.Name + ".yaml") }

func (s *Study) jobDir(name string) string { return filepath.Join(s.store(), "jobs", name) }

func without(list []string, i int) (out []string) {
	return append(append(out, list[:i]...), list[i+1:]...)
}

// programRuns measures the live processes of a program, records its I/O, and fits.
func (s *Study) programRuns() {
	var tables, runs []string
	for _, r := range s.Small {
		np := strconv.Itoa(r.NP)
		words := s.commandFor(r.NP)
		step := Step{Name: "zones-" + np, Phase: Small, csv: true, Files: programFiles(words), Why: "The zones of live ranks, when their memory is steady; then the program is ended.",
			Args: append([]string{"zones", "--run", "--settle", s.Settle, "--csv", "--app", s.Name, "--"}, words...)}
		runs, tables = append(runs, step.Name), append(tables, s.path(step.Output()))
		s.add(step)
	}
	words := s.commandFor(s.Small[0].NP)
	events := s.path("io.events")
	s.add(Step{Name: "record", Phase: Characterise, Optional: true, Files: programFiles(words), Makes: []string{events}, Why: "The I/O of the program under strace.",
		Args: append([]string{"trace", "record", "--for", s.Record, "-o", events, "--json", "--"}, words...)},
		Step{Name: "io", Phase: Characterise, Optional: true, After: []string{"record"}, Why: "The access, the spatial and the temporal pattern of that I/O.",
			Args: []string{"trace", "analyze", events, "--json"}},
		Step{Name: "fit", Phase: Model, After: runs, Why: "The model of all small runs.", Makes: []string{s.model()},
			Args: append(append([]string{"predict", "fit"}, tables...), "-o", s.model(), "--json")})
	if len(s.Small) < smallRuns {
		s.leave("check", "of two runs one is left, which fixes no law: name three with --np")
		return
	}
	for i, r := range s.Small {
		np := strconv.Itoa(r.NP)
		model := s.path("without-" + np + ".model")
		s.add(Step{Name: "fit-without-" + np, Phase: Model, Optional: true, After: without(runs, i), Why: "A model that has not seen the run on " + np + " ranks.", Makes: []string{model},
			Args: append(append([]string{"predict", "fit"}, without(tables, i)...), "-o", model, "--json")},
			Step{Name: "check-" + np, Phase: Model, Optional: true, After: []string{"fit-without-" + np}, Why: "Its prediction of that run.",
				Args: []string{"predict", "size", s.Name + ".-", "--np", np, "--mpi", s.measuredMPI(), "--model", model, "--json"}})
	}
}

// measuredMPI is the MPI library of the target: from the flag, or from the small runs.
func (s *Study) measuredMPI() string {
	if s.Command == "" || s.MPI != "" {
		return s.mpi()
	}
	return fmt.Sprintf("{zones-%d:mpi}", s.Small[0].NP)
}

// library returns the flag of the MPI library of the target, none where the model has one.
func (s *Study) library() []string {
	if s.MPI == "" && s.ofCkpt() || s.Level != "" {
		return nil
	}
	return []string{"--mpi", s.measuredMPI()}
}

// app is the target as predictions take it, without its number of ranks.
func (s *Study) app() string {
	switch {
	case s.Command == "":
		return s.App
	case s.own():
		return s.spec()
	}
	return s.Name + ".-"
}

// target returns the arguments that name the target.
func (s *Study) target() []string {
	return slices.Concat([]string{s.app(), "--np", strconv.Itoa(s.Target), "--nodes", strconv.Itoa(s.Nodes)}, s.library(), []string{"--model", s.model()})
}

// on returns the flag of the storage on which times are predicted, and the file that describes it.
func (s *Study) on() (flag, files []string) {
	if s.On == "" {
		return nil, nil
	}
	return []string{"--on", s.On}, programFiles([]string{s.On})
}

// predictions predicts size and time of a checkpoint of the target.
func (s *Study) predictions() {
	images := Step{Name: "size", Phase: Analyse, After: []string{"fit"}, Files: s.workload(), Makes: []string{s.path("size.plot.json")},
		Why:  "Number and size of the files, if each process is stored whole, as in the thesis.",
		Args: slices.Concat([]string{"predict", "size"}, s.target(), []string{"--engine", "dmtcp", "--plot", s.path("size.plot.json"), "--json"})}
	if s.ofCkpt() {
		images.Why, images.Makes = "Number and size of the files, and the bytes of each rank.", nil
		images.Args = slices.Concat([]string{"predict", "size"}, s.target(), s.level(), []string{"--json"})
	}
	why := "How long such a checkpoint takes."
	if s.own() {
		why = "The bytes that ckpt stores of it, first and later, and how long that takes."
	}
	on, files := s.on()
	s.add(images, Step{Name: "time", Phase: Model, After: []string{"fit"}, Files: append(files, s.workload()...), Why: why,
		Args: slices.Concat([]string{"predict", "time"}, s.target(), on, s.level(), []string{"--engine", s.engine(), "--json"})})
}

// ofCkpt reports whether a checkpoint is stored in no other way than by ckpt.
func (s *Study) ofCkpt() bool { return s.own() && (s.Command != "" || s.Level != "") }

// level returns the flag that says what checkpoints hold.
func (s *Study) level() []string {
	if s.Level == "" {
		return nil
	}
	return []string{"--level", s.Level}
}

// own reports whether ckpt takes the checkpoints. It stores the library once for a job, the
// segment once for a node, and later what has changed.
func (s *Study) own() bool { return s.Command == "" || s.Every > 0 }

func (s *Study) engine() string {
	if s.own() {
		return "ckpt"
	}
	return "dmtcp"
}

// cost is the time that the application loses to a checkpoint, written the bytes of a
// full one.
func (s *Study) cost() string {
	if s.own() {
		return "{time:checkpoint_kinds.full=false.pause_s}"
	}
	return "{time:latency_s.total}"
}

func (s *Study) written() string {
	if s.own() {
		return "{time:checkpoint_kinds.full=true.stored_bytes}"
	}
	return "{time:stored_bytes}"
}

// layouts are the ways in which the writes of a checkpoint go to files.
var layouts = []string{"traced", "aggregated", "shared"}

// replayStep returns the name of the step that replays the pattern in a layout.
func replayStep(layout string) string {
	if layout == layouts[0] {
		return "replay"
	}
	return "replay-" + layout
}

// replay repeats the pattern at the predicted size on the storage of the user, with the
// files as traced and in other layouts.
func (s *Study) replay() {
	if s.Storage == "" {
		s.leave("replay", "no --storage DIR was given: times are those of the storage of the small runs")
		return
	}
	if !s.own() {
		s.leave("replay", "only jobs of ckpt record the I/O of their checkpoints")
		return
	}
	last := s.Small[len(s.Small)-1]
	source := []string{last.Name + "@1", "--store", s.store()}
	after := []string{"time", "run-" + strconv.Itoa(last.NP)}
	for _, layout := range layouts {
		args := append(append([]string{"trace", "replay"}, source...), "--dir", filepath.Join(s.Storage, "ckpt-study-replay"), "--overwrite",
			"--ranks", strconv.Itoa(s.Target), "--bytes", s.written(), "--at-most", strconv.FormatInt(s.Limit, 10), "--layout", layout)
		if layout == "aggregated" {
			args = append(args, "--aggregators", strconv.Itoa(s.Nodes))
		}
		s.add(Step{Name: replayStep(layout), Phase: Characterise, Optional: true, After: after, Args: append(args, "--json"),
			Why: "The pattern at the predicted size, on the storage of the user, with files " + map[bool]string{true: "as traced.", false: "of the layout " + layout + "."}[layout == layouts[0]]})
	}
}

// planning plans the checkpoints of the target, for the budget and the failures.
func (s *Study) planning() {
	s.modes()
	s.budget()
	if !s.FailingOptions.Given() {
		s.leave("best interval", "it needs --mtbf or --node-mtbf")
	} else {
		args := append([]string{"interval", "--cost", s.cost()}, s.failing()...)
		if s.NodeMTBF != "" {
			args = append(args, "--nodes", strconv.Itoa(s.Nodes))
		}
		if s.AppTime != "" {
			args = append(args, "--app-time", s.AppTime)
		}
		s.add(Step{Name: "interval", Phase: Plan, Optional: true, Makes: []string{s.path("waste.plot.json")}, Why: "The interval that loses the least time to failures.",
			Args: append(args, "--plot", s.path("waste.plot.json"), "--json")})
	}
	if s.Runs == "" {
		s.leave("fastest number of ranks", "it needs the times of runs without checkpoints, --runs CSV")
		return
	}
	s.add(Step{Name: "scale", Phase: Analyse, Optional: true, After: []string{"fit"}, Files: []string{s.Runs}, Why: "The number of ranks on which a run with checkpoints is fastest.",
		Args: slices.Concat([]string{"predict", "scale", s.app(), "--runs", s.Runs}, s.library(), []string{"--model", s.model(), "--json"})})
}

// modes compares the modes of checkpoints.
func (s *Study) modes() {
	if !s.FailingOptions.Given() || s.AppTime == "" {
		return
	}
	on, files := s.on()
	args := slices.Concat([]string{"predict", "plan"}, s.target(), s.level(), on, s.mtbf(), []string{"--app-time", s.AppTime, "--json"})
	s.add(Step{Name: "modes", Phase: Plan, Optional: true, After: []string{"fit"}, Files: append(files, s.workload()...), Args: args,
		Why: "The ranks that checkpoint and restart together, and the logs of their messages, compared."})
}

// mtbf returns the flag of the user that says how often the machine fails.
func (s *Study) mtbf() []string {
	if s.NodeMTBF != "" {
		return []string{"--node-mtbf", s.NodeMTBF}
	}
	return []string{"--mtbf", s.MTBF}
}

// failing returns the arguments for a machine that fails. A restart takes the time that
// the comparison of the modes has found.
func (s *Study) failing() []string {
	args := s.mtbf()
	if s.AppTime != "" {
		args = append(args, "--restart", "{modes:mode_options.mode=coordinated.restart_s|0}")
	}
	return args
}

// budget counts the checkpoints that the overhead pays for, and compares mappings.
func (s *Study) budget() {
	if s.Overhead == "" || s.AppTime == "" {
		s.leave("number of checkpoints", "it needs --overhead and --app-time")
		return
	}
	budget := []string{"--overhead", s.Overhead, "--app-time", s.AppTime}
	if s.Capacity != "" {
		budget = append(budget, "--capacity", s.Capacity)
	}
	on, files := s.on()
	files = append(files, s.workload()...)
	budget = append(budget, on...)
	count := slices.Concat([]string{"predict", "count"}, s.target(), s.level(), budget)
	if s.FailingOptions.Given() {
		count = append(count, s.failing()...)
	}
	s.add(Step{Name: "count", Phase: Plan, After: []string{"fit"}, Files: files, Why: "How many checkpoints the overhead pays for and the failures ask for, and when.",
		Args: append(count, "--json")})
	plan := slices.Concat([]string{"predict", "plan", s.app(), "--np", strconv.Itoa(s.Target), "--max-nodes", strconv.Itoa(s.Nodes)}, s.library(), []string{"--model", s.model()}, s.level())
	s.add(Step{Name: "plan", Phase: Plan, Optional: true, After: []string{"fit"}, Files: files, Why: "The mappings and codecs compared.",
		Args: append(append(plan, budget...), "--json")})
}

// Options are what a user asks a study.
type Options struct {
	App     string // NAME.CLASS or a workload file; "" with Command
	Command string // a command line with {np}, in place of App
	Name    string // of the program of Command; "" chooses it
	Target  int    // ranks of the large run
	Nodes   int    // nodes of the large run
	NP      []int  // ranks of the small runs; nil chooses them
	Every   int    // of Command, if it calls ckpt: boundaries between checkpoints; 0 is of others
	Settle  string // of Command: time without a change of its memory
	Record  string // of Command: time for which its I/O is recorded
	MPI     string // mpich or openmpi; "" takes the runs'
	Level   string // what checkpoints hold, as ckpt launch takes it; "" is all of the memory

	Overhead, AppTime          string // as the commands take them; "" is not asked
	Capacity, Runs             string // likewise
	predictions.FailingOptions        // likewise
	Storage                    string // directory for a replay; "" leaves it out
	Limit                      int64  // most bytes of a replay
	On                         string // preset or description of a storage for the times; "" takes those measured

	Dir  string // of the study
	Page string // the file of the page
}

// A Runner runs a command line of ckpt.
type Runner func(ctx context.Context, args []string, out, errs io.Writer) error

// A Study is the target, the small runs that were chosen, and the steps.
type Study struct {
	Options
	PPN   int    // ranks per node of the target
	Small []Run  // the small runs
	Why   string // they were chosen
	Steps []Step
	Left  []Left // what was not asked

	state *state
}

// A Left is a part of the methodology that a study leaves out, with the reason.
type Left struct {
	What   string `json:"what"`
	Reason string `json:"reason"`
}
