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
//   - The page is one file that loads nothing and runs no script.
package study

import (
	"context"
	"io"
)

// Options are what a user asks a study.
type Options struct {
	App     string // NAME.CLASS or a workload file; "" with Command
	Command string // a command line with {np}, in place of App
	Name    string // of the program of Command; "" chooses it
	Target  int    // ranks of the large run
	Nodes   int    // nodes of the large run
	NP      []int  // ranks of the small runs; nil chooses them
	Settle  string // of Command: time without a change of its memory
	Record  string // of Command: time for which its I/O is recorded
	MPI     string // mpich or openmpi; "" takes that of the runs

	Overhead, AppTime, MTBF string // as the commands take them; "" is not asked
	Capacity, Runs          string // likewise
	Storage                 string // directory for a replay; "" is none
	Limit                   int64  // most bytes of a replay

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
