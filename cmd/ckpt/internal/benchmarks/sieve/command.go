package sieve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/image/pfs"
	"ckpt/image/plan/fileview"
	"ckpt/internal/vfs"
)

// Options are the flags of the command.
type Options struct {
	Dir    string
	Size   string
	Rounds int

	on, stripe            string
	servers               int
	access, offsets       []string
	blocks, holes         []string
	views, cache          string
	results, output, plot string
	seed                  uint64
}

// joining are the rules that are compared with a call per block.
var joining = []fileview.Method{fileview.ROMIO, fileview.Extent, fileview.ScanFile, fileview.PerformanceModel, fileview.Adaptive}

// The sizes of Table 5.1 of Zickler's thesis.
var (
	thesisBlocks = []string{"8", "64", "100", "1000", "4096", "32768", "100000", "1000000", "2097152"}
	thesisHoles  = append(append([]string{"0"}, thesisBlocks...), "10000000")
	usualSizes   = []string{"4KiB", "16KiB", "64KiB", "256KiB", "1MiB"}
)

// NewCommand returns ckpt bench sieve.
func NewCommand(g *ui.Globals) *cobra.Command {
	var o Options
	cmd := &cobra.Command{
		Use:   "sieve",
		Short: "Measure when it pays to read and write over holes",
		Long: `Read or write blocks with holes between them, with a call per block (naive) and by
every rule of data sieving, which move blocks and holes together. The command prints
how many times as fast as naive each rule is, and the break-even: the hole that takes
as long to read as a call costs. If the directory is a checkpoint store, the break-even
is kept in it, and restarts and ckpt extract use it from then on. With --output it goes
into a file that programs with ckpt sdk view read (CKPT_VIEW_STORAGE).

Each round has the rules in another order. Passes farther than 20 % from the median are
measured again; the scatter that is left is printed. A rule that makes the same calls as
naive shows how far all other numbers may be off.

--views reads patterns from a file, one a line: a displacement, then blocks and holes,
128:4096+12288, or a part of an array, 0:8[1000,1000][:,::4]. --on measures a description
of a storage in virtual time. --results keeps rows as they are measured; the same command
then continues after an interruption.`,
		Example: `  ckpt bench sieve --dir /scratch -o scratch.json
  ckpt bench sieve --dir . --access read,write --cache warm --plot sieve.svg
  ckpt bench sieve --on wr-lustre --blocks thesis --holes thesis --offsets hole --results wr.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.on != "" {
				for _, name := range []string{"dir", "rounds", "cache"} {
					if cmd.Flags().Changed(name) {
						return ui.BadUsage("--"+name+" goes with a directory, --on with a description", "leave one of them out")
					}
				}
			} else if cmd.Flags().Changed("stripe") || cmd.Flags().Changed("servers") {
				return ui.BadUsage("--stripe and --servers go with a description", "add --on "+pfs.Presets()[0])
			}
			return Run(cmd.Context(), g, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Dir, "dir", ".", "directory on the file system to measure")
	f.StringVar(&o.Size, "size", "128MiB", "size of the file")
	f.IntVar(&o.Rounds, "rounds", 3, "number of rounds")
	f.StringVar(&o.on, "on", "", "measure a description in virtual time: "+strings.Join(pfs.Presets(), ", ")+", or a file")
	ui.Choices(f, "on", pfs.Presets()...)
	f.StringVar(&o.stripe, "stripe", "1MiB", "stripe of the file on the description")
	f.IntVar(&o.servers, "servers", 0, "targets of the file on the description (default 2, if it has them)")
	f.StringSliceVar(&o.access, "access", []string{"read"}, "read, write")
	f.StringSliceVar(&o.offsets, "offsets", []string{"0"}, "where the first block is: sizes, or hole (after a hole)")
	f.StringSliceVar(&o.blocks, "blocks", usualSizes, "sizes of blocks, or thesis")
	f.StringSliceVar(&o.holes, "holes", usualSizes, "sizes of holes, or thesis")
	f.StringVar(&o.views, "views", "", "a file of patterns, in place of blocks and holes")
	f.StringVar(&o.cache, "cache", "", "the page cache: around it, cold or warm (default around where that works)")
	ui.Choices(f, "cache", around, cold, warm)
	f.StringVar(&o.results, "results", "", "keep rows in this file, and continue it")
	f.StringVarP(&o.output, "output", "o", "", "write what a call costs here, for ckpt sdk view")
	f.StringVar(&o.plot, "plot", "", "draw the rates to this .svg, .png, .pdf or .json")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the order of the rules")
	return cmd
}

// A Result is what the command found.
type Result struct {
	Dir   string `json:"dir,omitempty"`
	On    string `json:"on,omitempty"`
	Size  int64  `json:"file_bytes"`
	Cache string `json:"page_cache,omitempty"` // around, cold or warm
	// Direct is true around the page cache.
	Direct bool `json:"direct"`
	// BreakEven is the hole, in bytes, that takes as long to read as a call costs.
	BreakEven int64   `json:"break_even_bytes"`
	Patterns  []Times `json:"patterns"`
	Cost      cost    `json:"storage_cost"`
	Kept      bool    `json:"kept_in_store"`
}

// cost is image.Storage in the units of --json.
type cost struct {
	Bandwidth float64   `json:"bytes_per_s"`
	Call      float64   `json:"call_s"` // cost of a call however short it is
	Measured  time.Time `json:"measured_at"`
}

// A costFile is what programs read: ckpt_view.h and ckpt_view.py.
type costFile struct {
	Bandwidth int64 `json:"bytes_per_s"`
	Call      int64 `json:"call_ns"`
	Stripe    int64 `json:"stripe_bytes,omitempty"`
	Block     int64 `json:"block_bytes"`
}

// A run is one sweep.
type run struct {
	Result
	accesses []fileview.Access
	patterns []*pattern
	storage  storage
	cost     image.Storage
	device   fileview.Device
}

// Run carries the command out.
func Run(ctx context.Context, g *ui.Globals, o Options) (err error) {
	r, err := newRun(&o)
	if err != nil {
		return err
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	var store *image.Store
	if o.on == "" {
		if store, err = image.OpenStore(vfs.OS{}, o.Dir); err != nil && !errors.Is(err, image.ErrNoStore) {
			return err
		}
		f, remove, failed := measured(ctx, vfs.OS{}, o.Dir, o.cache, r.Size, r.aligned())
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, remove()) }()
		r.storage, r.Cache, r.Direct = f, f.cache, f.cache == around
	}
	kept, err := openResults(o.results, &r.Result, o.settings())
	if err != nil {
		return err
	}
	defer kept.close()
	if r.cost = kept.cost; r.cost.Call == 0 {
		if r.cost, err = calibrate(ctx, r.storage, r.Size, o.Rounds); err != nil {
			return err
		}
		if err := kept.begin(r.cost); err != nil {
			return err
		}
	}
	r.device = fileview.Device{Bandwidth: r.cost.Bandwidth, Latency: r.cost.Call, Stripe: r.device.Stripe, Block: container.BlockSize}
	if r.Cache == warm {
		r.device.Block = 0 // memory is copied by bytes
	}
	r.BreakEven = r.cost.BreakEven()
	r.Cost = cost{r.cost.Bandwidth, r.cost.Call.Seconds(), r.cost.Measured}
	if err := r.measure(ctx, g, &o, kept); err != nil {
		return err
	}
	if store != nil && r.Direct {
		if err := store.SetStorage(r.cost); err != nil {
			return err
		}
		r.Kept = true
	}
	if o.output != "" {
		file := costFile{int64(r.cost.Bandwidth), int64(r.cost.Call), r.device.Stripe, r.device.Block}
		err := g.WriteFile(ctx, o.output, func(w io.Writer) error { return json.NewEncoder(w).Encode(file) })
		if err != nil {
			return err
		}
	}
	if err := draw(ctx, g, o.plot, &r.Result); err != nil {
		return err
	}
	return g.Show(r.Result, func() error { return r.print(g, store) })
}

// measure measures the patterns that the results do not have.
func (r *run) measure(ctx context.Context, g *ui.Globals, o *Options, kept *results) error {
	add, done := g.Progress("sieve", int64(len(r.accesses)*len(r.patterns)))
	defer done()
	order := rand.New(rand.NewPCG(o.seed, 0))
	for _, a := range r.accesses {
		for _, p := range r.patterns {
			t, found := kept.find(a, p)
			if !found {
				var err error
				if t, err = compare(ctx, r.storage, a, p, r.device, joining, o.Rounds, order); err != nil {
					return err
				}
				if err := kept.add(&t); err != nil {
					return err
				}
			}
			r.Patterns = append(r.Patterns, t)
			add(1)
		}
	}
	return nil
}

// newRun checks the options, before anything is written.
func newRun(o *Options) (*run, error) {
	r := &run{Result: Result{Dir: o.Dir}}
	var err error
	if r.Size, err = ui.ParseSize("--size", o.Size); err != nil {
		return nil, err
	}
	if least := int64(4 * largeCall); r.Size < least || o.Rounds < 1 {
		return nil, ui.BadUsage(fmt.Sprintf("--size %s --rounds %d: want at least %s and 1 round", o.Size, o.Rounds, ui.Bytes(float64(least))), "write --size 64MiB --rounds 3")
	}
	if err := ui.CheckPlotName(o.plot); err != nil {
		return nil, err
	}
	if o.cache != "" && !slices.Contains([]string{around, cold, warm}, o.cache) {
		return nil, ui.BadUsage(fmt.Sprintf("--cache %s: want around, cold or warm", o.cache), "leave it out to go around the page cache where that works")
	}
	for _, word := range o.access {
		i := slices.Index([]string{"read", "write"}, word)
		if i < 0 {
			return nil, ui.BadUsage(fmt.Sprintf("--access %s: want read, write or read,write", word), "write --access read,write")
		}
		r.accesses = append(r.accesses, fileview.Access(i))
	}
	if len(o.access) == 0 {
		r.accesses = []fileview.Access{fileview.Read}
	}
	if r.patterns, err = o.patterns(r.Size); err != nil {
		return nil, err
	}
	if o.cache == around && !r.aligned() {
		return nil, ui.BadUsage(fmt.Sprintf("--cache around: blocks, holes and offsets must be multiples of %d bytes", smallCall), "write --cache cold")
	}
	if o.on != "" {
		system, err := pfs.Load(o.on)
		if err != nil {
			return nil, ui.BadUsage(err.Error(), "give a preset or a file, as docs/STORAGE.md says: "+strings.Join(pfs.Presets(), ", "))
		}
		stripe, err := ui.ParseSize("--stripe", o.stripe)
		if err != nil {
			return nil, err
		}
		if o.servers == 0 {
			o.servers = min(2, system.Targets.Count)
		}
		if stripe < smallCall || o.servers < 1 || o.servers > system.Targets.Count {
			return nil, ui.BadUsage(fmt.Sprintf("--stripe %s --servers %d: want a stripe from 4KiB, on 1 to %d targets", o.stripe, o.servers, system.Targets.Count), "leave them out")
		}
		r.storage, r.device.Stripe = &described{system: system, size: r.Size, stripe: stripe, servers: o.servers}, stripe
		r.Dir, r.On = "", system.Name
	}
	return r, nil
}

// patterns reads the patterns of --views, or makes one for each offset, block and hole.
func (o *Options) patterns(size int64) (list []*pattern, err error) {
	if o.views != "" {
		text, err := os.ReadFile(o.views)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			if line, _, _ = strings.Cut(line, "#"); strings.TrimSpace(line) == "" {
				continue
			}
			p, err := viewPattern(strings.TrimSpace(line), size)
			if err != nil {
				return nil, ui.BadUsage(o.views+": "+err.Error(), "a line is like 128:4096+12288")
			}
			list = append(list, p)
		}
		if len(list) == 0 {
			return nil, ui.BadUsage(o.views+" has no views", "a line is like 128:4096+12288")
		}
		return list, nil
	}
	blocks, err := sizesOf("--blocks", o.blocks, thesisBlocks, 1)
	if err != nil {
		return nil, err
	}
	holes, err := sizesOf("--holes", o.holes, thesisHoles, 0)
	if err != nil {
		return nil, err
	}
	if len(o.offsets) == 0 {
		o.offsets = []string{"0"}
	}
	for _, word := range o.offsets {
		for _, data := range blocks {
			for _, hole := range holes {
				at := hole
				if word != "hole" {
					if at, err = sizeOf("--offsets", word); err != nil {
						return nil, err
					}
				}
				p, err := newPattern(at, data, hole, size)
				if err != nil {
					return nil, ui.BadUsage(err.Error(), "give a larger --size")
				}
				list = append(list, p)
			}
		}
	}
	return list, nil
}

func sizesOf(flag string, words, thesis []string, least int64) (list []int64, err error) {
	if len(words) == 0 {
		words = usualSizes
	}
	if len(words) == 1 && words[0] == "thesis" {
		words = thesis
	}
	for _, word := range words {
		n, err := sizeOf(flag, word)
		if err != nil {
			return nil, err
		}
		if n < least {
			return nil, ui.BadUsage(fmt.Sprintf("%s %s: want at least %d", flag, word, least), "")
		}
		list = append(list, n)
	}
	return list, nil
}

// sizeOf reads a size that may be 0.
func sizeOf(flag, word string) (int64, error) {
	if word == "0" {
		return 0, nil
	}
	return ui.ParseSize(flag, word)
}

// aligned tells whether all calls can go around the page cache.
func (r *run) aligned() bool {
	for _, p := range r.patterns {
		if p.text != "" || (p.initial|p.data|p.hole)%smallCall != 0 {
			return false
		}
	}
	return true
}

func (r *run) print(g *ui.Globals, store *image.Store) error {
	how := map[string]string{around: "around the page cache", cold: "through the page cache, which is emptied before each pass",
		warm: "in the page cache", "": "in virtual time"}[r.Cache]
	err := g.Printf("a call costs %.1f µs, %.0f MiB/s, %s\nbreak-even   %s: smaller holes are faster read than skipped\n",
		float64(r.cost.Call)/float64(time.Microsecond), r.cost.Bandwidth/(1<<20), how, kib(r.BreakEven))
	if err != nil {
		return err
	}
	for i, a := range r.accesses {
		n := len(r.patterns)
		if err := r.printRows(g, a, r.Patterns[i*n:(i+1)*n]); err != nil {
			return err
		}
	}
	if low, high, n := same(r.Patterns); n > 0 {
		g.Printf("\n%s = naive's calls: %.2f to %.2f in %s; so far off may all be\n", mark, low, high, ui.Count(n, "cell"))
	}
	again, worst := 0, 0.0
	for _, t := range r.Patterns {
		again += t.Again
		worst = max(worst, t.Scatter)
		for _, rule := range t.Rules {
			worst = max(worst, rule.Scatter)
		}
	}
	if r.storage.repeats() {
		g.Printf("scatter      ±%.0f %% at most; measured again: %d\n", 100*worst, again)
	}
	if r.Kept {
		return g.Printf("\nkept in %s: restarts and ckpt extract use it\n", store.Dir())
	}
	return nil
}

// mark stands after the speedup of a rule that makes naive's calls.
const mark = "="

func (r *run) printRows(g *ui.Globals, a fileview.Access, rows []Times) error {
	header := []string{"|block KiB", "|hole KiB"}
	if rows[0].View != "" {
		header = []string{"view"}
	}
	offsets := slices.ContainsFunc(rows, func(t Times) bool { return t.Initial != 0 })
	if offsets {
		header = append([]string{"|at KiB"}, header...)
	}
	header = append(header, "|naive MiB/s", "|±%")
	for _, rule := range rows[0].Rules {
		header = append(header, "|"+rule.Rule.String())
	}
	var table [][]string
	for _, t := range rows {
		row := []string{number(t.Data), number(t.Hole)}
		if t.View != "" {
			row = []string{t.View}
		}
		if offsets {
			row = append([]string{number(t.Initial)}, row...)
		}
		row = append(row, fmt.Sprintf("%.1f", float64(t.Wanted)/t.Naive/(1<<20)), fmt.Sprintf("%.0f", 100*t.Scatter))
		for _, rule := range t.Rules {
			cell := fmt.Sprintf("%.2f", rule.Speedup)
			if rule.Same {
				cell += mark
			}
			row = append(row, cell)
		}
		table = append(table, row)
	}
	if err := g.Printf("\n%s\n", a); err != nil {
		return err
	}
	return g.Table(header, table)
}

// number is a size in KiB.
func number(n int64) string {
	if n >= 100<<10 {
		return fmt.Sprintf("%.0f", float64(n)/1024)
	}
	return fmt.Sprintf("%.3g", float64(n)/1024)
}

func kib(n int64) string { return number(n) + " KiB" }
