package report

import "ckpt/internal/figure"

// html returns the page as text.
func (p *page) html() (*figure.Page, error) {
	out := figure.NewPage(p.Title, pageStyle)
	out.Put("<p class=\"soft\">%s</p>\n", p.Subtitle)
	figure.Facts(out, p.Facts)
	for _, text := range p.Warnings {
		out.Put("<p class=\"warn\"><b>Warning:</b> %s</p>\n", text)
	}
	out.Put("<h2>Findings</h2>\n")
	if len(p.Insights) == 0 {
		out.Put("<p>None.</p>\n")
	} else {
		out.Put("<ul>\n")
		for i := range p.Insights {
			p.Insights[i].put(out)
		}
		out.Put("</ul>\n")
	}
	out.Put("<h2>Plots</h2>\n")
	if p.PlotsNote != "" {
		out.Put("<p class=\"soft\">%s</p>\n", p.PlotsNote)
	}
	out.Put("<div class=\"plots\">\n")
	for _, d := range p.Plots {
		out.Put("<figure>")
		if _, err := d.canvas.WriteTo(out); err != nil { // it escapes the text
			return nil, err
		}
		out.Put("<figcaption>%s</figcaption></figure>\n", d.caption)
	}
	out.Put("</div>\n")
	if p.Pattern != "" {
		out.Put(`<h2>Pattern</h2>
<pre>%s</pre>
<p class="soft">4×64 @64·rank/256: four requests of 64 bytes, the first at 64·rank, 256 bytes from start to start; without @ a run begins where the one before ended, without / its requests touch. n×[…]+d is done n times, each time d bytes further.</p>
`, p.Pattern)
	}
	for _, t := range p.Tables {
		out.Put("<h2>%s</h2>\n", t.Title)
		figure.Table(out, t.Note, t.Head, t.Rows)
	}
	out.End()
	return out, nil
}

// put writes a finding.
func (i *insight) put(out *figure.Page) {
	out.Put(`<li class="i %s"><b>%s %s</b>`, i.Severity, i.Code, i.Title)
	if i.File != "" {
		out.Put(` <span class="soft">%s</span>`, i.File)
	}
	out.Put("<p>%s</p>", i.Advice)
	if i.Gain != "" {
		out.Put(`<p>Could gain <b>%s</b>. <span class="soft">%s</span></p>`, i.Gain, i.Model)
	}
	if len(i.Hints) > 0 {
		out.Put("<ul>")
		for _, h := range i.Hints {
			out.Put(`<li>%s <span class="soft">[%s]</span></li>`, h.Text, h.Source)
		}
		out.Put("</ul>")
	}
	out.Put(`<p class="soft">%s`, i.Evidence)
	before := " · flags: "
	for _, flag := range i.Flags {
		out.Put("%s<code>%s</code>", before, flag)
		before = ", "
	}
	out.Put("</p></li>\n")
}
