package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"ckpt/image"
	"ckpt/image/vfs"
	"ckpt/zones"
	"ckpt/zones/proc"
	"ckpt/zones/source"
)

type zonesOptions struct {
	pid         int
	tree        bool
	areas       bool
	csv         bool
	app         string
	np          int
	measure     string
	rules       string
	withRuntime bool
}

func newZonesCommand(g *globals) *cobra.Command {
	var o zonesOptions
	cmd := &cobra.Command{
		Use:   "zones FILE|DIR|-... | --pid PID [--tree]",
		Short: "Show what memory is made of: library, data, shared, I/O buffer",
		Long: `Show the zones of processes: of live ones with --pid, of checkpoint images of DMTCP
(plain or gzip) and ckpt, of ELF core files, and of saved texts of /proc/PID/smaps
or maps; - reads such a text from standard input. A directory stands for all
images in it.

Of a live process, sizes are what a checkpoint by DMTCP would hold now; --as
counts otherwise. --tree takes all descendants as well, such as the ranks of an
mpiexec. Nothing is stopped or written.

--csv prints a row per program for ckpt predict fit: three rows, of runs with
different numbers of processes, make a model. docs/ZONES.md has the rules by which
areas are told apart, and a tutorial.`,
		Example: `  ckpt zones --pid $(pgrep -o mpiexec) --tree
  ckpt zones ckpt_bt.B.4_*.dmtcp
  ckpt zones --pid 4711 --areas --as resident
  ssh node7 cat /proc/4711/smaps | ckpt zones - --json
  ckpt zones --pid 4711 --tree --csv >> mine.csv`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (o.pid != 0) == (len(args) > 0) {
				return usage(cmd, errors.New("name files, or a process with --pid"))
			}
			if o.tree && o.pid == 0 {
				return usage(cmd, errors.New("--tree goes with --pid"))
			}
			if cmd.Flags().Changed("pid") && o.pid < 1 {
				return usage(cmd, fmt.Errorf("--pid %d is no process", o.pid))
			}
			if !o.csv && (cmd.Flags().Changed("app") || cmd.Flags().Changed("np")) {
				return usage(cmd, errors.New("--app and --np go with --csv"))
			}
			if cmd.Flags().Changed("np") && o.np < 1 {
				return usage(cmd, fmt.Errorf("--np %d is no number of processes", o.np))
			}
			if o.csv && g.json {
				return usage(cmd, errors.New("--csv and --json exclude each other"))
			}
			return runZones(cmd.Context(), g, &o, args)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.pid, "pid", 0, "a live process")
	f.BoolVar(&o.tree, "tree", false, "with --pid: and all its descendants")
	f.BoolVar(&o.areas, "areas", false, "list the areas")
	f.BoolVar(&o.csv, "csv", false, "print rows for ckpt predict fit")
	f.StringVar(&o.app, "app", "", "with --csv: name the application, like bt.B; by default after the program")
	f.IntVar(&o.np, "np", 0, "with --csv: processes of the job; by default as many as are seen")
	f.StringVar(&o.measure, "as", "dmtcp", "what is stored of a live process: dmtcp, criu, virtual, resident, dirty")
	f.StringVar(&o.rules, "rules", "", "YAML file with rules of your site")
	f.BoolVar(&o.withRuntime, "with-runtime", false, "count what the checkpointer adds with the library zone")
	return cmd
}

// zonesError says whose fault an error is, and what to do about it.
func zonesError(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, source.ErrUnknown) {
		return errUsage{err}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return errNotFound{err}
	}
	if errors.Is(err, fs.ErrPermission) {
		return hinted{err, "only one's own processes and files can be read; root can read all"}
	}
	return err
}

func runZones(ctx context.Context, g *globals, o *zonesOptions, args []string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	rules, err := loadRules(o.rules)
	if err != nil {
		return err
	}
	measure, err := proc.ParseMeasure(o.measure)
	if err != nil {
		return errUsage{err}
	}
	ps, err := o.read(ctx, g, rules, measure, args)
	if err != nil && len(ps) == 0 {
		return zonesError(err)
	}
	// What can be read is shown; the rest decides the exit status.
	return errors.Join(o.show(g, args, ps), zonesError(err))
}

func (o *zonesOptions) show(g *globals, args []string, ps []*zones.Process) error {
	source.Settle(ps)
	if o.withRuntime {
		for _, p := range ps {
			source.CountRuntime(p)
		}
	}
	checkpoints := source.Checkpoints(ps)
	switch {
	case o.csv:
		return o.printCSV(g, ps, checkpoints)
	case g.json:
		return g.printZonesJSON(ps, checkpoints, o.single(args, ps))
	case o.areas:
		return g.printAreas(ps)
	case len(ps) == 1:
		return g.printProcess(ps[0])
	}
	return g.printProcesses(ps, checkpoints)
}

// single reports whether one process was asked for, not a list of them.
func (o *zonesOptions) single(args []string, ps []*zones.Process) bool {
	if len(ps) != 1 || o.tree {
		return false
	}
	if o.pid != 0 {
		return true
	}
	fi, err := os.Stat(args[0])
	return len(args) == 1 && (err != nil || !fi.IsDir())
}

func (o *zonesOptions) read(ctx context.Context, g *globals, rules *zones.Rules, measure proc.Measure, args []string) ([]*zones.Process, error) {
	if o.pid != 0 {
		return o.live(ctx, g, rules, measure)
	}
	r := source.Reader{Rules: rules, Measure: measure, More: []source.Format{{
		Is:   image.IsImage,
		Read: func(name string) (*zones.Process, error) { return image.Process(vfs.OS{}, name) },
	}}}
	var out []*zones.Process
	var failed error
	for _, name := range args {
		ps, err := readSource(ctx, &r, name)
		out, failed = append(out, ps...), errors.Join(failed, err)
	}
	return out, failed
}

// readSource reads a file, a directory, or standard input.
func readSource(ctx context.Context, r *source.Reader, name string) ([]*zones.Process, error) {
	if name == "-" {
		return one(r.Text("standard input", os.Stdin))
	}
	fi, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case fi.IsDir():
		return r.Dir(ctx, name)
	}
	return one(r.File(ctx, name))
}

func one(p *zones.Process, err error) ([]*zones.Process, error) {
	if err != nil {
		return nil, err
	}
	return []*zones.Process{p}, nil
}

func (o *zonesOptions) live(ctx context.Context, g *globals, rules *zones.Rules, measure proc.Measure) ([]*zones.Process, error) {
	opt := proc.Options{Measure: measure}
	var ps []*zones.Process
	if o.tree {
		var gone []error
		var err error
		ps, gone, err = proc.Tree(ctx, o.pid, opt)
		if err != nil {
			return nil, err
		}
		for _, err := range gone {
			g.warn("%v", err)
		}
	} else {
		p, err := proc.Read(ctx, o.pid, opt)
		if err != nil {
			return nil, err
		}
		ps = append(ps, p)
	}
	for _, p := range ps {
		rules.Classify(p)
	}
	return ps, nil
}

// zonesLine is a process in ckpt zones --json.
type zonesLine struct {
	Source     string             `json:"source"`
	Format     string             `json:"format"`
	Process    string             `json:"process"`
	Executable string             `json:"executable,omitempty"`
	PID        int                `json:"pid"`
	Role       zones.Role         `json:"role"`
	Rank       *int               `json:"rank,omitempty"`
	Host       string             `json:"host,omitempty"`
	MPI        string             `json:"mpi,omitempty"`
	Zones      zones.Sizes        `json:"zones"`
	Runtime    int64              `json:"runtime_bytes"`
	Kernel     int64              `json:"kernel_bytes"` // never stored
	Companion  int64              `json:"companion_bytes"`
	Overhead   int64              `json:"overhead_bytes"`
	Image      int64              `json:"image_bytes"`
	File       int64              `json:"file_bytes"`
	Totals     *zonesTotals       `json:"totals,omitempty"`
	Checkpoint *source.Checkpoint `json:"checkpoint,omitempty"`
	Areas      []zones.Area       `json:"areas"`
}

// zonesTotals are the sizes of a live process in other respects.
type zonesTotals struct {
	Virtual  int64 `json:"virtual"`
	Resident int64 `json:"resident"`
	Dirty    int64 `json:"dirty"`
	Occupied int64 `json:"occupied"`
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

func (g *globals) printZonesJSON(ps []*zones.Process, checkpoints []source.Checkpoint, single bool) error {
	lines := make([]zonesLine, len(ps))
	for i, p := range ps {
		l := zonesLine{Source: p.Source, Format: p.Format, Process: p.Name, Executable: p.Exe, PID: p.PID, Role: p.Role,
			Host: p.Host, MPI: p.MPI, Zones: p.Sizes(), Runtime: p.Stored(zones.Runtime), Companion: p.Companion(),
			Overhead: p.Overhead, Image: p.Image(), File: p.FileBytes, Totals: totalsOf(p), Areas: p.Areas}
		if p.Rank >= 0 {
			l.Rank = &p.Rank
		}
		if l.Areas == nil {
			l.Areas = []zones.Area{}
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
		return g.printJSON(lines[0])
	}
	return g.printJSON(lines)
}

// who names a process for a reader.
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
		return "what a checkpoint would hold now"
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
	err := g.table([]string{"process", "|pid", "role", "|rank", "|library", "|data", "|shared", "|iobuffer", "|runtime", "|image MiB"}, rows)
	for _, c := range checkpoints {
		err = errors.Join(err, g.printCheckpointSum(c))
	}
	return err
}

func (g *globals) printCheckpointSum(c source.Checkpoint) error {
	var rows [][]string
	for _, p := range c.Programs {
		rows = append(rows, []string{p.Name, string(p.Role), fmt.Sprint(p.Count), mib(p.Mean.Library), mib(p.Mean.Data), mib(p.Mean.Shared),
			mib(p.Mean.IOBuffer), mib(p.Runtime), mib(p.Image), mib(p.Min) + "-" + mib(p.Max)})
	}
	title := "\nper program"
	if c.Group != "" {
		title += ", checkpoint " + c.Group
	}
	if err := g.printf("%s (mean MiB):\n", title); err != nil {
		return err
	}
	if err := g.table([]string{"program", "role", "|count", "|library", "|data", "|shared", "|iobuffer", "|runtime", "|image", "|smallest-largest"}, rows); err != nil {
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
		line += fmt.Sprintf("; %d more processes of the checkpoint are not here", c.Missing)
	}
	return g.printf("%s\n", line)
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

// appName takes names like those of NPB apart: bt.B.4, bt.B.x.
var appName = regexp.MustCompile(`^([A-Za-z0-9_-]+)\.([A-Z])(\.([0-9]+|x))?$`)

func (o *zonesOptions) printCSV(g *globals, ps []*zones.Process, checkpoints []source.Checkpoint) error {
	w := csv.NewWriter(g.out)
	_ = w.Write([]string{"app", "class", "n_processes", "processes_per_node", "mpi", "dtapp_MiB", "lb_MiB", "shmem_MiB", "ckpt_file_MiB"})
	rows := 0
	for _, c := range checkpoints {
		for _, p := range c.Programs {
			if p.Role != zones.RoleRank {
				continue
			}
			hosts := make(map[string]bool)
			for _, q := range ps {
				if q.Group == c.Group && q.Name == p.Name {
					hosts[q.Host] = true
				}
			}
			np := p.Count
			if o.np > 0 {
				np = o.np
			}
			name := o.app
			if name == "" {
				name = p.Name
			}
			app, class := strings.ToLower(strings.NewReplacer(".", "_", " ", "_", ",", "_").Replace(zones.Printable(name))), "-"
			if m := appName.FindStringSubmatch(name); m != nil {
				app, class = strings.ToLower(m[1]), m[2]
			}
			shared := p.Mean.Shared + p.Companion
			_ = w.Write([]string{app, class, strconv.Itoa(np), strconv.Itoa((p.Count + len(hosts) - 1) / len(hosts)), p.MPI,
				mib(p.Mean.Data), mib(p.Mean.Library), mib(shared), mib(p.Mean.Total() + p.Companion)})
			rows++
		}
	}
	w.Flush()
	if rows == 0 {
		return errors.New("no process is a rank: all are launchers")
	}
	return w.Error()
}
