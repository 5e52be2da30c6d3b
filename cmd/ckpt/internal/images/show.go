package images

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/image/nodes"
	"ckpt/zones"
)

func newShowCommand(g *ui.Globals) *cobra.Command {
	var line bool
	var plot string
	cmd := &cobra.Command{
		Use:   "show JOB[@N]",
		Short: "Show a checkpoint zone by zone, or the recovery line of a job",
		Long: `Show a checkpoint, by default the newest, with the zones of each rank.

With --recovery-line, show the states to which the job would roll back if all
its ranks failed now: the checkpoint of each rank, the work that it loses, the
messages that force ranks further back, and the checkpoints that no recovery needs
any more. --plot draws them.`,
		Example: "  ckpt show bt.S.4-1@2 --json\n  ckpt show lu.S.4-1 --recovery-line --plot line.svg",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case cmd.Flags().Changed("plot") && !line:
				return ui.BadUsage("--plot draws a recovery line", "add --recovery-line")
			case cmd.Flags().Changed("plot") && plot == "":
				return ui.BadUsage("--plot is empty", "name a file ending in .svg, .png or .pdf")
			case line && strings.Contains(args[0], "@"):
				return ui.BadUsage(fmt.Sprintf("%q: a job has a recovery line, a checkpoint has none", args[0]), "leave out the @ and the number")
			case line:
				return showLine(cmd.Context(), g, args[0], plot)
			}
			return runShow(cmd.Context(), g, args[0])
		},
	}
	cmd.Flags().BoolVar(&line, "recovery-line", false, "show where the job resumes from if all its ranks fail")
	cmd.Flags().StringVar(&plot, "plot", "", "with --recovery-line: draw it into this file, .svg, .png or .pdf")
	g.AddStoreFlag(cmd)
	return cmd
}

// describeArrays describes the arrays of all ranks of which a rank has parts.
func describeArrays(parts []image.GlobalPart) (lines []string) {
	blocks := make(map[string]int)
	for _, a := range parts {
		blocks[a.Name(a.Region)]++
	}
	for _, a := range parts {
		name := a.Name(a.Region)
		line := describeArray(name, a)
		switch n := blocks[name]; {
		case n == 0: // said already
			continue
		case a.Index != nil:
			line += ", by lists"
		case a.Array != "":
			line += fmt.Sprintf(", %d of its blocks on rank 0", n)
		}
		blocks[name] = 0
		lines = append(lines, line)
	}
	return lines
}

func describeArray(name string, a image.GlobalPart) string {
	sides := make([]string, len(a.Axes))
	for i, s := range a.Axes {
		sides[i] = fmt.Sprint(s.Cells)
	}
	return fmt.Sprintf("%s of all ranks, %s cells of %d bytes", zones.Printable(name), strings.Join(sides, " x "), a.Elem)
}

func runShow(ctx context.Context, g *ui.Globals, target string) error {
	j, m, levels, err := g.OpenCheckpoint(ctx, target)
	if err != nil {
		return err
	}
	line := describeManifest(job.ReadEvents(j, 0), m)
	spec, _ := job.ReadSpec(j) // without a description less is known
	line.explain(spec)
	_, err = j.Manifest(m.Number)
	line.levelsLine, line.tierLine = levelsOf(ctx, levels, m.Number, err == nil), tierOf(ctx, levels, m.Number)
	if g.JSON {
		return g.PrintJSON(line)
	}
	if err := g.PrintCheckpoint(line.CheckpointEvent); err != nil {
		return err
	}
	if p := line.Predicted; p != nil {
		g.Printf("predicted  %s\n", ui.Predicted(p))
	}
	if line.Level == job.Application {
		g.Printf("level      application: it holds what has to be saved\n")
	}
	if len(line.Levels) > 0 {
		g.Printf("level      %s\n", line.text())
	}
	if line.Origin != "" {
		g.Printf("imported   from %s\n", line.Origin)
	}
	if line.Step > 0 {
		g.Printf("step       %d, as the program counts\n", line.Step)
	}
	if len(m.Ranks) > 0 { // an imported checkpoint may name no ranks
		for _, array := range describeArrays(m.Ranks[0].Global) {
			g.Printf("array      %s\n", array)
		}
	}
	g.Printf("taken      %s by %s under %s, mapping %s\n\n", line.Created.Local().Format(time.DateTime), m.App, m.MPI, line.Mapping.Short())
	var rows [][]string
	for _, z := range line.PerRank {
		rows = append(rows, []string{fmt.Sprint(z.Rank), fmt.Sprint(z.Node), ui.MiB(z.Library), ui.MiB(z.Data),
			ui.MiB(z.Shared), ui.MiB(z.IOBuffer), ui.MiB(z.Total())})
	}
	err = g.Table([]string{"|rank", "|node", "|library MiB", "|data MiB", "|shared MiB", "|iobuffer MiB", "|total MiB"}, rows)
	if err != nil || line.tierLine == nil {
		return err
	}
	g.Printf("\nprotection %s, on the nodes:\n", line.Scheme)
	return line.tierLine.print(g, j.Name(), line.Number)
}

// tierNode is what a node has of a checkpoint, and should have.
type tierNode struct {
	Node         int    `json:"node"`
	Host         string `json:"host,omitempty"`
	Dir          string `json:"dir"`
	Reached      bool   `json:"reached"`
	Manifest     bool   `json:"has_manifest"`
	Own          int    `json:"own_files"` // of its ranks
	OwnThere     int    `json:"own_files_there"`
	Copies       int    `json:"copy_files"`
	CopiesThere  int    `json:"copy_files_there"`
	Parity       int    `json:"parity_files"`
	ParityThere  int    `json:"parity_files_there"`
	somethingOff bool
}

// tierLine says where on the nodes a checkpoint is.
type tierLine struct {
	ID     string     `json:"version_id"`
	Scheme string     `json:"protection"`
	Nodes  []tierNode `json:"tier_node_list"`
}

// tierOf says where on the nodes a checkpoint is; nil if it is on no node within reach.
func tierOf(ctx context.Context, l *job.Levels, number int) *tierLine {
	v := l.Version(number)
	if v == nil {
		return nil
	}
	line := &tierLine{ID: v.ID, Scheme: v.Manifest.Tier.Protect}
	for i, n := range l.Tier.Nodes() {
		node := tierNode{Node: i, Dir: n.Dir, Reached: n.FS != nil}
		if i < len(l.Hosts) {
			node.Host = l.Hosts[i]
		}
		line.Nodes = append(line.Nodes, node)
	}
	for _, f := range l.Tier.Survey(ctx, v.Manifest) {
		if f.Node < len(line.Nodes) {
			line.Nodes[f.Node].count(f)
		}
	}
	return line
}

// count adds a file of a node.
func (n *tierNode) count(f nodes.Finding) {
	there := 0
	if f.Condition == nodes.Sound {
		there = 1
	} else {
		n.somethingOff = true
	}
	switch f.Role {
	case nodes.RoleManifest:
		n.Manifest = there == 1
	case nodes.RoleOwn:
		n.Own++
		n.OwnThere += there
	case nodes.RoleCopy:
		n.Copies++
		n.CopiesThere += there
	case nodes.RoleParity:
		n.Parity++
		n.ParityThere += there
	}
}

// print prints a line for each node.
func (l *tierLine) print(g *ui.Globals, name string, number int) error {
	header := []string{"|node", "directory", "|files", "|copies", "|parity", "manifest"}
	var rows [][]string
	off := false
	for _, n := range l.Nodes {
		where := n.Dir
		if n.Host != "" {
			where = n.Host + ":" + n.Dir
		}
		row := []string{fmt.Sprint(n.Node), where, share(n.OwnThere, n.Own), share(n.CopiesThere, n.Copies), share(n.ParityThere, n.Parity), yesNo(n.Manifest)}
		if !n.Reached {
			row = append(row[:2], "not reached", "", "", "")
		}
		off = off || n.somethingOff && n.Reached
		rows = append(rows, row)
	}
	if err := g.Table(header, rows); err != nil {
		return err
	}
	if off {
		return g.Printf("something is missing on the nodes: ckpt scrub %s@%d makes it again as far as it can\n", name, number)
	}
	return nil
}

func share(there, of int) string {
	switch {
	case of == 0:
		return "-"
	case there == of:
		return fmt.Sprint(of)
	}
	return fmt.Sprintf("%d of %d", there, of)
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
