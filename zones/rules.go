package zones

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"ckpt/internal/wording"
)

//go:embed rules.yaml
var builtinRules []byte

// Rules assign classes to areas of memory, and tell which processes are launchers.
// They are data: rules.yaml has the built-in ones.
type Rules struct {
	launchers []string
	mpi       map[string][]string
	rules     []rule
}

// rule is one entry of the file. Missing conditions hold.
type rule struct {
	Class       *Class    `yaml:"zone"`
	Names       []string  `yaml:"names"`   // globs of the whole name or its last element
	Backing     []backing `yaml:"backing"` // what is behind the area
	Shared      *bool     `yaml:"shared"`
	Prot        string    `yaml:"prot"`    // like rw-, ? for either
	Under       []string  `yaml:"under"`   // the process has mapped a file like one of these
	Program     []string  `yaml:"program"` // globs of the program's name
	MinSize     size      `yaml:"min_size"`
	MaxSize     size      `yaml:"max_size"`
	MinRuns     int       `yaml:"min_runs"`
	RunsKnown   *bool     `yaml:"runs_known"`
	MaxOccupied size      `yaml:"max_occupied"`
}

// backing is the kind of file or object behind an area.
type backing string

const (
	backAnonymous  backing = "anonymous"
	backHeap       backing = "heap"
	backStack      backing = "stack"
	backExecutable backing = "executable" // the program, and the bss that follows it
	backObject     backing = "object"     // a file that is mapped with code somewhere, and its bss
	backFile       backing = "file"       // any other file
	backShm        backing = "shm"        // /dev/shm, SysV, memfd, /dev/zero
	backDevice     backing = "device"
	backKernel     backing = "kernel"
)

var backings = []backing{backAnonymous, backHeap, backStack, backExecutable, backObject, backFile, backShm, backDevice, backKernel}

func (b *backing) UnmarshalText(text []byte) error {
	if *b = backing(text); slices.Contains(backings, *b) {
		return nil
	}
	return fmt.Errorf("backing %q is unknown (want one of %v)", text, backings)
}

// size is a number of bytes, written with a unit.
type size int64

func (s *size) UnmarshalText(text []byte) error {
	whole := strings.TrimSpace(string(text))
	number := strings.TrimRight(whole, "BKMGi ")
	unit := whole[len(number):]
	factor, ok := map[string]float64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[strings.TrimSpace(unit)]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || n < 0 || n*factor > 1<<62 {
		return fmt.Errorf("%q is not a size like 16 MiB", text)
	}
	*s = size(n * factor)
	return nil
}

type document struct {
	Launchers []string            `yaml:"launchers"`
	MPI       map[string][]string `yaml:"mpi"`
	Rules     []rule              `yaml:"rules"`
}

// DefaultRules returns the built-in rules.
func DefaultRules() *Rules {
	r := new(Rules)
	if err := r.add("rules.yaml", builtinRules); err != nil {
		panic(err) // a bug that every test would find
	}
	return r
}

// A RulesError is an error in a file of rules.
type RulesError struct {
	File string
	Err  error
}

func (e *RulesError) Error() string { return fmt.Sprintf("rules %s: %v", e.File, e.Err) }
func (e *RulesError) Unwrap() error { return e.Err }

// AddFile adds the rules in a file; see add.
func (r *Rules) AddFile(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return r.add(name, text)
}

// add puts the rules in text, YAML as in rules.yaml, in front of the existing rules.
// Launchers and MPI libraries are added to the known ones. file is for errors, which
// are RulesErrors.
func (r *Rules) add(file string, text []byte) error {
	var d document
	if err := wording.DecodeYAML(text, &d); err != nil && !errors.Is(err, wording.ErrEmpty) {
		return &RulesError{file, err}
	}
	for i := range d.Rules {
		if err := d.Rules[i].check(); err != nil {
			return &RulesError{file, fmt.Errorf("rule %d: %w", i+1, err)}
		}
	}
	globs := append([]string{}, d.Launchers...)
	for _, g := range d.MPI {
		globs = append(globs, g...)
	}
	if err := checkGlobs(globs); err != nil {
		return &RulesError{file, err}
	}
	r.launchers = append(d.Launchers, r.launchers...)
	if r.mpi == nil {
		r.mpi = make(map[string][]string)
	}
	for name, globs := range d.MPI {
		r.mpi[name] = append(globs, r.mpi[name]...)
	}
	r.rules = append(d.Rules, r.rules...)
	return nil
}

func (r *rule) check() error {
	if r.Class == nil {
		return errors.New("zone is missing")
	}
	if r.Prot != "" && (len(r.Prot) != 3 || strings.Trim(r.Prot, "rwx-?") != "") {
		return fmt.Errorf("prot %q is not like rw- or ?w?", r.Prot)
	}
	if r.MaxSize > 0 && r.MinSize > r.MaxSize {
		return fmt.Errorf("min_size %d is above max_size %d", r.MinSize, r.MaxSize)
	}
	for _, globs := range [][]string{r.Names, r.Under, r.Program} {
		if err := checkGlobs(globs); err != nil {
			return err
		}
	}
	return nil
}

func checkGlobs(globs []string) error {
	for _, g := range globs {
		if _, err := path.Match(g, ""); err != nil {
			return fmt.Errorf("invalid pattern %q: %w", g, err)
		}
	}
	return nil
}

// Classify sets the class of every area of p, its role, and its MPI library if that is
// unknown.
func (r *Rules) Classify(p *Process) {
	p.Role = RoleRank
	if matchAny(r.launchers, p.Name) || matchAny(r.launchers, baseName(p.Exe)) {
		p.Role = RoleLauncher
	}
	c := context{p: p, code: make(map[string]bool), files: make(map[string]bool)}
	for i := range p.Areas {
		a := &p.Areas[i]
		if a.Name == "" || a.Name[0] == '[' {
			continue
		}
		c.files[a.Name] = true
		if a.Prot&Exec != 0 || isObjectName(a.Name) {
			c.code[a.Name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.mpi)) {
		if p.MPI == "" && c.mapped(r.mpi[name]) {
			p.MPI = name
		}
	}
	for i := range p.Areas {
		a := &p.Areas[i]
		b, name := c.backing(i)
		for k := range r.rules {
			if c.holds(&r.rules[k], a, b, name) {
				a.Class = *r.rules[k].Class
				break
			}
		}
	}
}

// context is the part of the process around an area that rules can use.
type context struct {
	p     *Process
	code  map[string]bool // files with an executable area
	files map[string]bool
}

// backing returns the kind of area i and its name. For a bss area that is the name of
// the object.
func (c *context) backing(i int) (backing, string) {
	a := &c.p.Areas[i]
	name := a.File()
	switch {
	case name == "" || strings.HasPrefix(name, "[anon"):
		if object := c.bssOf(i); object != "" {
			return c.object(object), object
		}
		return backAnonymous, ""
	case name == "[heap]":
		return backHeap, name
	case strings.HasPrefix(name, "[stack"):
		return backStack, name
	case name[0] == '[':
		return backKernel, name
	case strings.HasPrefix(name, "/dev/shm/"), strings.HasPrefix(name, "/SYSV"), strings.HasPrefix(name, "/memfd:"):
		return backShm, name
	case name == "/dev/zero":
		if a.Shared || a.Deleted() {
			return backShm, name
		}
		return backAnonymous, name
	case strings.HasPrefix(name, "/dev/"):
		return backDevice, name
	}
	return c.object(a.Name), name
}

func (c *context) object(name string) backing {
	a := Area{Name: name}
	switch {
	case c.p.Exe != "" && a.File() == baseExe(c.p.Exe):
		return backExecutable
	case c.code[name]:
		return backObject
	}
	return backFile
}

func baseExe(exe string) string {
	a := Area{Name: exe}
	return a.File()
}

// bssOf returns the file whose bss area i is. The loader maps the bss as anonymous
// memory right behind the writable data of the file, or behind the whole file if that
// data became read-only after relocation.
func (c *context) bssOf(i int) string {
	a := &c.p.Areas[i]
	if i == 0 || a.Shared || a.Prot&Write == 0 {
		return ""
	}
	before := &c.p.Areas[i-1]
	if before.End != a.Start || before.Shared || before.Name == "" || before.Name[0] == '[' || before.Prot&Write == 0 {
		return ""
	}
	if !c.code[before.Name] && before.File() != baseExe(c.p.Exe) {
		return ""
	}
	return before.Name
}

// isObjectName recognises shared objects of which only data is mapped.
func isObjectName(name string) bool {
	base := baseName(name)
	return strings.HasSuffix(base, ".so") || strings.Contains(base, ".so.")
}

func (c *context) mapped(globs []string) bool {
	for name := range c.files {
		if matchName(globs, name) {
			return true
		}
	}
	return false
}

func (c *context) holds(r *rule, a *Area, b backing, name string) bool {
	n := size(a.Bytes())
	switch {
	case len(r.Names) > 0 && !matchName(r.Names, name),
		len(r.Backing) > 0 && !slices.Contains(r.Backing, b),
		r.Shared != nil && *r.Shared != a.Shared,
		r.Prot != "" && !matchProt(r.Prot, a.Prot),
		r.MinSize > 0 && n < r.MinSize,
		r.MaxSize > 0 && n > r.MaxSize,
		r.MinRuns > 0 && a.Runs < r.MinRuns,
		r.RunsKnown != nil && *r.RunsKnown != (a.Runs > 0),
		r.MaxOccupied > 0 && (a.Occupied < 0 || size(a.Occupied) > r.MaxOccupied),
		len(r.Under) > 0 && !c.mapped(r.Under),
		len(r.Program) > 0 && !matchAny(r.Program, c.p.Name):
		return false
	}
	return true
}

func matchProt(pattern string, p Prot) bool {
	s := p.String()
	for i := range len(pattern) {
		if pattern[i] != '?' && pattern[i] != s[i] {
			return false
		}
	}
	return true
}

func matchName(globs []string, name string) bool {
	a := Area{Name: name}
	return matchAny(globs, a.File()) || matchAny(globs, baseName(name))
}

func matchAny(globs []string, s string) bool {
	if s == "" {
		return false
	}
	for _, g := range globs {
		if ok, _ := path.Match(g, s); ok {
			return true
		}
	}
	return false
}
