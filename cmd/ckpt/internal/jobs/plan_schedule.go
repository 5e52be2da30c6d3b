package jobs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/tune"
	"ckpt/image/plan"
)

// schedule has the operations of one writer, round by round.
type schedule struct {
	Rank   int             `json:"rank"`
	Rounds []scheduleRound `json:"round_list"`
}

type scheduleRound struct {
	Gathers []scheduleGather `json:"gather_list"`
	Writes  []scheduleWrite  `json:"write_list"`
}

type scheduleGather struct {
	Rank   int    `json:"rank"` // whose bytes
	Region string `json:"region"`
	Offset int64  `json:"offset"` // in the region
	Bytes  int64  `json:"bytes"`
	Buffer int64  `json:"buffer_offset"` // where to; -1 in place
}

type scheduleWrite struct {
	File   int   `json:"file_index"`
	Offset int64 `json:"offset"`
	Bytes  int64 `json:"bytes"`
}

// schedule lists the rounds of the rank that the user named, at most most.
func (o *layoutOptions) schedule(p *plan.Plan, m *tune.PlannedMemory, most int) (*schedule, error) {
	s := &schedule{Rank: p.Writers[0].Rank, Rounds: []scheduleRound{}}
	if o.flags.Changed("rank") {
		s.Rank = o.rank
		if err := checkWriter(p, o.rank, len(m.Sources)); err != nil {
			return nil, err
		}
	}
	for r := range p.WriterPlan(s.Rank) {
		if len(s.Rounds) == most {
			break
		}
		var round scheduleRound
		for _, x := range r.Gathers {
			round.Gathers = append(round.Gathers, scheduleGather{x.From, m.Regions[x.Key], x.Offset, x.Bytes, x.Buffer})
		}
		for _, x := range r.Writes {
			round.Writes = append(round.Writes, scheduleWrite{x.File, x.Offset, x.Bytes})
		}
		s.Rounds = append(s.Rounds, round)
	}
	return s, nil
}

// checkWriter checks that a rank writes.
func checkWriter(p *plan.Plan, rank, np int) error {
	if rank < 0 || rank >= np {
		return ui.BadUsage(fmt.Sprintf("--rank %d: the job has ranks 0 to %d", rank, np-1), "give the number of a writer")
	}
	const most = 8
	var writers []string
	for _, w := range p.Writers {
		if w.Rank == rank {
			return nil
		}
		if len(writers) <= most {
			writers = append(writers, strconv.Itoa(w.Rank))
		}
	}
	if len(writers) > most {
		writers[most] = "…"
	}
	return ui.BadUsage(fmt.Sprintf("--rank %d: other ranks write its bytes", rank), "choose a writer: "+strings.Join(writers, ", "))
}

// printSchedule prints rounds. Offsets are whole KiB, which is exact.
func printSchedule(g *ui.Globals, d *writePlan) error {
	kib := func(n int64) string { return strconv.FormatInt(n>>10, 10) }
	var rows [][]string
	for i, r := range d.Schedule.Rounds {
		round := strconv.Itoa(i + 1)
		for _, x := range r.Gathers {
			step, buffer := "gather", ""
			if x.Buffer == plan.InPlace {
				step = "in place"
			} else {
				buffer = kib(x.Buffer)
			}
			rows = append(rows, []string{round, step, fmt.Sprintf("rank %d, %s", x.Rank, x.Region), kib(x.Offset), kib(x.Bytes), buffer})
		}
		for _, x := range r.Writes {
			rows = append(rows, []string{round, "write", fmt.Sprintf("file %d", x.File), kib(x.Offset), kib(x.Bytes), ""})
		}
	}
	i := slices.IndexFunc(d.Writers, func(w plan.WriterSummary) bool { return w.Rank == d.Schedule.Rank })
	w := &d.Writers[i]
	g.Printf("\nrank %d on node %d: %s\n", w.Rank, w.Node, ui.Count(int(w.Rounds), "round"))
	g.Table([]string{"|round", "step", "where", "|offset KiB", "|KiB", "|buffer KiB"}, rows)
	return printMore(g, int(w.Rounds)-len(d.Schedule.Rounds))
}
