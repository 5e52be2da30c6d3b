package images

import (
	"encoding/csv"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/zones"
	"ckpt/zones/source"
)

// appName splits names like those of NPB: bt.B.4, bt.B.x.
var appName = regexp.MustCompile(`^([A-Za-z0-9_-]+)\.([A-Z])(\.([0-9]+|x))?$`)

func (o *zonesOptions) printCSV(g *ui.Globals, ps []*zones.Process, checkpoints []source.Checkpoint) error {
	if slices.ContainsFunc(ps, func(p *zones.Process) bool { return p.Format == zones.FormatCkpt }) {
		return ui.BadUsage("a checkpoint of ckpt keeps the library and the segments once: its stored bytes are not those of a rank",
			"ckpt predict fit --from-job JOB measures the ranks of a job in the store")
	}
	w := csv.NewWriter(g.Out)
	_ = w.Write([]string{"app", "class", "n_processes", "processes_per_node", "mpi", "dtapp_MiB", "lb_MiB", "shmem_MiB", "ckpt_file_MiB"})
	rows := 0
	var beside int64
	for _, c := range checkpoints {
		for _, p := range c.Programs {
			if p.Role != zones.RoleRank {
				continue
			}
			ranks := ranksOf(ps, c.Group, p.Name)
			job, node := jobSize(ranks)
			if o.np > 0 {
				job = o.np
				node = min(node, job)
			}
			app, class := o.nameOf(p.Name)
			_ = w.Write([]string{app, class, strconv.Itoa(job), strconv.Itoa(node), p.MPI,
				ui.MiB(p.Mean.Data), ui.MiB(p.Mean.Library), ui.MiB(p.Mean.Shared), ui.MiB(p.Mean.Total())})
			beside = max(beside, p.Companion)
			rows++
			if job > len(ranks) && o.np == 0 {
				g.Warn("%s: %d of %d ranks were seen; the row is their mean", zones.Printable(p.Name), len(ranks), job)
			}
		}
	}
	w.Flush()
	if rows == 0 {
		return errors.New("no process is a rank: all are launchers")
	}
	if beside > 0 {
		g.Warn("a checkpoint keeps %s MiB of shared files once, beside the images; they are in no row", ui.MiB(beside))
	}
	return w.Error()
}

// nameOf returns the application and the class of a program.
func (o *zonesOptions) nameOf(program string) (app, class string) {
	name := o.app
	if name == "" {
		name = program
	}
	if m := appName.FindStringSubmatch(name); m != nil {
		return strings.ToLower(m[1]), m[2]
	}
	return strings.ToLower(strings.NewReplacer(".", "_", " ", "_", ",", "_").Replace(zones.Printable(name))), "-"
}

// ranksOf lists the ranks of a program in a checkpoint. Helper processes of the same
// program are no ranks.
func ranksOf(ps []*zones.Process, group, program string) (ranks []*zones.Process) {
	for _, p := range ps {
		if p.Role == zones.RoleRank && p.Group == group && p.Name == program {
			ranks = append(ranks, p)
		}
	}
	return ranks
}

// jobSize returns the number of ranks of a job, and of those on its fullest node. Not all
// of them need be among the processes: the launcher told each how many there are.
func jobSize(ranks []*zones.Process) (job, node int) {
	hosts := make(map[string]int)
	for _, p := range ranks {
		hosts[p.Host]++
		job = max(job, p.JobRanks, p.Rank+1)
		node = max(node, p.NodeRanks)
	}
	job = max(job, len(ranks))
	for _, n := range hosts {
		node = max(node, n)
	}
	return job, min(node, job)
}
