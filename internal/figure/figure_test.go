package figure

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"
)

// falling returns a plot of a falling curve on logarithmic axes, with a long key.
func falling(t *testing.T, entries int) *Picture {
	t.Helper()
	p := New("Sizes")
	p.X.Label.Text, p.Y.Label.Text = "processes", "data zone of a process, in MiB, with a long label"
	line, err := plotter.NewLine(plotter.XYs{{X: 16, Y: 1600}, {X: 400, Y: 80}})
	if err != nil {
		t.Fatal(err)
	}
	p.Add(line)
	Logarithmic(&p.X)
	Logarithmic(&p.Y)
	Include(&p.X, 16, 400)
	Include(&p.Y, 80, 1600)
	var k Key
	for i := range entries {
		k = append(k, Entry{Name: fmt.Sprintf("entry %d", i), Thumb: line})
	}
	AddKey(p, k)
	return p
}

// TestKeyOutside: every row of a key is above the axes and below the title, within the
// width of the plot.
func TestKeyOutside(t *testing.T) {
	for _, entries := range []int{1, 5, 20} {
		p := falling(t, entries)
		c, err := Canvas(Width, Height, "svg")
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := Write(&b, "svg", p); err != nil {
			t.Fatal(err)
		}
		if p.Y.Label.Text == " " || !strings.Contains(b.String(), p.Y.Label.Text) {
			t.Errorf("the label of the axis is lost: %q", p.Y.Label.Text)
		}
		blankLabels(p.Plot)
		data := p.DataCanvas(draw.Crop(draw.New(c), 6, -14, 6, -6))
		found := 0
		for _, m := range regexp.MustCompile(`<text x="([-0-9.]+)" y="([-0-9.]+)"[^>]*>(entry \d+|Sizes)<`).FindAllStringSubmatch(b.String(), -1) {
			x, _ := strconv.ParseFloat(m[1], 64)
			y, _ := strconv.ParseFloat(m[2], 64)
			y = math.Abs(y)
			if m[3] == "Sizes" {
				continue
			}
			found++
			if y < float64(data.Max.Y) || y > float64(Height)-12 {
				t.Errorf("%d entries: %s is at %v, the axes end at %v", entries, m[3], y, data.Max.Y)
			}
			if end := x + float64(p.Legend.TextStyle.Width(m[3])); end > float64(Width) {
				t.Errorf("%d entries: %s ends at %v", entries, m[3], end)
			}
		}
		if found != entries {
			t.Errorf("%d of %d entries are in the key", found, entries)
		}
		if h := data.Max.Y - data.Min.Y; entries < 10 && h < Height/2 {
			t.Errorf("%d entries: only %v of %v are left for the data", entries, h, Height)
		}
	}
}

// TestRampStaysTogether: the colours of a ramp and their name are in one row.
func TestRampStaysTogether(t *testing.T) {
	p := New("ranks")
	k := Key{{Name: strings.Repeat("a long name ", 4), Color: Blue}}
	for _, c := range Ramp {
		k = append(k, Entry{Color: c})
	}
	k[len(k)-1].Name = strings.Repeat("ranks ", 6)
	rows := k.rows(p.Plot, narrow)
	if len(rows) != 2 || len(rows[1]) != len(Ramp) {
		t.Errorf("rows %v", rows)
	}
}

// TestInclude: whatever is to be seen is inside, with a margin; 0 stays the end of an
// axis that begins there.
func TestInclude(t *testing.T) {
	for _, c := range []struct {
		log       bool
		low, high float64
	}{{true, 16, 400}, {true, 1e-3, 1e6}, {false, 0, 5}, {false, -3, 5}, {false, 90, 100}} {
		p := New("")
		if c.log {
			Logarithmic(&p.Y)
		}
		Include(&p.Y, c.low, c.high)
		low, high := p.Y.Norm(c.low), p.Y.Norm(c.high)
		if c.low == 0 && p.Y.Min != 0 {
			t.Errorf("%+v: begins at %v", c, p.Y.Min)
		}
		if c.low != 0 && low <= 0.01 || low < 0 || high >= 0.99 {
			t.Errorf("%+v: from %v to %v of the axis", c, low, high)
		}
	}
}

// TestStack: two plots below each other have their axes in line, whatever the width of
// their labels, and neither covers the other.
func TestStack(t *testing.T) {
	for _, high := range []float64{1, 1e9} {
		top, bottom := falling(t, 5), New("")
		bottom.X, bottom.Y.Label.Text = top.X, "measured"
		Include(&bottom.Y, -high, high)
		c, err := Canvas(Width, Height+under, "svg")
		if err != nil {
			t.Fatal(err)
		}
		upper, lower := stacked(draw.New(c), top.Plot, bottom.Plot)
		a, b := axes(top.Plot, upper), axes(bottom.Plot, lower)
		if math.Abs(float64(a.Min.X-b.Min.X)) > 0.5 || math.Abs(float64(a.Max.X-b.Max.X)) > 0.5 {
			t.Errorf("axes from %v to %v above, %v to %v below", a.Min.X, a.Max.X, b.Min.X, b.Max.X)
		}
		if upper.Min.Y < lower.Max.Y || b.Max.Y-b.Min.Y < under/3 {
			t.Errorf("the upper plot begins at %v, the lower ends at %v, %v high", upper.Min.Y, lower.Max.Y, b.Max.Y-b.Min.Y)
		}
		var drawn bytes.Buffer
		if err := WriteStack(&drawn, "svg", top, bottom); err != nil || strings.Count(drawn.String(), ">measured<") != 1 || top.X.Label.Text != "processes" {
			t.Errorf("%v", err)
		}
	}
	if err := WriteStack(io.Discard, "gif", New(""), New("")); err == nil {
		t.Error("a GIF was written")
	}
}

// TestFormats: each format is what its name says, and the same again.
func TestFormats(t *testing.T) {
	for format, magic := range map[string]string{"svg": "<?xml", "png": "\x89PNG", "pdf": "%PDF"} {
		var a, b bytes.Buffer
		if err := Write(&a, format, falling(t, 3)); err != nil {
			t.Fatal(err)
		}
		if err := Write(&b, format, falling(t, 3)); err != nil || !bytes.HasPrefix(a.Bytes(), []byte(magic)) {
			t.Errorf("%s: %v, begins with %.8q", format, err, a.Bytes())
		}
		if format != "pdf" && !bytes.Equal(a.Bytes(), b.Bytes()) { // PDF has the time in it
			t.Errorf("%s: not the same again", format)
		}
		if format == "svg" {
			for d := xml.NewDecoder(&a); ; {
				if _, err := d.Token(); err == io.EOF {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := Write(io.Discard, "gif", New("")); err == nil {
		t.Error("a GIF was written")
	}
}

// TestTicks: axes have some marks, but not many, in their range.
func TestTicks(t *testing.T) {
	for name, c := range map[string]struct {
		of        func(low, high float64) []plot.Tick
		low, high float64
	}{
		"log": {LogTicks, 16, 460}, "many decades": {LogTicks, 1e-3, 1e9}, "a decade": {LogTicks, 1, 10},
		"seconds": {DurationTicks, 1, 100}, "hours": {DurationTicks, 700, 70000}, "all": {DurationTicks, 1e-3, 1e9}, "years": {DurationTicks, 1e9, 1e11},
		"decimal": {DecimalTicks, 0, 0.7}, "whole": {WholeTicks, 0, 3},
	} {
		ticks := c.of(c.low, c.high)
		if len(ticks) < 2 || len(ticks) > 13 {
			t.Errorf("%s: %d ticks: %v", name, len(ticks), ticks)
		}
		for _, k := range ticks {
			if k.Value < c.low*(1-1e-9) || k.Value > c.high*(1+1e-9) || k.Label == "" {
				t.Errorf("%s: tick %+v", name, k)
			}
		}
	}
	if Wide(0, 10) || Wide(5, 49) || !Wide(5, 50) {
		t.Error("a range is wide from a power of ten on, and not from 0")
	}
}

// TestChart: a picture as data has all that was added to it, with its names, its axes and the
// colours of the style; what has no form as data is refused.
func TestChart(t *testing.T) {
	p := falling(t, 2)
	shape, err := plotter.NewPolygon(plotter.XYs{{X: 20, Y: 100}, {X: 40, Y: 100}, {X: 40, Y: 200}})
	if err != nil {
		t.Fatal(err)
	}
	shape.Color = Pale(Blue, 51)
	p.Add(shape)
	p.Marks("measured", plotter.XYs{{X: 30, Y: 1e9 / 3}}, draw.GlyphStyle{Color: Green, Shape: draw.RingGlyph{}})
	p.Bars(plotter.XYs{{X: 30, Y: 100}}, plotter.YErrors{{Low: -10, High: 20}}, Grey)
	p.Units[1] = Bytes
	p.Text = "In words."
	var b bytes.Buffer
	if err := WriteStack(&b, "json", p, New("below")); err != nil {
		t.Fatal(err)
	}
	var got Charts
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || len(got.Charts) != 2 {
		t.Fatalf("%v in %s", err, b.Bytes())
	}
	c := got.Charts[0]
	kinds := ""
	for _, part := range c.Parts {
		kinds += part.Kind + part.Color + part.Shape + " "
	}
	if kinds != "line--text area--c0 points--c2ring reach--c7 " || c.Parts[1].Alpha != 0.2 || c.Parts[2].At[0][1] != 333333300 || !slices.Equal(c.Parts[3].At[0], []Decimal{30, 90, 120}) {
		t.Errorf("parts %s: %+v", kinds, c.Parts)
	}
	if !c.X.Log || c.Y.Unit != Bytes || c.X.Label != "processes" || c.Text != "In words." || len(c.Key) != 3 || c.Key[0] != (ChartKey{"entry 0", "--text"}) || c.Key[2].Name != "measured" {
		t.Errorf("%+v", c)
	}
	p.Plot.Add(plotter.NewFunction(math.Sin)) // unseen: not by the picture
	if err := Write(&b, "json", p); err != nil {
		t.Error(err)
	}
	p.Add(plotter.NewFunction(math.Sin))
	if err := Write(&b, "json", p); err == nil {
		t.Error("a function was written as data")
	}
	if text, _ := json.Marshal([]Decimal{Decimal(math.NaN()), Decimal(math.Inf(1)), 1.0 / 3}); string(text) != "[null,null,0.3333333]" {
		t.Errorf("%s", text)
	}
}

// TestGrid: plots of a row do not overlap, and rows follow each other.
func TestGrid(t *testing.T) {
	var b bytes.Buffer
	rows := [][]*Picture{{falling(t, 2)}, {New("left"), New("right")}, {New("alone"), nil}}
	if err := WriteGrid(&b, "svg", rows); err != nil {
		t.Fatal(err)
	}
	at := make(map[string][2]float64)
	for _, m := range regexp.MustCompile(`<text x="([-0-9.]+)" y="([-0-9.]+)"[^>]*>(Sizes|left|right|alone)<`).FindAllStringSubmatch(b.String(), -1) {
		x, _ := strconv.ParseFloat(m[1], 64)
		y, _ := strconv.ParseFloat(m[2], 64)
		at[m[3]] = [2]float64{x, math.Abs(y)}
	}
	if len(at) != 4 {
		t.Fatalf("titles at %v", at)
	}
	half := float64(gridWidth) / 2
	if at["left"][0] >= half || at["right"][0] <= half || at["alone"][0] >= half || at["left"][1] != at["right"][1] {
		t.Errorf("titles at %v", at)
	}
	if drop := at["left"][1] - at["alone"][1]; math.Abs(drop-float64(gridRow)) > 1 || at["Sizes"][1] <= at["left"][1] {
		t.Errorf("titles at %v: rows of %v", at, gridRow)
	}
	if err := WriteGrid(io.Discard, "gif", rows); err == nil {
		t.Error("a GIF was written")
	}
}
