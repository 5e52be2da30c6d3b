package service

import (
	"math"

	"ckpt/predict/fit"
	"ckpt/zones"
)

// The layouts of a job (docs/LAYOUTS.md).
const (
	aggregated = "aggregated"
	shared     = "shared"
)

// Files is how many files a checkpoint has, without the manifest and the library.
func Files(layout string, np, nodes, aggregators int) int {
	switch layout {
	case shared:
		return 1
	case aggregated:
		if aggregators > 0 {
			return min(aggregators, np)
		}
		return max(1, nodes)
	}
	return np
}

// The format of a container file (docs/FORMAT.md): a block each for header and trailer,
// records in the index for regions, files and extents.
const (
	fileBlocks   = 2 * zones.PageSize
	indexHeader  = 32
	regionRecord = 32
	fileRecord   = 56
	extentRecord = 80
)

// overheadBytes is what headers and indexes of a checkpoint take.
func overheadBytes(job *Job) float64 {
	if job.Instance == nil {
		return 0
	}
	of := func(records float64) float64 { // of one file
		return fileBlocks + float64(zones.PageRound(int64(indexHeader+fileRecord+records)))
	}
	var all, perRank float64
	for _, s := range job.Instance.Shares() {
		records := 0.0 // of one rank
		for _, r := range job.regions(s.First(), false) {
			records += regionRecord + extentRecord*math.Ceil(r.size/extentBytes)
		}
		all += float64(s.Count) * records
		perRank += float64(s.Count) * of(records)
	}
	files := Files(job.Layout, job.Instance.NP, len(job.Mapping), job.Aggregators)
	if files == job.Instance.NP {
		return perRank
	}
	return float64(files) * of(all/float64(files))
}

// overhead predicts it, corrected by what jobs measured.
func (f *Fit) overhead(job *Job) fit.Range {
	bytes := overheadBytes(job)
	if bytes == 0 { // the arrays are not known: a few extents in each file
		files := float64(Files(job.Layout, job.NP, len(job.Mapping), job.Aggregators))
		bytes = files * (fileBlocks + zones.PageSize)
	}
	if f == nil || len(f.Overhead) == 0 {
		return about(bytes, bytes/2)
	}
	s := scattered(f.Overhead, 0.05, priorWeight)
	return about(s.mean*bytes, student(float64(s.n)+1)*s.sd*bytes)
}
