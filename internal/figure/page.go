package figure

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"strings"
)

// Assets are the files that pages of ckpt have in common: their style, and what draws their
// charts. uPlot is as npm has it (uplot 1.6.32, MIT).
//
//go:embed assets
var Assets embed.FS

// A Page is HTML about figures, in one file. It is not made from a template: packages for
// templates call methods by name, so that the linker would keep every method in the program.
type Page struct {
	bytes.Buffer
	contents int    // where they stand
	script   string // that End writes
	sections [][2]string
}

// NewPage begins a page.
func NewPage(title string) *Page {
	style, script := asset("uPlot.css", "style.css"), asset("uPlot.js", "charts.js", "report.js")
	p := &Page{script: script}
	p.Put("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")
	// A browser runs the script of this page, whose digest is here, and no other one.
	p.Put(`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-%s'; script-src 'sha256-%s'; img-src data:; base-uri 'none'; form-action 'none'">`+"\n", digestOf(style), digestOf(script))
	p.Put("<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n<title>%s</title>\n<style>", title)
	p.WriteString(style)
	p.Put("</style>\n</head>\n<body class=\"report\">\n<main>\n<h1>%s</h1>\n", title)
	p.contents = p.Len()
	p.Put("<noscript><p class=\"warn\">The charts need the script of this page. All tables are here without it.</p></noscript>\n")
	return p
}

// asset joins files of the assets.
func asset(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		text, err := Assets.ReadFile("assets/" + name)
		if err != nil {
			panic(err) // the binary has them
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	return b.String()
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
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

// Heading begins a section, with an anchor and a line in the contents.
func (p *Page) Heading(title string) {
	id := p.anchor(title)
	p.sections = append(p.sections, [2]string{id, title})
	p.Put("<h2 id=\"%s\">%s <a class=\"anchor\" href=\"#%s\" aria-label=\"Link to %s\">#</a></h2>\n", id, title, id, title)
}

// anchor makes a name that no other section has.
func (p *Page) anchor(title string) string {
	plain := cmp.Or(strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(title)), "-"), "section")
	id := plain
	for n := 2; ; n++ {
		taken := false
		for _, s := range p.sections {
			taken = taken || s[0] == id
		}
		if !taken {
			return id
		}
		id = fmt.Sprintf("%s-%d", plain, n)
	}
}

// Chart writes a chart with its caption.
func (p *Page) Chart(c *Chart, caption string) error {
	text, err := json.Marshal(c) // which escapes what could end the element
	if err != nil {
		return err
	}
	p.Put("<figure class=\"drawn\"><div class=\"chart\"></div><script type=\"application/json\">")
	p.Write(text)
	p.Put("</script><figcaption>%s</figcaption></figure>\n", caption)
	return nil
}

// A Fact is a short answer with its name.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"text"`
}

// Facts writes a list of facts.
func Facts[F ~struct {
	Name  string `json:"name"`
	Value string `json:"text"`
}](p *Page, facts []F) {
	p.Put("<dl>\n")
	for _, f := range facts {
		f := Fact(f)
		p.Put("<div><dt>%s</dt><dd>%s</dd></div>\n", f.Name, f.Value)
	}
	p.Put("</dl>\n")
}

// Table writes a table; the note, if it is not empty, is its caption. Cells of the
// class n are numbers, aligned to the right.
func Table[C ~struct{ Text, Class string }](p *Page, note string, head []C, rows [][]C) {
	p.Put("<div class=\"scroll\"><table class=\"sorted\">")
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
		element := element
		if c.Text == "" { // a head without a word is none
			element = "td"
		}
		p.Put("<" + element)
		if element == "th" {
			p.Put(" scope=\"col\"")
		}
		if c.Class != "" {
			p.Put(` class="%s"`, c.Class)
		}
		p.Put(">%s</"+element+">", c.Text)
	}
	p.Put("</tr>\n")
}

// End closes the page, and writes its contents where they belong.
func (p *Page) End() {
	p.Put("</main>\n<script>")
	p.WriteString(p.script)
	p.Put("</script>\n</body>\n</html>\n")
	var list Page
	list.Put("<nav class=\"contents\" aria-label=\"Contents\"><ul>\n")
	for _, s := range p.sections {
		list.Put("<li><a href=\"#%s\">%s</a></li>\n", s[0], s[1])
	}
	list.Put("</ul></nav>\n")
	whole := append(append(bytes.Clone(p.Bytes()[:p.contents]), list.Bytes()...), p.Bytes()[p.contents:]...)
	p.Reset()
	p.Write(whole)
}
