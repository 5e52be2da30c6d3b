package predict

import (
	"slices"

	"ckpt/dataset"
	"ckpt/predict/fit"
)

// A SavedArray is an array in a checkpoint at application level.
type SavedArray struct {
	Name string `json:"region"`
	// Rank is the bytes of the array in the memory of a rank, Stored those in the file. A
	// replicated one is stored once.
	Rank       int64 `json:"region_bytes"`
	Stored     int64 `json:"stored_bytes"`
	Replicated bool  `json:"replicated"`
}

// An ApplicationSize is what an application stores when it stores what it has to save:
// one file, which aggregators write for the other ranks (Leon 2022, section 4.2).
type ApplicationSize struct {
	App     string       `json:"app"`
	NP      int          `json:"np"`
	Mapping []int        `json:"mapping"`
	Level   string       `json:"level"`
	Arrays  []SavedArray `json:"saved_arrays"`
	// Header is what the file has beyond the arrays; Total is all of it.
	Header int64 `json:"header_bytes"`
	Total  int64 `json:"total_bytes"`
	// Recomputed is the bytes of a rank that are computed anew.
	Recomputed int64 `json:"recomputed_bytes"`
	// Aggregators write requests of at most Buffer bytes.
	Aggregators int   `json:"aggregators"`
	Buffer      int64 `json:"buffer_bytes"`
	// Writes are the requests to the storage, from that number to WritesHigh.
	Writes     int64 `json:"writes"`
	WritesHigh int64 `json:"most_writes"`
	// Ranks is what each rank stores; empty: all the same.
	Ranks []RankKind `json:"rank_kinds,omitempty"`
	Model string     `json:"model"`
	Basis string     `json:"basis"`
	Note  string     `json:"note,omitempty"`
}

// defaultBuffer is the collective buffer of the environment that the thesis measured.
const defaultBuffer = 16 << 20

// extraWrites is how many requests a row of Table 4.8 has at most beyond the size divided
// by the buffer.
const extraWrites = 98

// ApplicationOf predicts a checkpoint at application level. Without a number of aggregators
// there is one per node, as by default in ROMIO.
func ApplicationOf(inst *dataset.Instance, mapping []int, aggregators int, buffer int64) (*ApplicationSize, error) {
	if aggregators == 0 {
		aggregators = len(mapping)
	}
	if buffer == 0 {
		buffer = defaultBuffer
	}
	switch {
	case aggregators < 1 || aggregators > inst.NP:
		return nil, fit.Refuse("between 1 and the number of processes", "%d aggregators are impossible", aggregators)
	case inst.SavedBytes() == 0:
		return nil, fit.Refuse("say save: true for the arrays that it needs to continue", "%s saves no array", inst)
	}
	s := &ApplicationSize{App: inst.String(), Level: "application", NP: inst.NP, Mapping: mapping, Recomputed: inst.Runtime, Aggregators: aggregators, Buffer: buffer,
		Model: "structural", Basis: "workload spec, the arrays that it saves"}
	if f := inst.File; f != nil {
		s.Header, s.Writes = f.Header, f.Writes+f.Collective*int64(aggregators)
		s.Basis += " and the header of its file"
	}
	for _, a := range inst.Arrays {
		s.save(a)
	}
	if !slices.ContainsFunc(s.Arrays, func(a SavedArray) bool { return !a.Replicated }) {
		s.Aggregators = 1 // one rank has all there is to write
	}
	s.Total += s.Header
	s.Ranks = savedKinds(inst)
	s.WritesHigh = max(s.Writes, divideUp(s.Total, buffer)+extraWrites)
	return s, nil
}

// save adds an array: each aggregator writes its part of it, one buffer at a time. An
// array that all ranks have is written by one of them.
func (s *ApplicationSize) save(a dataset.Array) {
	stored := a.SavedBytes(s.NP)
	if stored == 0 {
		s.Recomputed += a.Bytes()
		return
	}
	s.Arrays = append(s.Arrays, SavedArray{a.Name, a.Bytes(), stored, a.Replicated})
	s.Total += stored
	writers := int64(s.Aggregators)
	if a.Replicated {
		writers = 1
	}
	s.Writes += writers * divideUp(divideUp(stored, writers), s.Buffer)
}

func divideUp(a, b int64) int64 { return (a + b - 1) / b }
