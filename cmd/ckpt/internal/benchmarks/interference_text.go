package benchmarks

import (
	"fmt"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/iosched/arbiter"
)

func (b *interference) print(g *ui.Globals) error {
	where := b.Dir
	if b.On != "" {
		where = "the model of " + b.On
	}
	if err := g.Printf("%s in %s, %s\n", strings.Join(b.Jobs, " and "), where, ui.Count(b.Rounds, "round")); err != nil {
		return err
	}
	for _, s := range b.Storages {
		if err := s.print(g); err != nil {
			return err
		}
	}
	return b.printVerdict(g)
}

func (s *interferenceStorage) print(g *ui.Globals) error {
	title := s.Name
	if s.Disk != "" {
		title += " to " + s.Disk
	}
	var alone []string
	for _, t := range s.Alone {
		alone = append(alone, ui.Seconds(t))
	}
	title += ": a checkpoint alone takes " + strings.Join(alone, " and ")
	if s.File > 0 {
		title += ", a file of the reader " + ui.Seconds(s.File)
	}
	if err := g.Printf("\n%s\n\n", title); err != nil {
		return err
	}
	header := []string{"policy"}
	if s.List[0].Total > 0 {
		header = append(header, "|jobs: total", "|ratio", "|mean flow", "|ratio", "|stretches")
	}
	if s.List[0].MixedTotal > 0 {
		header = append(header, "|reader: total", "|ratio", "|stretch", "|ratio", "|job")
	}
	header = append(header, "|alone", "|ratio")
	var rows [][]string
	for _, l := range s.List {
		rows = append(rows, l.row())
	}
	return g.Table(header, rows)
}

func (l *interferenceLine) row() []string {
	row := []string{l.Policy}
	if l.Total > 0 {
		var stretches []string
		for _, x := range l.Stretches {
			stretches = append(stretches, fmt.Sprintf("%.2f", x))
		}
		row = append(row, ui.Seconds(l.Total), l.ratio(l.interferenceRatios.Total), ui.Seconds(l.Flow), l.ratio(l.interferenceRatios.Flow), strings.Join(stretches, " "))
	}
	if l.MixedTotal > 0 {
		row = append(row, ui.Seconds(l.MixedTotal), l.ratio(l.interferenceRatios.MixedTotal), fmt.Sprintf("%.1f", l.ReaderStretch), l.ratio(l.interferenceRatios.ReaderStretch), ui.Seconds(l.MixedFlow))
	}
	return append(row, ui.Seconds(l.Alone), l.ratio(l.interferenceRatios.Alone))
}

// ratio shows the median, and how far most rounds are from it.
func (l *interferenceLine) ratio(s *spread) string {
	if l.Policy == none || s == nil {
		return ""
	}
	return fmt.Sprintf("%.2f ± %.2f", s.Median, (s.High-s.Low)/2)
}

// printVerdict says of each policy which promises it keeps.
func (b *interference) printVerdict(g *ui.Globals) error {
	s := b.judged()
	if err := g.Printf("\n%s: to hold are", s.Name); err != nil {
		return err
	}
	var limits []string
	for _, p := range promises {
		if _, applies := p.kept(&s.List[0].interferenceRatios); applies {
			limits = append(limits, fmt.Sprintf(" %s ≤ %.2f", p.name, p.limit))
		}
	}
	if err := g.Printf("%s of none\n", strings.Join(limits, ",")); err != nil {
		return err
	}
	for _, l := range s.List {
		if l.Policy == none {
			continue
		}
		var broken []string
		for _, p := range promises {
			if kept, applies := p.kept(&l.interferenceRatios); applies && !kept {
				broken = append(broken, fmt.Sprintf("%s is %.2f", p.name, p.of(&l.interferenceRatios).Median))
			}
		}
		text := "all hold"
		if len(broken) > 0 {
			text = strings.Join(broken, ", ")
		}
		mark := ""
		if l.Policy == arbiter.DefaultPolicy {
			mark = " (default)"
		}
		if err := g.Printf("  %s%s: %s\n", l.Policy, mark, text); err != nil {
			return err
		}
	}
	return nil
}
