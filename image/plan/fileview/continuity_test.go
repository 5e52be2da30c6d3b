package fileview_test

import (
	"testing"

	"ckpt/image/iosched"
	"ckpt/image/plan/fileview"
)

// On a view of one tuple, Adaptive joins where the degree of continuity of Lebre 2006,
// appendix A, says that sieving pays, and nowhere else: one looks at a hole, the other at
// all of them.
func TestAdaptiveFollowsContinuity(t *testing.T) {
	t.Parallel()
	const blocks = 50
	joined := make(map[bool]int)
	for _, access := range []fileview.Access{fileview.Read, fileview.Write} {
		for _, data := range dataSizes {
			for _, hole := range holeSizes[1:] {
				span := blocks*data + (blocks-1)*hole
				p := iosched.Pattern{Processes: 1, Blocks: blocks, Block: data, Span: span, Write: access == fileview.Write,
					Seek: wr.Latency.Seconds(), Disk: wr.Bandwidth}
				c, err := p.Continuity()
				if err != nil {
					t.Fatal(err)
				}
				v := mustView(t, hole, []fileview.Tuple{{Size: data, Hole: hole}}, fileview.Forever)
				s := mustFile(t, nullFile{}, v, fileview.Options{Device: wr, Buffer: 1 << 30}).Plan(access, 0, blocks*data)
				joins := s.Reads+s.Writes < blocks
				if want := c.Way == iosched.SievedAccess; joins != want {
					t.Errorf("%v %d+%d: %d calls, β is %.3g", access, data, hole, s.Reads+s.Writes, c.Degree)
				}
				joined[joins]++
			}
		}
	}
	if joined[true] < 20 || joined[false] < 20 {
		t.Errorf("one side was not tried: %v", joined)
	}
}
