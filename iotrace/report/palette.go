package report

import (
	"image/color"

	"ckpt/internal/figure"
)

// A page defines a variable for each colour, and themed SVG refers to them, so that
// dark pages can have other colours. In order: ink and faint, then the others.
var themed = func() map[color.NRGBA]string {
	m := map[color.NRGBA]string{figure.Ink: "ink", figure.Faint: "faint"}
	for i, c := range figure.Categories {
		m[c] = "c" + string(rune('0'+i))
	}
	for i, c := range figure.Ramp {
		m[c] = "s" + string(rune('0'+i))
	}
	return m
}()
