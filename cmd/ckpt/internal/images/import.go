package images

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/image/dmtcp"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"

	"github.com/spf13/cobra"
)

type importOptions struct {
	job     string
	rules   string
	partial bool
	wait    ui.Wait
}

func newImportCommand(g *ui.Globals) *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "import FILE|DIR... --job NAME",
		Short: "Store checkpoint images of DMTCP",
		Long: `Store the images of one checkpoint of DMTCP as the next checkpoint of a job, with
the files that DMTCP puts beside them: directories of shared files, restart scripts.
Contents that images share with each other or with the previous checkpoint are
stored once.

The checkpoint can be listed, shown, verified, compared and pruned like any other;
ckpt export writes the files back, bit by bit. The original images stay.

Images packed by gzip are stored as they are. Run DMTCP with --no-gzip, so that
ckpt can find their common contents.`,
		Example: "  ckpt import ckpt_*.dmtcp --job bt\n  ckpt import /scratch/ckpt-dir --job bt --json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.job == "" {
				return ui.UsageOf(cmd, errors.New("--job is missing: want the name of the job"))
			}
			if err := image.CheckJobName(o.job); err != nil {
				return ui.UsageOf(cmd, err)
			}
			return runImport(cmd.Context(), g, &o, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.job, "job", "", "name of the job")
	f.StringVar(&o.rules, "rules", "", "YAML file with rules of your site for zones (docs/ZONES.md)")
	f.BoolVar(&o.partial, "partial", false, "store the checkpoint although images are missing")
	o.wait.AddFlags(f)
	g.AddStoreFlag(cmd)
	g.AddGroupFlag(cmd)
	return cmd
}

// importLine is the result of ckpt import --json.
type importLine struct {
	checkpointLine
	Imported int64 `json:"imported_bytes"`
	Sources  int   `json:"imported_files"`
}

func runImport(ctx context.Context, g *ui.Globals, o *importOptions, names []string) error {
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	rules, err := loadRules(o.rules)
	if err != nil {
		return err
	}
	if err := g.CheckStore(); err != nil {
		return err
	}
	set, err := dmtcp.Collect(ctx, names, dmtcp.CollectOptions{Rules: rules, Partial: o.partial})
	if bad := (*dmtcp.SetError)(nil); errors.As(err, &bad) && bad.Missing {
		return ui.WithHint(err, bad.Fix+", or --partial")
	}
	if err != nil {
		return ui.SourceError(err)
	}
	switch {
	case set.Guessed:
		g.Warn("the images do not have the MPI ranks; they are numbered by their process ids")
	case set.Renumbered:
		g.Warn("ranks are missing; the others are numbered from 0")
	}
	undo, err := g.ShareStore()
	if err != nil {
		return err
	}
	store, err := image.CreateStore(vfs.OS{}, g.Store)
	if err != nil {
		undo()
		return err
	}
	files, total := set.Files()
	add, done := g.Progress("import", total)
	var m *image.Manifest
	err = o.wait.For(ctx, g, o.job, func() (err error) {
		m, err = job.Import(ctx, store, o.job, set, dmtcp.Options{Progress: add, Notice: func(err error) { g.Warn("%v", err) }})
		return err
	})
	done()
	if err != nil {
		return err
	}
	if g.JSON {
		return g.PrintJSON(importLine{describeManifest(job.Events{}, m), total, files})
	}
	return g.Printf("%s@%d: %s of %s, %s in all, %s MiB; %s MiB stored\n", m.Job, m.Number, ui.Count(m.NP, "rank"), m.App,
		ui.Count(files, "file"), ui.MiB(total), ui.MiB(m.StoredBytes))
}

// loadRules returns the built-in rules, after the rules of a file.
func loadRules(file string) (*zones.Rules, error) {
	rules := zones.DefaultRules()
	if file == "" {
		return rules, nil
	}
	if err := rules.AddFile(file); err != nil {
		var bad *zones.RulesError
		if errors.As(err, &bad) {
			return nil, ui.AsUsage(ui.WithHint(err, "docs/ZONES.md shows the form of the file"))
		}
		return nil, ui.SourceError(err)
	}
	return rules, nil
}

func newExportCommand(g *ui.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export JOB[@N] DIR",
		Short: "Write the files of an imported checkpoint back",
		Long: `Write the files of an imported checkpoint, by default the newest, to a directory:
images, directories of shared files, restart scripts, bit by bit. Compare each file
with its digest from the import. Existing files are not overwritten.`,
		Example: "  ckpt export bt@3 /scratch/restart && /scratch/restart/dmtcp_restart_script.sh",
		Args:    cobra.ExactArgs(2),
		RunE:    func(cmd *cobra.Command, args []string) error { return runExport(cmd.Context(), g, args[0], args[1]) },
	}
	g.AddStoreFlag(cmd)
	return cmd
}

func runExport(ctx context.Context, g *ui.Globals, target, dir string) error {
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	if dir == "" {
		return ui.BadUsage("the name of the directory is empty", "ckpt export JOB@N DIR")
	}
	job, m, _, err := g.OpenCheckpoint(ctx, target)
	if err != nil {
		return err
	}
	add, done := g.Progress("export", m.Bytes.Total())
	out, err := dmtcp.Export(ctx, job, m, dir, add)
	done()
	if err != nil {
		return exportError(dir, err)
	}
	if g.JSON {
		return g.PrintJSON(struct {
			Job    string `json:"job"`
			Number int    `json:"number"`
			Dir    string `json:"dir"`
			dmtcp.Exported
		}{m.Job, m.Number, dir, out})
	}
	return g.Printf("%s@%d: %s, %s MiB, to %s\n", m.Job, m.Number, ui.Count(out.Files, "file"), ui.MiB(out.Bytes), dir)
}

// exportError adds the remedy to an error about the directory.
func exportError(dir string, err error) error {
	var path *fs.PathError
	if !errors.As(err, &path) {
		return err
	}
	err = fmt.Errorf("export to %s: %w", dir, err)
	switch {
	case errors.Is(err, fs.ErrExist):
		return ui.WithHint(err, "name an empty or a new directory: export overwrites nothing")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return ui.WithHint(fmt.Errorf("%w: %w", durable.ErrStorageFull, err), "free some space there, or name another directory")
	case errors.Is(err, fs.ErrPermission):
		return ui.WithHint(err, "name a directory with write permission")
	}
	return err
}

type extractOptions struct {
	rank           int
	region, output string
	npy            bool
}

func newExtractCommand(g *ui.Globals) *cobra.Command {
	var o extractOptions
	cmd := &cobra.Command{
		Use:   "extract JOB[@N]",
		Short: "Read one array of one rank out of a checkpoint",
		Long: `Read one array of one rank out of a checkpoint, by default the newest, whatever its
layout, codec and references to earlier checkpoints. Only the extents of that array
are read, and each is checked.

Without --region, list the arrays of the rank. The output is raw, or with --npy (or
a FILE that ends in .npy) in the format of NumPy: numpy.load reads it.`,
		Example: `  ckpt extract night@2 --rank 3
  ckpt extract night@2 --rank 3 --region u -o u.npy
  ckpt extract night --rank 0 --region u | od -t f8 | head`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			job, m, _, err := g.OpenCheckpoint(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			arrays, err := job.Arrays(m, o.rank)
			if errors.Is(err, image.ErrRankNotFound) {
				return ui.AsNotFound(ui.WithHint(err, ranksOfCheckpoint(m)))
			}
			if err != nil {
				return err
			}
			if o.region == "" {
				if cmd.Flags().Changed("output") || o.npy {
					return ui.BadUsage("no array is named", "add --region; without it, the arrays are listed")
				}
				return listArrays(g, m, o.rank, arrays)
			}
			return extract(cmd.Context(), g, job, m, arrays, &o)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.rank, "rank", 0, "rank whose array is read")
	f.StringVar(&o.region, "region", "", "array to read; without it, the arrays are listed")
	f.StringVarP(&o.output, "output", "o", "-", "file to write, - for standard output")
	f.BoolVar(&o.npy, "npy", false, "write the format of NumPy")
	g.AddStoreFlag(cmd)
	return cmd
}

// ranksOfCheckpoint is the hint for a rank that a checkpoint does not have.
func ranksOfCheckpoint(m *image.Manifest) string {
	first, last := m.Ranks[0].Rank, m.Ranks[len(m.Ranks)-1].Rank
	if len(m.Ranks) == m.NP {
		return fmt.Sprintf("the job has ranks %d to %d", first, last)
	}
	return fmt.Sprintf("checkpoint %d has ranks %d to %d; ckpt list %s shows the others", m.Number, first, last, m.Job)
}

func listArrays(g *ui.Globals, m *image.Manifest, rank int, arrays []image.Array) error {
	if g.JSON {
		return g.PrintJSON(struct {
			Job    string        `json:"job"`
			Number int           `json:"number"`
			Rank   int           `json:"rank"`
			Arrays []image.Array `json:"regions"`
		}{m.Job, m.Number, rank, arrays})
	}
	var rows [][]string
	for _, a := range arrays {
		rows = append(rows, []string{a.Name, a.Zone.String(), a.Elem.String(), fmt.Sprint(a.Bytes), a.File})
	}
	return g.Table([]string{"region", "zone", "type", "|bytes", "file"}, rows)
}

// An extracted array, as --json tells of it.
type extracted struct {
	Job    string `json:"job"`
	Number int    `json:"number"`
	Rank   int    `json:"rank"`
	image.Array
	Output string `json:"output"`
	Format string `json:"format"` // raw or npy
	image.Reads
}

func extract(ctx context.Context, g *ui.Globals, job *image.Job, m *image.Manifest, arrays []image.Array, o *extractOptions) error {
	a, err := image.FindArray(arrays, o.region)
	if err != nil {
		return ui.AsNotFound(ui.WithHint(err, fmt.Sprintf("ckpt extract %s@%d --rank %d lists them", m.Job, m.Number, o.rank)))
	}
	if o.output == "-" && ui.IsTerminal(g.CommandOutput()) {
		return ui.BadUsage("refusing to write an array to a terminal", "add -o FILE, or a pipe")
	}
	if o.output == "-" && g.JSON {
		return ui.BadUsage("standard output cannot take both the array and JSON", "add -o FILE")
	}
	result := extracted{Job: m.Job, Number: m.Number, Rank: o.rank, Array: a, Output: o.output, Format: "raw"}
	if o.npy || strings.HasSuffix(o.output, ".npy") {
		result.Format = "npy"
	}
	add, done := g.Progress("extract", a.Bytes)
	err = g.WriteFile(ctx, o.output, func(w io.Writer) error {
		if result.Format == "npy" {
			if _, err := w.Write(npyHeader(a.Elem, a.Bytes)); err != nil {
				return err
			}
		}
		var err error
		result.Reads, err = job.Extract(ctx, m, a, w, add)
		return err
	})
	done()
	if err != nil || o.output == "-" {
		return err
	}
	if g.JSON {
		return g.PrintJSON(result)
	}
	return g.Printf("%s of rank %d at checkpoint %d of %s: %d bytes of %s in %s (%s read in %s)\n",
		a.Name, o.rank, m.Number, m.Job, a.Bytes, a.Elem, o.output, ui.MiB(result.Reads.Bytes)+" MiB", ui.Count(int(result.Calls), "call"))
}

// npyTypes are the names of NumPy for the types of elements, little-endian.
var npyTypes = map[zones.Elem]string{zones.Float64: "<f8", zones.Float32: "<f4", zones.Int32: "<i4", zones.Int64: "<i8",
	zones.Float16: "<f2", zones.Int16: "<i2", zones.Int8: "|i1"}

// npyHeader returns the header of NumPy's format 1.0 for a vector: magic, version, length of
// the rest, and a Python dictionary padded so that the data is aligned to 64 bytes.
func npyHeader(elem zones.Elem, bytes int64) []byte {
	kind, size := npyTypes[elem], int64(elem.Size())
	if kind == "" || bytes%size != 0 {
		kind, size = "|u1", 1
	}
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }", kind, bytes/size)
	const fixed = 10
	length := (fixed+len(dict)+1+63)/64*64 - fixed
	b := append([]byte("\x93NUMPY\x01\x00"), 0, 0)
	binary.LittleEndian.PutUint16(b[8:], uint16(length))
	b = append(b, dict...)
	for len(b) < fixed+length-1 {
		b = append(b, ' ')
	}
	return append(b, '\n')
}
