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
	for _, c := range checkpoints {
		for _, p := range c.Programs {
			if p.Role != zones.RoleRank {
				continue
			}
			hosts := make(map[string]bool)
			for _, q := range ps {
				if q.Group == c.Group && q.Name == p.Name {
					hosts[q.Host] = true
				}
			}
			np := p.Count
			if o.np > 0 {
				np = o.np
			}
			name := o.app
			if name == "" {
				name = p.Name
			}
			app, class := strings.ToLower(strings.NewReplacer(".", "_", " ", "_", ",", "_").Replace(zones.Printable(name))), "-"
			if m := appName.FindStringSubmatch(name); m != nil {
				app, class = strings.ToLower(m[1]), m[2]
			}
			shared := p.Mean.Shared + p.Companion
			_ = w.Write([]string{app, class, strconv.Itoa(np), strconv.Itoa((p.Count + len(hosts) - 1) / len(hosts)), p.MPI,
				ui.MiB(p.Mean.Data), ui.MiB(p.Mean.Library), ui.MiB(shared), ui.MiB(p.Mean.Total() + p.Companion)})
			rows++
		}
	}
	w.Flush()
	if rows == 0 {
		return errors.New("no process is a rank: all are launchers")
	}
	return w.Error()
}
