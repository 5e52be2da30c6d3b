package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/zones"
	"ckpt/zones/global"

	"github.com/spf13/cobra"
)

type extractOptions struct {
	rank           int
	region, output string
	global, slice  string
	npy            bool
}

func newExtractCommand(g *ui.Globals) *cobra.Command {
	var o extractOptions
	cmd := &cobra.Command{
		Use:   "extract JOB[@N]",
		Short: "Read one array of one rank, or of all ranks, out of a checkpoint",
		Long: `Read one array of one rank out of a checkpoint, by default the newest, whatever its
layout, codec and references to earlier checkpoints. Only the extents of that array
are read, and each is checked.

With --global, read an array that all ranks hold together as one: each cell from the
rank that owns it, without halos. --slice takes a part of it, in the words of NumPy,
and reads the extents that hold this part.

Without --region and --global, list the arrays of the rank. The output is raw, or with
--npy (or a FILE that ends in .npy) in the format of NumPy: numpy.load reads it.`,
		Example: `  ckpt extract night@2 --rank 3
  ckpt extract night@2 --rank 3 --region u -o u.npy
  ckpt extract heat --global u --slice '0:100,::4' -o u.npy
  ckpt extract night --rank 0 --region u | od -t f8 | head`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			j, m, _, err := g.OpenCheckpoint(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if o.global != "" {
				return extractGlobal(cmd.Context(), g, j, m, &o)
			}
			arrays, err := j.Arrays(m, o.rank)
			if errors.Is(err, image.ErrRankNotFound) {
				return ui.AsNotFound(ui.WithHint(err, ranksOfCheckpoint(m)))
			}
			if err != nil {
				return err
			}
			if o.region == "" {
				return listArrays(g, m, o.rank, arrays)
			}
			return extract(cmd.Context(), g, j, m, arrays, &o)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.rank, "rank", 0, "rank whose array is read")
	f.StringVar(&o.region, "region", "", "array to read; without it, the arrays are listed")
	f.StringVar(&o.global, "global", "", "array of all ranks to read")
	f.StringVar(&o.slice, "slice", "", "part of that array, in the words of NumPy, like 0:100,::4")
	f.StringVarP(&o.output, "output", "o", "-", "file to write, - for standard output")
	f.BoolVar(&o.npy, "npy", false, "write the format of NumPy")
	g.AddStoreFlag(cmd)
	return cmd
}

func (o *extractOptions) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	switch {
	case o.global != "" && (o.region != "" || given("rank")):
		return ui.BadUsage("an array of all ranks is no array of one rank", "name --global alone, or --rank and --region")
	case o.slice != "" && o.global == "":
		return ui.BadUsage("only an array of all ranks is cut by --slice", "add --global")
	case o.global == "" && o.region == "" && (given("output") || o.npy):
		return ui.BadUsage("no array is named", "add --region; without it, the arrays are listed")
	}
	return nil
}

// checkOutput refuses an output that would spoil what is there.
func (o *extractOptions) checkOutput(g *ui.Globals) error {
	if o.output == "-" && ui.IsTerminal(g.CommandOutput()) {
		return ui.BadUsage("refusing to write an array to a terminal", "add -o FILE, or a pipe")
	}
	if o.output == "-" && g.JSON {
		return ui.BadUsage("standard output cannot take both the array and JSON", "add -o FILE")
	}
	return nil
}

func (o *extractOptions) format() string {
	if o.npy || strings.HasSuffix(o.output, ".npy") {
		return "npy"
	}
	return "raw"
}

// write writes a header, where the format has one, and the elements to the output.
func (o *extractOptions) write(ctx context.Context, g *ui.Globals, elem zones.Elem, shape []int64, bytes int64, data func(w io.Writer, progress func(int64)) error) error {
	add, done := g.Progress("extract", bytes)
	defer done()
	return g.WriteFile(ctx, o.output, func(w io.Writer) error {
		if o.format() == "npy" {
			if _, err := w.Write(image.NPYHeader(elem, shape)); err != nil {
				return err
			}
		}
		return data(w, add)
	})
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

func extract(ctx context.Context, g *ui.Globals, j *image.Job, m *image.Manifest, arrays []image.Array, o *extractOptions) error {
	a, err := image.FindArray(arrays, o.region)
	if err != nil {
		return ui.AsNotFound(ui.WithHint(err, fmt.Sprintf("ckpt extract %s@%d --rank %d lists them", m.Job, m.Number, o.rank)))
	}
	if err := o.checkOutput(g); err != nil {
		return err
	}
	result := extracted{Job: m.Job, Number: m.Number, Rank: o.rank, Array: a, Output: o.output, Format: o.format()}
	shape, elem := image.Vector(a.Elem, a.Bytes)
	err = o.write(ctx, g, elem, shape, a.Bytes, func(w io.Writer, progress func(int64)) (err error) {
		result.Reads, err = j.Extract(ctx, m, a, w, progress)
		return err
	})
	if err != nil || o.output == "-" {
		return err
	}
	if g.JSON {
		return g.PrintJSON(result)
	}
	return g.Printf("%s of rank %d at checkpoint %d of %s: %d bytes of %s in %s (%s read in %s)\n",
		a.Name, o.rank, m.Number, m.Job, a.Bytes, a.Elem, o.output, ui.MiB(result.Reads.Bytes)+" MiB", ui.Count(int(result.Calls), "call"))
}

// An extractedGlobal is an array of all ranks, or a part of it, as --json tells of it.
type extractedGlobal struct {
	Job     string     `json:"job"`
	Number  int        `json:"number"`
	Array   string     `json:"global_array"`
	Slice   string     `json:"slice"`
	Elem    zones.Elem `json:"element_type"`
	Lengths []int64    `json:"axis_lengths"`
	Bytes   int64      `json:"bytes"`
	Output  string     `json:"output"`
	Format  string     `json:"format"`
	image.Reads
}

func extractGlobal(ctx context.Context, g *ui.Globals, j *image.Job, m *image.Manifest, o *extractOptions) error {
	counted, reads := j.Counting()
	_, blocks := blocksOf(j, m)
	a, err := counted.GlobalArray(m, o.global, blocks)
	switch {
	case errors.Is(err, image.ErrNoArray):
		return ui.AsNotFound(ui.WithHint(err, fmt.Sprintf("ckpt extract %s@%d --rank %d lists the arrays of a rank", m.Job, m.Number, m.Ranks[0].Rank)))
	case errors.Is(err, image.ErrPartialArray):
		return ui.WithHint(err, "read the part of one rank: --rank R --region "+o.global)
	case err != nil:
		return err
	}
	section := global.Whole(a.Shape)
	if o.slice != "" {
		if section, err = global.ParseSection(o.slice, a.Shape); err != nil {
			return ui.BadUsage(err.Error(), fmt.Sprintf("array %s has the shape %s", a.Name, times(a.Shape)))
		}
	}
	if err := o.checkOutput(g); err != nil {
		return err
	}
	result := extractedGlobal{Job: m.Job, Number: m.Number, Array: a.Name, Slice: o.slice, Elem: a.Elem, Lengths: section.Shape,
		Bytes: section.Len() * int64(a.Elem.Size()), Output: o.output, Format: o.format()}
	parts := counted.Parts(m, m.Ranks[0].Rank, container.LoadOptions{})
	defer parts.Close()
	err = o.write(ctx, g, a.Elem, section.Shape, result.Bytes, func(w io.Writer, progress func(int64)) error {
		return parts.WriteSection(ctx, a, section, w, progress)
	})
	if err != nil || o.output == "-" {
		return err
	}
	if result.Reads = reads(); g.JSON {
		return g.PrintJSON(result)
	}
	return g.Printf("%s of %s at checkpoint %d of %s: %s of %s in %s (%s MiB read in %s)\n",
		a.Name, ui.Count(m.NP, "rank"), m.Number, m.Job, times(section.Shape), a.Elem, o.output, ui.MiB(result.Reads.Bytes), ui.Count(int(result.Calls), "call"))
}

// times words a shape, as 100x25; a single element has none.
func times(shape []int64) string {
	if len(shape) == 0 {
		return "1"
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(shape), "[]"), " ", "x")
}
