package job

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ckpt/image"
	"ckpt/image/codec"
	"ckpt/internal/wording"
)

// A Program is a command of the user that starts all ranks of an MPI program.
type Program struct {
	Command []string `json:"command"` // mpiexec, its options, the program and its arguments
	Dir     string   `json:"dir"`     // the directory in which the command is started
	// Executable is the file that the processes run, and Digest its BLAKE3, as rank 0
	// found them when the job was launched.
	Executable string `json:"executable,omitempty"`
	Digest     string `json:"digest,omitempty"`
	// Grace is how long the program may take to end after it was told to stop.
	Grace time.Duration `json:"grace,omitempty"`
}

// NewProgramSpec describes a run of a program with the usual settings. Its ranks and
// nodes are not known before they come.
func NewProgramSpec(p Program) Spec {
	return Spec{App: p.name(), Mode: Coordinated, SharedOnce: true, LibraryOnce: true, Codec: codec.UseAuto.String(),
		Incremental: true, Trace: true, Created: time.Now().UTC(), Program: &p, ID: image.NewID()}
}

// Located returns the description with what the ranks told when they came: how many there
// are on each node, and which MPI library they use.
func (s Spec) Located(nodes Mapping, mpi, executable, digest string) Spec {
	p := *s.Program
	p.Executable, p.Digest = executable, digest
	s.Program, s.Mapping, s.MPI, s.NP = &p, nodes, mpi, 0
	for _, n := range nodes {
		s.NP += n
	}
	s.App = p.name()
	return s
}

// check refuses what no program can be run with.
func (p *Program) check(s Schedule) error {
	switch {
	case len(p.Command) == 0:
		return &UsageError{"the program has no command", "give the command that starts it, like mpiexec -n 4 ./program"}
	case s.Count > 0:
		return &UsageError{wording.Sprintf("{count}: how long a program runs is not known"), wording.Sprintf("use {every}, {interval} or {overhead}")}
	}
	return nil
}

// name is a name for what runs: that of the file of the program, or of the script that an
// interpreter runs. Names of applications have their class after a point.
func (p *Program) name() string {
	if len(p.Command) == 0 {
		return ""
	}
	base := filepath.Base(p.Executable)
	if p.Executable == "" {
		base = filepath.Base(p.Command[0])
	}
	if script := p.script(); script != "" {
		base = strings.TrimSuffix(filepath.Base(script), filepath.Ext(script))
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, base)
}

// interpreters run a file that their arguments name.
var interpreters = []string{"python", "perl", "julia", "ruby"}

// script is the file that an interpreter runs, "" if the program has none.
func (p *Program) script() string {
	i := slices.IndexFunc(p.Command, func(word string) bool {
		return slices.ContainsFunc(interpreters, func(name string) bool { return strings.HasPrefix(filepath.Base(word), name) })
	})
	if i < 0 {
		return ""
	}
	for _, argument := range p.Command[i+1:] {
		switch filepath.Ext(argument) {
		case ".py", ".pl", ".jl", ".rb":
			return argument
		}
	}
	return ""
}
