package export

import (
	"encoding/json"
	"io"
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
	Warnings   []iotrace.Warning  `json:"warnings,omitempty"`
	Properties []iotrace.Property `json:"properties,omitempty"`
}

type metaRank struct {
	Rank int    `json:"rank"`
	Node string `json:"node,omitempty"`
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
		Files: []string{}, Warnings: t.Warnings, Properties: t.Properties}
	if !t.Origin.IsZero() {
		m.Origin = &t.Origin
	}
	for _, r := range t.Ranks {
		m.Ranks = append(m.Ranks, metaRank{r.Rank, escaped(r.Node)})
	}
	for _, name := range t.Files {
		m.Files = append(m.Files, escaped(name))
	}
	for _, r := range t.Renames {
		m.Renames = append(m.Renames, metaRenaming{m.Files[r.From], m.Files[r.To], r.At})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(m)
}
