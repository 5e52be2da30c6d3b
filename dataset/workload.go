package dataset

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/bits"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"ckpt/zones"
)

//go:embed workloads/*.yaml
var builtin embed.FS

// Limits on the text of a spec; the largest built-in one has 3 KiB.
const (
	maxSource = 256 << 10
	maxItems  = 1000
	// minRuntime is one page: coordinator/app keeps the iteration counter and
	// the residuals there.
	minRuntime = zones.PageSize
)

// A Workload is the checked spec of one application.
type Workload struct {
	Name string
	// Title is one line for tables.
	Title string
	// Kernel names the mini-application of coordinator/app that computes it.
	Kernel string

	spec    spec
	derived []named // in their order
	source  []byte
}

type named struct {
	name string
	expr *expression
}

// kernels are those that coordinator/app knows.
var kernels = []string{"bt", "sp", "lu", "cg", "minighost", "heat", "ring", "dl", "dlshard", "generic", kernelProgram}

// kernelProgram says that the spec describes a program of a user: it has the arrays and nothing
// else, and ranks may be without cells of an array.
const kernelProgram = "program"

// IsProgram reports whether the spec describes a program of a user.
func (w *Workload) IsProgram() bool { return w.Kernel == kernelProgram }

// Names returns the built-in workloads, sorted.
func Names() []string {
	entries, err := builtin.ReadDir("workloads")
	if err != nil {
		panic(err) // embedded at build time
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(out)
	return out
}

// isBuiltIn reports whether a text is the text of a built-in workload. TestBuiltIn has checked its form.
func isBuiltIn(src []byte) bool {
	return slices.ContainsFunc(Names(), func(name string) bool { return bytes.Equal(builtinText(name), src) })
}

func builtinText(name string) []byte {
	src, err := builtin.ReadFile(path.Join("workloads", name+".yaml"))
	if err != nil {
		panic(err) // embedded at build time
	}
	return src
}

// workloads has the built-in workloads that were asked for, which a prediction does some
// hundred times. A Workload does not change.
var workloads sync.Map // from name to Workload

func builtinWorkload(name string) (*Workload, error) {
	if w, ok := workloads.Load(name); ok {
		own := w.(Workload)
		return &own, nil
	}
	w, err := ParseWorkload(builtinText(name), name)
	if err == nil {
		workloads.Store(name, *w)
	}
	return w, err
}

// LoadWorkload returns the built-in workload of that name, or reads the YAML
// file of that path. A path contains a slash or ends in .yaml or .yml.
func LoadWorkload(nameOrPath string) (*Workload, error) {
	if !IsPath(nameOrPath) {
		name := strings.ToLower(nameOrPath)
		if !slices.Contains(Names(), name) {
			return nil, &SpecError{
				Reason: UnknownApp, Subject: fmt.Sprintf("application %q", nameOrPath), Problem: "not known",
				Given: name, Known: Names(),
				hint: "known applications: " + strings.Join(Names(), ", ") + "; or give the path of a YAML spec",
			}
		}
		return builtinWorkload(name)
	}
	src, err := readSpec(nameOrPath)
	if err != nil {
		return nil, &SpecError{
			Reason: Unreadable, Subject: "spec " + nameOrPath, Problem: cause(err),
			hint: "give the path of a readable YAML file; docs/WORKLOADS.md shows one", err: err,
		}
	}
	return ParseWorkload(src, nameOrPath)
}

// IsPath reports whether users mean a file, not the name of an application.
func IsPath(s string) bool {
	return strings.ContainsRune(s, '/') || strings.HasSuffix(s, ".yaml") || strings.HasSuffix(s, ".yml")
}

// readSpec stops after the size limit: the path may name a device.
func readSpec(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSource+1))
}

// cause drops operation and path of a file error; the subject names the path.
func cause(err error) string {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

// Source returns the YAML text the workload was read from.
func (w *Workload) Source() []byte { return slices.Clone(w.source) }

// npbOrder is the order of the NAS problem classes, from sample to largest.
const npbOrder = "SWABCDEF"

// Classes returns the problem classes: of NPB in their order, then
// others sorted by name.
func (w *Workload) Classes() []string {
	rank := func(c string) int {
		if i := strings.Index(npbOrder, c); i >= 0 && len(c) == 1 {
			return i
		}
		return len(npbOrder)
	}
	return slices.SortedFunc(maps.Keys(w.spec.Classes), func(a, b string) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
}

func names[V any](m map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

// maxProcs bounds process counts. It is larger than any job that the models were
// checked against, and small enough that an expression cannot overflow by it.
const maxProcs = 1 << 20

// A procRule describes the process counts that an application can run with.
type procRule string

const (
	procsSquare procRule = "square"       // BT, SP: multipartition of q x q
	procsPower2 procRule = "power-of-two" // CG
	procsAny    procRule = "any"
)

func (r procRule) valid() bool {
	return r == procsSquare || r == procsPower2 || r == procsAny
}

// allows reports whether a job may have np processes.
func (r procRule) allows(np int) bool {
	if np < 1 || np > maxProcs {
		return false
	}
	switch r {
	case procsSquare:
		q := int(math.Sqrt(float64(np)))
		return q*q == np
	case procsPower2:
		return bits.OnesCount(uint(np)) == 1
	}
	return true
}

// nearest returns the allowed counts next to np: the largest below and the smallest
// above, or 0.
func (r procRule) nearest(np int) (below, above int) {
	np = max(0, min(np, maxProcs+1))
	switch r {
	case procsSquare:
		q := int(math.Sqrt(float64(np)))
		below, above = q*q, (q+1)*(q+1)
	case procsPower2:
		if np > 0 {
			below = 1 << (bits.Len(uint(np)) - 1)
		}
		above = 1 << bits.Len(uint(np))
	default:
		below, above = min(np, maxProcs), np+1
	}
	if above > maxProcs {
		above = 0
	}
	return below, above
}

// hint advises counts to use instead of np.
func (r procRule) hint(np int) string {
	below, above := r.nearest(np)
	switch {
	case below == 0:
		return fmt.Sprintf("the nearest allowed count is %d", above)
	case above == 0:
		return fmt.Sprintf("the nearest allowed count is %d", below)
	}
	return fmt.Sprintf("the nearest allowed counts are %d and %d", below, above)
}

// A Reason tells the kinds of [SpecError] apart.
type Reason string

// The reasons.
const (
	UnknownApp    Reason = "unknown-app"
	UnknownClass  Reason = "unknown-class"
	NoClass       Reason = "no-class"
	NoProcs       Reason = "no-procs"
	BadProcs      Reason = "bad-procs"
	Contradiction Reason = "contradiction"
	BadSpec       Reason = "bad-spec"
	Unreadable    Reason = "unreadable"
	UnknownTable  Reason = "unknown-table"
)

// A SpecError explains in one line what is wrong with an application's name or spec,
// with a remedy.
type SpecError struct {
	Reason Reason
	// Subject is the spec or application as the user wrote it.
	Subject string
	Problem string
	// Given is the unknown name, if it is one, and Known are the names that exist.
	Given string
	Known []string
	hint  string
	err   error
}

func (e *SpecError) Error() string {
	return oneLine(e.Subject + ": " + e.Problem)
}

// Hint returns advice in one line, or "".
func (e *SpecError) Hint() string { return oneLine(e.hint) }

// Unwrap returns the cause, if another package reported it.
func (e *SpecError) Unwrap() error { return e.err }

// oneLine keeps text from a YAML error, which may span several lines, on the one line
// that logs expect.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// CannotRead returns the error of an unreadable file that the user named: its role
// ("table", "model"), its path, and the reason.
func CannotRead(what, path string, err error) *SpecError {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &SpecError{Reason: Unreadable, Subject: what + " " + path, Problem: err.Error(), hint: "check the path", err: err}
}
