package figure

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"regexp"
	"strconv"
	"strings"
)

// Variables names the colours of figures as pages define them in CSS, so that a page
// can be light or dark: ink, faint, c0 to c7 for Categories, s0 to s7 for Ramp.
var Variables = func() map[color.NRGBA]string {
	m := map[color.NRGBA]string{Ink: "ink", Faint: "faint"}
	for i, c := range Categories {
		m[c] = "c" + strconv.Itoa(i)
	}
	for i, c := range Ramp {
		m[c] = "s" + strconv.Itoa(i)
	}
	return m
}()

var (
	svgHead    = regexp.MustCompile(`(?s)^.*?<svg width="[^"]*" height="[^"]*" viewBox="([0-9. ]+)"[^>]*>`)
	background = regexp.MustCompile(`<path d="[^"]*" style="fill:#FFFFFF" ?/>\n?`)
	colours    = regexp.MustCompile(`#([0-9A-F]{6})\b`)
	uncoloured = regexp.MustCompile(`style="font-family:[^;"]*;font-variant:normal;font-weight:normal;font-style:normal;(font-size:[0-9.]+px)"`)
	places     = regexp.MustCompile(` d="[^"]*"`)
	decimals   = regexp.MustCompile(`(\.[0-9])[0-9]+`)
	inactive   = regexp.MustCompile(`(?i)<script|<foreignObject|\bon\w+=|href="[^#]`)
)

// Inline turns an SVG that Write has written into an element for a page: its colours
// are the page's Variables, its background and its fonts those of the page.
func Inline(svg []byte) ([]byte, error) {
	m := svgHead.FindSubmatch(svg)
	if m == nil || inactive.Match(svg) {
		return nil, errors.New("not a figure of ckpt")
	}
	out := append([]byte(fmt.Sprintf(`<svg viewBox="%s" role="img" style="fill:var(--ink)">`, m[1])), svg[len(m[0]):]...)
	out = background.ReplaceAll(out, nil)
	out = uncoloured.ReplaceAll(out, []byte(`style="fill:var(--ink);$1"`))
	out = colours.ReplaceAllFunc(out, func(c []byte) []byte {
		n, _ := strconv.ParseUint(string(c[1:]), 16, 32) // the pattern has only hex digits
		if v, ok := nearVariable(color.NRGBA{uint8(n >> 16), uint8(n >> 8), uint8(n), 255}); ok {
			return []byte("var(--" + v + ")")
		}
		return c
	})
	out = places.ReplaceAllFunc(out, func(d []byte) []byte { // a tenth of a point is enough
		return decimals.ReplaceAll(d, []byte("$1"))
	})
	return bytes.TrimSpace([]byte(strings.ReplaceAll(string(out), "\t", ""))), nil
}

// nearVariable finds the variable of a colour, also if transparency has rounded it.
func nearVariable(c color.NRGBA) (string, bool) {
	near := func(a, b uint8) bool { return max(a, b)-min(a, b) <= 1 }
	for v, name := range Variables {
		if near(v.R, c.R) && near(v.G, c.G) && near(v.B, c.B) {
			return name, true
		}
	}
	return "", false
}
