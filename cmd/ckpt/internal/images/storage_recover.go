package images

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/cached"
	"ckpt/image/filecache"
	"ckpt/internal/durable"
)

// NewStorageRecoverCommand makes ckpt storage recover.
func NewStorageRecoverCommand(g *ui.Globals) *cobra.Command {
	var o cached.RecoverOptions
	var list bool
	cmd := &cobra.Command{
		Use:   "recover DIR [FILE]...",
		Short: "Recover files whose cache was lost with a daemon or a node",
		Long: `Recover the files of DIR that mounts with --cache have left unfinished, and write them into
DIR: all of them, or those that are named. A mount with --records keeps every acknowledged
write unless a node's directory is lost, one with --neighbours K also if K are, and one with
--versions alone the newest version.

Every node must be reached, through its mount or as a directory of this machine. Where a
node's directory is lost for good, --lost says so. Mounts abandon the files first: programs
that have them open get errors until they open them again.

--list shows the unfinished files and the versions of files instead, and checks these.`,
		Example: "  ckpt storage recover /scratch\n  ckpt storage recover /scratch map --lost 2\n  ckpt storage recover /scratch --list",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Names = args[1:]
			if list {
				return listCached(cmd.Context(), g, args[0], o)
			}
			return recoverCached(cmd.Context(), g, args[0], o)
		},
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&o.Lost, "lost", nil, "numbers of nodes whose directories are lost")
	flags.StringVar(&o.Listen, "listen", "", "HOST of this machine if nodes are on other hosts")
	flags.BoolVar(&list, "list", false, "list unfinished files and versions, and check versions")
	return cmd
}

func recoverHint(err error, dir string) error {
	switch {
	case errors.Is(err, cached.ErrNoCache):
		return ui.AsNotFound(ui.WithHint(err, "give the directory that was mounted with ckpt storage mount DIR MNT --cache"))
	case errors.Is(err, cached.ErrAway):
		return ui.WithHint(err, "mount the node again, or say that its directory is lost: ckpt storage recover "+dir+" --lost NODE")
	}
	return err
}

type recoveredFiles struct {
	Dir   string             `json:"dir"`
	Files []cached.Recovered `json:"cached_files"`
}

func recoverCached(ctx context.Context, g *ui.Globals, dir string, o cached.RecoverOptions) error {
	files, err := cached.Recover(ctx, dir, o)
	if err != nil {
		return recoverHint(err, dir)
	}
	var failed []error
	var rows [][]string
	for _, f := range files {
		for _, w := range f.Warnings {
			g.Warn("%s", w)
		}
		if f.Err() != nil {
			failed = append(failed, f.Err())
			continue
		}
		from := string(f.From)
		if f.From == filecache.FromVersion {
			from += " " + strconv.FormatUint(f.Version, 10)
		}
		rows = append(rows, []string{f.Name, from, ui.Bytes(float64(f.Bytes)), strconv.Itoa(f.Replayed), strconv.Itoa(f.Dropped)})
	}
	err = g.Show(recoveredFiles{dir, files}, func() error {
		if len(files) == 0 {
			return g.Printf("nothing to recover in %s\n", dir)
		}
		if len(rows) == 0 {
			return nil
		}
		return g.Table([]string{"FILE", "FROM", "BYTES", "REPEATED", "DROPPED"}, rows)
	})
	return errors.Join(err, errors.Join(failed...))
}

type cachedFiles struct {
	Dir   string          `json:"dir"`
	Files []cached.Listed `json:"cached_files"`
}

func listCached(ctx context.Context, g *ui.Globals, dir string, o cached.RecoverOptions) error {
	files, err := cached.List(ctx, dir, o)
	if err != nil {
		return recoverHint(err, dir)
	}
	var rows [][]string
	var damaged error
	for _, f := range files {
		if f.Unfinished {
			rows = append(rows, []string{f.Name, "", "", "unfinished"})
		}
		for _, v := range f.Versions {
			state := "sound"
			if v.Damage != "" {
				damaged = errors.Join(damaged, &durable.DamageError{File: f.Name, Reason: fmt.Sprintf("version %d is damaged", v.Number)})
				state = v.Damage
			}
			rows = append(rows, []string{f.Name, strconv.FormatUint(v.Number, 10), ui.Bytes(float64(v.Bytes)), state})
		}
	}
	err = g.Show(cachedFiles{dir, files}, func() error {
		if len(rows) == 0 {
			return g.Printf("%s has no unfinished files and no versions\n", dir)
		}
		return g.Table([]string{"FILE", "VERSION", "BYTES", "STATE"}, rows)
	})
	return errors.Join(err, damaged)
}
