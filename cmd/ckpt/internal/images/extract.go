package images

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image"
	"ckpt/zones"
)

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
