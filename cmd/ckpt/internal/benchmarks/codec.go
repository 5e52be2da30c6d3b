package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/codec"
	"ckpt/image/container"
	"ckpt/internal/vfs"
	"ckpt/zones"
	"ckpt/zones/source"

	"github.com/spf13/cobra"
)

// A codecResult is how one codec does on an image, in one goroutine.
type codecResult struct {
	Codec  string `json:"codec"`
	Bytes  int64  `json:"bytes"`        // of the extents that are not all zeros
	Stored int64  `json:"stored_bytes"` // in whole pages, as in a file
	// Ratio is Bytes by Stored.
	Ratio float64 `json:"codec_ratio"`
	// Raw is the share of the bytes that is stored as it is, Filtered the share that is
	// shuffled.
	Raw      float64 `json:"raw_share"`
	Filtered float64 `json:"filtered_share"`
	// Rates are in bytes of memory per second of processor time.
	Encode float64 `json:"encode_bytes_per_s"`
	Decode float64 `json:"decode_bytes_per_s"`
	// PaysBelow is the bandwidth of the storage, in bytes per second, below which compressing
	// saves time: Encode · (Ratio−1)/Ratio.
	PaysBelow float64 `json:"pays_below_bytes_per_s"`
}

// extents are the memory that codecs are tried on.
type extents struct {
	Zeros int64 // bytes of extents of zeros, which are never stored
	Bytes int64 // of the others
	list  []extent
}

type extent struct {
	elem zones.Elem
	raw  []byte
}

// extentBytes is the length of the extents of foreign memory, as in the write path.
const extentBytes = 256 << 10

// readExtents reads up to limit bytes of an image of ckpt or DMTCP, or of any file.
func readExtents(ctx context.Context, path string, limit int64) (*extents, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head, err := source.Head(f)
	if err != nil {
		return nil, err
	}
	x := &extents{}
	switch {
	case container.IsImage(head):
		err = x.own(ctx, path, limit)
	case source.IsImage(head):
		err = x.dmtcp(ctx, f, path, limit)
	default:
		err = x.plain(ctx, f, limit)
	}
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	if x.Bytes == 0 {
		return nil, fmt.Errorf("%s holds nothing but zeros", path)
	}
	return x, nil
}

// errEnough ends the reading at the limit.
var errEnough = errors.New("enough")

func (x *extents) add(elem zones.Elem, raw []byte, limit int64) error {
	if codec.IsZero(raw) {
		x.Zeros += int64(len(raw))
		return nil
	}
	if x.Bytes += int64(len(raw)); x.Bytes > limit {
		x.Bytes -= int64(len(raw))
		return errEnough
	}
	x.list = append(x.list, extent{elem, raw})
	return nil
}

// own adds the extents that a container file stores itself.
func (x *extents) own(ctx context.Context, path string, limit int64) error {
	o, err := container.OpenFile(vfs.OS{}, path)
	if err != nil {
		return err
	}
	defer o.Close()
	for i, r := range o.Regions {
		for _, e := range o.Extents(i) {
			if e.Zero || e.Elsewhere {
				continue
			}
			raw := make([]byte, e.Bytes)
			if err := o.Read(ctx, e, raw); err != nil {
				return err
			}
			if err := x.add(r.Elem, raw, limit); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *extents) plain(ctx context.Context, r io.Reader, limit int64) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		buf := make([]byte, extentBytes)
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			whole := buf[:zones.PageRound(int64(n))]
			clear(whole[n:])
			if aerr := x.add(zones.Bytes, whole, limit); aerr != nil {
				return aerr
			}
		}
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (x *extents) dmtcp(ctx context.Context, f *os.File, path string, limit int64) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	s, err := source.NewImageScanner(path, f, fi.Size())
	if err != nil {
		return err
	}
	for {
		rec, err := s.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil && rec.Data > 0 {
			err = x.plain(ctx, s, limit)
		}
		if err != nil {
			return err
		}
	}
}

// codecs tries every codec on the extents. Progress, if not nil, is told the bytes encoded
// since its last call: Bytes for each codec.
func (x *extents) codecs(ctx context.Context, progress func(int64)) ([]codecResult, error) {
	var out []codecResult
	for _, s := range codec.Settings() {
		r, err := x.codec(ctx, s, progress)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func (x *extents) codec(ctx context.Context, setting codec.Setting, progress func(int64)) (codecResult, error) {
	enc := codec.NewEncoder(setting, codec.Options{})
	var dec codec.Decoder
	var encoding, decoding time.Duration
	var raw, filtered int64
	r := codecResult{Codec: setting.String(), Bytes: x.Bytes}
	var buf []byte
	// Other work on the machine does not count.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, e := range x.list {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		n := int64(len(e.raw))
		start := codec.ProcessorTime()
		p := enc.Encode(e.raw, e.elem)
		encoding += codec.ProcessorTime() - start
		if len(buf) < len(e.raw) {
			buf = make([]byte, len(e.raw))
		}
		start = codec.ProcessorTime()
		if err := dec.Decode(buf[:n], p.Data, p.ID, p.Filter); err != nil {
			return r, fmt.Errorf("%v: %w", setting, err)
		}
		decoding += codec.ProcessorTime() - start
		r.Stored += zones.PageRound(int64(len(p.Data)))
		if p.ID == codec.Raw {
			raw += n
		}
		if p.Filter != codec.NoFilter {
			filtered += n
		}
		if progress != nil {
			progress(n)
		}
	}
	r.Ratio = float64(r.Bytes) / float64(r.Stored)
	r.Raw, r.Filtered = float64(raw)/float64(r.Bytes), float64(filtered)/float64(r.Bytes)
	r.Encode, r.Decode = rate(r.Bytes, encoding.Seconds()), rate(r.Bytes, decoding.Seconds())
	if r.Ratio > 1 {
		r.PaysBelow = r.Encode * (r.Ratio - 1) / r.Ratio
	}
	return r, nil
}

func newBenchCodecCommand(g *ui.Globals) *cobra.Command {
	var limit string
	cmd := &cobra.Command{
		Use:   "codec FILE",
		Short: "Compare the codecs on your image",
		Long: `Compress and unpack the contents of an image with every codec, extent by extent as
checkpoints are, in one goroutine, and compare. FILE is an image of ckpt (its own
extents only) or of DMTCP, or any file, which is read as bytes.

"pays below" is the bandwidth of the storage below which compressing takes less
time than it saves: encode rate × (ratio − 1) / ratio.`,
		Example: "  ckpt bench codec ckpt-store/jobs/night/0003/rank-0.img\n  ckpt bench codec ckpt_bt.B.4_*.dmtcp --json",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runBenchCodec(cmd.Context(), g, args[0], limit) },
	}
	cmd.Flags().StringVar(&limit, "limit", "1GiB", "read at most this many bytes into memory")
	return cmd
}

func runBenchCodec(ctx context.Context, g *ui.Globals, file, limitText string) error {
	limit, err := ui.ParseSize("--limit", limitText)
	if err != nil {
		return err
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	x, err := readExtents(ctx, file, limit)
	if err != nil {
		return ui.SourceError(err)
	}
	add, done := g.Progress("codecs", int64(len(codec.Settings()))*x.Bytes)
	results, err := x.codecs(ctx, add)
	done()
	if err != nil {
		return err
	}
	if g.JSON {
		return g.PrintJSON(struct {
			File   string        `json:"file"`
			Bytes  int64         `json:"bytes"`
			Zeros  int64         `json:"zero_bytes"`
			Codecs []codecResult `json:"codecs"`
		}{file, x.Bytes, x.Zeros, results})
	}
	g.Printf("%s MiB, and %s MiB of zeros, which are never stored\n\n", ui.MiB(x.Bytes), ui.MiB(x.Zeros))
	var rows [][]string
	for _, r := range results {
		pays := "-"
		if r.PaysBelow > 0 {
			pays = fmt.Sprintf("%.0f", r.PaysBelow/(1<<20))
		}
		rows = append(rows, []string{r.Codec, ui.MiB(r.Stored), fmt.Sprintf("%.2f", r.Ratio), ui.Percent1(r.Filtered), ui.Percent1(r.Raw),
			fmt.Sprintf("%.0f", r.Encode/(1<<20)), fmt.Sprintf("%.0f", r.Decode/(1<<20)), pays})
	}
	return g.Table([]string{"codec", "|stored MiB", "|ratio", "|shuffled", "|raw", "|encode MiB/s", "|decode MiB/s", "|pays below MiB/s"}, rows)
}
