package study

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"

	"ckpt/zones"
)

// A stored is a checkpoint of a small run, as ckpt launch told it.
type stored struct {
	Type    string      `json:"type"`
	Number  int         `json:"number"`
	Ranks   int         `json:"ranks"`
	Zones   zones.Sizes `json:"zones"` // of the images of all ranks
	Memory  zones.Sizes `json:"memory"`
	Bytes   int64       `json:"stored_bytes"`
	Files   int         `json:"files"`
	Latency latency     `json:"latency_s"`
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

// A pattern is what ckpt trace analyze found.
type pattern struct {
	Events  int64   `json:"events"`
	Access  string  `json:"access"`
	Spatial string  `json:"spatial"`
	Detail  string  `json:"detail"`
	Ranks   int     `json:"ranks"`
	Writes  int64   `json:"writes"`
	Reads   int64   `json:"reads"`
	Written int64   `json:"bytes_written"`
	Read    int64   `json:"bytes_read"`
	Bursts  []burst `json:"bursts"`
	Common  []struct {
		Size  int64 `json:"request_bytes"`
		Count int64 `json:"count"`
	} `json:"common_sizes"`
	Files    []file `json:"file_list"`
	Insights []struct {
		Title  string `json:"title"`
		Advice string `json:"advice"`
	} `json:"insights"`
}

type file struct {
	Name    string `json:"file"`
	Access  string `json:"access"`
	Spatial string `json:"spatial"`
	Ranks   int    `json:"ranks"`
	Writes  int64  `json:"writes"`
	Written int64  `json:"bytes_written"`
}

type burst struct {
	Op    string  `json:"op"`
	Count int64   `json:"count"`
	Bytes int64   `json:"bytes"`
	Start float64 `json:"start_s"`
	End   float64 `json:"end_s"`
}

// A law is a line of what ckpt predict fit found.
type law struct {
	Series string  `json:"series"`
	Law    string  `json:"law"`
	Points int     `json:"points"`
	LOO    float64 `json:"loo"`
	Weight float64 `json:"weight"`
}
