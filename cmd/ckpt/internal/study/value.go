package study

import (
	"bytes"
	"ckpt/predict/fit"
	"ckpt/zones"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// valueOf stands in an argument for a value in the output of a step:
// {time:latency_s.total}; {modes:mode_options.mode=semi.restart_s|0} is of the element of a
// list whose mode is semi, and 0 if the step has no result.
var valueOf = regexp.MustCompile(`\{([a-z][a-z0-9-]*):([a-zA-Z0-9_.=]+)(\|[^{}]*)?\}`)

// uses returns the steps whose results a step uses, needs those without which it
// cannot run.
func (s *Step) uses() []string { return s.named(func(string) bool { return true }) }

func (s *Step) needs() []string {
	return s.named(func(otherwise string) bool { return otherwise == "" })
}

func (s *Step) named(counts func(otherwise string) bool) []string {
	list := slices.Clone(s.After)
	for _, a := range s.Args {
		for _, m := range valueOf.FindAllStringSubmatch(a, -1) {
			if counts(m[3]) {
				list = append(list, m[1])
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// resolved returns the arguments of a step with all values.
func (s *Study) resolved(step *Step) ([]string, error) {
	var failed error
	args := make([]string, len(step.Args))
	for i, a := range step.Args {
		args[i] = valueOf.ReplaceAllStringFunc(a, func(of string) string {
			m := valueOf.FindStringSubmatch(of)
			text, err := s.value(m[1], m[2])
			if r := s.state.record(m[1]); m[3] != "" && r != nil && r.Failure != "" {
				return m[3][1:]
			}
			if err != nil && failed == nil {
				failed = err
			}
			return text
		})
	}
	return args, failed
}

// value looks up a field in the output of a step: for CSV a column of the first row.
func (s *Study) value(name, field string) (string, error) {
	i := slices.IndexFunc(s.Steps, func(step Step) bool { return step.Name == name })
	if i < 0 {
		return "", fmt.Errorf("the study has no step %s", name)
	}
	b, err := os.ReadFile(s.path(s.Steps[i].Output()))
	if err != nil {
		return "", err
	}
	if s.Steps[i].csv {
		rows, err := rowsOf(b)
		if err == nil && len(rows) == 0 {
			err = fmt.Errorf("%s has no row", name)
		}
		if err != nil {
			return "", err
		}
		return rows[0][field], nil
	}
	in := json.NewDecoder(bytes.NewReader(b))
	in.UseNumber()
	var at any
	if err := in.Decode(&at); err != nil {
		return "", err
	}
	for part := range strings.SplitSeq(field, ".") {
		at = partOf(at, part)
	}
	if at == nil {
		return "", fmt.Errorf("the result of %s has no %s", name, field)
	}
	return fmt.Sprint(at), nil
}

// partOf returns a field of an object, or an element of a list: by its number, or by
// the value of a field of it, as in mode=semi. It returns nil if it is missing.
func partOf(of any, part string) any {
	switch v := of.(type) {
	case map[string]any:
		return v[part]
	case []any:
		key, want, _ := strings.Cut(part, "=")
		for i, x := range v {
			if part == strconv.Itoa(i) {
				return x
			}
			if o, ok := x.(map[string]any); ok && want != "" && fmt.Sprint(o[key]) == want {
				return x
			}
		}
	}
	return nil
}

// rowsOf reads CSV: a map from column to cell for each row.
func rowsOf(b []byte) (out []map[string]string, err error) {
	r := csv.NewReader(bytes.NewReader(b))
	r.FieldsPerRecord = -1
	r.Comment = '#'
	all, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	for i, row := range all {
		if i == 0 || slices.Equal(row, all[0]) {
			continue
		}
		cells := map[string]string{}
		for k, cell := range row {
			if k < len(all[0]) {
				cells[all[0][k]] = cell
			}
		}
		out = append(out, cells)
	}
	return out, nil
}

// A stored is a checkpoint of a small run, as ckpt launch told it.
type stored struct {
	Type    string      `json:"type"`
	Number  int         `json:"number"`
	Ranks   int         `json:"ranks"`
	Zones   zones.Sizes `json:"zones"` // of the images of all ranks
	Memory  zones.Sizes `json:"memory"`
	Bytes   int64       `json:"stored_bytes"`
	Files   int         `json:"files"`
	Latency fit.Parts   `json:"latency_s"`
}

// checkpoints reads the checkpoints of a small run.
func (s *Study) checkpoints(run Run) (list []stored, err error) {
	b, err := os.ReadFile(s.path("run-" + strconv.Itoa(run.NP) + ".json"))
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(b) {
		var c stored
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, err
		}
		if c.Type == "checkpoint" {
			list = append(list, c)
		}
	}
	return list, nil
}
