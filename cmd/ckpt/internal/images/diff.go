package images

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image"
	"ckpt/zones"
)

func newDiffCommand(g *ui.Globals) *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "diff JOB@A JOB@B",
		Short: "Show the changes between two checkpoints",
		Long: `Show the changes between two checkpoints, zone by zone and region by region: the bytes
that are unchanged, changed, new and gone, and the share of changed pages among the
pages of both. A page of 4 KiB has changed if one byte has. Regions are the same if
they have the same name and rank. Extents that both checkpoints refer to are not read.

Without --all, the table shows the regions with changes, largest change first,
20 at most.`,
		Example: "  ckpt diff bt.S.4-1@1 bt.S.4-1@2\n  ckpt diff bt@1 bt@2 --json",
		Args:    cobra.ExactArgs(2),
		RunE:    func(cmd *cobra.Command, args []string) error { return runDiff(cmd.Context(), g, args, all) },
	}
	cmd.Flags().BoolVar(&all, "all", false, "show all regions")
	g.AddStoreFlag(cmd)
	return cmd
}

// diffResult is what ckpt diff --json prints.
type diffResult struct {
	A       string       `json:"a"`
	B       string       `json:"b"`
	Zones   []zoneChange `json:"zone_changes"`
	Regions []regionLine `json:"region_changes"`
	Total   changeLine   `json:"total_change"`
}

type changeLine struct {
	image.Change
	Share float64 `json:"changed_share"` // of the pages in both
}

type zoneChange struct {
	Zone zones.Zone `json:"zone"`
	changeLine
}

type regionLine struct {
	image.RegionChange
	Share float64 `json:"changed_share"`
}

func runDiff(ctx context.Context, g *ui.Globals, targets []string, all bool) error {
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	var sides [2]image.Side
	for i, t := range targets {
		var err error
		if sides[i].Job, sides[i].Manifest, _, err = g.OpenCheckpoint(ctx, t); err != nil {
			return err
		}
	}
	a, b := sides[0], sides[1]
	add, done := g.Progress("compare", b.Manifest.Bytes.Total())
	changes, err := image.Diff(ctx, a, b, add)
	done()
	if err != nil {
		return err
	}
	r := diffResult{A: fmt.Sprintf("%s@%d", a.Manifest.Job, a.Manifest.Number), B: fmt.Sprintf("%s@%d", b.Manifest.Job, b.Manifest.Number)}
	sums := make([]image.Change, len(zones.All()))
	var total image.Change
	r.Regions = []regionLine{}
	for _, c := range changes {
		sums[c.Zone] = sums[c.Zone].Plus(c.Change)
		total = total.Plus(c.Change)
		r.Regions = append(r.Regions, regionLine{c, c.Share()})
	}
	for _, z := range zones.All() {
		r.Zones = append(r.Zones, zoneChange{z, changeLine{sums[z], sums[z].Share()}})
	}
	r.Total = changeLine{total, total.Share()}
	return g.Show(r, func() error { return printDiff(g, r, all) })
}

func (l changeLine) cells() []string {
	return []string{ui.MiB(l.Unchanged), ui.MiB(l.Changed), ui.MiB(l.New), ui.MiB(l.Gone), ui.Percent1(l.Share)}
}

const diffRows = 20

func printDiff(g *ui.Globals, r diffResult, all bool) error {
	var rows [][]string
	for _, z := range r.Zones {
		rows = append(rows, append([]string{z.Zone.String()}, z.cells()...))
	}
	rows = append(rows, append([]string{"total"}, r.Total.cells()...))
	g.Printf("from %s to %s, MiB:\n\n", r.A, r.B)
	columns := []string{"|unchanged", "|changed", "|new", "|gone", "|pages changed"}
	g.Table(append([]string{"zone"}, columns...), rows)
	regions := slices.Clone(r.Regions)
	if !all {
		regions = slices.DeleteFunc(regions, func(l regionLine) bool { return l.Changed+l.New+l.Gone == 0 })
		slices.SortStableFunc(regions, func(a, b regionLine) int {
			return int(min(max((b.Changed+b.New+b.Gone)-(a.Changed+a.New+a.Gone), -1), 1))
		})
	}
	more := 0
	if n := len(regions); !all && n > diffRows {
		regions, more = regions[:diffRows], n-diffRows
	}
	if len(regions) == 0 {
		return nil
	}
	rows = nil
	for _, l := range regions {
		of := strconv.Itoa(l.Rank)
		if l.Rank < 0 {
			of = l.File
		}
		rows = append(rows, append([]string{of, l.Region}, changeLine{l.Change, l.Share}.cells()...))
	}
	g.Printf("\n")
	g.Table(append([]string{"rank", "region"}, columns...), rows)
	if more > 0 {
		return g.Printf("and %s more; --all shows them\n", ui.Count(more, "region"))
	}
	return nil
}
