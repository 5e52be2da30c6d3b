package dmtcp

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ckpt/coordinator/job"
	"ckpt/image/dmtcp"
	"ckpt/internal/family"
)

// rankVariables are where MPI launchers tell a process its rank, sizeVariables where they
// tell the number of ranks. A batch system sets its own for the launcher, too.
var (
	rankVariables = []string{"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"}
	sizeVariables = []string{"PMI_SIZE", "OMPI_COMM_WORLD_SIZE"}
)

// rankOf returns the rank of a process as its launcher has told it. A variable
// that ckpt itself was started with tells nothing: the launcher inherits it.
func rankOf(p family.Process) (string, bool) {
	return given(p, rankVariables)
}

func given(p family.Process, names []string) (string, bool) {
	for _, name := range names {
		if _, ours := os.LookupEnv(name); ours {
			continue
		}
		if v, ok := p.Variable(name); ok {
			return v, true
		}
	}
	return "", false
}

// launchers begin the names of the commands that start MPI programs.
var launchers = []string{"mpiexec", "mpirun", "orterun", "prterun"}

func isLauncher(word string) bool {
	return slices.ContainsFunc(launchers, func(name string) bool { return strings.HasPrefix(filepath.Base(word), name) })
}

// isMPICH reports whether the launcher of a command is MPICH's.
func isMPICH(command []string) bool {
	i := slices.IndexFunc(command, isLauncher)
	if i < 0 {
		return false
	}
	path, err := exec.LookPath(command[i])
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	name := filepath.Base(path)
	return err == nil && (strings.Contains(name, "hydra") || strings.Contains(name, "mpich"))
}

// Warnings are what a user has to know before a run: who else can end the program, and that this
// DMTCP was measured to fail now and then.
func (e *Engine) Warnings() []string {
	list := []string{OpenPort}
	if !e.tools.losing {
		return list
	}
	return append(list, "DMTCP "+e.tools.version+" now and then ends a process of an MPI program as it takes a checkpoint, of MPICH after every few, "+
		"and the program then restarts from the last one; docs/DMTCP.md has the figures, and a change to DMTCP that ends this")
}

// programIn returns the word of a command that names what its launcher starts, ""
// without one: the first that is a path.
func programIn(command []string) string {
	i := slices.IndexFunc(command, isLauncher)
	if i < 0 {
		return ""
	}
	for _, word := range command[i+1:] {
		if !strings.HasPrefix(word, "-") && strings.Contains(word, "/") {
			return filepath.Base(word)
		}
	}
	return ""
}

// allRanks reports whether all ranks are there, as far as the command and the ranks tell: a
// launcher may be alone for a while.
func allRanks(command []string, list []worker) bool {
	want, have := 0, make(map[string]bool)
	if slices.ContainsFunc(command, isLauncher) {
		want = 1
	}
	for _, w := range list {
		if rank, ok := rankOf(w.Process); ok {
			have[rank] = true
		}
		if size, ok := given(w.Process, sizeVariables); ok {
			n, _ := strconv.Atoi(size)
			want = max(want, n)
		}
	}
	return len(have) >= want
}

// readRanks finds the images that the program is restarted from, and which of them are ranks.
func (a *agent) readRanks() (err error) {
	if a.images, err = a.e.dir.images(liveName); err != nil {
		return err
	}
	files, err := dmtcp.Collect(a.ctx, a.images, dmtcp.CollectOptions{Rules: a.e.rules, Earlier: a.e.earlier(a.ctx, a.from)})
	if err != nil {
		return err
	}
	a.shared = a.e.sharedFiles(files)
	if files.Guessed {
		return nil // they are no MPI job, and may come and go
	}
	for _, img := range files.Images[:files.NP] {
		a.virtual = append(a.virtual, img.PID)
	}
	return nil
}

// sharedFiles lists the files in memory and of the MPI library that processes of
// the program have mapped. Where one is still there, DMTCP maps it as it is now, not as it
// was at the checkpoint: it must go before a restart.
func (e *Engine) sharedFiles(files *dmtcp.Set) []string {
	names := make(map[string]bool)
	for _, img := range files.Images {
		for i := range img.Areas {
			name := filepath.Clean(img.Areas[i].Name)
			if strings.HasPrefix(name, "/dev/shm/") || strings.HasPrefix(name, e.state.Session+"/") {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// guess finds out which processes are ranks: of a restart the images tell it, before the
// first checkpoint the variables of their launcher do.
func (a *agent) guess(peers []worker) {
	names, byRank := make(map[string]bool), make(map[int]family.Process)
	for _, p := range peers {
		if len(a.images) > 0 {
			if rank := slices.Index(a.virtual, p.virtual); rank >= 0 {
				a.ranks, byRank[rank] = append(a.ranks, p.Process), p.Process
			}
			continue
		}
		if rank, ok := rankOf(p.Process); ok {
			a.ranks = append(a.ranks, p.Process)
			names[rank] = true
			if n, err := strconv.Atoi(rank); err == nil {
				byRank[n] = p.Process
			}
		}
	}
	e := a.e
	if newest, err := e.Job.Latest(); len(names) > 0 && newest == 0 && err == nil {
		s := *e.Spec
		s.NP, s.Mapping = len(names), job.Mapping{len(names)}
		if err := e.told(a.ctx, &s); err != nil {
			return // the run is over
		}
		e.Spec = &s
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	shown := a.ranks
	if len(shown) == 0 { // no MPI job; the first two are no processes of the program
		shown = e.state.Processes[min(2, len(e.state.Processes)):]
	}
	for i, p := range shown {
		a.pids = append(a.pids, p.PID)
		if len(a.ranks) == 0 {
			byRank[i] = p
		}
	}
	a.byRank = byRank
	for _, rank := range a.struck {
		a.killRank(rank)
	}
	a.struck = nil
}
