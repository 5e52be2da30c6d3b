package benchmarks

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

type tierOptions struct {
	ranks, nodes, rounds       int
	bytes, protect, dir, store string
}

func newBenchTierCommand(g *ui.Globals) *cobra.Command {
	var o tierOptions
	cmd := &cobra.Command{
		Use:   "tier",
		Short: "Measure what keeping checkpoints on nodes costs",
		Long: `Save checkpoints into directories of nodes, under each scheme of protection, and into
a plain store: how fast, in how many bytes, how fast they are read, and how long it
takes until the files of a lost node are back. Ranks are threads of this command, and
the directories are on this host; name those of real storage with --dir and --store.
The ways take turns in each round. Below the table are the ratios that matter, with
their bounds. The command checks first that there is space, and removes its files.`,
		Example: `  ckpt bench tier --ranks 16 --nodes 4
  ckpt bench tier --ranks 12 --nodes 6 --protect partner,rs:4+2 --dir '/nvme/{node}' --store /scratch`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := ui.Positive(cmd, "ranks", "nodes", "rounds"); err != nil {
				return err
			}
			b, err := o.bench()
			if err != nil {
				return err
			}
			ctx, stop := ui.Interruptible(cmd.Context())
			defer stop()
			add, done := g.Progress("tier", b.total())
			b.progress = add
			err = b.run(ctx)
			done()
			if err != nil {
				return err
			}
			return g.Show(b, func() error { return b.print(g) })
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.ranks, "ranks", 0, "number of ranks (default 8, or one for each node)")
	f.IntVar(&o.nodes, "nodes", 0, "number of nodes (default 4)")
	f.StringVar(&o.bytes, "bytes", "16MiB", "bytes that each rank has in a checkpoint")
	f.IntVar(&o.rounds, "rounds", 3, "number of rounds")
	f.StringVar(&o.protect, "protect", "", "schemes to measure, like partner,xor:4 (default: partner, and partner:2, xor and rs as the nodes allow)")
	f.StringVar(&o.dir, "dir", filepath.Join(os.TempDir(), "{node}"), "directory of each node, with {node} for its number")
	f.StringVar(&o.store, "store", os.TempDir(), "directory on the storage of the store")
	return cmd
}

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
		if err := s.Check(o.nodes); err != nil {
			return nil, ui.BadUsage("--protect: "+err.Error(), fmt.Sprintf("give --nodes %d, or leave --protect out", s.Nodes()))
		}
		list = append(list, s)
	}
	return list, nil
}

// bench makes the measurement that the flags ask for.
func (o *tierOptions) bench() (*tierBench, error) {
	if o.ranks == 0 {
		o.ranks = max(8, o.nodes)
	}
	if o.nodes == 0 {
		o.nodes = min(4, o.ranks)
	}
	bytes, err := ui.ParseSize("--bytes", o.bytes)
	switch {
	case err != nil:
		return nil, err
	case o.ranks < o.nodes:
		return nil, ui.BadUsage(fmt.Sprintf("--ranks %d on --nodes %d: want a rank for each node at least", o.ranks, o.nodes), "")
	case o.nodes > 1 && !strings.Contains(o.dir, "{node}"):
		return nil, ui.BadUsage("--dir "+o.dir+": all nodes would have one directory", "put {node} where its number belongs, like /nvme/{node}")
	}
	schemes, err := o.schemes()
	if err != nil {
		return nil, err
	}
	local, err := filepath.Abs(o.dir)
	if err != nil {
		return nil, err
	}
	store, err := filepath.Abs(o.store)
	if err != nil {
		return nil, err
	}
	fsys, err := vfs.At(vfs.OS{}, store) // and the directories of the nodes
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	b := &tierBench{Ranks: o.ranks, Nodes: o.nodes, Rounds: o.rounds, local: local, store: store,
		Scratch: durable.Scratch{FS: fsys}, now: func() float64 { return time.Since(begin).Seconds() }}
	return b, b.begin(zones.PageRound(bytes), schemes)
}

func (b *tierBench) print(g *ui.Globals) error {
	g.Printf("%s MiB in each checkpoint, %s on %s, median of %s\n\n", ui.MiB(b.Bytes), ui.Count(b.Ranks, "rank"),
		ui.Count(b.Nodes, "node"), ui.Count(b.Rounds, "round"))
	perSecond := func(rate float64) string { return fmt.Sprintf("%.0f", rate/(1<<20)) }
	var rows [][]string
	for _, w := range b.Ways {
		back := ""
		switch {
		case w.Name == wayLocal:
			back = "nothing is left"
		case w.Recovery != nil:
			back = fmt.Sprintf("%s MiB in %s", ui.MiB(w.Recovered), ui.Seconds(*w.Recovery))
		}
		rows = append(rows, []string{w.Name, ui.MiB(w.Written), ui.Seconds(w.Save), perSecond(w.SaveRate),
			ui.Seconds(w.Read), perSecond(w.ReadRate), back})
	}
	header := []string{"way", "|written MiB", "|saved in", "|MiB/s", "|read in", "~|MiB/s", "a lost node"}
	if err := g.Table(header, rows); err != nil {
		return err
	}
	g.Printf("\n")
	rows = nil
	for _, x := range b.Ratios {
		rows = append(rows, []string{x.Name, fmt.Sprintf("%.2f", x.Value), x.bounds(), x.verdict()})
	}
	return g.Table([]string{"ratio", "|is", "should be", "holds"}, rows)
}

// bounds says what a ratio should be.
func (x *tierRatio) bounds() string {
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

func (x *tierRatio) verdict() string {
	switch {
	case !x.Holds:
		return "no"
	case x.bounds() != "":
		return "yes"
	}
	return ""
}

// summarise takes the medians, and compares the ways.
func (b *tierBench) summarise() {
	base := b.Ways[0]
	for _, w := range b.Ways {
		w.Save, w.Read = medianOf(w.Saves), medianOf(w.Reads)
		w.SaveRate, w.ReadRate = rate(w.Bytes, w.Save), rate(w.Bytes, w.Read)
		if !w.store && w.each == base.each && base.Written > 0 {
			w.Redundancy = float64(w.Written-base.Written) / float64(base.Written)
		}
		if len(w.Recoveries) > 0 {
			t := medianOf(w.Recoveries)
			w.Recovery = &t
		}
	}
	b.compare()
}

// way returns a way by its name, or nil.
func (b *tierBench) way(name string) *tierWay {
	i := slices.IndexFunc(b.Ways, func(w *tierWay) bool { return w.Name == name })
	if i < 0 {
		return nil
	}
	return b.Ways[i]
}

// A tierRatio compares two ways.
type tierRatio struct {
	Name  string   `json:"name"`
	Value float64  `json:"ratio"`
	Least *float64 `json:"least_ratio"` // that it should be
	Most  *float64 `json:"most_ratio"`
	Holds bool     `json:"holds"`
}

// compare makes the ratios. The bounds are those that the tier is held to; 0 is no bound.
func (b *tierBench) compare() {
	add := func(name string, a, by, least, most float64) {
		if by <= 0 {
			return
		}
		x := tierRatio{Name: name, Value: a / by, Holds: true}
		if least > 0 {
			x.Least, x.Holds = &least, x.Value >= least
		}
		if most > 0 {
			x.Most, x.Holds = &most, x.Holds && x.Value <= most
		}
		b.Ratios = append(b.Ratios, x)
	}
	local, twice, half, store := b.way(wayLocal), b.way(wayTwice), b.way(wayHalf), b.way(wayStore)
	before := local
	for _, w := range b.Ways {
		if w.scheme.Kind() == nodes.Partner {
			add("time to save, "+w.Name+" by "+before.Name, w.Save, before.Save, 1, 0)
			before = w
		}
	}
	if w := b.way("partner"); w != nil {
		add("time to save, partner by "+wayTwice, w.Save, twice.Save, 0, 1.3)
	}
	for _, w := range b.Ways {
		if w.scheme.Coded() {
			add("rate of saving, "+w.Name+" by local", w.SaveRate, local.SaveRate, map[string]float64{"rs:4+2": 0.5}[w.Name], 0)
		}
	}
	add("time, reading by saving, local", local.Read, local.Save, 0, 1)
	add("time of reading, half the bytes by all", half.Read, local.Read, 0.35, 0.65)
	add("time to save, local by store", local.Save, store.Save, 0, 0)
}
