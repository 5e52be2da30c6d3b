package ui

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/dataset"
	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// choicesKey is the annotation of a flag with its possible values.
const choicesKey = "ckpt_choices"

// Choices tells the values that a flag takes, for completion and hints. The command
// refuses others itself.
func Choices(f *pflag.FlagSet, flag string, values ...string) {
	if err := f.SetAnnotation(flag, choicesKey, values); err != nil {
		panic(err) // the flag does not exist
	}
}

// ChoicesOf returns the values that a flag takes, nil if it is not one of a few.
func ChoicesOf(f *pflag.Flag) []string { return f.Annotations[choicesKey] }

// Advised puts what the user may have meant in front of the hint of an error, from
// the names that the command and its store know. It also sees the command line as it
// was typed.
func (g *Globals) Advised(cmd *cobra.Command, typed []string, err error) error {
	if err == nil || cmd == nil {
		return err
	}
	old := HintOf(err)
	if old == "" {
		old = g.placeHint(cmd, err)
	}
	old = g.withJob(cmd, old)
	meant := g.meant(cmd, err)
	program := programError(cmd, typed, err)
	if short, ok := errors.AsType[*pflag.NotExistError](err); ok && short.GetSpecifiedShortnames() != "" && program != nil {
		return program // mpirun -np 4 ./a.out
	}
	if meant != "" {
		meant = "did you mean " + meant + "?"
	} else if program != nil {
		return program
	}
	return WithHint(err, strings.TrimSpace(meant+" "+old))
}

// meant returns what the user may have meant, "" if nothing is near.
func (g *Globals) meant(cmd *cobra.Command, err error) string {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return meantFlag(cmd, unknown)
	}
	if unknown, ok := errors.AsType[*unknownCommandError](err); ok {
		return unknown.meant()
	}
	if spec, ok := errors.AsType[*dataset.SpecError](err); ok && spec.Given != "" {
		return Nearest(spec.Given, spec.Known)
	}
	if table, ok := errors.AsType[*dataset.TableError](err); ok && table.Known != nil {
		return Nearest(table.Column, table.Known)
	}
	if errors.Is(err, image.ErrJobNotFound) {
		return g.meantJob(cmd, err)
	}
	if ExitCode(err) == ExitUsage {
		return meantValue(cmd)
	}
	return ""
}

// meantFlag looks for a flag of a similar name, also for -name with one hyphen.
func meantFlag(cmd *cobra.Command, unknown *pflag.NotExistError) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	name := unknown.GetSpecifiedName()
	if short := unknown.GetSpecifiedShortnames(); short != "" {
		name, _, _ = strings.Cut(short, "=")
		if len(name) < 2 {
			return ""
		}
	}
	return prefixed("--", Nearest(name, names))
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// withJob puts the job that a command was given into a hint that says JOB.
func (g *Globals) withJob(cmd *cobra.Command, hint string) string {
	args := cmd.Flags().Args()
	if len(args) != 1 || !strings.Contains(hint, " JOB") || cmd.Flags().Lookup("store") == nil {
		return hint
	}
	name, _, _ := strings.Cut(args[0], "@")
	if !slices.Contains(g.jobNames(), name) {
		return hint
	}
	return strings.NewReplacer(" JOB ", " "+name+" ", " JOB}", " "+name+"}").Replace(hint)
}

// meantJob compares the arguments of a command with the jobs of the store.
func (g *Globals) meantJob(cmd *cobra.Command, err error) string {
	jobs := g.jobNames()
	for _, arg := range cmd.Flags().Args() {
		name, number, _ := strings.Cut(arg, "@")
		if number != "" && slices.Contains(jobs, name) && strings.Contains(err.Error(), strconv.Quote(arg)) {
			return name // the command takes no number
		}
		if near := Nearest(name, jobs); near != "" && near != name {
			if number != "" {
				near += "@" + number
			}
			return near
		}
	}
	return ""
}

// meantValue finds a flag with a value that it does not take.
func meantValue(cmd *cobra.Command) (meant string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := ChoicesOf(f)
		if values == nil || meant != "" {
			return
		}
		given := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			given = list.GetSlice()
		}
		for _, v := range given {
			if near := Nearest(v, values); near != "" && !strings.EqualFold(near, v) {
				meant = "--" + f.Name + " " + near
			}
		}
	})
	return meant
}

// placeHint is the remedy for errors about a place that commands with a store and
// others name in different ways.
func (g *Globals) placeHint(cmd *cobra.Command, err error) string {
	flag := cmd.Flags().Lookup("store")
	switch {
	case errors.Is(err, durable.ErrStorageFull):
		if flag == nil {
			return "free some space there, or name another directory"
		}
		return "free some space: ckpt prune JOB --keep N removes old checkpoints"
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		path, ok := errors.AsType[*fs.PathError](err)
		if vfs.Mounted(g.Store) && !ok || ok && vfs.Mounted(path.Path) {
			return "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, and what the policies of the bucket allow"
		}
		if flag != nil && ok && errors.Is(err, os.ErrPermission) && ofJob(path.Path, g.Store) {
			return "its owner can give access to the files of the job; in a store of a group, chmod -R g+rX does"
		}
		if flag != nil && (!ok || within(path.Path, g.Store)) {
			return "choose another directory with --store"
		}
		return "name a file or directory that you may use"
	}
	return ""
}

// ofJob reports whether a file lies in the directory of a job.
func ofJob(file, store string) bool {
	rel, err := filepath.Rel(filepath.Join(absolute(store), "jobs"), absolute(file))
	return err == nil && filepath.IsLocal(rel) && strings.Contains(rel, "/")
}

// within reports whether a file lies in a directory, or would be that directory.
func within(file, dir string) bool {
	rel, err := filepath.Rel(absolute(dir), absolute(file))
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../") || strings.HasPrefix(absolute(dir), absolute(file)+"/")
}

func absolute(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		return abs
	}
	return name
}

// An unknownCommandError names a command that ckpt does not have.
type unknownCommandError struct {
	parent *cobra.Command
	name   string
}

func (e *unknownCommandError) Error() string {
	return "unknown command \"" + e.name + "\" for \"" + e.parent.CommandPath() + "\""
}

// UnknownCommand is the error of a name that is no command below another.
func UnknownCommand(parent *cobra.Command, name string) error {
	return UsageOf(parent, &unknownCommandError{parent, name})
}

// meant looks for a command of a similar name, or of this name elsewhere.
func (e *unknownCommandError) meant() string {
	names, paths := []string{}, map[string]string{}
	for _, sub := range e.parent.Commands() {
		if sub.IsAvailableCommand() {
			if slices.Contains(sub.SuggestFor, e.name) {
				return sub.CommandPath()
			}
			names = append(names, sub.Name())
			paths[sub.Name()] = sub.CommandPath()
		}
	}
	if near := Nearest(e.name, names); near != "" {
		return paths[near]
	}
	var path string
	var find func(c *cobra.Command)
	find = func(c *cobra.Command) {
		if c.Name() == e.name && c.IsAvailableCommand() {
			path = cmp.Or(path, c.CommandPath())
		}
		for _, sub := range c.Commands() {
			find(sub)
		}
	}
	find(e.parent.Root())
	return path
}

// Nearest returns the name that is most like a word, "" without a near one: at most a
// third of the letters are wrong, or the word is the beginning of the name.
func Nearest(word string, names []string) (near string) {
	word = strings.ToLower(word)
	letters := utf8.RuneCountInString(word)
	best := max(1, letters/3) + 1
	for _, name := range names {
		if letters-utf8.RuneCountInString(name) >= best {
			continue // so many letters must go, and a word of a file may be long
		}
		d := edits(word, strings.ToLower(name))
		if len(word) > 1 && d > 1 && strings.HasPrefix(strings.ToLower(name), word) {
			d = 1
		}
		if d < best && d < letters {
			best, near = d, name
		}
	}
	return near
}

// edits counts the letters to insert, remove, replace or swap with their neighbour
// until a is b (Damerau 1964, without changes inside a swapped pair).
func edits(a, b string) int {
	s, t := []rune(a), []rune(b)
	rows := make([][]int, len(s)+1)
	for i := range rows {
		rows[i] = make([]int, len(t)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
				continue
			case s[i-1] == t[j-1]:
				rows[i][j] = rows[i-1][j-1]
			default:
				rows[i][j] = 1 + min(rows[i-1][j], rows[i][j-1], rows[i-1][j-1])
			}
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(s)][len(t)]
}
