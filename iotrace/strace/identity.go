package strace

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"ckpt/internal/lazy"
	"ckpt/iotrace"
)

// A process becomes a rank of the trace.
type process struct {
	pid int64
	about
	index int32 // of its identity; iotrace.None until its first event since exec
}

// about is what exec shows of a process.
type about struct {
	program string // without directories; empty if unknown
	mpi     int    // rank in MPI, or iotrace.None
	job     int    // that a launcher began, from 1; else 0
}

// An identity is a process while it runs one program.
type identity struct {
	*process
	about
}

func newProcess(pid int64) *process {
	return &process{pid: pid, about: about{mpi: iotrace.None}, index: iotrace.None}
}

// fork returns a child: it runs the same program, for the same rank.
func (p *process) fork() *process { return &process{about: p.about, index: iotrace.None} }

func (im *importer) rank(p *process) int32 {
	if p.index == iotrace.None {
		p.index = int32(len(im.identities))
		im.identities = append(im.identities, identity{p, p.about})
	}
	return p.index
}

func (im *importer) executes(p *process, file string, environment []byte) {
	p.program = path.Base(file)
	if n := mpiRank(environment); n != iotrace.None {
		p.mpi = n
	}
	if launchers[p.program] {
		p.mpi = iotrace.None
		if p.job == 0 { // else a proxy, or another name of the same launcher
			im.jobs++
			p.job = im.jobs
		}
	}
	p.index = iotrace.None
	im.program(file)
}

// launchers start the ranks of MPI jobs, and pass their output on.
var launchers = map[string]bool{
	"mpiexec": true, "mpirun": true, "orterun": true, "prterun": true, "prun": true, "prte": true, "prted": true, "orted": true,
	"mpiexec.hydra": true, "mpiexec.mpich": true, "mpiexec.openmpi": true, "mpirun.mpich": true, "mpirun.openmpi": true,
	"hydra_pmi_proxy": true, "hydra_bstrap_proxy": true, "hydra_nameserver": true, "srun": true, "slurmstepd": true,
}

// maxPrograms bounds the programs that are named in the trace.
const maxPrograms = 64

func (im *importer) program(file string) {
	if im.programs[file] || len(im.programs) >= maxPrograms || !path.IsAbs(file) {
		return
	}
	im.programs[file] = true
	im.t.Properties = append(im.t.Properties, iotrace.Property{Name: iotrace.ProgramProperty, Value: file})
}

// interpreters run the script that their first argument names, whatever their version.
var interpreters = map[string]bool{"sh": true, "bash": true, "dash": true, "zsh": true, "ksh": true, "csh": true, "tcsh": true,
	"python": true, "pypy": true, "perl": true, "ruby": true, "lua": true, "luajit": true, "julia": true, "Rscript": true, "node": true, "tclsh": true}

// script adds the script that a program runs, if it is an interpreter, to the programs.
func (c *call) script(program string, arguments []byte) {
	if !interpreters[strings.TrimRight(path.Base(program), "0123456789.-")] {
		return
	}
	list, _, ok := elements(arguments)
	if !ok || len(list) < 2 {
		return
	}
	for _, argument := range list[1:] {
		text, whole, ok := parseString(argument)
		switch {
		case !ok || !whole, text == "-c", text == "-e", text == "-m", text == "-": // no file
			return
		case strings.HasPrefix(text, "-"):
			continue
		}
		if file, ok := c.pathArg(nil, argument); ok {
			c.im.program(file)
		}
		return
	}
}

// ranksIn are the variables in which launchers tell a process its rank. If several are
// set, the first counts: the others may be of a launcher around this one.
var ranksIn = []string{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", slurmRank}

// Slurm sets its rank for the script of a batch job too. Only the processes that srun
// starts have a step.
const slurmRank, slurmStep = "SLURM_PROCID", "SLURM_STEP_ID"

// mpiRank finds the rank in ["A=1", "B=2"], the environment of a program. It keeps
// nothing else.
func mpiRank(environment []byte) int {
	if !bytes.HasPrefix(environment, []byte("[")) {
		return iotrace.None // strace does not show it
	}
	best, rank, step := len(ranksIn), iotrace.None, false
	list, _, _ := elements(environment)
	for _, word := range list {
		variable, ok := bytes.CutPrefix(word, []byte(`"`))
		if !ok {
			continue
		}
		name, value, _ := bytes.Cut(variable, []byte("="))
		step = step || string(name) == slurmStep
		for i := range min(best, len(ranksIn)) {
			if string(name) != ranksIn[i] {
				continue
			}
			value, whole := bytes.CutSuffix(value, []byte(`"`))
			if n, ok := iotrace.Int(value); ok && whole && n >= 0 && n <= maxRank {
				best, rank = i, int(n)
			}
			break
		}
	}
	if best == len(ranksIn)-1 && !step {
		return iotrace.None
	}
	return rank
}

// maxRank bounds ranks of MPI, which are of type int in C.
const maxRank = 1<<31 - 1

// ranks makes the ranks of the trace from the identities of its processes. Either all are
// of MPI, or all are numbers of processes: a process without a rank in MPI, such as the
// launcher, has only the name of its program then.
func (im *importer) ranks() {
	mpi, launched := false, false
	jobs := map[int]bool{}
	for _, id := range im.identities {
		if id.mpi != iotrace.None {
			jobs[id.job] = true
		}
		mpi = mpi || id.mpi != iotrace.None
		launched = launched || launchers[id.program]
	}
	im.mpi = mpi
	if len(jobs) > 1 {
		im.t.Warnings = append(im.t.Warnings, severalJobs(len(jobs)))
	}
	index := make([]int32, len(im.identities))
	same := true
	for i, id := range im.identities {
		r := iotrace.Rank{Rank: int(id.pid)}
		switch {
		case id.mpi != iotrace.None:
			r.Rank = id.mpi
		case mpi || launched && launchers[id.program]:
			r = iotrace.Rank{Rank: iotrace.None, Node: id.name()}
		}
		index[i] = im.tables.Rank(r)
		same = same && index[i] == int32(i)
	}
	if same {
		return
	}
	for i := range im.t.Events {
		e := &im.t.Events[i]
		e.Rank = index[e.Rank]
	}
}

func (id identity) name() string {
	if strings.Trim(id.program, "./") == "" {
		return "other processes"
	}
	return id.program
}

// variable is a variable of the environment in a line of execve.
var variable = lazy.Regexp(`"([A-Za-z_][A-Za-z0-9_]*)=((?:[^"\\]|\\.)*)"`)

// Mask overwrites the values of the environment in a text, but for those that name ranks.
// A text may be kept for long, or sent to others.
func Mask(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<20)
	for at := int64(0); ; {
		l, err := in.ReadBytes('\n')
		if bytes.Contains(l, []byte("execve")) {
			for _, m := range variable().FindAllSubmatchIndex(l, -1) {
				if NamesRank(string(l[m[2]:m[3]])) {
					continue
				}
				for i := m[4]; i < m[5]; i++ {
					l[i] = 'x'
				}
			}
			if _, err := f.WriteAt(l, at); err != nil {
				return err
			}
		}
		at += int64(len(l))
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// NamesRank reports whether a variable of the environment serves to find the rank of a
// process. Values of others are not kept.
func NamesRank(variable string) bool {
	return variable == slurmStep || slices.Contains(ranksIn, variable)
}
