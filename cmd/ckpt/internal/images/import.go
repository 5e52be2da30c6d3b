package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
