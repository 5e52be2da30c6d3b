package benchmarks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/nodes"
	"ckpt/image/nodes/bench"
	"ckpt/internal/vfs"
)

// tierMeasure are the flags of a measurement.
type tierMeasure struct {
	rounds              int
	protect, dir, store string
}

func (o *tierMeasure) addFlags(f *pflag.FlagSet) {
	f.IntVar(&o.rounds, "rounds", 3, "number of rounds")
	f.StringVar(&o.protect, "protect", "", "schemes to measure, like partner,xor:4 (default: partner, and partner:2, xor and rs as the nodes allow)")
	f.StringVar(&o.dir, "dir", filepath.Join(os.TempDir(), "{node}"), "directory of each node, with {node} for its number")
	f.StringVar(&o.store, "store", os.TempDir(), "directory on the storage of the store")
}

// The size of a measurement, if no flag says it.
const (
	measuredRanks = 8
	measuredNodes = 4
	measuredBytes = "16MiB"
)

// schemes reads --protect, or chooses schemes that the nodes allow.
func (o *tierOptions) schemes() (list []nodes.Scheme, err error) {
	text := o.protect
	if text == "" {
		text = "none"
		if o.nodes > 1 {
			text = "partner"
		}
		if o.nodes > 2 {
			text += fmt.Sprintf(",partner:2,xor:%d", min(o.nodes, 8))
		}
		if o.nodes > 3 {
			text += fmt.Sprintf(",rs:%d+2", min(o.nodes-2, 4))
		}
	}
	for word := range strings.SplitSeq(text, ",") {
		s, err := nodes.Parse(strings.TrimSpace(word))
		if err != nil {
			return nil, ui.BadUsage("--protect: "+err.Error(), "write --protect partner,xor:4")
		}
		list = append(list, s)
	}
	return list, nil
}

func (o *tierOptions) options() (bench.Options, error) {
	begin := time.Now()
	if o.ranks == 0 {
		o.ranks = max(measuredRanks, o.nodes)
	}
	if o.nodes == 0 {
		o.nodes = min(measuredNodes, o.ranks)
	}
	if o.bytes == "" {
		o.bytes = measuredBytes
	}
	b := bench.Options{FS: vfs.OS{}, Ranks: o.ranks, Nodes: o.nodes, Rounds: o.rounds, Now: func() float64 { return time.Since(begin).Seconds() }}
	switch {
	case o.nodes < 1 || o.ranks < o.nodes:
		return b, ui.BadUsage(fmt.Sprintf("--ranks %d on --nodes %d: want a rank for each node at least", o.ranks, o.nodes), "")
	case o.rounds < 1:
		return b, ui.BadUsage(fmt.Sprintf("--rounds %d: want at least 1", o.rounds), "")
	case o.nodes > 1 && !strings.Contains(o.dir, "{node}"):
		return b, ui.BadUsage("--dir "+o.dir+": all nodes would have one directory", "put {node} where its number belongs, like /nvme/{node}")
	}
	var err error
	if b.Bytes, err = ui.ParseSize("--bytes", o.bytes); err != nil {
		return b, err
	}
	if b.Schemes, err = o.schemes(); err != nil {
		return b, err
	}
	for _, s := range b.Schemes {
		if err := s.Check(o.nodes); err != nil {
			return b, ui.BadUsage("--protect: "+err.Error(), fmt.Sprintf("give --nodes %d, or leave --protect out", s.Nodes()))
		}
	}
	if b.Local, err = filepath.Abs(o.dir); err == nil {
		b.Store, err = filepath.Abs(o.store)
	}
	return b, err
}

func runTierMeasure(ctx context.Context, g *ui.Globals, o *tierOptions) error {
	b, err := o.options()
	if err != nil {
		return err
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	add, done := g.Progress("tier", b.Total())
	b.Progress = add
	r, err := bench.Run(ctx, b)
	done()
	if err != nil {
		return err
	}
	return g.Show(r, func() error { return printTier(g, r) })
}

func printTier(g *ui.Globals, r *bench.Result) error {
	g.Printf("%s MiB in each checkpoint, %s on %s, median of %s\n\n", ui.MiB(r.Bytes), ui.Count(r.Ranks, "rank"), ui.Count(r.Nodes, "node"), ui.Count(r.Rounds, "round"))
	var rows [][]string
	for _, w := range r.Ways {
		back := ""
		switch {
		case w.Name == bench.WayLocal:
			back = "nothing is left"
		case w.Recovery != nil:
			back = fmt.Sprintf("%s MiB in %s", ui.MiB(w.Recovered), ui.Seconds(*w.Recovery))
		}
		rows = append(rows, []string{w.Name, ui.MiB(w.Written), ui.Seconds(w.Save), perSecond(w.SaveRate), ui.Seconds(w.Read), perSecond(w.ReadRate), back})
	}
	if err := g.Table([]string{"way", "|written MiB", "|saved in", "|MiB/s", "|read in", "~|MiB/s", "a lost node"}, rows); err != nil {
		return err
	}
	g.Printf("\n")
	rows = nil
	for _, x := range r.Ratios {
		holds := ""
		switch {
		case !x.Holds:
			holds = "no"
		case x.Least != nil || x.Most != nil:
			holds = "yes"
		}
		rows = append(rows, []string{x.Name, fmt.Sprintf("%.2f", x.Value), bounds(x), holds})
	}
	return g.Table([]string{"ratio", "|is", "should be", "holds"}, rows)
}

func perSecond(rate float64) string { return fmt.Sprintf("%.0f", rate/(1<<20)) }

// bounds says what a ratio should be.
func bounds(x bench.Ratio) string {
	switch {
	case x.Least != nil && x.Most != nil:
		return fmt.Sprintf("%.2f to %.2f", *x.Least, *x.Most)
	case x.Least != nil:
		return fmt.Sprintf("at least %.2f", *x.Least)
	case x.Most != nil:
		return fmt.Sprintf("at most %.2f", *x.Most)
	}
	return ""
}
