package images

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
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
