package report

import (
	"cmp"
	"fmt"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"ckpt/internal/figure"
	"ckpt/iotrace/analyze"
)

// layerFiles is the number of files in the picture of the layers, at most.
const layerFiles = 8

// fileLayers is what a program asks of MPI-IO for a file, and what reaches POSIX: bytes,
// then requests.
type fileLayers struct {
	name         string
	mpiio, posix [2]float64
}

// layered returns the files with MPI-IO, those with the most bytes first, and the
// number of all of them.
func layered(r *analyze.Report, file string) (out []fileLayers, all int) {
	for i := range r.Files {
		f := &r.Files[i]
		if f.MPIIO == nil || file != "" && f.Name != file {
			continue
		}
		m := f.MPIIO
		out = append(out, fileLayers{f.Name,
			[2]float64{float64(m.BytesWritten) + float64(m.BytesRead), float64(m.Writes) + float64(m.Reads)},
			[2]float64{float64(m.PosixBytesWritten) + float64(m.PosixBytesRead), float64(m.PosixWrites) + float64(m.PosixReads)}})
	}
	slices.SortStableFunc(out, func(a, b fileLayers) int {
		return cmp.Compare(max(b.mpiio[0], b.posix[0]), max(a.mpiio[0], a.posix[0]))
	})
	all = len(out)
	return out[:min(all, layerFiles)], all
}

// The two halves of the picture: bars of bytes begin at 0, those of requests at 1.5;
// the longer bar of each file is 1 long, and space for its number follows.
var layerHalves = [2]float64{0, 1.5}

// layerBars returns the bars of files, the first one at the top, and their numbers.
func layerBars(files []fileLayers) (bars []box, numbers []layerNumber) {
	for row, f := range files {
		bottom := float64(len(files) - row - 1)
		for half, x0 := range layerHalves {
			longest := max(f.mpiio[half], f.posix[half])
			for class, x := range [2]float64{f.mpiio[half], f.posix[half]} {
				b := box{x0, bottom + 0.12 + 0.38*float64(1-class), x0, 0, class}
				b.y1 = b.y0 + 0.38
				if longest > 0 {
					b.x1 += x / longest
				}
				if x > 0 {
					bars = append(bars, b)
				}
				text := figure.Number(x)
				if half == 0 {
					text = bytesText(x)
				}
				numbers = append(numbers, layerNumber{b.x1, (b.y0 + b.y1) / 2, text})
			}
		}
	}
	return bars, numbers
}

// A layerNumber is written to the right of a point.
type layerNumber struct {
	x, y float64
	text string
}

type layerNumbers []layerNumber

func (n layerNumbers) Plot(c draw.Canvas, p *plot.Plot) {
	fx, fy := p.Transforms(&c)
	style := p.Legend.TextStyle
	style.Font.Size = 8
	style.YAlign = draw.YCenter
	for _, k := range n {
		c.FillText(style, vg.Point{X: fx(k.x) + 3, Y: fy(k.y)}, k.text)
	}
}

func (s *survey) drawLayers(p *plot.Plot) error {
	files, all := layered(s.r, s.name)
	bars, numbers := layerBars(files)
	p.Add(&boxes{all: bars, colors: opColors, least: 0.8}, layerNumbers(numbers))
	if len(files) > 0 {
		figure.AddKey(p, figure.Key{{Name: "MPI-IO: the program asks", Color: opColors[0]}, {Name: "POSIX: the file system sees", Color: opColors[1]}})
	}
	var ticks plot.ConstantTicks
	for row, f := range files {
		ticks = append(ticks, plot.Tick{Value: float64(len(files)-row) - 0.5, Label: shorten(legal(f.name), 28)})
	}
	if len(files) == 0 {
		ticks = plot.ConstantTicks{{Value: 0.5, Label: "no MPI-IO"}}
	}
	if all > len(files) {
		p.X.Label.Text = fmt.Sprintf("%d of %s files, those with the most bytes", len(files), figure.Number(float64(all)))
	}
	p.X.Tick.Marker = plot.ConstantTicks{{Value: layerHalves[0] + 0.5, Label: "bytes"}, {Value: layerHalves[1] + 0.5, Label: "requests"}}
	p.Y.Tick.Marker = ticks
	p.Y.Tick.Label.Font.Size = vg.Length(7.5)
	p.X.Min, p.X.Max = 0, layerHalves[1]+1.45
	p.Y.Min, p.Y.Max = 0, float64(max(1, len(files)))
	return nil
}

func (s *survey) describeLayers() string {
	files, all := layered(s.r, "")
	text := fmt.Sprintf("Bars of bytes and requests of MPI-IO and of POSIX for %d of %d files.", len(files), all)
	if len(files) > 0 {
		f := files[0]
		text += fmt.Sprintf(" The largest: MPI-IO %s in %s requests, POSIX %s in %s.", bytesText(f.mpiio[0]), figure.Number(f.mpiio[1]), bytesText(f.posix[0]), figure.Number(f.posix[1]))
	}
	return text
}
