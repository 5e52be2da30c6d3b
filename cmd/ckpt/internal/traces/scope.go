package traces

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/iotrace"
)

// scopeHelp explains the flags of a scoping in a few lines.
const scopeHelp = `Files of the system (/proc, /usr, libraries, launchers) are set apart and
counted in one line. --all takes them in; --include and --exclude say which
files are the job's, as a path, a directory or a glob: /scratch/run1, '*.so'.`

// A scoping is the flags that say which part of a trace is the job's.
type scoping struct {
	iotrace.Scope
	keeps bool // everything is kept unless a flag asks otherwise
	flags *pflag.FlagSet
	// unmatched are the patterns that match no file, with their flags.
	unmatched []string
}

func (s *scoping) addFlags(f *pflag.FlagSet, keeps bool) {
	s.keeps, s.flags = keeps, f
	all := "set no files apart, those of the system included"
	if keeps {
		all = "keep everything; --all=false, --include or --exclude leave out what analyze sets apart"
	}
	f.StringArrayVar(&s.Include, "include", nil, "files that are the job's, whatever they are: a path, directory or glob (repeatable)")
	f.StringArrayVar(&s.Exclude, "exclude", nil, "files that are not the job's: a path, directory or glob (repeatable)")
	f.BoolVar(&s.All, "all", keeps, all)
}

// limits reports whether a flag asks to leave something out.
func (s *scoping) limits() bool { return !s.All || len(s.Include)+len(s.Exclude) > 0 }

// check returns an error for a malformed pattern.
func (s *scoping) check() error {
	if err := s.Scope.Check(); err != nil {
		return ui.BadUsage(err.Error(), "name a file, a directory, or a glob like '*.nc'")
	}
	return nil
}

// apply returns the part of a trace that the flags ask for, with a count of the rest. It
// returns an error if they leave nothing.
func (s *scoping) apply(t *iotrace.Trace) (*iotrace.Trace, iotrace.Aside, error) {
	if s.flags == nil { // of a command that takes all
		return t, iotrace.Aside{}, nil
	}
	s.unmatched = nil
	for _, p := range iotrace.Unmatched(s.Include, t.Files) {
		s.unmatched = append(s.unmatched, "--include "+p)
	}
	idle := iotrace.Unmatched(s.Exclude, t.Files)
	for _, p := range idle {
		s.unmatched = append(s.unmatched, "--exclude "+p)
	}
	o := s.Scope
	o.All = o.All && !(s.keeps && !s.flags.Changed("all") && s.limits())
	t, aside := iotrace.Apart(t, o)
	if aside.Kept && len(idle) < len(o.Exclude) {
		return nil, aside, ui.BadUsage("--exclude "+strings.Join(o.Exclude, " --exclude ")+" leaves no file of the job", "leave out fewer files; ckpt trace show --all lists them")
	}
	return t, aside, nil
}

// text counts what was set apart, and names patterns that match nothing, or is empty.
func (s *scoping) text(a iotrace.Aside) string {
	text := s.counts(a)
	if len(s.unmatched) == 0 {
		return text
	}
	if text == "" {
		text = "nothing"
	}
	return text + "; no file matches " + strings.Join(s.unmatched, ", ")
}

func (s *scoping) counts(a iotrace.Aside) string {
	if a.Kept {
		return "nothing: the trace has only files of the system"
	}
	if a == (iotrace.Aside{}) {
		return ""
	}
	var things []string
	if a.Files > 0 {
		things = append(things, ui.Count(a.Files, "file"))
	}
	if a.Processes > 0 {
		things = append(things, ui.Plural(a.Processes, "process", "processes"))
	}
	text := strings.Join(things, " and ")
	if text == "" {
		text = ui.Count(a.Operations, "operation")
	}
	if len(s.Exclude) == 0 {
		text += " of the system"
	}
	if a.BytesRead > 0 {
		text += ", " + brief(a.BytesRead) + " read"
	}
	if a.BytesWritten > 0 {
		text += ", " + brief(a.BytesWritten) + " written"
	}
	return text + "; --all includes them"
}

// brief formats bytes with the unit that fits.
func brief(n int64) string {
	x, unit := float64(n), "B"
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"} {
		if x < 1024 {
			break
		}
		x, unit = x/1024, u
	}
	if unit == "B" || x >= 100 {
		return fmt.Sprintf("%.0f %s", x, unit)
	}
	return fmt.Sprintf("%.1f %s", x, unit)
}

// scoped is what the results of commands say of the trace beside the job's part.
type scoped struct {
	Aside    iotrace.Aside     `json:"aside"`
	Warnings []iotrace.Warning `json:"warnings"`
}

func (in *traceInput) scoped(t *iotrace.Trace) scoped { return scoped{in.aside, warnings(t)} }

// warnings returns the warnings of a trace, for JSON.
func warnings(t *iotrace.Trace) []iotrace.Warning { return append([]iotrace.Warning{}, t.Warnings...) }

// warningText is the sentence of a warning, with the numbers that are not in
// it. A cut trace does not tell how much it lacks.
func warningText(w iotrace.Warning) string {
	var numbers []string
	said := strings.Fields(w.Text)
	if w.Count > 0 && w.Code != "cut" && !slices.Contains(said, strconv.FormatInt(w.Count, 10)) {
		numbers = append(numbers, ui.Count(int(w.Count), "operation"))
	}
	if w.Bytes > 0 && !slices.Contains(said, strconv.FormatInt(w.Bytes, 10)) {
		numbers = append(numbers, brief(w.Bytes))
	}
	if n := len(w.Files); n > 0 {
		numbers = append(numbers, ui.Count(n, "file"))
	}
	if len(numbers) == 0 {
		return w.Text
	}
	return strings.TrimSuffix(w.Text, ".") + " (" + strings.Join(numbers, ", ") + ")"
}

// tell prints on standard error what a trace lacks, and what was set apart of it. Under
// --json both are in the result.
func (s *scoping) tell(g *ui.Globals, name string, t *iotrace.Trace, a iotrace.Aside) {
	if g.JSON {
		return
	}
	if name != "" {
		name += ": "
	}
	for _, w := range t.Warnings {
		g.Warn("%swarning: %s", name, warningText(w))
	}
	if text := s.text(a); text != "" && !g.Quiet {
		g.Warn("%sset apart: %s", name, text)
	}
}
