package predictions

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/predict"
)

// scoreLine compares one checkpoint: the image of a rank of nodes with as many ranks.
type scoreLine struct {
	Number    int     `json:"number"`
	PPN       int     `json:"ppn"`
	Measured  int64   `json:"measured_bytes"`
	Predicted int64   `json:"predicted_bytes"`
	Low       int64   `json:"low_bytes"`
	High      int64   `json:"high_bytes"`
	Error     float64 `json:"relative_difference"`
	Inside    bool    `json:"inside"`
	zones     []zoneScore
}

// zoneScore compares a zone of a rank, as a mean over the checkpoints.
type zoneScore struct {
	Zone      string  `json:"zone"`
	Measured  int64   `json:"measured_bytes"`
	Predicted int64   `json:"predicted_bytes"`
	Error     float64 `json:"relative_difference"`
}

type scoreResult struct {
	Job    string      `json:"job"`
	App    string      `json:"app"`
	Model  string      `json:"model"`
	Basis  string      `json:"basis"`
	Scores []scoreLine `json:"score_list"`
	Zones  []zoneScore `json:"zone_score_list"` // of the newest checkpoint
	Inside float64     `json:"inside_share"`

	// Of a job of ckpt, what its checkpoints stored and how long they took.
	Stored       []storedScore `json:"stored_score_list,omitempty"`
	StoredInside *float64      `json:"stored_inside_share,omitempty"`
	Times        []timeScore   `json:"time_score_list,omitempty"`
	TimeInside   *float64      `json:"time_inside_share,omitempty"`
	StoredModel  string        `json:"stored_model,omitempty"`
	StoredBasis  string        `json:"stored_basis,omitempty"`
	StoredNote   string        `json:"note,omitempty"`
}

func runPredictScore(g *ui.Globals, o *jobOptions, name string) error {
	j, err := g.OpenJob(name)
	if err == nil {
		err = wholeMemory(j)
	}
	if err != nil {
		return err
	}
	if o.model == "" && o.engine == "" {
		r, err := scoreKept(j)
		if err != nil {
			return err
		}
		if r != nil {
			return g.Show(r, func() error { return printStoredScore(g, r) })
		}
	}
	m, err := o.load()
	if err != nil {
		return err
	}
	own, err := o.own(m)
	if err != nil {
		return err
	}
	spec, err := job.ReadSpec(j)
	if err != nil {
		return err
	}
	if own && spec.Program != nil { // no image of it has all zones of a process
		r := &scoreResult{Job: j.Name(), App: spec.App, Scores: []scoreLine{}, Zones: []zoneScore{}}
		if err := r.scoreStored(m, j); err != nil {
			return err
		}
		return g.Show(r, func() error { return printStoredScore(g, r) })
	}
	r, err := scoreJob(m, j)
	if err == nil && own {
		err = r.scoreStored(m, j)
	}
	if err != nil {
		return err
	}
	return g.Show(r, func() error { return printScore(g, r) })
}

// scoreJob compares all checkpoints of a job.
func scoreJob(m *predict.Model, j *image.Job) (*scoreResult, error) {
	numbers, err := j.Checkpoints()
	if err != nil {
		return nil, err
	}
	r := &scoreResult{Job: j.Name(), Zones: []zoneScore{}}
	inside := 0
	for _, n := range numbers {
		manifest, err := j.Manifest(n)
		if errors.Is(err, image.ErrCheckpointNotFound) {
			continue // pruned this moment
		}
		if err != nil {
			return nil, err
		}
		for _, row := range job.MeasureCheckpoint(manifest) {
			line, err := r.score(m, n, row)
			if err != nil {
				return nil, err
			}
			r.Scores, r.Zones = append(r.Scores, line), line.zones
			if line.Inside {
				inside++
			}
		}
	}
	if len(r.Scores) == 0 {
		return nil, fmt.Errorf("job %s has no checkpoint in the store to compare: %w", j.Name(), image.ErrCheckpointNotFound)
	}
	r.Inside = float64(inside) / float64(len(r.Scores))
	return r, nil
}

// score compares a measurement with the prediction for a node of as many ranks.
func (r *scoreResult) score(m *predict.Model, number int, row dataset.Measurement) (scoreLine, error) {
	app, err := m.Application(row.App+"."+row.Class, row.NP)
	if err != nil {
		return scoreLine{}, err
	}
	var mapping []int // full nodes first, which is what is compared
	for np := row.NP; np > 0; np -= row.PPN {
		mapping = append(mapping, min(np, row.PPN))
	}
	s, err := m.Size(predict.Request{App: app, Mapping: mapping, MPI: row.MPI})
	if err != nil {
		return scoreLine{}, err
	}
	r.App, r.Model, r.Basis = s.App, s.Model, s.Basis
	f := s.Files[slices.IndexFunc(s.Files, func(f predict.File) bool { return f.PPN == row.PPN })]
	line := scoreLine{zones: []zoneScore{}, Number: number, PPN: row.PPN, Measured: bytesOf(row.File), Predicted: f.MiB.Bytes(), Low: f.Low.Bytes(), High: f.High.Bytes(),
		Error: float64(f.MiB)/row.File - 1, Inside: f.Estimate.Contains(row.File)}
	for _, z := range []struct {
		name      string
		predicted predict.MiB
		measured  float64
	}{{"library", f.Zones.Library, row.Library}, {"data", f.Zones.Data, row.Data}, {"shared", f.Zones.Shared, row.Shared}} {
		if z.measured > 0 && !s.ZonesUnknown {
			line.zones = append(line.zones, zoneScore{z.name, bytesOf(z.measured), z.predicted.Bytes(), float64(z.predicted)/z.measured - 1})
		}
	}
	return line, nil
}

func printScore(g *ui.Globals, r *scoreResult) error {
	if err := printStoredScore(g, r); err != nil {
		return err
	}
	var rows [][]string
	for _, s := range r.Scores {
		inside := "no"
		if s.Inside {
			inside = "yes"
		}
		rows = append(rows, []string{strconv.Itoa(s.Number), strconv.Itoa(s.PPN), ui.MiB(s.Measured), ui.MiB(s.Predicted),
			ui.MiB(s.Low) + " to " + ui.MiB(s.High), signed(&s.Error), inside})
	}
	if err := g.Table([]string{"|number", "|ranks/node", "|measured MiB", "|predicted MiB", "|95 %", "|error", "inside"}, rows); err != nil || g.Quiet {
		return err
	}
	rows = nil
	for _, z := range r.Zones {
		rows = append(rows, []string{z.Zone, ui.MiB(z.Measured), ui.MiB(z.Predicted), signed(&z.Error)})
	}
	if len(rows) > 0 {
		if err := errors.Join(g.Printf("\n"), g.Table([]string{"zone", "|measured MiB", "|predicted MiB", "|error"}, rows)); err != nil {
			return err
		}
	}
	return g.Printf("\n%.0f %% of the measurements are inside the interval\nmodel %s\nbasis %s\n", 100*r.Inside, r.Model, r.Basis)
}
