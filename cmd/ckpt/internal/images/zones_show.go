package images

import (
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/lazy"
	"ckpt/zones"
	"ckpt/zones/source"
)

// who describes a process in a heading.
func who(p *zones.Process) string {
	parts := []string{zones.Printable(p.Name)}
	if p.PID > 0 {
		parts = append(parts, fmt.Sprintf("pid %d", p.PID))
	}
	if p.Rank >= 0 {
		parts = append(parts, fmt.Sprintf("rank %d", p.Rank))
	}
	if p.MPI != "" {
		parts = append(parts, p.MPI)
	}
	return strings.Join(parts, ", ")
}

func printProcess(g *ui.Globals, p *zones.Process) error {
	g.Printf("%s: %s\n\n", who(p), describeSource(p))
	var rows [][]string
	for _, c := range []zones.Class{zones.ClassOf(zones.Library), zones.ClassOf(zones.Data), zones.ClassOf(zones.Shared),
		zones.ClassOf(zones.IOBuffer), zones.Runtime, zones.Kernel} {
		n, bytes := 0, int64(0)
		for i := range p.Areas {
			if p.Areas[i].Class == c {
				n++
				bytes += p.Areas[i].Bytes()
			}
		}
		rows = append(rows, []string{c.String(), fmt.Sprint(n), ui.MiB(bytes), ui.MiB(p.Stored(c))})
	}
	if p.Overhead > 0 {
		rows = append(rows, []string{"headers", "", "", ui.MiB(p.Overhead)})
	}
	rows = append(rows, []string{"image", fmt.Sprint(len(p.Areas)), "", ui.MiB(p.Image())})
	g.Table([]string{"zone", "|areas", "|mapped MiB", "|stored MiB"}, rows)
	if n := p.Companion(); n > 0 {
		return g.Printf("\nbeside the image, once for all processes that map them: %s MiB of shared files\n", ui.MiB(n))
	}
	return nil
}

func describeSource(p *zones.Process) string {
	switch p.Format {
	case zones.FormatProc:
		return "sizes of a checkpoint taken now"
	case zones.FormatDMTCP:
		if p.FileBytes != p.Unpacked {
			return fmt.Sprintf("image of DMTCP, %s MiB, %s unpacked", ui.MiB(p.FileBytes), ui.MiB(p.Unpacked))
		}
		return fmt.Sprintf("image of DMTCP, %s MiB", ui.MiB(p.FileBytes))
	case zones.FormatCore:
		return fmt.Sprintf("core file, %s MiB", ui.MiB(p.FileBytes))
	case zones.FormatSmaps:
		return "saved maps of a process"
	}
	return fmt.Sprintf("image of ckpt, %s MiB", ui.MiB(p.FileBytes))
}

func printProcesses(g *ui.Globals, ps []*zones.Process, checkpoints []source.Checkpoint) error {
	var rows [][]string
	for _, p := range ps {
		s := p.Sizes()
		rank := "-"
		if p.Rank >= 0 {
			rank = strconv.Itoa(p.Rank)
		}
		pid := "-"
		if p.PID > 0 {
			pid = strconv.Itoa(p.PID)
		}
		rows = append(rows, []string{p.Name, pid, string(p.Role), rank, ui.MiB(s.Library), ui.MiB(s.Data), ui.MiB(s.Shared), ui.MiB(s.IOBuffer),
			ui.MiB(p.Stored(zones.Runtime)), ui.MiB(p.Image())})
	}
	err := g.Sparse([]string{"process", "|pid", "role", "|rank", "|library", "|data", "|shared", "|iobuffer", "|runtime", "|image MiB"}, rows)
	for _, c := range checkpoints {
		err = errors.Join(err, printCheckpointSum(g, c))
	}
	return err
}

func printCheckpointSum(g *ui.Globals, c source.Checkpoint) error {
	var rows [][]string
	for _, p := range c.Programs {
		rows = append(rows, []string{p.Name, string(p.Role), fmt.Sprint(p.Count), ui.MiB(p.Mean.Library), ui.MiB(p.Mean.Data), ui.MiB(p.Mean.Shared),
			ui.MiB(p.Mean.IOBuffer), ui.MiB(p.Runtime), ui.MiB(p.Image), strconv.FormatInt(p.Min>>20, 10) + "-" + strconv.FormatInt((p.Max+1<<20-1)>>20, 10)})
	}
	title := "\nper program"
	if c.Group != "" && !strings.HasPrefix(c.Group, "/proc/") {
		title += ", checkpoint " + c.Group
	}
	g.Printf("%s (mean MiB):\n", title)
	if err := g.Sparse([]string{"program", "role", "|count", "|library", "|data", "|shared", "|iobuffer", "|runtime", "|image", "|min-max"}, rows); err != nil {
		return err
	}
	line := fmt.Sprintf("\nGstored %s MiB: %s %s", ui.MiB(c.Gstored), ui.Count(c.Ranks, "rank"), ui.MiB(c.RankBytes))
	if c.Launchers > 0 {
		line += fmt.Sprintf(", %s %s", ui.Plural(c.Launchers, "other process", "other processes"), ui.MiB(c.LauncherBytes))
	}
	if c.Companions > 0 {
		line += fmt.Sprintf(", %s beside the images %s", ui.Count(c.Companions, "file"), ui.MiB(c.CompanionBytes))
	}
	if c.Missing > 0 {
		line += fmt.Sprintf("; %d more processes of the checkpoint are missing", c.Missing)
	}
	return g.Printf("%s\n", line)
}

func printAreas(g *ui.Globals, ps []*zones.Process) error {
	for i, p := range ps {
		if i > 0 {
			g.Printf("\n")
		}
		g.Printf("%s: %s\n\n", who(p), describeSource(p))
		var rows [][]string
		for k := range p.Areas {
			a := &p.Areas[k]
			kind := "p"
			if a.Shared {
				kind = "s"
			}
			rows = append(rows, []string{fmt.Sprintf("%x-%x", a.Start, a.End), a.Prot.String() + kind, a.Class.String(),
				kib(a.Bytes()), kib(a.Stored), a.Name})
		}
		g.Table([]string{"addresses", "prot", "zone", "|mapped KiB", "|stored KiB", "name"}, rows)
	}
	return nil
}

func kib(n int64) string { return strconv.FormatInt((n+1023)/1024, 10) }

// appName splits names as NPB has them: bt.B.4, bt.B.x.
var appName = lazy.Regexp(`^([A-Za-z0-9_-]+)\.([A-Z])(\.([0-9]+|x))?$`)

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
	if m := appName().FindStringSubmatch(name); m != nil {
		return strings.ToLower(m[1]), m[2]
	}
	return strings.ToLower(strings.NewReplacer(".", "_", " ", "_", ",", "_").Replace(zones.Printable(name))), "-"
}

// ranksOf lists the ranks of a program in a checkpoint, without its helper processes.
func ranksOf(ps []*zones.Process, group, program string) (ranks []*zones.Process) {
	for _, p := range ps {
		if p.Role == zones.RoleRank && p.Group == group && p.Name == program {
			ranks = append(ranks, p)
		}
	}
	return ranks
}

// jobSize returns the number of ranks of a job, and on its fullest node. The launcher told each
// rank how many there are, so not all need be among the processes.
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

// zonesLine is a process in ckpt zones --json.
type zonesLine struct {
	*zones.Process
	Rank       *int               `json:"rank,omitempty"`
	Zones      zones.Sizes        `json:"zones"`
	Runtime    int64              `json:"runtime_bytes"`
	Kernel     int64              `json:"kernel_bytes"` // never stored
	Companion  int64              `json:"companion_bytes"`
	Image      int64              `json:"image_bytes"`
	Totals     *zonesTotals       `json:"totals,omitempty"`
	Checkpoint *source.Checkpoint `json:"checkpoint_summary,omitempty"`
}

// zonesTotals are the sizes of a live process in other respects.
type zonesTotals struct {
	Virtual  int64 `json:"virtual_bytes"`
	Resident int64 `json:"resident_bytes"`
	Dirty    int64 `json:"dirty_bytes"`
	Occupied int64 `json:"occupied_bytes"`
}

func totalsOf(p *zones.Process) *zonesTotals {
	var t zonesTotals
	for i := range p.Areas {
		a := &p.Areas[i]
		if a.Resident < 0 {
			return nil
		}
		t.Virtual += a.Bytes()
		t.Resident += a.Resident
		t.Dirty += a.Dirty
		t.Occupied += a.Occupied
	}
	return &t
}

func printZonesJSON(g *ui.Globals, ps []*zones.Process, checkpoints []source.Checkpoint, single bool) error {
	lines := make([]zonesLine, len(ps))
	for i, p := range ps {
		l := zonesLine{Process: p, Zones: p.Sizes(), Runtime: p.Stored(zones.Runtime),
			Companion: p.Companion(), Image: p.Image(), Totals: totalsOf(p)}
		if p.Rank >= 0 {
			l.Rank = &p.Rank
		}
		if p.Areas == nil {
			p.Areas = []zones.Area{}
		}
		for k := range p.Areas {
			if p.Areas[k].Class == zones.Kernel {
				l.Kernel += p.Areas[k].Bytes()
			}
		}
		if !single {
			k := slices.IndexFunc(checkpoints, func(c source.Checkpoint) bool { return c.Group == p.Group })
			l.Checkpoint = &checkpoints[k]
		}
		lines[i] = l
	}
	if single {
		return g.PrintJSON(lines[0])
	}
	return g.PrintJSON(lines)
}
