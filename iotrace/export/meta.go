package export

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"ckpt/iotrace"
)

// metaFile is what the rows of a CSV do not say.
type metaFile struct {
	Job        string             `json:"job"`
	Source     string             `json:"source"`
	Origin     *time.Time         `json:"origin,omitempty"`
	Runtime    float64            `json:"run_time_s,omitempty"`
	Events     int                `json:"events"`
	Ranks      []metaRank         `json:"ranks"`
	Files      []string           `json:"files"`
	Renames    []metaRenaming     `json:"renames,omitempty"`
	Warnings   []metaWarning      `json:"warnings,omitempty"`
	Properties []iotrace.Property `json:"properties,omitempty"`
}

type metaRank struct {
	Rank int    `json:"rank"`
	Node string `json:"node,omitempty"`
}

// A metaWarning is an iotrace.Warning with its files, under the names of its fields.
type metaWarning struct {
	Code, Text   string
	Count, Bytes int64
	Files        []iotrace.WarnedFile
}

// A metaRenaming is the new name of a file.
type metaRenaming struct {
	From string `json:"from"`
	To   string `json:"to"`
	At   int64  `json:"at_ns"`
}

// WriteMeta writes what the rows of WriteRows do not say, as JSON.
func WriteMeta(w io.Writer, t *iotrace.Trace) error {
	m := metaFile{Job: escaped(t.Job), Source: escaped(t.Source), Runtime: t.Runtime.Seconds(), Events: len(t.Events), Ranks: []metaRank{},
		Files: []string{}, Properties: t.Properties}
	if !t.Origin.IsZero() {
		m.Origin = &t.Origin
	}
	for _, r := range t.Ranks {
		m.Ranks = append(m.Ranks, metaRank{r.Rank, escaped(r.Node)})
	}
	for _, name := range t.Files {
		m.Files = append(m.Files, escaped(name))
	}
	for _, w := range t.Warnings {
		m.Warnings = append(m.Warnings, metaWarning(w))
	}
	for _, r := range t.Renames {
		m.Renames = append(m.Renames, metaRenaming{m.Files[r.From], m.Files[r.To], r.At})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(m)
}

// mostMeta bounds the file beside a CSV.
const mostMeta = 256 << 20

// ReadMeta adds the output of WriteMeta to a trace that was read from rows. If rows were
// left out or added, the trace keeps its ranks, and no run time is known.
func ReadMeta(r io.Reader, t *iotrace.Trace) error {
	var m metaFile
	limited := &io.LimitedReader{R: r, N: mostMeta}
	if err := json.NewDecoder(limited).Decode(&m); err != nil {
		if limited.N == 0 {
			err = fmt.Errorf("more than %d MiB", mostMeta>>20)
		}
		return fmt.Errorf("not what an export writes beside a CSV: %w", err)
	}
	took := m.Runtime * float64(time.Second)
	if !(took >= 0 && took <= float64(iotrace.MaxTime)) {
		return errors.New("run_time_s is out of range")
	}
	t.Job, t.Source, t.Properties = unescaped(m.Job), unescaped(m.Source), m.Properties
	if m.Origin != nil {
		t.Origin = *m.Origin
	}
	for _, w := range m.Warnings {
		t.Warnings = append(t.Warnings, m.warning(iotrace.Warning(w), t))
	}
	m.renames(t)
	if m.Events != len(t.Events) {
		return nil
	}
	t.Runtime = time.Duration(math.Round(took))
	known := make(map[iotrace.Rank]bool, len(t.Ranks))
	for _, k := range t.Ranks {
		known[k] = true
	}
	for _, k := range m.Ranks { // those without events
		if idle := (iotrace.Rank{Rank: k.Rank, Node: unescaped(k.Node)}); !known[idle] && k.Rank >= iotrace.None {
			known[idle] = true
			t.Ranks = append(t.Ranks, idle)
		}
	}
	return nil
}

// renames adds the new names of files that the trace has.
func (m *metaFile) renames(t *iotrace.Trace) {
	if len(m.Renames) == 0 {
		return
	}
	files := make(map[string]int32, len(t.Files))
	for i, name := range t.Files {
		files[name] = int32(i)
	}
	for _, r := range m.Renames {
		from, ok := files[unescaped(r.From)]
		if !ok || r.To == "" || r.At < -iotrace.MaxTime || r.At > iotrace.MaxTime {
			continue
		}
		name := unescaped(r.To)
		to, ok := files[name]
		if !ok { // nothing was done to it under that name
			to = int32(len(t.Files))
			t.Files = append(t.Files, name)
			files[name] = to
		}
		t.Renames = append(t.Renames, iotrace.Renaming{From: from, To: to, At: r.At})
	}
	slices.SortStableFunc(t.Renames, func(a, b iotrace.Renaming) int { return cmp.Compare(a.At, b.At) })
}

// warning gives the files of a warning their numbers in the trace.
func (m *metaFile) warning(w iotrace.Warning, t *iotrace.Trace) iotrace.Warning {
	w.Count, w.Bytes = max(w.Count, 0), max(w.Bytes, 0)
	all := w.Files
	w.Files = nil
	for _, f := range all {
		if f.File < 0 || int(f.File) >= len(m.Files) {
			continue
		}
		if i := slices.Index(t.Files, unescaped(m.Files[f.File])); i >= 0 {
			w.Files = append(w.Files, iotrace.WarnedFile{File: int32(i), Count: max(f.Count, 0), Bytes: max(f.Bytes, 0)})
		}
	}
	return w
}
