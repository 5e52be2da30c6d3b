package pfs

import (
	"testing"

	"ckpt/image/plan"
)

// segment is the shared zone in MiB of a rank with so many on its node: León, equation
// 3.11.
func segment(onNode int) float64 {
	n := float64(onNode)
	return 0.0617*n*n + 3.9983*n + 25.47
}

// images are written by DMTCP, a file per rank. data is what each rank has beside its
// segment in MiB, buffer what the first rank of each node has more.
func images(t *testing.T, s *System, mapping []int, data, buffer float64) *plan.Plan {
	t.Helper()
	var all []plan.Source
	for node, ranks := range mapping {
		for i := range ranks {
			mib := data + segment(ranks)
			if i == 0 {
				mib += buffer
			}
			all = append(all, plan.Source{Rank: len(all), Node: node, Pieces: []plan.Piece{{Bytes: int64(mib*256) * plan.PageSize}}})
		}
	}
	return mustPlan(t, all, plan.Settings{P1: true, StripeCount: s.Targets.Count})
}

// TestMappings is León's table 5.14: 16 processes of BT-IO class B on one, two and four
// nodes that share a directory. Two nodes halve the time of one, four do little more. An
// image of table 5.9 has 27.2 MiB beside the segment; an aggregator has 18 more.
func TestMappings(t *testing.T) {
	s := mustLoad(t, "afs1-shared")
	for _, test := range []struct {
		mapping            []int
		buffer32, buffer64 float64
	}{{[]int{16}, 51.09, 47.01}, {[]int{8, 8}, 26.76, 27.17}, {[]int{4, 4, 4, 4}, 23.24, 25.52}} {
		seconds := mustRun(t, s, Job{Plan: images(t, s, test.mapping, 27.2, 18)}).Jobs[0].Seconds
		within(t, "buffer of 32 MiB", seconds, test.buffer32, 0.25)
		within(t, "buffer of 64 MiB", seconds, test.buffer64, 0.25)
	}
}

// TestLocalDisk is León's tables 5.3 and 5.5: checkpoints of 16 to 64 processes on one
// node, classes D and C.
func TestLocalDisk(t *testing.T) {
	s := mustLoad(t, "afs1-ext3")
	for _, row := range []struct {
		ranks     int
		gib, want float64
	}{
		{16, 3.44, 23.86}, {25, 5.92, 37.09}, {36, 10.89, 52.73}, {49, 19.92, 81.55}, {64, 35.76, 118.02},
		{16, 26.95, 194.07}, {25, 29.43, 152.87}, {36, 35.40, 172.44}, {49, 44.60, 178.22}, {64, 61.42, 204.11},
	} {
		data := row.gib*1024/float64(row.ranks) - segment(row.ranks)
		seconds := mustRun(t, s, Job{Plan: images(t, s, []int{row.ranks}, data, 0)}).Jobs[0].Seconds
		within(t, "one node", seconds, row.want, 0.15)
	}
}
