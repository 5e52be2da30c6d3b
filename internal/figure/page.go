package figure

import (
	"bytes"
	_ "embed"
	"fmt"
	"html"
)

// pageStyle defines Variables for light, for dark and for paper.
//
//go:embed page.css
var pageStyle string

// A Page is HTML about figures. It is not made from a template: packages for templates
// call methods by name, so that the linker would keep every method in the program.
type Page struct{ bytes.Buffer }

// NewPage begins a page. The style is CSS, added to what pages have in common.
func NewPage(title, style string) *Page {
	p := &Page{}
	p.Put(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
<style>
`, title)
	p.WriteString(pageStyle + style)
	p.Put("</style>\n</head>\n<body>\n<h1>%s</h1>\n", title)
	return p
}

// Put writes markup. Each %s in it stands for a text, which Put escapes; in the value of
// an attribute it stands in double quotes.
func (p *Page) Put(markup string, texts ...string) {
	escaped := make([]any, len(texts))
	for i, text := range texts {
		escaped[i] = html.EscapeString(text)
	}
	fmt.Fprintf(p, markup, escaped...)
}

// Facts writes a list of short answers with their names.
func Facts[F ~struct{ Name, Value string }](p *Page, facts []F) {
	p.Put("<dl>\n")
	for _, f := range facts {
		f := struct{ Name, Value string }(f)
		p.Put("<div><dt>%s</dt><dd>%s</dd></div>\n", f.Name, f.Value)
	}
	p.Put("</dl>\n")
}

// Table writes a table; the note, if it is not empty, is its caption. Cells of the
// class n are numbers, aligned to the right.
func Table[C ~struct{ Text, Class string }](p *Page, note string, head []C, rows [][]C) {
	p.Put("<div class=\"wide\"><table>")
	if note != "" {
		p.Put("<caption>%s</caption>", note)
	}
	p.Put("\n<thead>\n")
	row(p, "th", head)
	p.Put("</thead>\n<tbody>\n")
	for _, cells := range rows {
		row(p, "td", cells)
	}
	p.Put("</tbody></table></div>\n")
}

func row[C ~struct{ Text, Class string }](p *Page, element string, cells []C) {
	p.Put("<tr>")
	for _, c := range cells {
		c := struct{ Text, Class string }(c)
		p.Put("<" + element)
		if c.Class != "" {
			p.Put(` class="%s"`, c.Class)
		}
		p.Put(">%s</"+element+">", c.Text)
	}
	p.Put("</tr>\n")
}

// End closes the page.
func (p *Page) End() { p.Put("</body>\n</html>\n") }
