package study

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// A StepError is the failure of a step.
type StepError struct {
	N, Of   int
	Step    *Step
	Command string
	Err     error
}

func (e *StepError) Error() string {
	return fmt.Sprintf("step %d of %d, %s: %s: %v", e.N, e.Of, e.Step.Name, e.Command, e.Err)
}

func (e *StepError) Unwrap() error { return e.Err }

// ErrBusy says that another process runs the study.
var ErrBusy = errors.New("another ckpt study runs in this directory")

// Run runs the steps that are not done. It calls progress, if not nil, before each. A step that
// fails ends nothing but the steps that use its result: the others run, and the error is the first.
func (s *Study) Run(ctx context.Context, run Runner, progress func(n, of int, command string, kept bool)) error {
	if err := durable.MkdirAll(vfs.OS{}, s.Dir); err != nil {
		return err
	}
	lock, err := vfs.OS{}.Lock(s.path("lock"))
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("%s: %w", s.Dir, ErrBusy)
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	if s.state, err = readState(s.Dir); err != nil {
		return err
	}
	var first error
	for i := range s.Steps {
		step := &s.Steps[i]
		kept, err := s.step(ctx, run, step, func(command string, kept bool) {
			if progress != nil {
				progress(i+1, len(s.Steps), command, kept)
			}
		})
		if err != nil {
			failed := &StepError{i + 1, len(s.Steps), step, Command(s.argsNow(step)), err}
			if ui.ExitCode(err) == ui.ExitInterrupted {
				return failed
			}
			first = cmp.Or(first, error(failed))
		}
		step.Kept = kept
	}
	return cmp.Or(s.sweep(), first)
}

// step runs a step unless it is done.
func (s *Study) step(ctx context.Context, run Runner, step *Step, progress func(command string, kept bool)) (kept bool, err error) {
	for _, name := range step.needs() {
		if !s.has(name) {
			return false, s.failed(step, nil, fmt.Errorf("step %s has no result", name))
		}
	}
	args, err := s.resolved(step)
	if err != nil {
		return false, s.failed(step, nil, err)
	}
	key, err := s.key(step, args)
	if err != nil {
		return false, err
	}
	kept = s.done(step, key)
	progress(Command(args), kept)
	if kept {
		return true, nil
	}
	for _, name := range step.Makes {
		if err := os.RemoveAll(name); err != nil {
			return false, err
		}
	}
	var out, errs bytes.Buffer
	if err := run(ctx, args, &out, &errs); err != nil {
		return false, s.failed(step, args, err)
	}
	return false, s.keep(step, key, args, out.Bytes(), errs.Bytes())
}

// failed notes the failure of a step. That of an optional one is no error.
func (s *Study) failed(step *Step, args []string, err error) error {
	if ui.ExitCode(err) == ui.ExitInterrupted {
		return err
	}
	if args == nil {
		args = step.Args
	}
	s.state.Steps[step.Name] = &record{Args: args, Warnings: []string{}, Failure: strings.Join(strings.Fields(err.Error()), " ")}
	if failed := s.state.write(); failed != nil || step.Optional {
		return failed
	}
	return err
}

// has reports whether a step has a result.
func (s *Study) has(name string) bool {
	r := s.state.record(name)
	return r != nil && r.Failure == ""
}

// argsNow returns the arguments of a step, as far as they are known.
func (s *Study) argsNow(step *Step) []string {
	if args, err := s.resolved(step); err == nil {
		return args
	}
	return step.Args
}

// Commands returns the command lines of all steps. A value that is not known yet stays
// {step:field}.
func (s *Study) Commands() (list []string) {
	for i := range s.Steps {
		list = append(list, Command(s.argsNow(&s.Steps[i])))
	}
	return list
}

// sweep removes the results of steps that the study no longer has.
func (s *Study) sweep() error {
	for name := range s.state.Steps {
		if !slices.ContainsFunc(s.Steps, func(step Step) bool { return step.Name == name }) {
			delete(s.state.Steps, name)
			for _, ending := range []string{".json", ".csv"} {
				if err := durable.Remove(vfs.OS{}, filepath.Join(s.Dir, name+ending)); err != nil {
					return err
				}
			}
		}
	}
	return s.state.write()
}

// The phases of the thesis (Figure 3.9), and what is before and after them.
const (
	Small        = "reduced resources" // section 3.3.3
	Characterise = "phase 1: characterise the I/O"
	Analyse      = "phase 2: analyse the storage"
	Model        = "phase 3: model"
	Plan         = "planning" // section 4.1.3
)

// A Step is a command line of ckpt whose output the study keeps.
type Step struct {
	Name  string   // of the step, and of its output but for the ending
	Phase string   // of the thesis
	Why   string   // in one sentence
	Args  []string // {step:field} stands for a value in the output of a step
	After []string // steps whose results it uses
	Files []string // files of the user that it reads
	Makes []string // files and directories that it makes besides its output
	// Optional steps may fail: the page then says why something is missing.
	Optional bool
	Kept     bool // its result was there already
	csv      bool // the output is CSV
}

// Output returns the name of the file of the output, in the directory of the study.
func (s *Step) Output() string {
	if s.csv {
		return s.Name + ".csv"
	}
	return s.Name + ".json"
}

// Command returns a command line as a user would type it.
func Command(args []string) string { return "ckpt " + ui.ShellWords(args) }

// words splits a command line as a shell does, without its other powers.
func words(line string) (out []string, whole bool) {
	var word strings.Builder
	quote, open := rune(0), false
	escaped := false
	for _, c := range line {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, open = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, open = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if open {
				out = append(out, word.String())
			}
			word.Reset()
			open = false
		default:
			open = true
			word.WriteRune(c)
		}
	}
	if open {
		out = append(out, word.String())
	}
	return out, quote == 0 && !escaped
}

// stateVersion is the file's; readers refuse newer ones.
const stateVersion = 1

// state is the file study.json of a study: which steps are done.
type state struct {
	Version int                `json:"version"`
	Steps   map[string]*record `json:"steps"`
	path    string
}

// A record says what a finished step did.
type record struct {
	Args     []string `json:"args"`
	Key      string   `json:"key"`               // digest of command line and inputs
	Sum      string   `json:"sum"`               // digest of the output
	Warnings []string `json:"warnings"`          // what the step said on standard error
	Failure  string   `json:"failure,omitempty"` // of an optional step
}

func stateOf(dir string) string { return filepath.Join(dir, "study.json") }

// readState reads the state of a study; a new study's is empty.
func readState(dir string) (*state, error) {
	s := &state{Version: stateVersion, Steps: map[string]*record{}, path: stateOf(dir)}
	b, err := durable.ReadFile(vfs.OS{}, s.path, 16<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, durable.Damaged(s.path, 0, "%v", err)
	}
	if s.Version > stateVersion {
		return nil, fmt.Errorf("%s: version %d: %w", s.path, s.Version, durable.ErrNewerVersion)
	}
	if s.Steps == nil {
		s.Steps = map[string]*record{}
	}
	return s, nil
}

// record returns what a step did, nil if it has not run.
func (s *state) record(name string) *record {
	if s == nil {
		return nil
	}
	return s.Steps[name]
}

// write replaces the file.
func (s *state) write() error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return durable.Replace(vfs.OS{}, s.path, append(b, '\n'))
}

func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:", len(p))
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// key is the digest of a command line and of all that it reads. The directory of the
// study may move.
func (s *Study) key(step *Step, args []string) (string, error) {
	var parts [][]byte
	for _, a := range args {
		if rest, in := strings.CutPrefix(a, s.Dir); in {
			a = "\x00" + rest
		}
		parts = append(parts, []byte(a))
	}
	for _, name := range step.Files {
		b, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		parts = append(parts, []byte(digest(b)))
	}
	for _, name := range step.uses() {
		if r := s.state.record(name); r != nil {
			parts = append(parts, []byte(r.Key), []byte(r.Sum))
		}
	}
	return digest(parts...), nil
}

// done reports whether a step has nothing to do: its record has the same command line and
// inputs, and all that it made is there.
func (s *Study) done(step *Step, key string) bool {
	r := s.state.Steps[step.Name]
	if r == nil || r.Key != key || r.Failure != "" {
		return false
	}
	for _, name := range step.Makes {
		if _, err := os.Stat(name); err != nil {
			return false
		}
	}
	b, err := os.ReadFile(s.path(step.Output()))
	return err == nil && digest(b) == r.Sum
}

// path returns the path of a file of the study.
func (s *Study) path(name string) string { return filepath.Join(s.Dir, name) }

// keep writes the output of a step, and then its record.
func (s *Study) keep(step *Step, key string, args []string, out, errs []byte) error {
	if err := durable.Replace(vfs.OS{}, s.path(step.Output()), out); err != nil {
		return err
	}
	r := &record{Args: args, Key: key, Sum: digest(out), Warnings: []string{}}
	for line := range bytes.Lines(errs) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "ckpt: "); ok {
			r.Warnings = append(r.Warnings, text)
		}
	}
	s.state.Steps[step.Name] = r
	return s.state.write()
}
