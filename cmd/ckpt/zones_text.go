package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

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

func (g *globals) printProcess(p *zones.Process) error {
	if err := g.printf("%s: %s\n\n", who(p), describeSource(p)); err != nil {
		return err
	}
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
		rows = append(rows, []string{c.String(), fmt.Sprint(n), mib(bytes), mib(p.Stored(c))})
	}
	if p.Overhead > 0 {
		rows = append(rows, []string{"headers", "", "", mib(p.Overhead)})
	}
	rows = append(rows, []string{"image", fmt.Sprint(len(p.Areas)), "", mib(p.Image())})
	if err := g.table([]string{"zone", "|areas", "|mapped MiB", "|stored MiB"}, rows); err != nil {
		return err
	}
	if n := p.Companion(); n > 0 {
		return g.printf("\nbeside the image, once for all processes that map them: %s MiB of shared files\n", mib(n))
	}
	return nil
}

func describeSource(p *zones.Process) string {
	switch p.Format {
	case zones.FormatProc:
		return "sizes of a checkpoint taken now"
	case zones.FormatDMTCP:
		if p.FileBytes != p.Unpacked {
			return fmt.Sprintf("image of DMTCP, %s MiB, %s unpacked", mib(p.FileBytes), mib(p.Unpacked))
		}
		return fmt.Sprintf("image of DMTCP, %s MiB", mib(p.FileBytes))
	case zones.FormatCore:
		return fmt.Sprintf("core file, %s MiB", mib(p.FileBytes))
	case zones.FormatSmaps:
		return "saved maps of a process"
	}
	return fmt.Sprintf("image of ckpt, %s MiB", mib(p.FileBytes))
}

func (g *globals) printProcesses(ps []*zones.Process, checkpoints []source.Checkpoint) error {
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
		rows = append(rows, []string{p.Name, pid, string(p.Role), rank, mib(s.Library), mib(s.Data), mib(s.Shared), mib(s.IOBuffer),
			mib(p.Stored(zones.Runtime)), mib(p.Image())})
	}
	err := g.sparse([]string{"process", "|pid", "role", "|rank", "|library", "|data", "|shared", "|iobuffer", "|runtime", "|image MiB"}, rows)
	for _, c := range checkpoints {
		err = errors.Join(err, g.printCheckpointSum(c))
	}
	return err
}

func (g *globals) printCheckpointSum(c source.Checkpoint) error {
	var rows [][]string
	for _, p := range c.Programs {
		rows = append(rows, []string{p.Name, string(p.Role), fmt.Sprint(p.Count), mib(p.Mean.Library), mib(p.Mean.Data), mib(p.Mean.Shared),
			mib(p.Mean.IOBuffer), mib(p.Runtime), mib(p.Image), strconv.FormatInt(p.Min>>20, 10) + "-" + strconv.FormatInt((p.Max+1<<20-1)>>20, 10)})
	}
	title := "\nper program"
	if c.Group != "" && !strings.HasPrefix(c.Group, "/proc/") {
		title += ", checkpoint " + c.Group
	}
	if err := g.printf("%s (mean MiB):\n", title); err != nil {
		return err
	}
	if err := g.sparse([]string{"program", "role", "|count", "|library", "|data", "|shared", "|iobuffer", "|runtime", "|image", "|min-max"}, rows); err != nil {
		return err
	}
	line := fmt.Sprintf("\nGstored %s MiB: %s %s", mib(c.Gstored), count(c.Ranks, "rank"), mib(c.RankBytes))
	if c.Launchers > 0 {
		line += fmt.Sprintf(", %s %s", plural(c.Launchers, "other process", "other processes"), mib(c.LauncherBytes))
	}
	if c.Companions > 0 {
		line += fmt.Sprintf(", %s beside the images %s", count(c.Companions, "file"), mib(c.CompanionBytes))
	}
	if c.Missing > 0 {
		line += fmt.Sprintf("; %d more processes of the checkpoint are missing", c.Missing)
	}
	return g.printf("%s\n", line)
}

// sparse prints a table without columns of zeros: most processes have neither an I/O
// buffer nor a checkpointer.
func (g *globals) sparse(header []string, rows [][]string) error {
	for c := len(header) - 1; c >= 0; c-- {
		empty := true
		for _, row := range rows {
			empty = empty && row[c] == mib(0)
		}
		if !empty {
			continue
		}
		header = slices.Delete(slices.Clone(header), c, c+1)
		for i := range rows {
			rows[i] = slices.Delete(slices.Clone(rows[i]), c, c+1)
		}
	}
	return g.table(header, rows)
}

func (g *globals) printAreas(ps []*zones.Process) error {
	for i, p := range ps {
		if i > 0 {
			if err := g.printf("\n"); err != nil {
				return err
			}
		}
		if err := g.printf("%s: %s\n\n", who(p), describeSource(p)); err != nil {
			return err
		}
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
		if err := g.table([]string{"addresses", "prot", "zone", "|mapped KiB", "|stored KiB", "name"}, rows); err != nil {
			return err
		}
	}
	return nil
}

func kib(n int64) string { return strconv.FormatInt((n+1023)/1024, 10) }
