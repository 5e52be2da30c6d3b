package study

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/dataset"
	"ckpt/internal/lazy"
)

// New chooses the small runs of a study and lists its steps. It runs nothing.
func New(o Options) (*Study, error) {
	s := &Study{Options: o}
	if s.Nodes == 0 {
		s.Nodes = 1
	}
	var err error
	if s.Command != "" {
		err = s.ofCommand()
	} else {
		err = s.ofApp()
	}
	if err != nil {
		return nil, err
	}
	s.list()
	return s, nil
}

// mpi returns the MPI library whose memory is predicted.
func (s *Study) mpi() string {
	if s.MPI == "" {
		return "mpich"
	}
	return s.MPI
}

// ofApp prepares the study of an application with a workload spec.
func (s *Study) ofApp() error {
	target, err := dataset.ParseApp(s.App, s.Target)
	if err != nil {
		return err
	}
	if target.Workload.IsProgram() {
		return ui.BadUsage(fmt.Sprintf("%s describes a program of yours, which ckpt does not simulate", s.App),
			"study its command line, as in --command 'mpiexec -n {np} ./"+target.Name+"'; docs/METHOD.md has the steps by hand")
	}
	s.Target = target.NP
	s.App = strings.TrimSuffix(s.App, "."+strconv.Itoa(target.NP))
	mapping, err := job.EvenMapping(s.Target, s.Nodes)
	if err != nil {
		return err
	}
	s.PPN = slices.Max(mapping)
	for _, n := range s.NP {
		if n >= s.Target {
			return ui.BadUsage(fmt.Sprintf("--np %d: want fewer ranks than the %d of the target", n, s.Target), "")
		}
	}
	memory, known := launch.AvailableMemory()
	if !known {
		memory = math.MaxInt64
	}
	return s.choose(target, memory)
}

// ofCommand prepares the study of a program that its command line describes.
func (s *Study) ofCommand() error {
	list, whole := words(s.Command)
	switch {
	case !whole || len(list) == 0:
		return ui.BadUsage(fmt.Sprintf("--command %q: a quote is open, or nothing is there", s.Command), "write it as for a shell, like 'mpiexec -n {np} ./heat 4096'")
	case !strings.Contains(s.Command, "{np}"):
		return ui.BadUsage(fmt.Sprintf("--command %q does not say where the number of ranks stands", s.Command), "write {np} in its place, like 'mpiexec -n {np} ./heat 4096'")
	case s.Target < 2:
		return ui.Missing("--target", "512")
	}
	mapping, err := job.EvenMapping(s.Target, s.Nodes)
	if err != nil {
		return err
	}
	s.PPN = slices.Max(mapping)
	if s.Name == "" {
		s.Name = programOf(list)
	}
	if s.Every == 0 && slices.ContainsFunc(list, callsCkpt) {
		s.Every = someBoundaries
	}
	return s.chooseAny()
}

// commandFor returns the words of the command line on n ranks.
func (s *Study) commandFor(n int) []string {
	list, _ := words(s.Command) // ofCommand has checked it
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], "{np}", strconv.Itoa(n))
	}
	return list
}

var (
	launchers = []string{"mpiexec", "mpirun", "srun", "orterun", "prterun", "env", "nice", "time", "timeout", "taskset", "numactl"}
	noName    = lazy.Regexp(`[^a-z0-9_-]+`)
)

// programOf guesses the name of the program in a command line: the first word that is
// neither a launcher, nor a flag, nor a number.
func programOf(list []string) string {
	for _, w := range list {
		base := filepath.Base(w)
		stem, _, _ := strings.Cut(base, ".") // mpiexec.mpich
		if _, err := strconv.Atoi(w); err == nil || slices.Contains(launchers, stem) || strings.HasPrefix(w, "-") || strings.ContainsAny(w, "{=") {
			continue
		}
		if name := strings.Trim(noName().ReplaceAllString(strings.ToLower(base), "_"), "_"); name != "" {
			return name
		}
	}
	return "program"
}

// someBoundaries lie between the checkpoints of a program that calls ckpt, if the user says nothing.
const someBoundaries = 10

// largestProgram is far above the size of a program, and below that of much input.
const largestProgram = 256 << 20

// callsCkpt reports whether a program has the client of ckpt: a compiled one keeps the name of the
// call in its messages, a script names it.
func callsCkpt(file string) bool {
	if fi, err := os.Stat(file); err != nil || !fi.Mode().IsRegular() || fi.Size() > largestProgram {
		return false
	}
	b, err := os.ReadFile(file)
	return err == nil && slices.ContainsFunc([]string{"ckpt_boundary", "ckpt.boundary", "ckpt.save", "ckpt.epoch", "import ckpt"},
		func(call string) bool { return bytes.Contains(b, []byte(call)) })
}

// programFiles returns the files that a command line names: another build of the
// program is another input.
func programFiles(list []string) (files []string) {
	for _, w := range list {
		if fi, err := os.Stat(w); err == nil && fi.Mode().IsRegular() && strings.Contains(w, "/") {
			files = append(files, w)
		}
	}
	return files
}
