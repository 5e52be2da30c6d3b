package study

import (
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
)

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
