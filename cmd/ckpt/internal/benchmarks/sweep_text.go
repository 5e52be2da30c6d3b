package benchmarks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
)

// sweepReport is a sweep as --json prints it.
type sweepReport struct {
	On     string       `json:"on"`
	Source string       `json:"source,omitempty"`
	Bytes  int64        `json:"each_rank_bytes"`
	Seed   uint64       `json:"seed"`
	Sweeps []sweepLines `json:"sweep_list"`
}

type sweepLines struct {
	Setting string      `json:"setting"`
	Runs    []sweepLine `json:"run_list"`
}

type sweepLine struct {
	Ranks       int     `json:"ranks"`
	Nodes       int     `json:"nodes"`
	Layout      string  `json:"layout"`
	Strategy    string  `json:"strategy"`
	Aggregators int     `json:"aggregators"`
	Buffer      int64   `json:"buffer_bytes"`
	StripeSize  int64   `json:"stripe_bytes"`
	StripeCount int     `json:"stripe_count"`
	P1          bool    `json:"p1"`
	P2          bool    `json:"p2"`
	P3          bool    `json:"p3"`
	P4          bool    `json:"p4"`
	Bytes       int64   `json:"bytes"`
	Seconds     float64 `json:"simulated_s"`
	Rate        float64 `json:"bytes_per_s"`
	Bottleneck  string  `json:"bottleneck"`
	LockWaits   int64   `json:"lock_waits"`
	Writers     int     `json:"max_writers_per_ost"`
}

func (s *sweep) report() sweepReport {
	r := sweepReport{On: s.system.Name, Source: s.system.Source, Bytes: s.bytes, Seed: s.seed}
	for i, g := range s.groups {
		lines := sweepLines{Setting: g.name}
		for _, x := range s.found[i] {
			t := &x.settings
			lines.Runs = append(lines.Runs, sweepLine{
				Ranks: x.ranks, Nodes: x.nodes, Layout: string(t.Layout), Strategy: string(t.Strategy), Aggregators: x.aggregators,
				Buffer: t.Buffer, StripeSize: t.StripeSize, StripeCount: t.StripeCount, P1: t.P1, P2: t.P2, P3: t.P3, P4: t.P4,
				Bytes: x.Bytes, Seconds: x.Seconds, Rate: x.Rate, Bottleneck: x.Bottleneck, LockWaits: x.LockWaits,
				Writers: slices.Max(x.WritersPerTarget),
			})
		}
		r.Sweeps = append(r.Sweeps, lines)
	}
	return r
}

// print prints a table for each group.
func (s *sweep) print(g *ui.Globals) error {
	first := &s.groups[0].points[0]
	nodes := "one on each node"
	if s.nodes > 0 {
		nodes = "on " + ui.Count(s.nodes, "node")
	}
	title := s.system.Name
	if s.system.Title != "" {
		title += ": " + s.system.Title
	}
	g.Printf("%s\n%s, %s, %s each\n%s, buffer %s, %s over %s\n", title, ui.Count(s.ranks, "rank"), nodes, ui.Size(s.bytes),
		first.settings.Layout, ui.Size(first.settings.Buffer), ui.Size(first.settings.StripeSize), ui.Count(first.settings.StripeCount, "OST"))
	for i := range s.groups {
		g.Printf("\n")
		if err := s.printGroup(g, i); err != nil {
			return err
		}
	}
	return nil
}

func (s *sweep) printGroup(g *ui.Globals, i int) error {
	group := &s.groups[i]
	var header []string
	for _, t := range group.terms {
		header = append(header, "|"+t.header())
	}
	header = append(header, "|MB/s", "|s", "bottleneck", "|writers per OST", "|lock waits")
	var rows [][]string
	for _, x := range s.found[i] {
		var row []string
		for _, t := range group.terms {
			row = append(row, t.get(&x.sweepPoint))
		}
		rows = append(rows, append(row, fmt.Sprintf("%.0f", x.Rate/1e6), fmt.Sprintf("%.2f", x.Seconds), x.Bottleneck,
			strconv.Itoa(slices.Max(x.WritersPerTarget)), strconv.FormatInt(x.LockWaits, 10)))
	}
	return g.Table(header, rows)
}

// header is the name of a setting as the table has it.
func (a *sweepAxis) header() string {
	if a.name == "osts" {
		return "OSTs"
	}
	return strings.ToUpper(a.name[:1]) + a.name[1:]
}
