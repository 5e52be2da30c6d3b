package study

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/figure"
)

//go:embed page.css
var pageStyle string

// A picture is an SVG element with its caption.
type picture struct {
	svg     []byte
	caption string
}

// page writes the page.
func (r *Result) page(w io.Writer) error {
	sections, err := r.sections()
	if err != nil {
		return err
	}
	p := figure.NewPage(fmt.Sprintf("Checkpoints of %s on %s", r.App, ui.Count(r.NP, "rank")), pageStyle)
	p.Put("<p class=\"soft\">A study by ckpt %s, after the methodology of B. León Otero (UAB 2022). Intervals hold the true value in 95 of 100 cases.</p>\n", ui.ThisBuild().String())
	figure.Facts(p, r.facts())
	for i := range sections {
		sections[i].put(p)
	}
	part(p, "Left out of this study", r.left())
	part(p, "Warnings of the steps", r.warnings())
	r.stepList(p)
	p.End()
	_, err = p.WriteTo(w)
	return err
}

// part writes a section of facts, if there are any.
func part(p *figure.Page, title string, facts []fact) {
	if len(facts) > 0 {
		p.Put("<section>\n<h2>%s</h2>\n", title)
		figure.Facts(p, facts)
		p.Put("</section>\n")
	}
}

func (sec *section) put(p *figure.Page) {
	p.Put("<section>\n<p class=\"phase\">%s</p>\n<h2>%s</h2>\n", sec.Phase, sec.Title)
	for _, text := range sec.Text {
		p.Put("<p>%s</p>\n", text)
	}
	if len(sec.Facts) > 0 {
		figure.Facts(p, sec.Facts)
	}
	if len(sec.Findings) > 0 {
		p.Put("<ul>\n")
		for _, f := range sec.Findings {
			p.Put("<li><b>%s</b>: %s</li>\n", f.Name, f.Value)
		}
		p.Put("</ul>\n")
	}
	for _, t := range sec.Tables {
		t.put(p)
	}
	for _, pic := range sec.Pictures {
		p.Put("<figure><div class=\"wide\">")
		p.Write(pic.svg) // ckpt has drawn it and has escaped its text; Inline takes nothing else
		p.Put("</div><figcaption>%s</figcaption></figure>\n", pic.caption)
	}
	if len(sec.Commands) > 0 {
		p.Put("<details open><summary>Produced by</summary><pre>%s\n</pre></details>\n", strings.Join(sec.Commands, "\n"))
	}
	p.Put("</section>\n")
}

func (t *table) put(p *figure.Page) {
	type cell struct{ Text, Class string }
	head := make([]cell, len(t.Head))
	for i, text := range t.Head {
		head[i].Text = strings.TrimPrefix(text, "|")
		if head[i].Text != text {
			head[i].Class = "n"
		}
	}
	rows := make([][]cell, len(t.Rows))
	for i, row := range t.Rows {
		for k, text := range row {
			rows[i] = append(rows[i], cell{text, head[k].Class})
		}
	}
	figure.Table(p, "", head, rows)
	if t.Note != "" {
		p.Put("<p class=\"note\">%s</p>\n", t.Note)
	}
}

// stepList writes what each step was for, and its command line.
func (r *Result) stepList(p *figure.Page) {
	p.Put("<section>\n<h2>All steps</h2>\n<p>Each is a command to type alone. Its output is a file in <code>%s</code>.</p>\n", r.Dir)
	t := table{Head: []string{"step", "phase", "why"}}
	var commands strings.Builder
	for i := range r.Steps {
		s := &r.Steps[i]
		t.Rows = append(t.Rows, []string{s.Name, s.Phase, s.Why})
		commands.WriteString(s.Command + "\n")
	}
	t.put(p)
	p.Put("<details><summary>Their command lines</summary><pre>%s</pre></details>\n</section>\n", commands.String())
}

// left are the parts that the study has left out, and why.
func (r *Result) left() (list []fact) {
	for _, l := range r.Left {
		list = append(list, fact{l.What, l.Reason})
	}
	return list
}

// warnings are what the steps said on standard error.
func (r *Result) warnings() (list []fact) {
	for _, s := range r.Steps {
		for _, text := range s.warnings {
			list = append(list, fact{s.Name, text})
		}
	}
	return list
}

// picture adds a figure that a step has drawn.
func (s *Study) picture(sec *section, step, file, caption string) error {
	if !slices.ContainsFunc(s.Steps, func(x Step) bool { return x.Name == step }) {
		return nil
	}
	svg, err := os.ReadFile(s.path(file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	inline, err := figure.Inline(svg)
	if err != nil {
		return fmt.Errorf("%s: %w", s.path(file), err)
	}
	sec.Pictures = append(sec.Pictures, picture{inline, caption})
	return nil
}
