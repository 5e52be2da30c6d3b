package study

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/durable"
	"ckpt/internal/figure"
	"ckpt/internal/lazy"
	"ckpt/internal/vfs"
	"ckpt/iotrace/analyze"
)

// A Page is what a study says, as its page and the service show it.
type Page struct {
	Title    string    `json:"title"`
	Note     string    `json:"note"`
	Facts    []fact    `json:"facts"`
	Sections []section `json:"sections"`
}

// A picture is a chart with its caption.
type picture struct {
	Chart   *figure.Chart `json:"chart"`
	Caption string        `json:"caption"`
}

// PageFile is the file of a Page in the directory of its study.
const PageFile = "page.json"

// page lays out what the study says.
func (r *Result) page() (*Page, error) {
	sections, err := r.sections()
	if err != nil {
		return nil, err
	}
	for _, s := range []section{{Title: "Left out of this study", Facts: r.left()}, {Title: "Warnings of the steps", Facts: r.warnings()}} {
		if len(s.Facts) > 0 {
			sections = append(sections, s)
		}
	}
	return &Page{fmt.Sprintf("Checkpoints of %s on %s", r.App, ui.Count(r.NP, "rank")),
		fmt.Sprintf("A study by ckpt %s, after the methodology of B. León Otero (UAB 2022). Intervals hold the true value in 95 of 100 cases.", ui.ThisBuild().String()),
		r.facts(), append(sections, r.stepList())}, nil
}

// keepPage writes the page for the service, beside the results of the steps.
func (s *Study) keepPage(p *Page) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return durable.Replace(vfs.OS{}, s.path(PageFile), append(text, '\n'))
}

// ReadPage reads a file of that kind.
func ReadPage(path string) (*Page, error) {
	text, err := durable.ReadFile(vfs.OS{}, path, mostPage)
	if err != nil {
		return nil, err
	}
	p := &Page{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, durable.Damaged(path, 0, "%v", err)
	}
	return p, nil
}

const mostPage = 16 << 20

// html writes the page as one file.
func (p *Page) html(w io.Writer) error {
	out := figure.NewPage(p.Title)
	out.Put("<p class=\"note\">%s</p>\n", p.Note)
	figure.Facts(out, p.Facts)
	for i := range p.Sections {
		if err := p.Sections[i].put(out); err != nil {
			return err
		}
	}
	out.End()
	_, err := out.WriteTo(w)
	return err
}

func (sec *section) put(p *figure.Page) error {
	p.Put("<section>\n")
	if sec.Phase != "" {
		p.Put("<p class=\"phase\">%s</p>\n", sec.Phase)
	}
	p.Heading(sec.Title)
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
		if err := p.Chart(pic.Chart, pic.Caption); err != nil {
			return err
		}
	}
	if len(sec.Commands) > 0 {
		p.Put("<details><summary>Produced by</summary><pre>%s\n</pre></details>\n", strings.Join(sec.Commands, "\n"))
	}
	p.Put("</section>\n")
	return nil
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
	figure.Table(p, t.Note, head, rows)
}

// stepList says what each step was for, and its command line.
func (r *Result) stepList() section {
	sec := section{Title: "All steps", Text: []string{"Each is a command to type alone. Its output is a file in " + r.Dir + "."}}
	t := table{Head: []string{"step", "phase", "why"}}
	for i := range r.Steps {
		s := &r.Steps[i]
		t.Rows = append(t.Rows, []string{s.Name, s.Phase, s.Why})
		sec.Commands = append(sec.Commands, s.Command)
	}
	sec.Tables = []table{t}
	return sec
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

// picture adds the figures that a step has drawn.
func (s *Study) picture(sec *section, step, file, caption string) error {
	if !slices.ContainsFunc(s.Steps, func(x Step) bool { return x.Name == step }) {
		return nil
	}
	text, err := os.ReadFile(s.path(file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var drawn figure.Charts
	if err == nil {
		err = json.Unmarshal(text, &drawn)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.path(file), err)
	}
	for _, c := range drawn.Charts {
		sec.Pictures = append(sec.Pictures, picture{c, caption})
		caption = "" // of the first
	}
	return nil
}

func (r *Result) smallRuns() (section, error) {
	sec := section{Phase: Small, Title: "The small runs", Text: []string{r.Why}}
	t := table{Head: []string{"run", "|ranks", "|nodes", "|ranks per node"}, Note: "The target has " + strconv.Itoa(r.study.PPN) + " ranks per node."}
	if r.study.Command == "" {
		t.Head = append(t.Head, "|data of a rank", "|of the target's")
		t.Note += " The data of a rank is that of the workload spec, exact."
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		row := []string{run.Name, strconv.Itoa(run.NP), strconv.Itoa(run.Nodes), strconv.Itoa(run.PPN())}
		if r.study.Command == "" {
			row = append(row, size(run.Data), "× "+strconv.FormatFloat(run.Load, 'g', 3, 64))
		}
		t.Rows = append(t.Rows, row)
	}
	sec.Tables, sec.Commands = []table{t}, r.commands(append(r.each("run-"), r.each("zones-")...)...)
	return sec, nil
}

func (r *Result) access() (sec section, err error) {
	p := readInto[analyze.Report](r.study, "io", &err)
	if p == nil {
		return sec, err
	}
	sec = section{Phase: Characterise, Title: "The pattern of the I/O", Commands: r.commands("record", "io", "io-plot")}
	what := "A full checkpoint of " + r.Runs[len(r.Runs)-1].Name + "."
	if !r.study.own() {
		what = "The I/O of the program itself, on " + ui.Count(r.Runs[0].NP, "rank") + ". It is no checkpoint: a checkpointer outside the program writes one image per rank."
	}
	sec.Text = []string{what + " All numbers are counted, not estimated."}
	sec.Facts = []fact{{"access", string(p.Access)}, {"spatial pattern", string(p.Spatial) + " (" + string(p.Detail) + ")"}, {"written", size(p.BytesWritten) + " in " + ui.Count(int(p.Writes), "write")},
		{"read", size(p.BytesRead) + " in " + ui.Count(int(p.Reads), "read")}, {"bursts", strconv.Itoa(len(p.Bursts))}}
	bursts := table{Head: []string{"burst", "|operations", "|volume", "|from", "|to"}, Note: "Temporal pattern: runs of one operation, split by silence."}
	for i, b := range p.Bursts {
		if i == 12 {
			bursts.Note += fmt.Sprintf(" The first 12 of %d.", len(p.Bursts))
			break
		}
		bursts.Rows = append(bursts.Rows, []string{b.Op, strconv.FormatInt(b.Count, 10), size(b.Bytes), ui.Seconds(b.Start), ui.Seconds(b.End)})
	}
	common := table{Head: []string{"|request", "|times"}, Note: "The most frequent sizes of requests."}
	for _, c := range p.CommonSizes {
		common.Rows = append(common.Rows, []string{strconv.FormatInt(c.Size, 10) + " B", strconv.FormatInt(c.Count, 10)})
	}
	for _, t := range []table{bursts, common} {
		if len(t.Rows) > 0 {
			sec.Tables = append(sec.Tables, t)
		}
	}
	if !r.study.own() {
		if t := writtenFiles(p); len(t.Rows) > 0 {
			sec.Tables = append(sec.Tables, t)
		} else {
			sec.Text = append(sec.Text, "It wrote no file of its own in that time, only what the MPI library writes as it starts.")
		}
		return sec, nil
	}
	for _, i := range p.Insights { // the advice is for jobs of ckpt
		sec.Findings = append(sec.Findings, fact{i.Title, i.Advice})
	}
	return sec, r.study.picture(&sec, "io-plot", "io.plot.json", "Each request of the checkpoint with its size, in order.")
}

// ofSystem matches files that the MPI library and the system write to.
var ofSystem = lazy.Regexp(`^/(dev|proc|sys|run)/|^(pipe|socket|anon_inode):`)

// writtenFiles lists the files that a program has written most to.
func writtenFiles(p *analyze.Report) table {
	const most = 6
	files := slices.DeleteFunc(slices.Clone(p.Files), func(f analyze.File) bool { return f.BytesWritten == 0 || ofSystem().MatchString(f.Name) })
	slices.SortStableFunc(files, func(a, b analyze.File) int { return cmp.Compare(b.BytesWritten, a.BytesWritten) })
	t := table{Head: []string{"file", "access", "spatial", "|ranks", "|writes", "|written"}, Note: "Files that it wrote, the largest first."}
	if len(files) > most {
		t.Note = fmt.Sprintf("The %d files that it wrote most to, of %d.", most, len(files))
		files = files[:most]
	}
	for _, f := range files {
		t.Rows = append(t.Rows, []string{f.Name, string(f.Access), string(f.Spatial), strconv.Itoa(f.Ranks), strconv.FormatInt(f.Writes, 10), size(f.BytesWritten)})
	}
	return t
}

func (r *Result) stored() (section, error) {
	sec := section{Phase: Analyse, Title: "Stored by the small runs"}
	if !r.study.own() {
		return r.zonesOfProgram(sec)
	}
	images := table{Head: []string{"run", "|library", "|data", "|shared", "|image of a rank"}, Note: "Zones of a rank in memory, at the first checkpoint. The means of all ranks, measured."}
	files := table{Head: []string{"run", "|checkpoint", "|in memory", "|stored", "|files", "|latency"},
		Note: "In memory: the library once per job, the segment once per node. The first checkpoint is full, later ones store what has changed. Measured, one run each."}
	for _, run := range r.Runs {
		if !r.study.has("run-" + strconv.Itoa(run.NP)) {
			continue
		}
		list, err := r.study.checkpoints(run)
		if err != nil {
			return sec, err
		}
		for i, c := range list {
			if i == 0 {
				n := int64(max(1, c.Ranks))
				images.Rows = append(images.Rows, []string{run.Name, size(c.Zones.Library / n), size(c.Zones.Data / n), size(c.Zones.Shared / n), size(c.Zones.Total() / n)})
			}
			files.Rows = append(files.Rows, []string{run.Name, strconv.Itoa(c.Number), size(c.Memory.Total()), size(c.Bytes), strconv.Itoa(c.Files), ui.Seconds(c.Latency.Total)})
		}
	}
	sec.Tables, sec.Commands = []table{images, files}, r.commands(r.each("run-")...)
	return sec, nil
}

// zonesOfProgram shows what ckpt zones measured.
func (r *Result) zonesOfProgram(sec section) (section, error) {
	sec.Title = "The memory of a rank"
	t := table{Head: []string{"run", "MPI", "|library", "|data", "|shared", "|image of a rank"},
		Note: "Zones of the live ranks as a checkpointer like DMTCP would store them. Launchers are left out. The means of all ranks, measured."}
	for _, run := range r.Runs {
		row := []string{run.Name}
		name := "zones-" + strconv.Itoa(run.NP)
		if !r.study.has(name) {
			continue
		}
		for _, column := range []string{"mpi", "lb_MiB", "dtapp_MiB", "shmem_MiB", "ckpt_file_MiB"} {
			cell, err := r.study.value(name, column)
			if err != nil {
				return sec, err
			}
			if column != "mpi" {
				cell += " MiB"
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	sec.Tables, sec.Commands = []table{t}, r.commands(r.each("zones-")...)
	return sec, nil
}
