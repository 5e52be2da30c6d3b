package fit

import (
	"fmt"
	"strings"
)

// An InputError explains in one line why a prediction is impossible, with a remedy.
type InputError struct {
	Text   string
	Remedy Remedy // lets callers word the remedy better than Hint
	fix    string
}

func (e *InputError) Error() string { return strings.Join(strings.Fields(e.Text), " ") }

// Hint returns the remedy in one line.
func (e *InputError) Hint() string { return strings.Join(strings.Fields(e.fix), " ") }

func Refuse(fix, format string, args ...any) error {
	return &InputError{Text: fmt.Sprintf(format, args...), fix: fix}
}

// A Remedy is an option of a prediction that makes it possible.
type Remedy uint8

// The remedies.
const (
	GiveProcs       Remedy = iota + 1 // the number of processes
	UseCollectiveIO                   // I/O full
	ChooseSeries                      // an application, class and MPI library
	UseModel                          // a model with measurements of the application
	LeaveCodec                        // no codec
	UseAutoLaw                        // the law auto
	FitPoints                         // a model of two or more process counts
	FitModel                          // a new model
	GiveRuns                          // run times
	GiveNodes                         // how many nodes
	FixCheckpoints                    // how many checkpoints a run takes
	NameApp                           // the name of an application
	VaryParam                         // a model of runs that vary a parameter
	RemedyEnd                         // no remedy: the number after the last
)

var remedyText = [RemedyEnd]string{
	GiveProcs:       "write it as in bt.B.4, or give the number of processes",
	UseCollectiveIO: "choose I/O full",
	ChooseSeries:    "choose one application, class and MPI library",
	UseModel:        "measure it, and use a model of the measurements",
	LeaveCodec:      "leave out the codec, or use another law",
	UseAutoLaw:      "describe its arrays in a YAML file, see docs/WORKLOADS.md, or use the law auto",
	FitPoints:       "measure two or more process counts and fit a model to them",
	GiveNodes:       "say how many nodes there are",
	GiveRuns:        "give the run times in a table",
	FixCheckpoints:  "give the number of checkpoints in a run, in place of the overhead",
	NameApp:         "name one of the applications that it has measurements of",
	VaryParam:       "fit a table with a column of the parameter",
	FitModel:        "fit a new model to the measurements",
}

func RefuseFor(r Remedy, format string, args ...any) error {
	return &InputError{Text: fmt.Sprintf(format, args...), Remedy: r, fix: remedyText[r]}
}

// Farthest is the factor beyond the largest measurement up to which a time is predicted. Laws
// of three small runs say nothing about a machine a thousand times as large.
const Farthest = 64

// TooFar refuses a time that lies a factor above what was measured, or returns nil. Largest is
// the largest measurement and smallest what to measure, in words.
func TooFar(above float64, largest, smallest string) error {
	if above <= Farthest*(1+1e-9) {
		return nil
	}
	return Refuse(fmt.Sprintf("time checkpoints of %s or more and fit a model to them, or describe the storage and predict on it", smallest),
		"a time %.0f times beyond the largest measured, %s, is not predicted: %d times is the limit", above, largest, Farthest)
}
