package traces

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/iotrace"
)

func newShowCommand(g *ui.Globals) *cobra.Command {
	var in traceInput
	var most int
	var op, file string
	cmd := &cobra.Command{
		Use:     "show TRACE...",
		Short:   "List the events of a trace",
		Long:    "List the events of a trace in the order in which they began.\n\n" + scopeHelp + "\n\n" + traceInputHelp,
		Example: "  ckpt trace show bt.S.4-1 --op write --first 20\n  ckpt trace show job.trace --file out.nc --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if op != "" {
				if _, err := iotrace.ParseOp(op); err != nil {
					return ui.BadUsage("--op "+op+": unknown operation", "choose one of "+operations())
				}
			}
			if most < 0 {
				return ui.BadUsage(fmt.Sprintf("--first %d: want a number from 0", most), "")
			}
			t, err := in.trace(g, args)
			if err == nil {
				err = needEvents(t, "show")
			}
			if err != nil {
				return err
			}
			if file != "" && !slices.ContainsFunc(t.Files, func(name string) bool { return strings.Contains(name, file) }) {
				return in.noFile(file, t.Files)
			}
			if err := showEvents(g, t, op, file, most); err != nil {
				return err
			}
			in.tell(g, "", t, in.aside)
			return in.showScope(g, t)
		},
	}
	in.addFlags(cmd.Flags(), false)
	cmd.Flags().IntVar(&most, "first", 0, "show the first N events (default all)")
	cmd.Flags().StringVar(&op, "op", "", "only this operation, like write")
	ui.Choices(cmd.Flags(), "op", strings.Split(operations(), ", ")...)
	cmd.Flags().StringVar(&file, "file", "", "only files whose path contains this, then or after a renaming")
	g.AddStoreFlag(cmd)
	return cmd
}

// operations lists the names of all.
func operations() string {
	var names []string
	for op := iotrace.Op(1); op.Valid(); op++ {
		names = append(names, op.String())
	}
	return strings.Join(names, ", ")
}

// eventLine is an event as --json prints it. Times are in seconds since the first.
type eventLine struct {
	Type       string  `json:"type"` // event
	Op         string  `json:"op"`
	Rank       int     `json:"rank"`
	Node       string  `json:"node_name"`
	File       string  `json:"file,omitempty"`
	Create     bool    `json:"create,omitempty"` // of an open
	RenamedTo  string  `json:"renamed_to,omitempty"`
	Offset     int64   `json:"offset"` // -1: without
	Bytes      int64   `json:"bytes"`
	Start      float64 `json:"start_s"`
	End        float64 `json:"end_s"`
	Checkpoint int32   `json:"checkpoint,omitempty"`
	Round      int32   `json:"round,omitempty"`
}

// showScope prints under --json, in lines after the events, what the trace lacks and
// what was set apart.
func (in *traceInput) showScope(g *ui.Globals, t *iotrace.Trace) error {
	if !g.JSON {
		return nil
	}
	out := json.NewEncoder(g.Out)
	for _, w := range t.Warnings {
		if err := out.Encode(struct {
			Type string `json:"type"`
			iotrace.Warning
		}{"warning", w}); err != nil {
			return err
		}
	}
	if in.aside == (iotrace.Aside{}) {
		return nil
	}
	return out.Encode(struct {
		Type string `json:"type"`
		iotrace.Aside
	}{"aside", in.aside})
}

// eventsOnPage bounds the events of a table, which needs all its rows before it
// prints the first.
const eventsOnPage = 1000

// lastNames returns the events with the last names of their files, if some are asked for
// by name.
func lastNames(t *iotrace.Trace, file string) []iotrace.Event {
	if file == "" || len(t.Renames) == 0 {
		return t.Events
	}
	last := iotrace.Trace{Events: slices.Clone(t.Events), Renames: t.Renames}
	last.FollowRenames()
	return last.Events
}

func showEvents(g *ui.Globals, t *iotrace.Trace, op, file string, most int) error {
	var rows [][]string
	buffer := bufio.NewWriterSize(g.Out, 1<<16)
	out := json.NewEncoder(buffer)
	shown, targets, last := 0, t.Targets(), lastNames(t, file)
	page := func() error {
		header := []string{"|at", "|took", "|rank", "operation", "file", "|offset", "|bytes"}
		fitNames(header, rows, 4)
		err := g.Table(header, rows)
		rows = rows[:0]
		return err
	}
	for i := range t.Events {
		e := &t.Events[i]
		line := eventLine{Type: "event", Op: e.Op.String(), Rank: iotrace.None, Offset: e.Offset, Bytes: e.Bytes, Checkpoint: e.Checkpoint, Round: e.Round,
			Create: e.Op == iotrace.Open && e.Create,
			Start:  float64(e.Start-t.Events[0].Start) / 1e9, End: float64(e.End-t.Events[0].Start) / 1e9}
		if e.Rank >= 0 {
			line.Rank, line.Node = t.Ranks[e.Rank].Rank, t.Ranks[e.Rank].Node
		}
		if e.File >= 0 {
			line.File = t.Files[e.File]
		}
		if to, ok := targets[i]; ok {
			line.RenamedTo = t.Files[to.File]
		}
		if op != "" && line.Op != op || !strings.Contains(line.File, file) && !strings.Contains(line.RenamedTo, file) && !(e.File >= 0 && strings.Contains(t.Files[last[i].File], file)) {
			continue
		}
		if shown++; most > 0 && shown > most {
			break
		}
		if g.JSON {
			if err := out.Encode(line); err != nil {
				return err
			}
			continue
		}
		offset := ""
		if e.Offset >= 0 {
			offset = strconv.FormatInt(e.Offset, 10)
		}
		rank := strconv.Itoa(line.Rank)
		if line.Rank < 0 { // the coordinator, or an unknown process
			rank = cmp.Or(line.Node, "-")
		}
		name, what, elsewhere := line.File, line.Op, ""
		switch {
		case line.Create:
			what += " new"
		case line.RenamedTo == "":
		case path.Dir(line.RenamedTo) == path.Dir(name):
			name += " → " + path.Base(line.RenamedTo)
		default:
			elsewhere = line.RenamedTo
		}
		rows = append(rows, []string{duration(line.Start), duration(line.End - line.Start), rank, what,
			name, offset, strconv.FormatInt(e.Bytes, 10)})
		if elsewhere != "" { // a line of its own, since names lose their beginnings if they are long
			rows = append(rows, []string{"", "", "", "to", elsewhere, "", ""})
		}
		if len(rows) >= eventsOnPage {
			if err := page(); err != nil {
				return err
			}
			g.Printf("\n")
		}
	}
	switch {
	case g.JSON:
		return buffer.Flush()
	case len(rows) > 0 || shown == 0:
		return page()
	}
	return nil
}
