package study

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/figure"
)

//go:embed page.tmpl
var pageText string

var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"number": func(head string) bool { return strings.HasPrefix(head, "|") },
		"text":   func(head string) string { return strings.TrimPrefix(head, "|") },
	}).Parse(pageText))
})

// A picture is an SVG element with its caption.
type picture struct {
	SVG     template.HTML
	Caption string
}

// page writes the page.
func (r *Result) page(w io.Writer) error {
	sections, err := r.sections()
	if err != nil {
		return err
	}
	title := fmt.Sprintf("Checkpoints of %s on %s", r.App, ui.Count(r.NP, "rank"))
	var out bytes.Buffer // a failure writes no part of a page
	err = pageTemplate().Execute(&out, struct {
		*Result
		Title, Version string
		Facts          []fact
		Sections       []section
		Warnings       []fact
	}{r, title, ui.ThisBuild().String(), r.facts(), sections, r.warnings()})
	if err != nil {
		return fmt.Errorf("page: %w", err)
	}
	_, err = out.WriteTo(w)
	return err
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
	// ckpt has drawn it and has escaped its text; Inline takes nothing else.
	sec.Pictures = append(sec.Pictures, picture{template.HTML(inline), caption})
	return nil
}
