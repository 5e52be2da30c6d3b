package job

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"ckpt/dataset"
	"ckpt/image"
	"ckpt/zones"
	"ckpt/zones/global"
)

// Class is the class of a program: its arguments, as a name; "-" without any.
func (p *Program) Class() string { return ClassOf(p.Arguments()) }

// Arguments are the words of the command after the program, or after the script that an
// interpreter runs.
func (p *Program) Arguments() []string {
	i := slices.IndexFunc(p.Command, func(word string) bool {
		return word == p.script() || p.Executable != "" && filepath.Base(word) == filepath.Base(p.Executable)
	})
	if i < 0 {
		return nil
	}
	return p.Command[i+1:]
}

// ClassOf makes arguments a name.
func ClassOf(arguments []string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, strings.Join(arguments, "-"))
	return cmp.Or(name[:min(len(name), maxClass)], noClass)
}

// noClass is the class of a program without arguments, maxClass the longest name of one.
const (
	noClass  = "-"
	maxClass = 60
)

// ReadArrays reads which arrays the ranks of a program protected in the newest checkpoint of the
// job, and what they declared of them.
func ReadArrays(j *image.Job) (dataset.SeenRun, error) {
	spec, err := ReadSpec(j)
	if err != nil {
		return dataset.SeenRun{}, err
	}
	n, err := j.Latest()
	if err != nil {
		return dataset.SeenRun{}, err
	}
	if n == 0 {
		return dataset.SeenRun{}, fmt.Errorf("job %s has no checkpoint in the store to measure: %w", j.Name(), image.ErrCheckpointNotFound)
	}
	m, err := j.Manifest(n)
	if err != nil {
		return dataset.SeenRun{}, err
	}
	run := dataset.SeenRun{Job: j.Name(), NP: m.NP, OpenMPI: dataset.MPIName(spec.MPI) == "openmpi"}
	s := seenReader{run: &run, at: map[string]int{}}
	err = j.EachRegion(m, s.add)
	for _, r := range m.Ranks {
		s.declare(&r)
	}
	return run, err
}

// A seenReader collects the regions of all ranks.
type seenReader struct {
	run *dataset.SeenRun
	at  map[string]int // index in the arrays of the run
}

func (s *seenReader) add(rank int, r zones.Region) error {
	i, ok := s.at[r.Name]
	if !ok {
		i = len(s.run.Arrays)
		s.at[r.Name] = i
		s.run.Arrays = append(s.run.Arrays, dataset.SeenArray{Name: r.Name, Elem: r.Elem, Bytes: make([]int64, s.run.NP), Replicated: true})
	}
	if rank >= 0 && rank < s.run.NP {
		s.run.Arrays[i].Bytes[rank] = r.Size
	}
	return nil
}

// declare notes what a rank declared of its regions.
func (s *seenReader) declare(r *image.Rank) {
	for i := range s.run.Arrays {
		a := &s.run.Arrays[i]
		a.Replicated = a.Replicated && slices.Contains(r.Replicated, a.Name)
	}
	for k := range r.Global {
		g := &r.Global[k]
		i, ok := s.at[g.Region]
		if !ok || r.Rank >= s.run.NP {
			continue
		}
		a := &s.run.Arrays[i]
		if a.Parts == nil {
			a.Parts = make([]*global.Part, s.run.NP)
		}
		a.Parts[r.Rank] = &g.Part
	}
}

// declaredWorkload is the workload spec that follows from what a program declared; empty
// without declarations.
func declaredWorkload(j *image.Job, run *dataset.JobRun) string {
	seen, err := ReadArrays(j)
	if err != nil {
		return ""
	}
	d, err := dataset.Describe(run.App, run.Class, []dataset.SeenRun{seen})
	if err != nil || !d.Declared() {
		return ""
	}
	return d.Text
}
