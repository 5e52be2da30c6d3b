package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ckpt/image"
	"ckpt/image/codec"
	"ckpt/image/dmtcp"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
	"ckpt/internal/wording"
)

// A Program is a command of the user that starts all ranks of an MPI program.
type Program struct {
	Command []string `json:"command"` // mpiexec, its options, the program and its arguments
	Dir     string   `json:"dir"`     // the directory in which the command is started
	// Executable is the file that the processes run, and Digest its BLAKE3, as rank 0 found them
	// when the job was launched.
	Executable string `json:"executable,omitempty"`
	Digest     string `json:"digest,omitempty"`
	// Boundaries is how many the program passes, by the word of the user, for Schedule.Count.
	Boundaries int `json:"boundaries,omitempty"`
	// Local has DMTCP write its images there, of which the store gets each; nil: beside the store's.
	Local *nodes.Setting `json:"local,omitempty"`
	// Grace is how long the program may take to end after it was told to stop.
	Grace time.Duration `json:"grace,omitempty"`
}

// NewProgramSpec describes a run of a program with the usual settings. Ranks and nodes are known
// when they come.
func NewProgramSpec(p Program) Spec {
	return Spec{App: p.name(), Mode: Coordinated, SharedOnce: true, LibraryOnce: true, Codec: codec.UseAuto.String(),
		Incremental: true, Trace: true, Created: time.Now().UTC(), Program: &p, ID: image.NewID()}
}

// Located adds what the ranks told when they came: how many are on each node, and which MPI
// library they use.
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

func (p *Program) check() error {
	if len(p.Command) == 0 {
		return &UsageError{"the program has no command", "give the command that starts it, like mpiexec -n 4 ./program"}
	}
	if p.Boundaries < 0 || p.Boundaries > maxIterations {
		return &UsageError{fmt.Sprintf("%d boundaries: a program passes at most %d", p.Boundaries, maxIterations), ""}
	}
	return nil
}

// name names what runs by the file of the program, or by the script that an interpreter runs.
// Only names of applications have a class after a point.
func (p *Program) name() string {
	if len(p.Command) == 0 {
		return ""
	}
	base := filepath.Base(cmp.Or(p.Executable, p.launched()))
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

// launched is the program that a launcher of the command starts, as far as that can be seen:
// the first word after its options that is an executable file.
func (p *Program) launched() string {
	at := slices.IndexFunc(p.Command, func(word string) bool {
		return slices.ContainsFunc([]string{"mpiexec", "mpirun", "srun", "prterun"}, func(name string) bool { return strings.HasPrefix(filepath.Base(word), name) })
	})
	for _, word := range p.Command[at+1:] {
		file := word
		if strings.Contains(file, "/") && !filepath.IsAbs(file) {
			file = filepath.Join(p.Dir, file)
		}
		if found, err := exec.LookPath(file); err == nil && !strings.HasPrefix(word, "-") {
			return found
		}
	}
	return p.Command[0]
}

// interpreters run a file that their arguments name.
var interpreters = []string{"python", "perl", "julia", "ruby"}

// script is the file that an interpreter runs, or "".
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

// InputLimit is how much of a standard input a job keeps.
const InputLimit = 64 << 20

const inputName = "stdin.json"

// An Input is the standard input of a program, as its job keeps it for later runs.
type Input struct {
	Data  []byte `json:"data,omitempty"`
	Ended bool   `json:"ended"` // else more may have come after Data
	// File holds it in place of Data if it is longer than InputLimit.
	File *InputFile `json:"file,omitempty"`
}

// An InputFile is a file that is read again, unless it has changed.
type InputFile struct {
	Path     string `json:"path"`
	At       int64  `json:"at"` // where the program begins to read
	Size     int64  `json:"size"`
	Modified int64  `json:"modified_ns"`
}

func WriteInput(j *image.Job, in Input) error {
	b, err := sealOwned(j, in)
	if err != nil {
		return err
	}
	return durable.Replace(j.FS(), filepath.Join(j.Dir(), inputName), b)
}

// ReadInput returns the standard input that a job has kept, or nil.
func ReadInput(j *image.Job) (*Input, error) {
	var in Input
	err := readOwned(j, filepath.Join(j.Dir(), inputName), 2*InputLimit, &in, durable.ReadSealed)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &in, nil
}

func (in *Input) Check(j *image.Job) error {
	again := wording.Sprintf("{restart %s} -- COMMAND with a command that reads its input from a file", j.Name())
	if f := in.File; f != nil {
		fi, err := os.Stat(f.Path)
		if err == nil && (fi.Size() != f.Size || fi.ModTime().UnixNano() != f.Modified) {
			err = errors.New("it has changed since")
		}
		if err != nil {
			return &UsageError{Text: fmt.Sprintf("standard input of job %s was the file %s: %v", j.Name(), f.Path, err), Fix: "put it back as it was; or " + again}
		}
	}
	if !in.Ended && len(in.Data) > 0 {
		return &UsageError{Text: fmt.Sprintf("standard input of job %s had not ended when its run did: only the first %d bytes are known", j.Name(), len(in.Data)), Fix: again}
	}
	return nil
}

// Import stores a checkpoint of another checkpointer as the next one of a job, which it makes if
// need be. Checkpoints of one job are of the same program and number of ranks.
func Import(ctx context.Context, store *image.Store, name string, set *dmtcp.Set, opt dmtcp.Options) (*image.Manifest, error) {
	spec := Spec{ID: image.NewID(), Origin: dmtcp.Origin, App: set.Images[0].Name, NP: set.NP, Mapping: set.Mapping, MPI: set.Images[0].MPI, Mode: Coordinated}
	text, err := spec.Encode()
	if err != nil {
		return nil, err
	}
	job, err := lockImported(store, name, &spec)
	if errors.Is(err, image.ErrJobNotFound) || errors.Is(err, errUnused) {
		job, err = store.TakeOverJob(name, text, func(job *image.Job) error { return Forsake(job) })
	}
	if err != nil {
		return nil, err
	}
	defer job.Unlock()
	if _, err := job.Sweep(); err != nil {
		return nil, err
	}
	return set.Import(ctx, job, opt)
}

// errUnused says that a job is the remains of a failed import.
var errUnused = errors.New("the job has no checkpoint")

func lockImported(store *image.Store, name string, want *Spec) (*image.Job, error) {
	job, err := store.Job(name)
	if err != nil {
		return nil, err
	}
	if err := job.Lock(); err != nil {
		return nil, err
	}
	_, err = store.Own()
	var text []byte
	if err == nil {
		text, err = job.Spec()
	}
	if err == nil {
		var have *Resolved
		if have, err = decodeSpec(text); err == nil {
			err = sameImported(job, have, want)
		}
	}
	if err != nil {
		return nil, errors.Join(err, job.Unlock())
	}
	return job, nil
}

func sameImported(job *image.Job, have *Resolved, want *Spec) error {
	name := job.Name()
	if have.Origin != want.Origin {
		return &UsageError{fmt.Sprintf("job %s is one of ckpt's own", name), wording.Sprintf("import under another {job}")}
	}
	if latest, err := job.Latest(); err != nil || latest == 0 {
		return errors.Join(err, errUnused)
	}
	if have.App != want.App || have.NP != want.NP {
		return &UsageError{fmt.Sprintf("job %s holds %d ranks of %s, the images are %d of %s", name, have.NP, have.App, want.NP, want.App),
			wording.Sprintf("import under another {job}")}
	}
	return nil
}
