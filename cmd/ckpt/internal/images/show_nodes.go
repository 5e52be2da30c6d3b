package images

import (
	"context"
	"fmt"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/image/nodes"
)

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

// tierOf says where on the nodes a checkpoint is; nil if no node that can be reached has
// it.
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
